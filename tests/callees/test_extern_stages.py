"""External stages give what they give in the wheel, with as many calls."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import bayplan
from tests.callees.conftest import count
from tests.callees.programs import ALL


@pytest.mark.parametrize("name", sorted(ALL))
def test_same_as_the_wheel(name: str, functions: ctypes.CDLL) -> None:
    halide = pytest.importorskip("halide")
    count(functions, "calls")
    expected = ALL[name](halide)
    calls = count(functions, "calls")
    found = ALL[name](bayplan)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    made = count(functions, "calls")
    # The wheel leaves specializations of such stages out.
    assert made == calls or name == "specialized"
