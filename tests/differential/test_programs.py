"""Programs of many features and directives give the same values as the halide wheel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import bayplan
from tests.differential import programs_mixed, programs_reductions, programs_schedules
from tests.differential.program_list import PROGRAMS, run

assert programs_mixed and programs_reductions and programs_schedules

# One in six always runs, the others in the long run.
CASES = [
    pytest.param(name, marks=[] if i % 6 == 0 else [pytest.mark.slow])
    for i, name in enumerate(PROGRAMS)
]


def outcome(hl: Any, name: str) -> Any:
    """The outputs, or "refused"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(hl, name)
    except Exception:
        return "refused"


@pytest.mark.parametrize("name", CASES)
def test_same_values(name: str) -> None:
    halide = pytest.importorskip("halide")
    ours, theirs = outcome(bayplan, name), outcome(halide, name)
    if isinstance(ours, str) or isinstance(theirs, str):
        assert ours == theirs
        return
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-5)
        else:
            np.testing.assert_array_equal(a, b)
