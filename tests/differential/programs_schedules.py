"""Programs of wrappers, stages computed together, storage and tails."""

from __future__ import annotations

from typing import Any

from tests.differential.program_list import A32, PROGRAMS, V, im, prog

for k in range(5):

    def fn(hl: Any, k: Any = k) -> Any:
        x, y, xo, yo, xi, yi, u, v = V(hl)
        b = im(hl, A32)
        p = hl.Param(hl.Int(32), "p")
        p.set(k)
        f = hl.Func("f")
        f[x, y] = hl.select(p > 2, b[x, y] * p, b[x, y] + p)
        f.specialize(p == 0).vectorize(x, 4)
        f.specialize(p > 2).tile(x, y, xi, yi, 4, 4).parallel(y)
        s = f.specialize(f.output_buffer().width() > 3)
        s.vectorize(x, 8)
        s.specialize(p == 1).parallel(y)
        f.specialize_fail("no")
        return f

    PROGRAMS[f"spec{k}"] = (fn, [16, 12])


@prog([16, 12])
def inwrap(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = b[x, y] * 2
    g[x, y] = f[x, y] + 1
    h[x, y] = f[x, y] + g[x, y]
    f.in_(g).compute_at(h, y).vectorize(x, 4)
    f.in_(h).compute_root()
    g.compute_at(h, y)
    f.compute_root()
    return h


@prog([16, 12])
def inglobal(hl: Any) -> Any:
    x, y = V(hl)[:2]
    i = hl.ImageParam(hl.Int(32), 2)
    i.set(im(hl, A32))
    g, h = hl.Func("g"), hl.Func("h")
    g[x, y] = i[x, y] + 1
    h[x, y] = i[x, y] * 3 + g[x, y]
    i.in_().compute_at(h, y).vectorize(x, 4)
    g.compute_root()
    return h


@prog([16, 12])
def clone(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    r = hl.RDom([(0, 3)])
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = b[x, y] * 2
    f[x, y] += r.x
    g[x, y] = f[x, y] + 1
    h[x, y] = f[x, y] + g[x, y]
    c = f.clone_in(g)
    c.compute_at(g, y).vectorize(x, 4)
    c.update().vectorize(x, 4)
    g.compute_root()
    f.compute_at(h, x)
    return h


for k in range(4):

    def fn(hl: Any, k: Any = k) -> Any:
        x, y, xo, yo, xi, yi, u, v = V(hl)
        b = im(hl, A32)
        f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
        f[x, y] = b[x, y] * 2
        g[x, y] = b[x + 1, y] - 3
        h[x, y] = f[x, y] + g[x, y] * f[x, y + 1]
        f.compute_root()
        g.compute_root()
        if k == 0:
            f.compute_with(g, y)
        if k == 1:
            f.compute_with(g, x)
        if k == 2:
            f.compute_with(g, y, [(y, hl.LoopAlignStrategy.AlignEnd)])
        if k == 3:
            f.compute_at(h, yo)
            g.compute_at(h, yo)
            h.split(y, yo, yi, 4)
            f.vectorize(x, 4)
            g.vectorize(x, 4)
            f.compute_with(g, x)
        return h

    PROGRAMS[f"cw{k}"] = (fn, [12, 8])
# ---- storage/sliding
for k in range(8):

    def fn(hl: Any, k: Any = k) -> Any:
        x, y, xo, yo, xi, yi, u, v = V(hl)
        b = im(hl, A32)
        f, h = hl.Func("f"), hl.Func("h")
        f[x, y] = b[x, y] * 2 + x
        h[x, y] = f[x, y] + f[x + 1, y + 1] * f[x, y + 2]
        if k == 0:
            f.store_root().compute_at(h, y)
        if k == 1:
            f.store_root().compute_at(h, x)
        if k == 2:
            f.store_root().compute_at(h, y).fold_storage(y, 4)
        if k == 3:
            h.split(y, yo, yi, 5)
            f.store_at(h, yo).compute_at(h, yi).vectorize(x, 4)
            h.vectorize(x, 4).parallel(yo)
        if k == 4:
            f.compute_root().reorder_storage(y, x).align_storage(y, 8)
            h.reorder(y, x)
        if k == 5:
            f.compute_at(h, xo).store_in(hl.MemoryType.Stack)
            h.tile(x, y, xo, yo, xi, yi, 4, 4)
        if k == 6:
            f.hoist_storage(h, y).compute_at(h, x)
        if k == 7:
            f.compute_at(h, y).align_bounds(x, 4).vectorize(x, 4)
            h.bound(x, 0, 12)
        return h

    PROGRAMS[f"store{k}"] = (fn, [12, 8])
# ---- tails
for t in [
    "RoundUp",
    "GuardWithIf",
    "Predicate",
    "PredicateLoads",
    "PredicateStores",
    "ShiftInwards",
    "ShiftInwardsAndBlend",
    "RoundUpAndBlend",
]:
    for k in range(4):

        def fn(hl: Any, t: Any = t, k: Any = k) -> Any:
            x, y, xo, yo, xi, yi, u, v = V(hl)
            b = im(hl, A32)
            f, h = hl.Func("f"), hl.Func("h")
            f[x, y] = b[x, y] * 2 + x
            f[x, y] += b[x, y + 1]
            h[x, y] = f[x, y]
            ts = getattr(hl.TailStrategy, t)
            f.compute_root()
            if k == 0:
                f.vectorize(x, 4, ts)
            if k == 1:
                f.update().vectorize(x, 4, ts)
            if k == 2:
                h.vectorize(x, 4, ts)
            if k == 3:
                h.split(y, yo, yi, 3, ts).vectorize(x, 8, ts)
            return h

        PROGRAMS[f"tail_{t}_{k}"] = (fn, [13, 11])


@prog([13, 11])
def fuse_all(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    f = hl.Func("f")
    f[x, y] = x * 7 + y
    f.fuse(x, y, u).split(u, xo, xi, 4, hl.TailStrategy.GuardWithIf).vectorize(xi).parallel(xo)
    return f


@prog([13, 11])
def fuse_tiles(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    f = hl.Func("f")
    f[x, y] = x * 7 + y
    f.tile(x, y, xo, yo, xi, yi, 4, 4).fuse(xo, yo, u).parallel(u).rename(xi, v).vectorize(v)
    return f


@prog([9, 7])
def tupleout(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f = hl.Func("f")
    f[x, y] = (x + y, hl.f32(x * y))
    f[x, 0] = (f[x, 0][0] * 2, f[x, 0][1] + 1)
    return f


@prog([9])
def implicit(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y * 2
    g[x, hl._] = f[x, hl._] * 2
    h = hl.Func("h")
    h[x] = g[x, 3] + hl.Func(hl.Expr(hl._0) + 5)[x]
    return h


@prog([9])
def looplevel(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * 2
    g[x] = f[x] + f[x + 1]
    l = hl.LoopLevel()
    f.compute_at(l)
    l.set(hl.LoopLevel(g, x))
    return g


@prog([17, 13])
def pref(hl: Any) -> Any:
    x, y = V(hl)[:2]
    i = hl.ImageParam(hl.Int(32), 2)
    i.set(im(hl, A32))
    g = hl.Func("g")
    g[x, y] = i[x, y] * 2
    g.prefetch(i, y, y, 2)
    return g
