"""B13: temporaries of shape () and of size 0."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


def test_b13_a_scalar_temporary() -> None:
    x = hl.ImageParam(hl.Float(64), 0, "x")
    tmp, y = hl.Func("tmp"), hl.Func("y")
    tmp[()] = x[()] * 2.0
    y[()] = tmp[()] * 2.0
    tmp.compute_root().store_in(hl.MemoryType.Heap)
    x.set(hl.Buffer(np.array(3.0)))
    out = y.realize([])
    assert out[()] == 12.0
    row = next(t for t in hl.Pipeline(y).storage([]).temporaries if t.name.startswith("tmp"))
    assert row.bytes == 8


def _doubled() -> tuple[hl.Func, hl.ImageParam]:
    i = hl.Var("i")
    a = hl.ImageParam(hl.Int(32), 1, "a")
    tmp, out = hl.Func("tmp"), hl.Func("out")
    tmp[i] = a[i] * 2
    out[i] = tmp[i] + 1
    tmp.compute_root().store_in(hl.MemoryType.Heap)
    return out, a


@pytest.mark.parametrize("vectorized", [False, True])
def test_b13_an_empty_domain_allocates_nothing(vectorized: bool) -> None:
    out, a = _doubled()
    if vectorized:
        out.vectorize(out.args()[0], 4, hl.TailStrategy.GuardWithIf)
    for n in (0, 1, 0, 5):
        data = np.arange(n, dtype=np.int32)
        a.set(hl.Buffer(data))
        result = np.empty(n, np.int32)
        out.realize(hl.Buffer(result))
        np.testing.assert_array_equal(result, 2 * data + 1)
        counts = driver.context().counts
        assert counts.live_bytes == 0
        if n == 0:
            assert counts.allocations == 0
        else:
            assert counts.peak_bytes == 4 * n


def test_b13_an_empty_axis_in_the_middle() -> None:
    x, y, z = hl.vars("x y z")
    a = hl.ImageParam(hl.Int(32), 3, "a")
    f = hl.Func("f")
    f[x, y, z] = a[x, y, z] + 1
    a.set(hl.Buffer(np.zeros((3, 0, 5), np.int32)))
    out = np.empty((3, 0, 5), np.int32)
    f.realize(hl.Buffer(out))
    assert out.shape == (3, 0, 5)


def test_b13_a_sum_over_an_empty_axis_is_zero() -> None:
    x, n = hl.Var("x"), hl.Param(hl.Int(32), "n")
    a = hl.ImageParam(hl.Int(32), 1, "a")
    total = hl.Func("total")
    r = hl.RDom([(0, n)])
    total[x] = hl.sum(a[r] + x)
    a.set(hl.Buffer(np.arange(8, dtype=np.int32)))
    n.set(0)
    np.testing.assert_array_equal(np.asarray(total.realize([4])), [0, 0, 0, 0])
    n.set(3)
    np.testing.assert_array_equal(np.asarray(total.realize([4])), [3, 6, 9, 12])


def test_b13_an_empty_array_is_no_question_for_bounds() -> None:
    """The other buffers of the call are computed."""
    x, y = hl.vars("x y")
    image = hl.ImageParam(hl.Int(32), 2, "image")
    total = hl.Func("total")
    r = hl.RDom([(0, image.width())])
    total[y] = 3
    total[y] += image[r.x, y]
    nothing = np.zeros((5, 0), np.int32)
    out = np.full(5, 77, np.int32)
    total.compile_to_callable([image])(nothing, out)
    assert out.tolist() == [3] * 5
    image.set(hl.Buffer(nothing))
    assert np.asarray(total.realize([5])).tolist() == [3] * 5

    first, second = hl.Func("first"), hl.Func("second")
    first[x] = x + 1
    second[x] = x + 2
    both = hl.Pipeline([first, second])
    empty, full = np.zeros(0, np.int32), np.zeros(4, np.int32)
    both.realize([hl.Buffer(empty), hl.Buffer(full)])
    assert full.tolist() == [2, 3, 4, 5]


def test_b13_the_report_of_an_empty_array_is_that_of_its_call() -> None:
    x, y = hl.vars("x y")
    near, out = hl.Func("near"), hl.Func("out")
    near[x] = x * 2
    out[x, y] = near[9 - x % 10] + y
    near.compute_root().bound(x, 0, 10).store_in(hl.MemoryType.Heap)
    empty = np.zeros((0, 3), np.int32)
    report = hl.Pipeline(out).storage(hl.Buffer(empty))
    run = out.compile_to_callable([])
    run(empty)
    assert hl.memory.last_call().peak_bytes == report.peak_bytes
    assert run.workspace_bytes(empty) == report.peak_bytes
