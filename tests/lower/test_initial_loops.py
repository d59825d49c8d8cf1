"""The initial loop nests of small pipelines, as texts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import bayplan
from bayplan.ir.node import compilation
from bayplan.lower.pipeline import prepare, schedule
from tests.lower.programs import PROGRAMS


def stable(text: str) -> str:
    """The text without the numbers that depend on what else was made in the process."""
    return re.sub(r"[$_]\d+", "", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_initial_loops(name: str, golden: Callable[[str, str], None]) -> None:
    output = PROGRAMS[name](bayplan)
    with compilation():
        stmt = schedule(prepare([output.function()], None))
        golden(f"{name}.loops.txt", stable(str(stmt)))
