"""realize with sizes: buffers grow where the program writes beyond what was asked, then shrink."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl


def test_a_tail_that_rounds_up_has_room() -> None:
    x, y = hl.vars("x y")
    f = hl.Func("f")
    f[x, y] = 2 * x + y
    f.vectorize(x, 8, hl.TailStrategy.RoundUp)
    result = f.realize([10, 3])
    assert [result.dim(d).extent() for d in range(2)] == [10, 3]
    assert np.array_equal(result, 2 * np.arange(10) + np.arange(3)[:, None])


def test_a_scatter_has_room() -> None:
    x, f = hl.Var("x"), hl.Func("f")
    at = hl.Buffer(np.array([1, 200, 1], np.uint8))
    r = hl.RDom([(0, 3)])
    f[x] = 0
    f[at[r]] += 1
    assert np.asarray(f.realize([3])).tolist() == [0, 2, 0]
    with pytest.raises(hl.BoundsError, match="255"):
        f.realize(hl.Buffer(np.zeros(3, np.int32)))


def test_what_does_not_fit_is_refused_not_cut() -> None:
    x, f = hl.Var("x"), hl.Func("f")
    f[x] = x
    f.bound(x, 0, 8)
    with pytest.raises(hl.BoundsError, match="f"):
        f.realize([10])


def test_several_values_grow_together() -> None:
    x, f = hl.Var("x"), hl.Func("f")
    f[x] = (x, 3 * x)
    f.vectorize(x, 4, hl.TailStrategy.RoundUp)
    first, second = f.realize([5])
    assert np.asarray(first).tolist() == [0, 1, 2, 3, 4]
    assert np.asarray(second).tolist() == [0, 3, 6, 9, 12]


@pytest.mark.parametrize("tail", [hl.TailStrategy.ShiftInwards, hl.TailStrategy.RoundUp])
@pytest.mark.parametrize("sizes", [(5, 5), (1, 1), (17, 3), (8, 2)])
def test_the_report_knows_that_outputs_grow(tail: hl.TailStrategy, sizes: tuple[int, ...]) -> None:
    x, y = hl.vars("x y")
    far, near, out = (hl.Func(name) for name in ("far", "near", "out"))
    far[x, y] = x + y
    near[x, y] = far[x, y] + far[x + 1, y]
    out[x, y] = (near[x, y], near[x, y + 1])
    far.compute_root().vectorize(x, 8)
    near.compute_root().vectorize(x, 8)
    out.vectorize(x, 8, tail)
    report = hl.Pipeline(out).storage(sizes)
    first, _ = out.realize(sizes)
    xs, ys = np.meshgrid(np.arange(sizes[0]), np.arange(sizes[1]))
    assert np.array_equal(first, 2 * (xs + ys) + 1)
    counts = hl.memory.last_call()
    assert report.exact and report.peak_bytes == counts.peak_bytes


@pytest.mark.parametrize("sizes", [None, [5], [-5, 3], "ab", 5, np.zeros((3, 5), np.int32)])
def test_sizes_that_are_none(sizes: object) -> None:
    x, y = hl.vars("x y")
    near, out = hl.Func("near"), hl.Func("sized")
    near[x, y] = x + y
    out[x, y] = near[x, y] + near[x + 1, y]
    near.compute_root()
    for call in (out.realize, out.storage, out.infer_input_bounds):
        with pytest.raises(hl.BufferError, match="sized"):
            call(sizes)
