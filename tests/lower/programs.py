"""Small pipelines, one for each thing that scheduling can do, for golden texts and the wheel.

Each function takes the module (`bayplan` or `halide`) and returns the output Func.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Enters a pipeline into the table."""
    PROGRAMS[build.__name__] = build
    return build


@program
def blur(hl: Any) -> Any:
    source = hl.ImageParam(hl.UInt(16), 2, "input")
    x, y, yi = hl.vars("x y yi")
    blur_x, blur_y = hl.Func("blur_x"), hl.Func("blur_y")
    blur_x[x, y] = (source[x, y] + source[x + 1, y] + source[x + 2, y]) / 3
    blur_y[x, y] = (blur_x[x, y] + blur_x[x, y + 1] + blur_x[x, y + 2]) / 3
    blur_y.split(y, y, yi, 32).parallel(y).vectorize(x, 16)
    blur_x.store_at(blur_y, y).compute_at(blur_y, x).vectorize(x, 16)
    return blur_y


@program
def inlined_update(hl: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 5), (0, 3)], "r")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y
    f[x, y] += r.x * y + r.y
    g[x, y] = f[x, y] + f[x + 1, y]
    return g


@program
def updates(hl: Any) -> Any:
    x, y, xo, xi, yo, yi, t = hl.vars("x y xo xi yo yi t")
    r = hl.RDom([(0, 50), (0, 3)], "r")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y
    f[x, y] += r.x * y + r.y
    f[r.x, y] = f[r.x, y] * 2
    g[x, y] = f[x, y] + f[x + 1, y]
    rxo, rxi = hl.RVar("rxo"), hl.RVar("rxi")
    f.compute_root().vectorize(x, 4).parallel(y)
    f.update(0).reorder(x, r.x, r.y, y).unroll(x, 2)
    f.update(1).split(r.x, rxo, rxi, 8)
    g.tile(x, y, xo, yo, xi, yi, 8, 4).fuse(xo, yo, t).parallel(t)
    return g


@program
def filtered(hl: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 20), (0, 20)], "r")
    r.where(r.x < r.y)
    r.where(r.x > 2)
    f = hl.Func("f")
    f[x] = 0
    f[r.x] += r.y
    return f


@program
def tails(hl: Any) -> Any:
    x, y, xo, xi, yo, yi = hl.vars("x y xo xi yo yi")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x + y
    g[x, y] = f[x, y] + 1
    h[x, y] = g[x, y] * 2
    f.compute_root().split(x, xo, xi, 8, hl.TailStrategy.RoundUp)
    f.split(y, yo, yi, 4, hl.TailStrategy.ShiftInwards)
    g.compute_root().split(x, xo, xi, 8, hl.TailStrategy.Predicate)
    h.split(x, xo, xi, 8, hl.TailStrategy.GuardWithIf)
    h.split(y, yo, yi, 4, hl.TailStrategy.GuardWithIf)
    return h


@program
def predicated_tails(hl: Any) -> Any:
    x, xo, xi = hl.vars("x xo xi")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x] = x
    g[x] = f[x] + 1
    h[x] = g[x] * 2
    f.compute_root()
    g.compute_root().split(x, xo, xi, 8, hl.TailStrategy.PredicateLoads)
    h.split(x, xo, xi, 8, hl.TailStrategy.PredicateStores)
    return h


@program
def blended_tails(hl: Any) -> Any:
    x, xo, xi = hl.vars("x xo xi")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x
    f[x] += 1
    g[x] = f[x] * 2
    g[x] += f[x]
    f.compute_root().update(0).split(x, xo, xi, 8, hl.TailStrategy.RoundUpAndBlend)
    g.update(0).split(x, xo, xi, 8, hl.TailStrategy.ShiftInwardsAndBlend)
    return g


@program
def together(hl: Any) -> Any:
    x, y, yi = hl.vars("x y yi")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x + y
    g[x, y] = x * y
    h[x, y] = f[x, y] + g[x + 1, y - 1]
    h.split(y, y, yi, 8)
    f.compute_at(h, y)
    g.compute_at(h, y)
    g.compute_with(f, x)
    return h


@program
def together_aligned(hl: Any) -> Any:
    x, y = hl.vars("x y")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x + y
    g[x, y] = x * y
    h[x, y] = f[x, y] + g[x + 1, y - 1]
    f.compute_root()
    g.compute_root()
    start, end = hl.LoopAlignStrategy.AlignStart, hl.LoopAlignStrategy.AlignEnd
    g.compute_with(f, y, [(x, start), (y, end)])
    return h


@program
def together_updates(hl: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 5)], "r")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x + y
    f[x, y] += r * 2
    g[x, y] = x * y
    g[x, y] += r
    h[x, y] = f[x, y] + g[x + 1, y - 1]
    f.compute_root()
    g.compute_root()
    g.compute_with(f, y)
    g.update(0).compute_with(f.update(0), y)
    return h


@program
def wrappers(hl: Any) -> Any:
    x, y = hl.vars("x y")
    f, g, h, k = hl.Func("f"), hl.Func("g"), hl.Func("h"), hl.Func("k")
    f[x, y] = x + y
    g[x, y] = f[x, y] + f[x + 1, y]
    h[x, y] = f[x, y] * 2
    k[x, y] = g[x, y] + h[x, y]
    f.compute_root()
    f.in_(g).compute_at(g, y)
    g.compute_root()
    h.compute_root()
    f.in_().compute_root()
    return k


@program
def clones(hl: Any) -> Any:
    x, y = hl.vars("x y")
    f, g, h, k = hl.Func("f"), hl.Func("g"), hl.Func("h"), hl.Func("k")
    f[x, y] = x + y
    g[x, y] = f[x, y] + f[x + 1, y]
    h[x, y] = f[x, y] * 2
    k[x, y] = g[x, y] + h[x, y]
    f.compute_root()
    f.clone_in(g).compute_at(g, y)
    g.compute_root()
    return k


@program
def specialized(hl: Any) -> Any:
    x, y = hl.vars("x y")
    p = hl.Param(hl.Int(32), "p")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y * p
    g[x, y] = hl.select(p == 3, f[x, y], f[x + 1, y] * 2)
    f.compute_at(g, y)
    g.specialize(p == 3).vectorize(x, 8)
    g.specialize(p > 5).unroll(x, 2)
    g.parallel(y)
    return g


@program
def hoisted(hl: Any) -> Any:
    x, y = hl.vars("x y")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y
    g[x, y] = f[x, y] + f[x + 1, y]
    f.compute_at(g, x).hoist_storage_root()
    return g


@program
def tuples(hl: Any) -> Any:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 9)], "r")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = (x + y, x * y)
    f[x, y] = (f[x, y][1] + r, f[x, y][0])
    g[x, y] = f[x, y][0] + f[x, y][1]
    f.compute_at(g, y)
    return g


@program
def bounded(hl: Any) -> Any:
    x, y, c = hl.vars("x y c")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y, c] = x + y + c
    g[x, y, c] = f[x, y, c] * 2
    g.bound(c, 0, 3).reorder(c, x, y).unroll(c)
    f.compute_at(g, y).bound_extent(c, 3).unroll(c).align_bounds(x, 8)
    return g


@program
def factored(hl: Any) -> Any:
    x, u = hl.vars("x u")
    r = hl.RDom([(0, 64)], "r")
    f = hl.Func("f")
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    f[x] = 0
    f[x] += r * x
    f.update(0).split(r, ro, ri, 8).rfactor(ri, u).compute_at(f, x).vectorize(u)
    return f


@program
def renamed(hl: Any) -> Any:
    x, y, z, w = hl.vars("x y z w")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y
    g[x, y] = f[x, y]
    g.rename(x, z).split(z, z, w, 4, hl.TailStrategy.GuardWithIf).reorder(z, w, y)
    f.compute_at(g, w)
    return g


@program
def pyramid(hl: Any) -> Any:
    x, y, yi = hl.vars("x y yi")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x * y
    g[x, y] = f[2 * x, 2 * y] + f[2 * x + 1, 2 * y + 1]
    h[x, y] = g[x / 2, y / 2] + f[x, y]
    h.split(y, y, yi, 4).parallel(y)
    g.compute_at(h, y)
    f.compute_at(h, y)
    return h
