"""Hypothesis strategies over random programs, so that a failing one shrinks."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.differential.choices import Choices
from tests.differential.generate import generate
from tests.differential.program import Program


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draws a random program with a random schedule."""
    return generate(Choices(lambda n: draw(st.integers(0, n - 1))))
