"""Programs of boundary conditions and reductions, built for either module."""

from __future__ import annotations

from typing import Any

from tests.differential.program_list import A8, A32, PROGRAMS, F, V, im, prog

for kind in ["repeat_edge", "repeat_image", "mirror_image", "mirror_interior", "constant_exterior"]:
    for sched in range(4):

        def fn(hl: Any, kind: Any = kind, sched: Any = sched) -> Any:
            x, y, xo, yo, xi, yi, u, v = V(hl)
            b = im(hl)
            bc = getattr(hl.BoundaryConditions, kind)
            g = bc(b, hl.u8(7)) if kind == "constant_exterior" else bc(b)
            f = hl.Func("f")
            f[x, y] = hl.i32(g[x - 20, y - 17]) + g[x + 3 - 20, y - 17 + 1]
            if sched == 1:
                f.vectorize(x, 8)
            if sched == 2:
                f.tile(x, y, xi, yi, 8, 4).vectorize(xi).unroll(yi).parallel(y)
            if sched == 3:
                g.compute_root()
                f.vectorize(x, 16, hl.TailStrategy.GuardWithIf).split(y, yo, yi, 5).reorder(
                    yi, x, yo
                )
            return f

        PROGRAMS[f"bc_{kind}_{sched}"] = (fn, [64, 48])


@prog([30, 20])
def bc_func_bounds(hl: Any) -> Any:
    x, y = V(hl)[:2]
    s = hl.Func("s")
    s[x, y] = x * 3 + y
    g = hl.BoundaryConditions.repeat_edge(s, [(2, 5), (hl.Expr(), hl.Expr())])
    f = hl.Func("f")
    f[x, y] = g[x, y]
    return f


# ---- reductions
@prog([17, 13])
def sums(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    g = hl.BoundaryConditions.repeat_edge(b)
    r = hl.RDom([(-1, 3), (-2, 4)])
    f = hl.Func("f")
    f[x, y] = hl.sum(g[x + r.x, y + r.y]) * hl.maximum(g[x + r.x, y + r.y]) - hl.minimum(
        g[x + r.x, y]
    )
    return f


@prog([17])
def argm(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A8)
    r = hl.RDom([(0, 13)])
    f = hl.Func("f")
    a = hl.argmax(b[x, r.x])
    c = hl.argmin(b[x, r.x])
    f[x] = a[0] * 1000 + hl.i32(a[1]) + c[0] * 100000 + hl.i32(c[1]) * 7
    f.vectorize(x, 4, hl.TailStrategy.GuardWithIf)
    return f


@prog([13])
def argm2(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A8)
    r = hl.RDom([(0, 17), (0, 3)])
    f = hl.Func("f")
    a = hl.argmax(hl.i32(b[r.x, hl.min(x + r.y, 12)]) % 50)
    f[x] = a[0] * 1000 + a[1] + a[2] * 77
    return f


@prog([12])
def nested_sum(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    r = hl.RDom([(0, 4)], "r")
    q = hl.RDom([(0, 3)], "q")
    f = hl.Func("f")
    f[x] = hl.sum(r, hl.sum(q, b[x + q, r]) * r)
    return f


@prog([12])
def prod(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A8)
    r = hl.RDom([(0, 4)], "r")
    f = hl.Func("f")
    f[x] = hl.product(hl.f32(b[x + r, 3]) / 128)
    return f


@prog([256])
def hist(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    r = hl.RDom(b)
    h = hl.Func("h")
    h[x] = 0
    h[hl.i32(b[r.x, r.y])] += 1
    return h


for k in range(9):

    def fn(hl: Any, k: Any = k) -> Any:
        x, y, xo, yo, xi, yi, u, v = V(hl)
        b = im(hl)
        r = hl.RDom([(0, 17), (0, 13)])
        h = hl.Func("h")
        h[x] = 0
        h[hl.i32(b[r.x, r.y])] += 1
        rxo, rxi, rf, ryo, ryi = [hl.RVar(n) for n in "rxo rxi rf ryo ryi".split()]
        s = h.update()
        if k == 0:
            s.rfactor(r.y, u).compute_root().update().parallel(u)
        if k == 1:
            s.split(r.x, rxo, rxi, 4).rfactor(rxi, u).compute_root().update().vectorize(u)
        if k == 2:
            s.split(r.x, rxo, rxi, 5).rfactor(rxo, u).compute_root()
        if k == 3:
            s.fuse(r.x, r.y, rf).split(rf, rxo, rxi, 7).rfactor(rxi, u).compute_root().vectorize(
                u, 8
            )
        if k == 4:
            s.split(r.y, ryo, ryi, 4).split(r.x, rxo, rxi, 8).rfactor(
                [(ryo, u), (rxi, v)]
            ).compute_root().update().vectorize(v, 4).parallel(u)
        if k == 5:
            s.atomic().parallel(r.y)
        if k == 6:
            s.atomic().vectorize(r.x, 8)
        if k == 7:
            s.unroll(r.x, 3)
            h.vectorize(x, 8)
        if k == 8:
            s.split(r.x, rxo, rxi, 4).reorder(rxi, r.y, rxo)
        return h

    PROGRAMS[f"hist_sched{k}"] = (fn, [256])


@prog([17])
def colsum_vec(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    r = hl.RDom([(0, 13)])
    h = hl.Func("h")
    h[x] = hl.u16(0)
    h[x] += b[x, r]
    h.update().reorder(x, r).vectorize(x, 4)
    return h


@prog([])
def total_atomic(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    r = hl.RDom(b)
    h = hl.Func("h")
    h[()] = 0
    h[()] += b[r.x, r.y]
    h.update().atomic().vectorize(r.x, 8)
    return h


@prog([])
def total_rf(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, F)
    r = hl.RDom(b)
    h = hl.Func("h")
    h[()] = hl.f32(0)
    h[()] += b[r.x, r.y]
    rxo, rxi = hl.RVar("rxo"), hl.RVar("rxi")
    h.update().split(r.x, rxo, rxi, 8).rfactor([(rxi, u), (r.y, v)]).compute_root().vectorize(
        u
    ).update().vectorize(u).parallel(v)
    return h


@prog([])
def maxtuple_rf(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A32)
    r = hl.RDom(b)
    h = hl.Func("h")
    h[()] = (0, 0, -(2**30))
    c = b[r.x, r.y] > h[()][2]
    h[()] = (
        hl.select(c, r.x, h[()][0]),
        hl.select(c, r.y, h[()][1]),
        hl.select(c, b[r.x, r.y], h[()][2]),
    )
    try:
        h.update().rfactor(r.y, u).compute_root()
    except Exception:
        pass
    g = hl.Func("g")
    h.compute_root()
    g[()] = h[()][0] * 10000 + h[()][1] * 100 + h[()][2]
    return g


@prog([])
def complex_rf(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A8)
    r = hl.RDom([(0, 6), (0, 4)])
    h = hl.Func("h")
    h[()] = (1, 0)
    p, q = hl.i32(b[r.x, r.y]) % 3 - 1, hl.i32(b[r.y, r.x]) % 3 - 1
    z = h[()]
    h[()] = (z[0] * p - z[1] * q, z[1] * p + z[0] * q)
    h.update().rfactor(r.y, u).compute_root()
    h.compute_root()
    g = hl.Func("g")
    g[()] = h[()][0] * 1000 + h[()][1]
    return g


# ---- RDom where
for k in range(4):

    def fn(hl: Any, k: Any = k) -> Any:
        x, y, xo, yo, xi, yi, u, v = V(hl)
        b = im(hl, A32)
        r = hl.RDom([(0, 12), (0, 12)])
        r.where(r.x < r.y)
        r.where(b[r.x, r.y] > -500)
        h = hl.Func("h")
        h[x] = 0
        h[x] += b[r.x, r.y] * (x + 1)
        if k == 1:
            h.update().reorder(x, r.x, r.y).vectorize(x, 4)
        if k == 2:
            h.update().rfactor(r.y, u).compute_root().update().vectorize(u, 4)
        if k == 3:
            h.update().unroll(r.x, 4).parallel(x)
        return h

    PROGRAMS[f"where{k}"] = (fn, [8])


@prog([16, 16])
def tri(hl: Any) -> Any:
    x, y = V(hl)[:2]
    r = hl.RDom([(0, 16), (0, 16)])
    r.where(r.x <= r.y)
    f = hl.Func("f")
    f[x, y] = 0
    f[r.x, r.y] = r.x + r.y * 2
    f.update().vectorize(r.x, 4)
    return f


@prog([20])
def scan1(hl: Any) -> Any:
    x, y = V(hl)[:2]
    r = hl.RDom([(1, 19)])
    f = hl.Func("f")
    f[x] = x
    f[r.x] = f[r.x - 1] + f[r.x]
    g = hl.Func("g")
    g[x] = f[x] * 2
    f.compute_root()
    return g


@prog([16, 12])
def iir(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, F)
    r = hl.RDom([(1, 11)])
    f = hl.Func("f")
    f[x, y] = hl.undef(hl.Float(32))
    f[x, 0] = b[x, 0]
    f[x, r.x] = f[x, r.x - 1] * 0.5 + b[x, r.x] * 0.25
    f[x, 11 - r.x] = f[x, 12 - r.x] * 0.5 + f[x, 11 - r.x]
    f.update(1).reorder(x, r.x).vectorize(x, 8)
    f.update(2).split(x, xo, xi, 4).reorder(xi, r.x, xo).vectorize(xi).parallel(xo)
    return f


# ---- specialize / in_ / clone / compute_with
