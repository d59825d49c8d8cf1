"""Sizes that the storage plan asks for, as C computes them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.node import compilation
from bayplan.ir.types import INT32
from tests.targets.programs import argument, emit, make_buffer, run


@pytest.mark.parametrize(("given", "want"), [(4, 36), (-1, 0), (1, 9)])
def test_the_largest_over_a_loop_of_a_chosen_extent(given: int, want: int) -> None:
    """The bounds of the loop are expressions of any precedence."""
    with compilation():
        n, i = E.Variable(INT32, "n"), E.Variable(INT32, "i")
        zero = build.int32(0)
        low = E.Select(E.GT(n, build.int32(9)), zero, build.int32(3))
        extent = E.Select(E.GT(n, zero), n, zero)
        largest = E.Call(INT32, "largest_over", (E.StringImm("i"), low, extent, E.Mul(i, i)),
                         E.CallKind.INTRINSIC)
        emission = emit(S.Store("out", largest, zero), [
            argument("scalar", "n", INT32), argument("output_buffer", "out", INT32)])
        out = np.full(1, -1, np.int32)
        assert run(emission, [ctypes.c_int32(given), make_buffer(out, INT32)]) == 0
    assert out[0] == want
