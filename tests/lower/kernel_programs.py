"""Programs with GPU schedules that ask much of the form of kernels; each gives its output Func."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bayplan as hl

Build = Callable[[], Any]
PROGRAMS: dict[str, tuple[Build, list[int]]] = {}
"""Name -> how to build it, and the extents of its output."""

x, y, z, xi, yi, zi, xo, yo, u, v = hl.vars("x y z xi yi zi xo yo u v")


def program(*extents: int) -> Callable[[Build], Build]:
    """Lists a program with its size."""

    def enter(build: Build) -> Build:
        PROGRAMS[build.__name__] = build, list(extents)
        return build

    return enter


def _pair() -> tuple[Any, Any]:
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 3 + y * y
    g[x, y] = f[x, y] + f[x + 1, y] + 2 * f[x, y + 2]
    return f, g


@program(37, 21)
def producer_in_block() -> Any:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x).gpu_threads(x, y)
    return g


@program(37, 21)
def guarded_tiles() -> Any:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4, hl.TailStrategy.GuardWithIf)
    f.compute_at(g, x).split(x, xo, xi, 3, hl.TailStrategy.GuardWithIf).gpu_threads(xi, y)
    return g


@program(37, 21)
def producer_without_threads() -> Any:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x)
    return g


@program(37, 21)
def producer_in_the_outer_thread_loop() -> Any:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, yi).gpu_threads(x)
    return g


@program(37, 21)
def producer_in_the_outer_thread_loop_without_threads() -> Any:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, yi)
    return g


@program(37, 21)
def producer_in_a_thread() -> Any:
    f, g = _pair()
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, xi)
    return g


@program(40, 24)
def blocks_without_threads() -> Any:
    f, g = _pair()
    g.gpu_blocks(x, y)
    f.compute_at(g, x)
    return g


@program(24, 24)
def as_many_threads_as_there_are_elements() -> Any:
    f, g = _pair()
    g.gpu_blocks(y).gpu_threads(x)
    f.compute_at(g, y).gpu_threads(x)
    return g


@program(37, 21)
def serial_loop_around_threads() -> Any:
    f, g = _pair()
    g.tile(x, y, xi, yi, 8, 4).reorder(xi, yi, x, y).gpu_blocks(x, y).gpu_threads(xi)
    f.compute_at(g, yi).gpu_threads(x)
    return g


@program(40, 21)
def window_that_slides_in_a_block() -> Any:
    f, g = _pair()
    g.tile(x, y, xi, yi, 8, 8).reorder(xi, yi, x, y).gpu_blocks(x, y).gpu_threads(xi)
    f.store_at(g, x).compute_at(g, yi).gpu_threads(x)
    return g


@program(40, 21)
def window_that_slides_in_a_thread() -> Any:
    f, g = _pair()
    g.tile(x, y, xi, yi, 8, 8).reorder(yi, xi, x, y).gpu_blocks(x, y).gpu_threads(xi)
    f.store_at(g, xi).compute_at(g, yi)
    return g


@program(40, 21)
def threads_in_a_serial_loop_in_threads() -> Any:
    """for threads yi: for v: for threads xi, with a producer between."""
    f, g = _pair()
    g.split(y, y, yi, 8).split(yi, yi, v, 2).split(x, x, xi, 8)
    g.reorder(xi, v, yi, x, y).gpu_blocks(x, y).gpu_threads(yi, xi)
    f.compute_at(g, v).gpu_threads(x)
    return g


@program(16, 16)
def rows_of_a_triangle() -> Any:
    """Loops over threads whose length differs between the outer threads and iterations."""
    f, g = hl.Func("f"), hl.Func("g")
    r = hl.RDom([(0, 16), (0, 16)], "r")
    r.where(r.x <= r.y)
    f[x, y] = x * y
    g[x, y] = f[x, y]
    g[r.x, r.y] += f[r.y, r.x] + 7
    g.gpu_tile(x, y, xi, yi, 8, 8)
    g.update().allow_race_conditions().gpu_blocks(r.y).gpu_threads(r.x)
    return g


@program(16, 12)
def rows_that_differ_in_threads() -> Any:
    """A producer within a thread needs as many elements as the thread's number says."""
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * x + y
    r = hl.RDom([(0, 6)], "r")
    g[x, y] = 0
    g[x, y] += hl.select(r.x <= y % 5, f[hl.clamp(x, 0, y % 5), y + r.x], 1)
    g.compute_root().gpu_tile(x, y, xi, yi, 8, 4)
    g.update().gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, yi).gpu_threads(x)
    return g


@program(19, 14)
def updates_in_a_block() -> Any:
    f, g = hl.Func("f"), hl.Func("g")
    r = hl.RDom([(1, 5)], "r")
    f[x, y] = x + y
    f[x, y] += x * y
    f[x, r.x] = f[x, r.x - 1] + r.x
    g[x, y] = f[x, y % 6] + f[x + 1, 3]
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x).gpu_threads(x, y)
    f.update(0).gpu_threads(y, x)
    f.update(1).gpu_threads(x)
    return g


@program(33, 9)
def tuples() -> Any:
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = (x * y, hl.cast(hl.UInt(8), x))
    g[x, y] = f[x, y][0] + f[x + 1, y][1]
    g.gpu_tile(x, xi, 8)
    f.compute_at(g, x).gpu_threads(x)
    return g


@program(36, 20)
def vectors_and_unrolled_loops() -> Any:
    f, g = _pair()
    g.vectorize(x, 2).unroll(y, 2).gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x).vectorize(x, 2).gpu_threads(x, y)
    return g


@program(36, 20)
def vectors_around_threads() -> Any:
    f, g = _pair()
    g.tile(x, y, xi, yi, 8, 4).gpu_blocks(x, y).vectorize(yi).gpu_threads(xi)
    f.compute_at(g, x).gpu_threads(x)
    return g


@program(36, 20)
def vectors_around_blocks() -> Any:
    _, g = _pair()
    g.tile(x, y, xi, yi, 8, 4).reorder(xi, x, y, yi).vectorize(yi).gpu_blocks(x, y).gpu_threads(xi)
    return g


@program(36, 20)
def kernels_in_loops_of_the_host() -> Any:
    f, g = _pair()
    g.split(y, y, yi, 4).split(x, x, xi, 8).reorder(xi, x, yi, y).gpu_blocks(x).gpu_threads(xi)
    f.compute_at(g, y).gpu_tile(x, xi, 4)
    return g


@program(36, 20)
def kernels_in_unrolled_loops() -> Any:
    f, g = _pair()
    g.split(y, y, yi, 2).split(x, x, xi, 8).reorder(xi, x, yi, y).gpu_blocks(x).gpu_threads(xi)
    g.unroll(yi)
    f.compute_at(g, yi).gpu_tile(x, xi, 4)
    return g


@program(64, 20)
def lanes() -> Any:
    f, g = _pair()
    g.split(x, x, xi, 32).split(y, y, yi, 4).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi).split(x, xo, xi, 32).gpu_lanes(xi)
    return g


@program(64, 20)
def few_lanes() -> Any:
    f, g = _pair()
    g.split(x, x, xi, 8).split(y, y, yi, 4).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi).split(x, xo, xi, 8).gpu_lanes(xi)
    return g


@program(33, 21)
def specializations() -> Any:
    f, g = _pair()
    n = hl.Param(hl.Int(32), "n", 3)
    h = hl.Func("h")
    h[x, y] = g[x, y] + n
    h.gpu_tile(x, y, xi, yi, 8, 8)
    g.compute_at(h, x).gpu_threads(x, y).specialize(n > 2).split(x, x, u, 4)
    h.specialize(n == 4)
    f.compute_at(h, x).gpu_threads(x)
    return h


@program(33, 21)
def stages_that_share_loops_in_a_block() -> Any:
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x + y
    g[x, y] = x * y
    h[x, y] = f[x, y] + g[x + 1, y]
    h.gpu_tile(x, y, xi, yi, 8, 8)
    f.compute_at(h, x).gpu_threads(x, y)
    g.compute_at(h, x).gpu_threads(x, y).compute_with(f, y)
    return h


@program(33, 21)
def stages_that_share_blocks() -> Any:
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x + y
    g[x, y] = x * y
    h[x, y] = f[x, y] + g[x + 1, y]
    f.compute_root().gpu_tile(x, y, xi, yi, 8, 8)
    g.compute_root().gpu_tile(x, y, xi, yi, 8, 8).compute_with(f, x)
    return h


@program(64)
def histogram() -> Any:
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    r = hl.RDom([(0, 100)], "r")
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    f[x] = (x * 37) % 64
    h[x] = 0
    h[f[r.x] % 64] += 1
    g[x] = h[x]
    g.gpu_tile(x, xi, 64)
    h.compute_at(g, x).gpu_threads(x)
    h.update().atomic().split(r.x, ro, ri, 8).gpu_threads(ri)
    return g


@program(48)
def matrix_product() -> Any:
    a, p, g = hl.Func("a"), hl.Func("p"), hl.Func("g")
    r = hl.RDom([(0, 20)], "r")
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    a[x, y] = x + 3 * y
    p[x, y] = 0
    p[x, y] += a[r.x, y] * a[x, r.x]
    g[x] = p[x, x % 7] + p[x, 2]
    g.gpu_tile(x, xi, 16)
    p.compute_at(g, x).gpu_threads(x)
    p.update().split(r.x, ro, ri, 4).reorder(x, ri, y, ro).gpu_threads(x, y)
    a.compute_at(p, ro).gpu_threads(x)
    return g


@program(3, 5)
def one_thread() -> Any:
    f, g = _pair()
    g.gpu_single_thread()
    f.compute_at(g, y)
    return g


@program(30, 12, 5)
def three_dimensions() -> Any:
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y, z] = x + y * z
    g[x, y, z] = f[x, y, z] + f[x + 1, y, z + 1]
    g.gpu_tile(x, y, z, xi, yi, zi, 8, 4, 2)
    f.compute_at(g, x).gpu_threads(x, z)
    return g


@program(30, 12)
def sizes_from_parameters() -> Any:
    f, g = _pair()
    n = hl.Param(hl.Int(32), "n", 5)
    g.gpu_tile(x, y, xi, yi, n, 4)
    f.compute_at(g, x).gpu_threads(x, y)
    return g


@program(30, 12)
def checks_in_a_kernel() -> Any:
    f, g = _pair()
    n = hl.Param(hl.Int(32), "n", 40)
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.compute_at(g, x).gpu_threads(x, y).bound(x, 0, n)
    return g


@program(30, 12)
def productions_that_are_skipped() -> Any:
    f, g = _pair()
    n = hl.Param(hl.Int(32), "n", 5)
    h = hl.Func("h")
    h[x, y] = hl.select(n > 3, g[x, y], 0)
    h.gpu_tile(x, y, xi, yi, 8, 4)
    g.compute_at(h, x).gpu_threads(x, y)
    f.compute_at(h, x).gpu_threads(x, y)
    return h
