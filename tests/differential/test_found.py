"""Programs on which engines once disagreed, kept as small as they could be made.

Each is checked against the evaluator, which ignores its schedule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.reference import evaluate


def _check(f: hl.Func, extents: list[int]) -> Any:
    got = np.asarray(f.realize(extents))
    want = evaluate(f, [0] * len(extents), extents)
    np.testing.assert_array_equal(got, want)
    return got


def _input(data: Any) -> hl.ImageParam:
    kind = hl.Int(8 * data.dtype.itemsize)
    image = hl.ImageParam(kind, data.ndim, "data")
    image.set(hl.Buffer(data))
    return image


def test_uint64_to_int32_may_be_negative() -> None:
    x = hl.Var("x")
    data = _input(np.arange(-100, 100, 10, dtype=np.int16))
    f = hl.Func("f")
    wide = hl.cast(hl.UInt(64), data[x]) + hl.cast(hl.UInt(64), data[x])
    f[x] = hl.clamp(hl.cast(hl.Int(32), wide), -2, 7)
    assert _check(f, [20])[0] == -2


def test_an_index_from_uint64_keeps_both_limits() -> None:
    x = hl.Var("x")
    data = _input(np.arange(-100, 100, 10, dtype=np.int16))
    f, g = hl.Func("f"), hl.Func("g")
    g[x] = x * 3
    g.compute_root()
    f[x] = g[hl.clamp(hl.cast(hl.Int(32), hl.cast(hl.UInt(64), data[x])), -2, 7)]
    assert _check(f, [20])[0] == -6


def test_a_consumer_that_a_constant_condition_cuts_off() -> None:
    x, y = hl.vars("x y")
    f0, f1, f2 = hl.Func("f0"), hl.Func("f1"), hl.Func("f2")
    f0[x, y] = hl.u32(x + y)
    f1[x, y] = hl.u32(0)
    f1[x, y] = f1[x, y] + f0[x, y]
    index = hl.clamp(hl.i32(f1[x, 2]), 3, 12)
    f2[x, y] = hl.select(hl.i32(-7) == 0, f0[x, index], hl.u32(3))
    f0.compute_root()
    _check(f2, [20, 5])


def test_lets_of_vectors_have_no_bounds_of_their_own() -> None:
    x, y, xo, xi = hl.vars("x y xo xi")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = hl.u8(x * 3 + y)
    r = hl.RDom([(0, 3)])
    g[x, y] = hl.u8(0)
    g[x, y] += f[x + r, hl.clamp(hl.i32(f[y, x]), 0, 4)]
    g.split(x, xo, xi, 4, hl.TailStrategy.GuardWithIf).vectorize(xi)
    g.update().split(x, xo, xi, 2, hl.TailStrategy.GuardWithIf).vectorize(xi)
    f.compute_at(g, xo)
    _check(g, [21, 6])


def test_masks_that_are_partly_constant() -> None:
    x, y, xo, xi, xio, xii = hl.vars("x y xo xi xio xii")
    data = _input(np.arange(400, dtype=np.int32).reshape(10, 40) % 37)
    f, g = hl.Func("f"), hl.Func("g")
    r = hl.RDom([(0, 4)])
    f[x, y] = hl.i64(data[x, y]) * 3
    g[x, y] = hl.f32(data[x, y]) + hl.sum(hl.min(hl.f32(data[x + r, y]), hl.f32(f[x + r, y])))
    f.compute_root()
    g.split(x, xo, xi, 5, hl.TailStrategy.GuardWithIf)
    g.split(xi, xio, xii, 16, hl.TailStrategy.GuardWithIf).vectorize(xii)
    _check(g, [33, 9])


def test_a_func_used_under_a_condition_shares_loops_with_another() -> None:
    x, y = hl.vars("x y")
    p = hl.Param(hl.Int(32), "p")
    p.set(2)
    f0, f1, f2 = hl.Func("f0"), hl.Func("f1"), hl.Func("f2")
    f0[x, y] = x + 1
    f1[x, y] = y + 2
    f2[x, y] = f1[x, y] + hl.select(p > 7, f0[x, y], 0)
    f1.compute_root()
    f0.compute_root().compute_with(f1, y)
    _check(f2, [7, 5])


def test_stores_are_predicated_but_what_they_store_is_loaded() -> None:
    x, y, yo, yi = hl.vars("x y yo yi")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = hl.f64(x * 10 + y)
    f[x, y] = f[x, y] + 1.0
    f.update().split(y, yo, yi, 8, hl.TailStrategy.PredicateStores).vectorize(yi)
    g[x, y] = f[x, y]
    f.compute_root().store_in(hl.MemoryType.Heap)
    context = driver.context()
    context.check_allocations(flush_right=True)
    try:
        _check(g, [3, 11])
    finally:
        context.check_allocations(False)


def _check_guarded(f: hl.Func, extents: list[int]) -> None:
    """As `_check`, with temporaries of exactly their size between guard pages."""
    context = driver.context()
    for flush_right in (False, True):
        context.check_allocations(flush_right=flush_right)
        try:
            _check(f, extents)
        finally:
            context.check_allocations(False)


def test_where_only_stores_are_predicated_inputs_are_needed_beyond_the_end() -> None:
    x, xo, xi = hl.vars("x xo xi")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * 3
    g[x] = f[x - 1] + f[x]
    g.split(x, xo, xi, 1024, hl.TailStrategy.PredicateStores)
    f.store_root().compute_at(g, xo).store_in(hl.MemoryType.Heap)
    _check_guarded(g, [1030])


def test_a_guarded_coordinate_counts_in_full_for_what_it_needs() -> None:
    x, y, yo, yi = hl.vars("x y yo yi")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x - y
    g[x, y] = x + y
    g[x, y] += f[y * 100, 2 * y + 1]
    h[x, y] = g[x, 7 - y] * 2
    h.reorder(y, x)
    h.split(y, yo, yi, 5, hl.TailStrategy.PredicateStores).vectorize(yi)
    f.compute_root().store_in(hl.MemoryType.Heap)
    _check_guarded(h, [3, 11])


def test_a_func_realized_in_two_places_has_bounds_of_its_own_in_each() -> None:
    x, y, yo, yi = hl.vars("x y yo yi")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 10 + y
    g[x] = 1
    g[x] += f[2 * x, 1]
    g[x] += f[x + 3, 0]
    f.compute_at(g, x).split(y, yo, yi, 4, hl.TailStrategy.PredicateStores)
    # One element each time, so no index but 0.
    text = driver.lowered_text(g._functions())
    assert f"{f.name()}[1]" not in text
    _check(g, [9])


def test_what_is_computed_with_a_func_that_is_not_used_is_computed_alone() -> None:
    x, y = hl.vars("x y")
    f, g, h, out = hl.Func("f"), hl.Func("g"), hl.Func("h"), hl.Func("out")
    f[x, y] = x + y
    g[x, y] = x - y
    h[x, y] = x * y
    # A constant condition cuts g off; f and h, each computed with it, are left.
    out[x, y] = f[x, y] + h[x, y] + hl.select(hl.i16(-7) >= hl.i16(-4), g[x, y], 0)
    for func in (g, h, f):
        func.compute_root()
    f.compute_with(g, y)
    h.compute_with(g, x)
    _check(out, [7, 5])


def test_a_func_is_computed_alone_where_the_one_computed_with_it_is_not_used() -> None:
    x, y = hl.vars("x y")
    f, g, pair, out = hl.Func("f"), hl.Func("g"), hl.Func("pair"), hl.Func("out")
    f[x, y] = hl.u16(x)
    g[x, y] = (x + y, y)
    # Inlined, and its second value, which alone uses f, is not asked for.
    pair[x, y] = (g[x, y][0] * 2, f[x, y] == 3)
    out[x, y] = pair[x, y][0]
    g.compute_root()
    f.compute_root().compute_with(g, y)
    _check(out, [7, 5])


def test_those_left_of_a_group_still_share_loops() -> None:
    x, y = hl.vars("x y")
    f, g, h, out = hl.Func("f"), hl.Func("g"), hl.Func("h"), hl.Func("out")
    f[x, y] = x + y
    g[x, y] = x - y
    h[x, y] = x * y
    out[x, y] = f[x, y] + g[x + 1, y] + hl.select(hl.i32(2) > 3, h[x, y], 1)
    for func in (f, g, h):
        func.compute_root()
    g.compute_with(f, y)
    h.compute_with(g, y)
    text = driver.lowered_text(out._functions())
    assert f"{f.name()}.s0.fused.y" in text
    assert f"{h.name()}.s0" not in text
    _check(out, [7, 5])


def test_a_guard_on_a_sum_of_loops_bounds_what_a_condition_reads() -> None:
    x = hl.Var("x")
    outer, inner, io, ii = (hl.RVar(n) for n in ("outer", "inner", "io", "ii"))
    for extent, first, second in ((1, 8, 3), (4, 9, 3), (3, 2, 4)):
        data = np.arange(extent + 1, dtype=np.int16)
        image = hl.ImageParam(hl.Int(16), 1, "image")
        f = hl.Func("f")
        r = hl.RDom([(1, extent)], "r")
        r.where(image[r.x] > 1)
        f[x] = hl.i16(x)
        f[x] += image[r.x]
        f.update().split(r.x, outer, inner, first, hl.TailStrategy.GuardWithIf)
        f.update().split(inner, io, ii, second, hl.TailStrategy.GuardWithIf)
        f.infer_input_bounds([8])
        given = image.get()
        assert (given.dim(0).min(), given.dim(0).extent()) == (1, extent)
        image.set(hl.Buffer(data))
        _check(f, [8])


def test_iterations_of_an_unrolled_loop_give_their_names_values_of_their_own() -> None:
    x, xo, xi, xio, xii = hl.vars("x xo xi xio xii")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * 3
    g[x] = f[x] + x
    g.split(x, xo, xi, 16, hl.TailStrategy.GuardWithIf)
    g.split(xi, xio, xii, 2, hl.TailStrategy.Predicate).unroll(xii)
    f.compute_at(g, xio)
    _check(g, [18])


def test_a_chain_in_place_whose_output_has_promised_bounds_is_checked() -> None:
    x, y, yo, yi = hl.vars("x y yo yi")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = hl.f32(x + y)
    g[x, y] = f[x, y] * 2.0
    h[x, y] = g[x, y]
    h.bound(x, 0, 14)
    f.compute_root()
    g.compute_root().split(y, yo, yi, 3, hl.TailStrategy.RoundUp).unroll(yi)
    _check(h, [14, 8])


def test_a_mirror_of_which_only_the_inside_is_needed_has_bounds() -> None:
    x, y = hl.vars("x y")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 10 + y
    mirror = hl.BoundaryConditions.mirror_interior(f, [(0, 7), (0, 6)])
    # No y beyond the last, 5, is ever asked for.
    g[x, y] = mirror[x, hl.clamp(y, 0, 3)]
    mirror.compute_root()
    f.compute_root()
    _check(g, [9, 5])


def test_in_place_of_what_is_computed_further_in() -> None:
    x, y = hl.vars("x y")
    image = _input(np.arange(24, dtype=np.int64).reshape(8, 3))
    g, h, out = hl.Func("g"), hl.Func("h"), hl.Func("out")
    mirror = hl.BoundaryConditions.mirror_interior(image)
    g[x, y] = mirror[x, y]
    h[x, y] = g[x, y]
    out[x, y] = hl.f32(h[x, y])
    # The storage of h, which may take over the bytes of g, comes first.
    h.compute_root()
    g.compute_at(h, y)
    mirror.compute_at(g, y)
    _check(out, [3, 2])


def test_a_temporary_of_whole_tiles_in_the_output_is_checked() -> None:
    x, y, xy, xo, xi = hl.vars("x y xy xo xi")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = hl.u32(x)
    f[x, y] = f[x, y] + 1
    g[x, y] = hl.select(f[x, y] >= 5, hl.u32(y), f[x, y])
    g.fuse(x, y, xy)
    f.compute_root().update().split(x, xo, xi, 7)
    for width in (27, 28):
        _check(g, [width, 12])


def test_a_window_is_filled_by_iterations_that_use_nothing_of_its_consumer() -> None:
    x, y, xo, xi, xo2, xi2 = hl.vars("x y xo xi xo2 xi2")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x
    g[x, y] = f[x, y]
    h[x, y] = g[x, y]
    h.split(x, xo, xi, 4).reorder(xi, y, xo)
    g.compute_at(h, y).split(x, xo2, xi2, 16, hl.TailStrategy.RoundUp)
    f.store_root().compute_at(g, xo2)
    _check(h, [14, 3])


def test_a_clamp_that_a_negative_divisor_makes_useless() -> None:
    x = hl.Var("x")
    data = _input(np.arange(9, dtype=np.int16))
    r = hl.RDom([(1, 2)])
    f = hl.Func("f")
    f[x] = data[x]
    f[hl.clamp(hl.i32(hl.i16(r) % hl.i16(-9)), 1, 8)] += hl.i16(1)
    # As much of the input as there is of the output, and no more.
    _check(f, [9])


@pytest.mark.parametrize(
    ("index", "region"),
    [
        (lambda x, w: hl.saturating_add(hl.i16(6), hl.i16(w)), (6, 256)),
        (lambda x, w: hl.saturating_sub(hl.i32(-6), x), (-45, 40)),
        (lambda x, w: hl.i16(w) % hl.i16(-9) << hl.i16(3), (0, 65)),
        (lambda x, w: (w % hl.u8(7)) << hl.u8(1), (0, 13)),
        (lambda x, w: hl.i16(w) | hl.i16(-7), (-7, 7)),
        (lambda x, w: hl.u32(w) << hl.u32(1), (0, 511)),
        (lambda x, w: hl.i8(64) / hl.min(hl.i8(-9), hl.i8(w)), (-7, 8)),
        (lambda x, w: w / w, (0, 2)),
        (lambda x, w: hl.i8(x) % hl.i8(x), (0, 1)),
        (lambda x, w: hl.select(hl.u16(w) < hl.u16(x), hl.u16(w), hl.u16(x)), (0, 256)),
    ],
)
def test_no_more_of_an_input_is_needed_than_an_index_can_reach(
    index: Any, region: tuple[int, int]
) -> None:
    x = hl.Var("x")
    w, image = hl.ImageParam(hl.UInt(8), 1, "w"), hl.ImageParam(hl.Int(32), 1, "image")
    f = hl.Func("f")
    f[x] = image[hl.i32(index(x, w[x]))]
    f.infer_input_bounds([40])
    dim = image.get().dim(0)
    assert (dim.min(), dim.extent()) == region


def test_a_clamp_that_the_range_of_a_loop_makes_useless() -> None:
    x, w = hl.Var("x"), _input(np.arange(9, dtype=np.int8))
    r = hl.RDom([(0, 5)], "r")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x
    f[hl.clamp(hl.i32(hl.absd(hl.i32(w[1]), r)), -1, 2)] += r
    g[x] = f[hl.clamp(x, 1, 2)]
    f.compute_root()
    _check(g, [7])


@pytest.mark.parametrize("tail", ["GuardWithIf", "PredicateStores"])
def test_a_window_over_iterations_that_a_predicate_leaves_out(tail: str) -> None:
    x, xo, xi = hl.vars("x xo xi")
    f1, f2, f3 = hl.Func("f1"), hl.Func("f2"), hl.Func("f3")
    f1[x] = x * x + 3
    f2[x] = 0
    r = hl.RDom([(2, 4)], "r")
    r.where(r.x % 2 == 0)
    f2[x] = hl.max(f2[x], f1[x + r.x])
    f3[x] = f2[x + 3]
    f2.compute_root()
    f2.update(0).split(x, xo, xi, 2, getattr(hl.TailStrategy, tail)).reorder(xi, xo, r.x)
    f1.store_root().compute_at(f2, r.x)
    _check(f3, [7])


@pytest.mark.parametrize(
    ("last", "heights"),
    [(1, [2]), (3, [4]), (2, [3, 2])],
)
def test_a_fused_loop_over_a_width_that_is_a_sum(last: int, heights: list[int]) -> None:
    """No row is needed but those of the loop that was fused."""
    x, y, z, t, u = hl.vars("x y z t u")
    image = hl.ImageParam(hl.Int(32), 2, "image")
    f, g = hl.Func("f"), hl.Func("g")
    planes = heights[1] if len(heights) > 1 else 1
    f[x, y, z] = image[x, y] + z
    g[x] = f[2 * x, last, 0] + f[x / 2 + 2, 0, planes - 1]
    f.compute_at(g, x).fuse(x, y, t).fuse(t, z, u)
    g.infer_input_bounds([14])
    dims = [image.get().dim(i) for i in range(2)]
    assert [(d.min(), d.extent()) for d in dims] == [(0, 27), (0, heights[0])]
    image.set(hl.Buffer(np.arange(27 * heights[0], dtype=np.int32).reshape(heights[0], 27)))
    _check(g, [14])


def test_places_that_are_constant_while_the_need_for_them_is_not_known() -> None:
    x, y = hl.vars("x y")
    p = hl.Param(hl.Int(64), "p", 3)
    f0, f1, f2, f4 = hl.Func("f0"), hl.Func("f1"), hl.Func("f2"), hl.Func("f4")
    f0[x, y] = y % 16
    f1[()] = 2 + f0[0, 2]
    f1[()] = hl.max(f1[()], 1)
    f2[x, y] = hl.max(hl.i64(p), hl.i64(f1[()]))
    f2[x, y] = f2[x, y] + hl.i64(f0[x, y])
    f3 = hl.BoundaryConditions.constant_exterior(f2, hl.i64(2), [(0, 7), (0, 3)])
    some = (hl.u16(x) * 4) % hl.select(hl.u8(x) > hl.u8(f3[x + 2, y + 3]), hl.u16(f3[x, y]), 1)
    more = hl.select(hl.f64(x) >= hl.f64(p), f3[0, y - 3] * f3[2 - x, y / 2], hl.i64(-8))
    f4[x, y] = hl.max(hl.i64(p), hl.min(some, more))
    f0.compute_at(f4, x)
    _check(f4, [32, 5])
