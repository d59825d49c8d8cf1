"""B11, in one host function: temporaries one after the other have one base, of the larger size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver

HEAP = hl.MemoryType.Heap


def test_two_sums_and_their_sum() -> None:
    r = hl.RDom([(0, 10)])
    t0, t1, out = hl.Func("t0"), hl.Func("t1"), hl.Func("out")
    t0[()] = hl.i32(0)
    t0[()] += r * r
    t1[()] = hl.i32(0)
    t1[()] += r * r * r
    out[()] = t0[()] + t1[()]
    for f in (t0, t1):
        f.compute_root().store_in(HEAP)
    result = hl.Buffer(hl.Int(32), [])
    out.realize(result)
    assert result[()] == 285 + 2025 == 2310
    # Both are needed for the sum.
    report = out.storage(result)
    assert (report.allocations, report.floor_bytes) == (1, 8)


@pytest.mark.parametrize(("first", "second", "size_bytes"), [(10, 10, 40), (10, 20, 80)])
def test_one_after_the_other_share_a_base(first: int, second: int, size_bytes: int) -> None:
    x, funcs = hl.Var("x"), []
    for name, source, size in (("y", "t1", first), ("z", "t2", second)):
        t, f = hl.Func(source), hl.Func(name)
        t[x] = x
        # Backwards, so that nothing is done in place.
        f[x] = t[size - 1 - x]
        t.compute_root().store_in(HEAP).bound(x, 0, size)
        funcs.append(f)
    pipeline = hl.Pipeline(funcs)
    outputs: list[Any] = [np.zeros(n, np.int32) for n in (first, second)]
    pipeline.realize([hl.Buffer(o) for o in outputs])
    for output in outputs:
        np.testing.assert_array_equal(output, np.arange(len(output))[::-1])
    counts = driver.context().counts
    assert (counts.allocations, counts.peak_bytes) == (1, size_bytes)
    report = pipeline.storage([hl.Buffer(o) for o in outputs])
    assert report.peak_bytes == report.floor_bytes == size_bytes
    assert report["t1"].shares == (report["t2"].name,)
    source = driver.c_source(pipeline._final_functions())
    # Each name has its own pointer into the one block.
    assert source.count("ctx->alloc(ctx") == 1
    assert "*const t1" in source and "*const t2" in source
