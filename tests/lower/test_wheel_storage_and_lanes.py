"""Schedules that exercise the passes on storage, vectors and atomics: the wheel gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan

halide = pytest.importorskip("halide")

CASES: dict[str, Callable[[Any, Any], Any]] = {}


def case(build: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    CASES[build.__name__] = build
    return build


@case
def atomic_sum_of_rows(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 32)], "r")
    f = hl.Func("f")
    f[x, y] = 0
    f[x, y] += source[r.x, y] * (x + 1)
    f.update().atomic().vectorize(r.x, 8)
    return f


@case
def atomic_sum_over_lanes_of_both(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 16)], "r")
    f = hl.Func("f")
    f[x, y] = 1
    f[x, y] += source[x + r.x, y]
    f.update().atomic().reorder(x, r.x, y).vectorize(x, 4).vectorize(r.x, 8)
    return f


@case
def atomic_minimum_with_a_predicate(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 20)], "r")
    r.where(r.x + y < 17)
    f = hl.Func("f")
    f[x, y] = 1000
    f[x, y] = hl.min(f[x, y], source[x + r.x, y])
    f.update().atomic().vectorize(r.x, 4)
    return f


@case
def atomic_histogram_in_parallel(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 40), (0, 20)], "r")
    h, f = hl.Func("h"), hl.Func("f")
    h[x] = 0
    h[source[r.x, r.y] % 16] += r.x
    h.compute_root().update().atomic().parallel(r.y).vectorize(r.x, 8)
    f[x, y] = h[(x + y) % 16]
    return f


@case
def atomic_tuple_in_parallel(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 40), (0, 20)], "r")
    h, f = hl.Func("h"), hl.Func("f")
    h[x] = (0, 0)
    at = source[r.x, r.y] % 8
    h[at] = (h[at][0] + 1, h[at][1] + r.x)
    h.compute_root().update().atomic(True).parallel(r.y)
    f[x, y] = h[(x + y) % 8][0] * 1000 + h[(x + y) % 8][1]
    return f


@case
def hoisted_storage(hl: Any, source: Any) -> Any:
    x, y, xo, xi = hl.vars("x y xo xi")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = source[x, y] * 3
    f[x, y] = g[x, y] + g[x + 1, y] + g[x + 2, y + 1]
    f.split(x, xo, xi, 8)
    g.compute_at(f, xo).hoist_storage(f, y)
    return f


@case
def computed_inside_a_vectorised_loop(hl: Any, source: Any) -> Any:
    x, y, xo, xi = hl.vars("x y xo xi")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = source[x, y] * 3 + y
    f[x, y] = g[x, y] + g[x + 1, y] * g[x + 2, y + 1]
    f.split(x, xo, xi, 8).vectorize(xi)
    g.compute_at(f, xi)
    return f


@case
def updates_inside_a_vectorised_loop(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 5)], "r")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = y
    g[x, y] += source[x + r.x, y] * r.x
    f[x, y] = g[x, y] - g[x, y + 1]
    f.vectorize(x, 4)
    g.compute_at(f, x).vectorize(x).update().reorder(x, r.x).vectorize(x)
    return f


@case
def nested_vectors(hl: Any, source: Any) -> Any:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    f = hl.Func("f")
    f[x, y] = source[y, x] * 2 + source[x, y]
    f.tile(x, y, xo, yo, xi, yi, 4, 4).vectorize(xi).vectorize(yi)
    return f


@case
def transposed_tile(hl: Any, source: Any) -> Any:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = source[x, y] + 7
    f[x, y] = g[y, x]
    f.tile(x, y, xo, yo, xi, yi, 8, 8).vectorize(xi).unroll(yi)
    g.compute_at(f, xo).vectorize(x)
    return f


@case
def storage_layouts(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    g, h, f = hl.Func("g"), hl.Func("h"), hl.Func("f")
    g[x, y] = source[x, y] * 3
    h[x, y] = g[x, y] + g[y, x]
    f[x, y] = h[x, y] + h[x + 1, y + 1]
    g.compute_root().reorder_storage(y, x).align_storage(y, 16)
    h.compute_at(f, y).bound_storage(x, 64)
    return f


@case
def stack_and_register(hl: Any, source: Any) -> Any:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    g, h, f = hl.Func("g"), hl.Func("h"), hl.Func("f")
    g[x, y] = source[x, y] * 3
    h[x, y] = g[x, y] + g[x + 1, y + 1]
    f[x, y] = h[x, y] + h[x + 1, y + 1]
    f.tile(x, y, xo, yo, xi, yi, 8, 4).unroll(yi).vectorize(xi)
    g.compute_at(f, xo).store_in(hl.MemoryType.Stack)
    h.compute_at(f, xo).store_in(hl.MemoryType.Register).unroll(x).unroll(y)
    return f


@case
def unrolled_remainder(hl: Any, source: Any) -> Any:
    x, y, xo, xi = hl.vars("x y xo xi")
    f = hl.Func("f")
    f[x, y] = source[x, y] * x
    f.split(x, xo, xi, 5, hl.TailStrategy.GuardWithIf).unroll(xi)
    return f


@case
def unrolled_up_to_a_bound(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    p = hl.Param(hl.Int(32), "p")
    p.set(3)
    r = hl.RDom([(0, hl.clamp(p, 0, 4))], "r")
    f = hl.Func("f")
    f[x, y] = x
    f[x, y] += source[x + r.x, y]
    f.update().unroll(r.x)
    return f


def _tail(name: str) -> None:
    """An update with the tail strategy."""

    def build(hl: Any, source: Any) -> Any:
        x, y, xo, xi = hl.vars("x y xo xi")
        g, f = hl.Func("g"), hl.Func("f")
        g[x, y] = source[x, y] * 5
        f[x, y] = g[x, y] + g[x + 3, y]
        f[x, y] += g[x + 1, y]
        tail = getattr(hl.TailStrategy, name)
        f.vectorize(x, 8)
        f.update().vectorize(x, 8, tail)
        g.compute_at(f, y).vectorize(x, 4)
        return f

    CASES[f"update_tail_{name}"] = build


for _name in (
    "GuardWithIf",
    "Predicate",
    "PredicateLoads",
    "PredicateStores",
    "ShiftInwardsAndBlend",
    "RoundUpAndBlend",
):
    _tail(_name)


@case
def interleaved_channels(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = hl.select(x % 2 == 0, source[x / 2, y], source[x / 2 + 5, y + 1] * 3)
    f[x, y] = g[x, y] + hl.select((x + y) % 3 == 0, source[x / 3, y], 1)
    f.vectorize(x, 12)
    return f


@case
def down_and_up(hl: Any, source: Any) -> Any:
    x, y, yo, yi = hl.vars("x y yo yi")
    down, up, f = hl.Func("down"), hl.Func("up"), hl.Func("f")
    down[x, y] = source[2 * x, 2 * y] + source[2 * x + 1, 2 * y + 1]
    up[x, y] = down[x / 2, y / 2] * 2 + down[x / 2 + 1, y / 2 + 1]
    f[x, y] = up[x, y] + up[x + 1, y + 1]
    f.split(y, yo, yi, 4).vectorize(x, 8)
    down.store_at(f, yo).compute_at(f, yi).vectorize(x, 4)
    up.store_at(f, yo).compute_at(f, yi).vectorize(x, 4)
    return f


@case
def folded_with_a_request(hl: Any, source: Any) -> Any:
    x, y, yo, yi = hl.vars("x y yo yi")
    down, f = hl.Func("down"), hl.Func("f")
    down[x, y] = source[x, y] + source[x + 1, y]
    f[x, y] = down[x, y] + down[x, y + 1] + down[x, y + 2]
    f.split(y, yo, yi, 4).parallel(yo)
    down.store_at(f, yo).compute_at(f, yi).fold_storage(y, 4).vectorize(x, 4)
    return f


@case
def reduced_in_parallel_by_rfactor(hl: Any, source: Any) -> Any:
    x, y, u = hl.vars("x y u")
    r = hl.RDom([(0, 40), (0, 16)], "r")
    h, f = hl.Func("h"), hl.Func("f")
    h[x] = 0
    h[x] += source[r.x, r.y] * x
    part = h.update().rfactor(r.y, u)
    part.compute_root().update().parallel(u)
    h.compute_root()
    f[x, y] = h[x] + y
    return f


@case
def skipped_by_a_parameter(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    p = hl.Param(hl.Int(32), "p")
    p.set(0)
    g, h, f = hl.Func("g"), hl.Func("h"), hl.Func("f")
    g[x, y] = source[x, y] * 2
    h[x, y] = g[x, y] + 1
    f[x, y] = hl.select(p > 3, h[x, y], source[x, y])
    g.compute_root()
    h.compute_root()
    return f


@case
def vector_of_a_reduction_inside(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 7)], "r")
    f = hl.Func("f")
    f[x, y] = hl.sum(source[x + r.x, y] * r.x) + hl.maximum(source[x, y + r.x])
    f.vectorize(x, 8, hl.TailStrategy.GuardWithIf)
    return f


@case
def vector_loop_bounds_that_differ_by_lane(hl: Any, source: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 30)], "r")
    r.where(r.x < x % 5)
    f = hl.Func("f")
    f[x, y] = 0
    f[x, y] += source[x + r.x, y]
    f.vectorize(x, 4).update().reorder(x, r.x).vectorize(x, 4)
    return f


def _run(hl: Any, build: Callable[[Any, Any], Any], extents: tuple[int, int]) -> Any:
    rng = np.random.default_rng(3)
    image = hl.Buffer(rng.integers(-50, 300, (120, 150), dtype=np.int32))
    image.set_min([-20, -20])
    source = hl.ImageParam(hl.Int(32), 2, "source")
    f = build(hl, source)
    source.set(image)
    return np.asanyarray(f.realize(list(extents))).copy()


@pytest.mark.parametrize("name", CASES)
def test_the_wheel_gives_the_same(name: str) -> None:
    for extents in ((24, 16), (29, 12)):
        try:
            want = _run(halide, CASES[name], extents)
        except RuntimeError:
            if extents == (24, 16):
                raise
            continue
        np.testing.assert_array_equal(_run(bayplan, CASES[name], extents), want)
