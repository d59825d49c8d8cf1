"""B23: a size without an upper bound is what the call says, never a guess."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.analysis.bounds import bounds_of_expr_in_scope, find_constant_bound
from bayplan.analysis.interval import Interval
from bayplan.ir import build
from bayplan.ir.types import INT32


def doubled(kind: hl.MemoryType = hl.MemoryType.Heap) -> tuple[hl.ImageParam, hl.Func, hl.Func]:
    x = hl.Var("x")
    source = hl.ImageParam(hl.Int(32), 1, "source")
    t, out = hl.Func("t"), hl.Func("out")
    t[x] = source[x] * 2
    out[x] = t[x] + 1
    t.compute_root().store_in(kind)
    return source, t, out


def test_one_program_takes_the_bytes_of_each_call() -> None:
    x = hl.Var("x")
    source, t, _ = doubled()
    out = hl.Func("reversed_sum")
    n = hl.Param(hl.Int(32), "n")
    out[x] = t[n - 1 - x] + 1
    compiled = out.compile_to_callable([source, n])
    for size in (2, 7, 1000, 0):
        data = np.arange(size, dtype=np.int32)
        result = np.zeros(size, np.int32)
        compiled(data, size, result)
        np.testing.assert_array_equal(result, (2 * data + 1)[::-1])
        assert driver.context().counts.peak_bytes == 4 * size
        assert compiled.workspace_bytes(data, size, result) == 4 * size


def test_half_of_an_unknown_number_has_no_bound() -> None:
    n = build.var("n")
    half = build.div(n + 1, 2)
    assert n.type is INT32
    found = bounds_of_expr_in_scope(half, {"n": Interval(build.int32(1), None)})
    assert found.max is None
    bound = find_constant_bound(half, "upper", {"n": Interval(build.int32(1), None)})
    assert bound is None or build.constant_value(bound) < 2**31


def test_the_stack_is_refused_to_what_has_no_bound() -> None:
    x = hl.Var("x")
    source, t, _ = doubled(hl.MemoryType.Stack)
    out = hl.Func("out")
    out[x] = t[x + 1] + t[x]
    with pytest.warns(RuntimeWarning, match=r"t\S*: asked Stack, got Heap: no upper bound for"):
        source.set(hl.Buffer(np.arange(8, dtype=np.int32)))
        result = out.realize([7])
    assert [result[i] for i in range(3)] == [2, 6, 10]
    (row,) = out.storage([7])
    assert (row.kind, row.asked, row.bytes) == ("heap", "stack", 32)


def test_a_promised_bound_makes_the_size_a_constant() -> None:
    x, n = hl.Var("x"), hl.Param(hl.Int(32), "n")
    n.set_range(1, 64)
    t, out = hl.Func("t"), hl.Func("out")
    t[x] = x * 2
    r = hl.RDom([(0, n)])
    out[x] = hl.i32(0)
    out[x] += t[r] + t[n - 1 - r]
    t.compute_root().store_in(hl.MemoryType.Stack)
    n.set(64)
    assert out.realize([3])[0] == 2 * sum(2 * i for i in range(64))
    (row,) = out.storage([3])
    assert (row.kind, row.bytes) == ("stack", 256)
    n.set(65)
    buffer = hl.Buffer(np.full(3, 7, np.int32))
    with pytest.raises(hl.BayplanError, match="65"):
        out.realize(buffer)
    assert [buffer[i] for i in range(3)] == [7, 7, 7]
