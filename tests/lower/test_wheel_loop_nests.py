"""The same source on the halide wheel: equal loops, equal values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import bayplan
from tests.lower.programs import PROGRAMS

EXTENTS = {
    "blur": (64, 48),
    "updates": (24, 16),
    "filtered": (30,),
    "predicated_tails": (21,),
    "blended_tails": (21,),
    "bounded": (16, 8, 3),
    "factored": (16,),
}


def normal(text: str) -> str:
    """The loops without the names that a module invents."""
    text = re.sub(r"\.(v\d+|[Vv]ector|[Uu]nroll)\b", ".part", text)
    return re.sub(r"\w+(\(\.\.\.\) = \.\.\.)", r"write\1", text)


def realized(hl: Any, name: str) -> Any:
    output = PROGRAMS[name](hl)
    extents = EXTENTS.get(name, (21, 13))
    return np.asanyarray(output.realize(list(extents)))


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("blur", "specialized")])
def test_values(name: str) -> None:
    hl = pytest.importorskip("halide")
    np.testing.assert_array_equal(realized(bayplan, name), realized(hl, name))


# The wheel keeps a loop of one iteration in blur, and shortens the names of Funcs made of others.
OTHER_TEXT = ("blur", "wrappers", "clones", "factored")


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in OTHER_TEXT])
def test_loops(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    hl = pytest.importorskip("halide")
    from bayplan.lower.print_loop_nest import print_loop_nest

    output = PROGRAMS[name](hl)
    capfd.readouterr()
    output.print_loop_nest()
    theirs = "\n".join(
        line for line in capfd.readouterr().err.splitlines() if not line.startswith("Warning")
    )
    ours = print_loop_nest([PROGRAMS[name](bayplan).function()])
    assert normal(ours).strip() == normal(theirs).strip()
