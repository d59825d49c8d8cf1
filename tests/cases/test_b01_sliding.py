"""B01: rings of a sliding window chain are large enough, and folds asked for are never ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


def _chain(fold: int | None = None) -> tuple[Any, Any]:
    """b(x, y) == 2 x + 5 y, by way of a 5 x 5 sum whose input slides inside sliding sums."""
    x, y, yo, yi = hl.vars("x y yo yi")
    source, total, b = hl.Func("source"), hl.Func("total"), hl.Func("b")
    r = hl.RDom([(-2, 5), (-2, 5)])
    source[x, y] = 2 * x + 5 * y
    total[x, y] = hl.sum(source[x + r.x, y + r.y])
    b[x, y] = total[x, y] / 25
    b.split(y, yo, yi, 1)
    total.compute_at(b, yo).store_root()
    source.compute_at(total, x).store_root()
    if fold is not None:
        source.fold_storage(y, fold)
    return b, source


def test_b01_the_chain_is_right() -> None:
    b, _ = _chain()
    got = np.asarray(b.realize([128, 128])).astype(np.int64)
    ys, xs = np.mgrid[:128, :128]
    np.testing.assert_array_equal(got, 2 * xs + 5 * ys)
    assert got[127, 127] == 889
    assert got.sum() == 7282688
    row = next(t for t in hl.Pipeline(b).storage([128, 128]).temporaries if "source" in t.name)
    assert row.bytes >= 5 * 132 * 4


def test_b01_a_ring_of_one_row_too_few_is_refused() -> None:
    b, source = _chain(fold=4)
    with pytest.raises(hl.FoldError) as caught:
        b.realize([128, 128])
    text = str(caught.value)
    assert source.name() in text
    assert "y" in text and "4" in text and "5" in text


def test_b01_a_fold_of_the_right_size_is_taken() -> None:
    b, _ = _chain(fold=5)
    assert int(np.asarray(b.realize([128, 128]))[127, 127]) == 889


def test_b01_a_fold_over_a_parallel_loop_is_refused() -> None:
    x, y, yo, yi = hl.vars("x y yo yi")
    f, g = hl.Func("folded"), hl.Func("g")
    f[x, y] = x + y
    g[x, y] = f[x, y] + f[x, y + 1]
    g.split(y, yo, yi, 8).parallel(yo)
    f.store_root().compute_at(g, yo).fold_storage(y, 16)
    with pytest.raises(hl.BayplanError, match="folded"):
        g.realize([16, 64])


@pytest.mark.parametrize("flush_right", [False, True])
def test_b01_warming_up_stays_inside_its_storage(flush_right: bool) -> None:
    x, y, yo, yi = hl.vars("x y yo yi")
    image, f0, f1, f2 = (hl.Func(n) for n in ("image", "f0", "f1", "f2"))
    image[x, y] = hl.u8(10 * y + x)
    f0[x, y] = image[hl.clamp(x, 0, 2), hl.clamp(y, 0, 2)]
    f1[x, y] = 2 * (f0[x + 1, y + 1] + f0[x - 1, y - 1])
    f2[x, y] = f0[x + 1, y + 1] + f0[x - 1, y - 1] + f1[x + 1, y + 1] + f1[x - 1, y - 1]
    f2.split(y, yo, yi, 1, hl.TailStrategy.RoundUp)
    f0.store_at(f2, yo).compute_at(f2, x)
    f1.store_root().compute_at(f2, x)
    context = driver.context()
    context.check_allocations(flush_right=flush_right)
    try:
        got = f2.realize([1, 1])
        assert context.check_counts()[1:] == (0, 0)
    finally:
        context.check_allocations(False)
    assert got[0, 0] == 55


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("hoisted", [True, False])
@pytest.mark.parametrize("directive", ["unroll", "split", "vectorize"])
def test_b01_what_a_shifted_tail_makes_again_is_fed(
    directive: str, hoisted: bool, up: bool
) -> None:
    """Each iteration makes more rows than are new; what they read must be made for all of them."""
    x, y, yo, yi, ys = hl.vars("x y yo yi ys")
    source, window, out = hl.Func("source"), hl.Func("window"), hl.Func("out")
    source[x, y] = x * 3 + y * 5
    window[x, y] = source[x, y] + 1
    row = y if up else -y
    out[x, y] = window[x, row] + 1000 * window[x, row + 2]
    out.split(y, yo, yi, 5, hl.TailStrategy.ShiftInwards)
    source.compute_at(out, yi)
    if hoisted:
        source.hoist_storage(out, yo)
    window.store_at(out, yo).compute_at(out, yi)
    if directive == "split":
        window.split(y, ys, yi, 3, hl.TailStrategy.ShiftInwards)
    else:
        getattr(window, directive)(y, 2)
    for sizes in ([22, 4], [3, 13], [5, 1]):
        xs, ys_ = np.meshgrid(np.arange(sizes[0]), np.arange(sizes[1]))
        rows = ys_ if up else -ys_
        wanted = 3 * xs + 5 * rows + 1 + 1000 * (3 * xs + 5 * (rows + 2) + 1)
        assert np.array_equal(np.asarray(out.realize(sizes)), wanted)


@pytest.mark.parametrize("outer", ["ShiftInwards", "GuardWithIf", "RoundUp"])
@pytest.mark.parametrize("tail", ["RoundUp", "PredicateLoads", "ShiftInwards", "GuardWithIf"])
@pytest.mark.parametrize("up", [True, False])
def test_b01_tails_of_windows_in_both_directions(up: bool, tail: str, outer: str) -> None:
    x, y, yo, yi, yp, yq = hl.vars("x y yo yi yp yq")
    source, window, out = hl.Func("source"), hl.Func("window"), hl.Func("out")
    source[x, y] = x * 3 + y * 5
    window[x, y] = source[x, y] + 1
    row = y if up else -y
    out[x, y] = window[x, row] + 1000 * window[x, row + 2]
    out.split(y, yo, yi, 5, getattr(hl.TailStrategy, outer))
    source.compute_at(out, yi)
    window.store_at(out, yo).compute_at(out, yi)
    window.split(y, yp, yq, 2, getattr(hl.TailStrategy, tail))
    for sizes in ([7, 4], [3, 13], [5, 1]):
        xs, ys = np.meshgrid(np.arange(sizes[0]), np.arange(sizes[1]))
        rows = ys if up else -ys
        wanted = 3 * xs + 5 * rows + 1 + 1000 * (3 * xs + 5 * (rows + 2) + 1)
        assert np.array_equal(np.asarray(out.realize(sizes)), wanted)
