"""B49: vector accesses stay inside allocations that have exactly the bytes asked for."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


def _run(tail: str, flush_right: bool, downward: bool, temporary_vector: int) -> np.ndarray:
    x = hl.Var("x")
    source = hl.ImageParam(hl.Float(32), 1, "source")
    t, out = hl.Func("t"), hl.Func("out")
    t[x] = source[x] * 2
    out[x] = t[12 - x] + t[13 - x] if downward else t[x] + t[x + 1]
    strategy = getattr(hl.TailStrategy, tail)
    out.vectorize(x, 8, strategy)
    t.compute_root().store_in(hl.MemoryType.Heap)
    if temporary_vector:
        t.vectorize(x, temporary_vector, hl.TailStrategy.GuardWithIf)
    source.set(hl.Buffer(np.arange(14, dtype=np.float32)))
    result = np.zeros(13, np.float32)
    context = driver.context()
    context.check_allocations(flush_right=flush_right)
    try:
        out.realize(hl.Buffer(result))
        assert context.check_counts() == (1, 0, 0)
    finally:
        context.check_allocations(False)
    assert context.counts.peak_bytes == 56
    return result


@pytest.mark.parametrize("temporary_vector", [0, 4])
@pytest.mark.parametrize("downward", [False, True])
@pytest.mark.parametrize("flush_right", [False, True])
@pytest.mark.parametrize("tail", ["GuardWithIf", "ShiftInwards"])
def test_b49_no_access_outside(
    tail: str, flush_right: bool, downward: bool, temporary_vector: int
) -> None:
    got = _run(tail, flush_right, downward, temporary_vector)
    want = 4 * np.arange(13, dtype=np.float32) + 2
    np.testing.assert_array_equal(got, want[::-1] if downward else want)


@pytest.mark.parametrize("flush_right", [False, True])
def test_b49_rounding_up_enlarges_the_temporary(flush_right: bool) -> None:
    x = hl.Var("x")
    source = hl.ImageParam(hl.Float(32), 1, "source")
    t, out = hl.Func("t"), hl.Func("out")
    t[x] = source[x] * 2
    out[x] = t[x] + t[x + 1]
    out.vectorize(x, 8, hl.TailStrategy.RoundUp)
    t.compute_root().store_in(hl.MemoryType.Heap)
    source.set(hl.Buffer(np.arange(17, dtype=np.float32)))
    short = hl.Buffer(np.zeros(13, np.float32))
    with pytest.raises(hl.BoundsError, match="out"):
        out.realize(short)
    result = np.zeros(16, np.float32)
    context = driver.context()
    context.check_allocations(flush_right=flush_right)
    try:
        out.realize(hl.Buffer(result))
    finally:
        context.check_allocations(False)
    assert context.counts.peak_bytes == 17 * 4
    np.testing.assert_array_equal(result, 4 * np.arange(16, dtype=np.float32) + 2)
