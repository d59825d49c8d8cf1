"""Programs whose temporaries belong to a warp; each gives its output Func.

Elements are small integers, also of floats, so that every order of sums gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bayplan as hl

Build = Callable[[], Any]


class LaneProgram:
    """A program, and what becomes of its temporaries.

    Attributes:
        build: makes the output Func.
        extents: of the output.
        registers: temporaries that lanes hold, with the elements of each lane.
        shared: temporaries in shared memory.
        exchanges: kinds of shuffles in the text: "up", "down", "xor", "" for any lane.
    """

    def __init__(
        self, build: Build, extents: list[int], registers: dict[str, int], shared: list[str],
        exchanges: set[str],
    ) -> None:  # fmt: skip
        self.build = build
        self.extents = extents
        self.registers = registers
        self.shared = shared
        self.exchanges = exchanges


PROGRAMS: dict[str, LaneProgram] = {}

x, y, xi, yi, xo, yo, u, v = hl.vars("x y xi yi xo yo u v")
ROUND_UP = hl.TailStrategy.RoundUp
GUARD = hl.TailStrategy.GuardWithIf


def program(
    *extents: int, registers: dict[str, int] | None = None, shared: tuple[str, ...] = (),
    exchanges: str = "",
) -> Callable[[Build], Build]:  # fmt: skip
    """Lists a program with what is expected of it; exchanges are words, "any" for any lane."""

    def enter(build: Build) -> Build:
        words = {"" if word == "any" else word for word in exchanges.split()}
        PROGRAMS[build.__name__] = LaneProgram(
            build, list(extents), registers or {}, list(shared), words
        )
        return build

    return enter


def stencil(t: Any = None) -> tuple[Any, Any]:
    """A Func and one that adds its neighbours."""
    t = t or hl.Int(32)
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = hl.cast(t, x * 3 + y * 7)
    g[x, y] = f[x - 1, y] + f[x, y] + f[x + 1, y]
    return f, g


def stencil_in_lanes(t: Any = None, per_lane: int = 1) -> Any:
    """Rows of a stencil, several warps a block; a lane has neighbouring elements."""
    f, g = stencil(t)
    g.split(x, x, xi, 32 * per_lane, ROUND_UP).split(y, y, yi, 2)
    if per_lane > 1:
        g.split(xi, xi, u, per_lane).reorder(u, xi, yi, x, y).unroll(u)
    else:
        g.reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi).split(x, xo, xi, 32 * per_lane, ROUND_UP).unroll(xo)
    if per_lane > 1:
        f.split(xi, xi, u, per_lane).unroll(u)
    f.gpu_lanes(xi)
    return g


@program(96, 6, registers={"f": 2}, exchanges="up down")
def neighbours() -> Any:
    return stencil_in_lanes()


@program(96, 6, registers={"f": 2}, exchanges="up down")
def neighbours_uint8() -> Any:
    return stencil_in_lanes(hl.UInt(8))


@program(96, 6, registers={"f": 2}, exchanges="up down")
def neighbours_int16() -> Any:
    return stencil_in_lanes(hl.Int(16))


@program(96, 6, registers={"f": 2}, exchanges="up down")
def neighbours_uint16() -> Any:
    return stencil_in_lanes(hl.UInt(16))


@program(96, 6, registers={"f": 2}, exchanges="up down")
def neighbours_float16() -> Any:
    return stencil_in_lanes(hl.Float(16))


@program(96, 6, registers={"f": 2}, exchanges="up down")
def neighbours_float64() -> Any:
    return stencil_in_lanes(hl.Float(64))


@program(96, 6, registers={"f": 2}, exchanges="up down")
def neighbours_int64() -> Any:
    return stencil_in_lanes(hl.Int(64))


@program(128, 4, registers={"f": 4}, exchanges="up down")
def two_elements_a_lane() -> Any:
    return stencil_in_lanes(per_lane=2)


@program(128, 4, registers={"f": 8}, exchanges="up down")
def four_elements_a_lane() -> Any:
    return stencil_in_lanes(hl.Float(32), per_lane=4)


@program(128, 4, registers={"f": 4}, exchanges="up down")
def vectors_of_two() -> Any:
    f, g = stencil(hl.Float(32))
    g.split(x, x, xi, 64, ROUND_UP).split(y, y, yi, 2).vectorize(xi, 2).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi).split(x, xo, xi, 64, ROUND_UP).unroll(xo).vectorize(xi, 2).gpu_lanes(xi)
    return g


@program(64, 5, registers={"f": 1})
def each_lane_its_own() -> Any:
    """No lane asks another one: registers without any exchange."""
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 3 + y
    g[x, y] = f[x, y] * f[x, y] + 1
    g.split(x, x, xi, 32).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).gpu_lanes(x)
    return g


@program(48, 4, registers={"b": 1, "c": 1}, exchanges="down")
def chain_with_idle_lanes() -> Any:
    """24 elements of the output, 26 and 28 of what it needs."""
    b, c, d = hl.Func("b"), hl.Func("c"), hl.Func("d")
    b[x, y] = x * 5 + y
    c[x, y] = b[x - 1, y] + b[x, y] + b[x + 1, y]
    d[x, y] = c[x - 1, y] + c[x, y] + c[x + 1, y]
    d.gpu_tile(x, y, xi, yi, 24, 2).gpu_lanes(xi)
    b.compute_at(d, yi).gpu_lanes(x)
    c.compute_at(d, yi).gpu_lanes(x)
    return d


@program(20, 5, registers={"b": 1, "c": 1}, exchanges="down")
def chain_in_half_a_warp() -> Any:
    """One warp a block, which is not whole."""
    b, c, d = hl.Func("b"), hl.Func("c"), hl.Func("d")
    b[x, y] = x * 5 + y
    c[x, y] = b[x - 1, y] + b[x, y] + b[x + 1, y]
    d[x, y] = c[x - 1, y] + c[x, y] + c[x + 1, y]
    d.split(x, x, xi, 10, GUARD).gpu_blocks(x, y).gpu_lanes(xi)
    b.compute_at(d, x).gpu_lanes(x)
    c.compute_at(d, x).gpu_lanes(x)
    return d


@program(41, 3, registers={"f": 2}, exchanges="up down")
def tail_under_a_guard() -> Any:
    """Lanes behind the output's end are asked by those before it."""
    f, g = stencil()
    g.split(x, x, xi, 32, GUARD).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, ROUND_UP).unroll(xo).gpu_lanes(xi)
    return g


@program(32, 8, registers={"s0": 1, "s1": 1, "s2": 1, "s3": 1, "s4": 1}, exchanges="xor")
def butterfly() -> Any:
    """A sum in all lanes, by exchanges of halves, quarters, ..."""
    stages = [hl.Func("s0")]
    stages[0][x, y] = (x * 7 + y * 5) % 11
    for k in range(5):
        before, after = stages[-1], hl.Func(f"s{k + 1}")
        after[x, y] = before[x, y] + before[hl.unsafe_promise_clamped(x ^ (1 << k), 0, 31), y]
        stages.append(after)
    last = stages[-1]
    last.bound(x, 0, 32).gpu_blocks(y).gpu_lanes(x)
    for stage in stages[:-1]:
        stage.bound(x, 0, 32).compute_at(last, y).gpu_lanes(x)
    return last


@program(32, 6, registers={"p0": 1, "p1": 1, "p2": 1, "p3": 1, "p4": 1}, exchanges="any")
def prefix_sums() -> Any:
    """Sums of all before, by shifts by 1, 2, 4, ... elements."""
    stages = [hl.Func("p0")]
    stages[0][x, y] = (x * 5 + y) % 13
    for k in range(5):
        before, after = stages[-1], hl.Func(f"p{k + 1}")
        shifted = before[hl.max(x - (1 << k), 0), y]
        after[x, y] = before[x, y] + hl.select(x >= 1 << k, shifted, 0)
        stages.append(after)
    last = stages[-1]
    last.bound(x, 0, 32).gpu_blocks(y).gpu_lanes(x)
    for stage in stages[:-1]:
        stage.bound(x, 0, 32).compute_at(last, y).gpu_lanes(x)
    return last


@program(32, 6, registers={"f": 6}, exchanges="any")
def prefix_sums_by_unrolled_updates() -> Any:
    """The steps are a dimension of one Func, which an unrolled loop goes through."""
    f, g = hl.Func("f"), hl.Func("g")
    r = hl.RDom([(0, 32), (0, 5)], "r")
    f[x, u, y] = hl.select(u == 0, (x * 5 + y) % 13, 0)
    shift = hl.cast(hl.Int(32), 1) << r.y
    shifted = f[hl.clamp(r.x - shift, 0, 31), r.y, y]
    f[r.x, r.y + 1, y] = f[r.x, r.y, y] + hl.select(r.x >= shift, shifted, 0)
    g[x, y] = f[x, 5, y]
    g.bound(x, 0, 32).gpu_blocks(y).gpu_lanes(x)
    f.bound(x, 0, 32).compute_at(g, y).unroll(u).gpu_lanes(x)
    f.update().allow_race_conditions().unroll(r.y).gpu_lanes(r.x)
    return g


@program(32, 8, registers={"a": 1}, exchanges="down")
def shift_by_a_row() -> Any:
    """How far the lane is depends on the row."""
    a, b = hl.Func("a"), hl.Func("b")
    a[x, y] = x * 3 + y
    b[x, y] = a[x + y % 4, y]
    b.gpu_tile(x, y, xi, yi, 16, 4, ROUND_UP).gpu_lanes(xi)
    a.compute_at(b, yi).gpu_lanes(x)
    return b


@program(64, 32, registers={"a": 1, "b": 1}, exchanges="any")
def outer_product() -> Any:
    """One lane's element for all: block level, asked Register."""
    a, b, c = hl.Func("a"), hl.Func("b"), hl.Func("c")
    a[x] = hl.cast(hl.Float(32), x)
    b[y] = hl.cast(hl.Float(32), y * 3)
    c[x, y] = a[x] + 100 * b[y]
    c.tile(x, y, xi, yi, 32, 32, ROUND_UP).gpu_blocks(x, y).gpu_lanes(xi)
    a.compute_at(c, x).gpu_lanes(x).store_in(hl.MemoryType.Register)
    b.compute_at(c, x).gpu_lanes(y).store_in(hl.MemoryType.Register)
    return c


@program(64, 4, registers={"s1": 4, "s2": 2, "s3": 1}, exchanges="any")
def downsample_by_eight() -> Any:
    """Pairs of neighbours, in lanes of one warp."""
    s1, s2, s3, out = hl.Func("s1"), hl.Func("s2"), hl.Func("s3"), hl.Func("out")
    s1[x, y] = (2 * x + y) + (2 * x + 1)
    s2[x, y] = s1[2 * x, y] + s1[2 * x + 1, y]
    s3[x, y] = s2[2 * x, y] + s2[2 * x + 1, y]
    out[x, y] = s3[x, y]
    out.split(x, x, xi, 32, ROUND_UP).split(y, y, yi, 2).reorder(xi, yi, x, y)
    out.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    for stage in (s1, s2, s3):
        stage.compute_at(out, yi).split(x, x, xi, 32, ROUND_UP).unroll(x).gpu_lanes(xi)
    return out


@program(32, 16, registers={"lut": 8}, exchanges="any")
def table_in_registers() -> Any:
    """Which element is asked for depends on data."""
    lut, curved = hl.Func("lut"), hl.Func("curved")
    lut[x] = hl.cast(hl.UInt(16), x * x + 1)
    curved[x, y] = lut[hl.cast(hl.UInt(8), x * 37 + y * 11)]
    curved.tile(x, y, xi, yi, 32, 4).gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    lut.compute_at(curved, yi).split(x, xo, xi, 32).unroll(xo).gpu_lanes(xi)
    return curved


@program(41, 8, registers={"lut": 8}, exchanges="any")
def table_at_elements_of_an_input() -> Any:
    """Lanes behind the end of the output read nothing behind that of the input."""
    import numpy as np

    image = hl.Buffer((np.arange(41 * 8).reshape(8, 41) * 37 % 256).astype(np.uint8))
    lut, curved = hl.Func("lut"), hl.Func("curved")
    lut[x] = hl.cast(hl.UInt(16), x * x + 1)
    curved[x, y] = lut[image[x, y]]
    curved.tile(x, y, xi, yi, 32, 4, GUARD).gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    lut.compute_at(curved, yi).split(x, xo, xi, 32).unroll(xo).gpu_lanes(xi)
    return curved


@program(64, 12, registers={"f": 12}, exchanges="up down")
def several_rows() -> Any:
    """34 elements a row: rows are made 64 long, so that a lane's elements stay its own."""
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 3 + y * y
    g[x, y] = f[x - 1, y] + f[x + 1, y + 1] + f[x, y + 2]
    g.split(x, x, xi, 32, ROUND_UP).split(y, y, yi, 4).reorder(xi, yi, x, y).unroll(yi)
    g.gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, ROUND_UP).unroll(xo).unroll(y)
    f.reorder(xi, xo, y).gpu_lanes(xi)
    return g


@program(64, 5, registers={"f": 1, "h": 1}, exchanges="down")
def window_in_registers() -> Any:
    """A serial loop in the block around loops over lanes."""
    f, h, g = hl.Func("f"), hl.Func("h"), hl.Func("g")
    f[x, y] = x * 3 + y
    h[x, y] = f[x, y] + f[x + 1, y]
    g[x, y] = h[x, y] * 2 + h[x + 2, y]
    g.split(x, x, xi, 16, ROUND_UP).reorder(xi, y, x).gpu_blocks(x).gpu_lanes(xi)
    f.compute_at(g, y).gpu_lanes(x)
    h.compute_at(g, y).gpu_lanes(x)
    return g


@program(64, 6, registers={"f": 1}, exchanges="down")
def branches_that_lanes_take() -> Any:
    """Exchanges in code that only some lanes run."""
    f, g = hl.Func("f"), hl.Func("g")
    r = hl.RDom([(0, 3)], "r")
    f[x, y] = x * 3 + y
    g[x, y] = 0
    r.where((x + r.x) % 3 != 0)
    g[x, y] += f[x + r.x, y]
    g.compute_root().gpu_tile(x, y, xi, yi, 8, 2)
    g.update().split(x, x, xi, 16, GUARD).reorder(r.x, xi, x, y).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).gpu_lanes(x)
    return g


@program(64, 6, shared=("f",))
def clamped_stores() -> Any:
    """The last part of a producer shifts inwards: its lanes store what others hold."""
    f, g = stencil()
    g.split(x, x, xi, 32).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, hl.TailStrategy.ShiftInwards).gpu_lanes(xi)
    return g


@program(64, 6, registers={"f": 1}, exchanges="any")
def clamped_loads() -> Any:
    """Mirrored indices are loads from any lane."""
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 3 + y
    g[x, y] = f[31 - x % 32, y] + f[hl.clamp(x, 3, 20), y]
    g.split(x, x, xi, 32).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).bound_extent(x, 32).gpu_lanes(x)
    return g


@program(32, 6, shared=("f",))
def one_lane_for_all() -> Any:
    """The first lane computes what all of them use."""
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 3 + y
    g[x, y] = f[x, y] + 1
    g.split(x, x, xi, 32).split(y, y, yi, 2).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi)
    return g


@program(32, 6, registers={"f": 1}, exchanges="any")
def a_single_element() -> Any:
    """The first lane computes one element that all of them use."""
    f, g = hl.Func("f"), hl.Func("g")
    f[y] = y * y
    g[x, y] = f[y] + x
    g.split(x, x, xi, 32).split(y, y, yi, 2).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi)
    return g


@program(64, 4, shared=("f",))
def between_warps() -> Any:
    """Above a loop over warps: shared, as in any block."""
    f, g = stencil()
    g.split(x, x, xi, 32, ROUND_UP).split(y, y, yi, 2).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, ROUND_UP).gpu_threads(y).gpu_lanes(xi)
    return g


@program(64, 6, registers={"f": 2}, shared=("h",), exchanges="up down")
def beside_as_many_threads_as_the_call_says() -> Any:
    """Rows of threads stay whole warps."""
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    n = hl.Param(hl.Int(32), "n", 40)
    f[x, y] = x * 3 + y * 7
    h[x, y] = x + y
    g[x, y] = f[x - 1, y] + f[x + 1, y] + h[x, y]
    g.split(x, x, xi, 32, ROUND_UP).split(y, y, yi, 2).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    h.compute_at(g, x).bound_extent(x, n).gpu_threads(y, x)
    f.compute_at(g, yi).split(x, xo, xi, 32, ROUND_UP).unroll(xo).gpu_lanes(xi)
    return g


@program(64, 4, registers={"f": 2}, exchanges="up down")
def realized_twice() -> Any:
    """Two copies of a Func in an unrolled loop do not hide each other."""
    f, g = stencil()
    g.split(x, x, xi, 32, ROUND_UP).split(y, y, yi, 2).reorder(xi, yi, x, y).unroll(yi)
    g.gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, yi).split(x, xo, xi, 32, ROUND_UP).unroll(xo).gpu_lanes(xi)
    return g


@program(64, 4, registers={"f.0": 2, "f.1": 2}, exchanges="up down")
def tuples() -> Any:
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = (x * 3 + y, hl.cast(hl.UInt(8), x))
    g[x, y] = f[x - 1, y][0] + f[x + 1, y][1]
    g.split(x, x, xi, 32, ROUND_UP).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, ROUND_UP).unroll(xo).gpu_lanes(xi)
    return g
