"""Programs in which several directives meet."""

from __future__ import annotations

from typing import Any

from tests.differential.program_list import A32, V, im, prog


@prog([16, 12])
def multi_updates_cw(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A32)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    r = hl.RDom([(0, 3)])
    f[x, y] = b[x, y]
    f[x, y] += r
    g[x, y] = b[x, y] * 2
    g[x, y] -= r * 2
    h[x, y] = f[x, y] * g[x, y]
    f.compute_root()
    g.compute_root()
    f.compute_with(g, y)
    f.update().compute_with(g.update(), y)
    return h


@prog([16, 12])
def cw_three(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A32)
    fs = [hl.Func(f"f{i}") for i in range(3)]
    h = hl.Func("h")
    for i, f in enumerate(fs):
        f[x, y] = b[x, hl.min(y + i, 12)] * (i + 1)
    h[x, y] = fs[0][x, y] + fs[1][x, y] * fs[2][x, y]
    h.tile(x, y, xo, yo, xi, yi, 8, 4)
    for f in fs:
        f.compute_at(h, xo).vectorize(x, 4)
    fs[1].compute_with(fs[0], x)
    fs[2].compute_with(fs[0], x)
    return h


@prog([16, 12])
def nested_in(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = b[x, y] * 2
    g[x, y] = f[x, y] + 1
    h[x, y] = g[x, y] * 2
    w = f.in_(g)
    w2 = w.in_(g)
    f.compute_root()
    w.compute_root()
    w2.compute_at(h, y)
    g.compute_at(h, y)
    return h


@prog([16, 12])
def in_then_global(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = b[x, y] * 2
    g[x, y] = f[x, y] + 1
    h[x, y] = g[x, y] * 2 + f[x, y]
    f.in_(g).compute_root()
    f.in_().compute_at(h, y)
    f.compute_root()
    return h


@prog([16])
def rdom_param(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    n = hl.Param(hl.Int(32), "n")
    n.set(7)
    r = hl.RDom([(2, n), (n - 5, 3)])
    f = hl.Func("f")
    f[x] = x
    f[x] += b[r.x, r.y] * x
    f.update().split(x, hl.Var("xo"), hl.Var("xi"), 4)
    return f


@prog([9])
def rdom_param_zero(hl: Any) -> Any:
    x, y = V(hl)[:2]
    n = hl.Param(hl.Int(32), "n")
    n.set(0)
    r = hl.RDom([(0, n)])
    f = hl.Func("f")
    f[x] = x
    f[x] += r + 1
    return f


@prog([9])
def rdom_neg(hl: Any) -> Any:
    x, y = V(hl)[:2]
    r = hl.RDom([(-3, 7)])
    f = hl.Func("f")
    f[x] = hl.sum(hl.select(r.x < 0, 1, r.x) * x)
    return f


@prog([16])
def rf_where_split(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A32)
    r = hl.RDom([(0, 15), (0, 11)])
    r.where(r.x + r.y < 17)
    r.where((r.x - r.y) % 2 == 0)
    f = hl.Func("f")
    f[x] = 0
    f[x] += b[r.x, r.y] * (x + 1)
    rxo, rxi, ryo, ryi = [hl.RVar(n) for n in "rxo rxi ryo ryi".split()]
    i = f.update().split(r.x, rxo, rxi, 4).split(r.y, ryo, ryi, 3).rfactor([(rxi, u), (ryo, v)])
    i.compute_root().vectorize(x, 8).update().vectorize(x, 8)
    return f


@prog([16])
def rf_twice(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A32)
    r = hl.RDom([(0, 16), (0, 12)])
    f = hl.Func("f")
    f[x] = 0
    f[x] = hl.max(f[x], b[r.x, r.y] * (x - 5))
    i = f.update().rfactor(r.y, u)
    i.compute_root()
    j = i.update().rfactor(r.x, v)
    j.compute_at(i, u)
    return f


@prog([16])
def rf_fused_with_var_split(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A32)
    r = hl.RDom([(0, 16), (0, 12)])
    f = hl.Func("f")
    f[x] = 0
    f[x] += b[r.x, r.y] * x
    f.update().split(x, xo, xi, 8, hl.TailStrategy.GuardWithIf).reorder(xi, r.x, r.y, xo)
    i = f.update().rfactor(r.y, u)
    i.compute_root()
    return f


@prog([20, 3])
def upd_specialize(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    im(hl, A32)
    p = hl.Param(hl.Bool(), "p")
    p.set(True)
    r = hl.RDom([(0, 4)])
    f = hl.Func("f")
    f[x, y] = 0
    f[x, y] += r * x
    f.update().specialize(p).vectorize(x, 4)
    g = hl.Func("g")
    g[x, y] = f[x, y] + y
    f.compute_root()
    g.specialize(p).unroll(x, 2)
    return g


@prog([20])
def tuple_update(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f = hl.Func("f")
    r = hl.RDom([(0, 20)])
    f[x] = (x, hl.u8(x * 3))
    f[r.x] = (f[r.x][0] + f[19 - r.x][0], f[r.x][1] + hl.u8(1))
    g = hl.Func("g")
    f.compute_root()
    g[x] = f[x][0] * 256 + hl.i32(f[x][1])
    g.vectorize(x, 4)
    return g


@prog([20])
def tuple_out_vec(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f = hl.Func("f")
    f[x] = (x * 2, hl.f32(x) / 3, hl.u8(x))
    f.vectorize(x, 8, hl.TailStrategy.GuardWithIf)
    return f


@prog([20, 5])
def undef_part(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f = hl.Func("f")
    f[x, y] = x + y
    f[x, y] = hl.select((x + y) % 3 == 0, f[x, y] * 2, hl.undef(hl.Int(32)))
    f.update().vectorize(x, 4)
    return f


@prog([20, 5])
def lets(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    e = hl.f32(x) * 1.5 + hl.sqrt(hl.f32(y))
    g[x, y] = e * e
    f[x, y] = g[x, y] + g[y, x]
    g.compute_root()
    return f


@prog([20, 10])
def scatter_to_self_param(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    f = hl.Func("f")
    r = hl.RDom([(0, 17), (0, 13)])
    f[x, y] = 0
    f[hl.clamp(hl.i32(b[r.x, r.y]) // 16, 0, 15), r.y % 10] += r.x
    return f


@prog([24, 20])
def tiles_nested(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl)
    c = hl.BoundaryConditions.repeat_edge(b)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = hl.u16(c[x, y]) * 3
    g[x, y] = f[x - 1, y] + f[x + 1, y]
    h[x, y] = g[x, y - 1] + g[x, y + 1]
    xio, yio, xii, yii = hl.vars("xio yio xii yii")
    h.tile(x, y, xo, yo, xi, yi, 12, 10).tile(xi, yi, xio, yio, xii, yii, 4, 5).vectorize(
        xii
    ).parallel(yo)
    g.compute_at(h, xio).vectorize(x, 4)
    f.compute_at(h, xo).vectorize(x, 8)
    return h


@prog([24, 20])
def slide_two(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl)
    c = hl.BoundaryConditions.mirror_image(b)
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = hl.u16(c[x, y]) * 3
    g[x, y] = f[x, y - 1] + f[x, y + 1]
    h[x, y] = g[x - 1, y - 1] + g[x + 1, y + 1]
    h.split(y, yo, yi, 7)
    f.store_at(h, yo).compute_at(h, yi)
    g.store_at(h, yo).compute_at(h, yi).vectorize(x, 8)
    return h


@prog([24, 20])
def slide_backwards(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, h = hl.Func("f"), hl.Func("h")
    f[x, y] = x * y
    h[x, y] = f[x, 19 - y] + f[x, 20 - y]
    f.store_root().compute_at(h, y)
    return h


@prog([24, 20])
def downup(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    c = hl.BoundaryConditions.repeat_edge(b)
    d, up, h = hl.Func("d"), hl.Func("up"), hl.Func("h")
    d[x, y] = (hl.u16(c[2 * x, 2 * y]) + c[2 * x + 1, 2 * y] + c[2 * x, 2 * y + 1]) // 3
    up[x, y] = d[x // 2, y // 2] + d[(x + 1) // 2, y // 2]
    h[x, y] = up[x, y] + c[x, y]
    d.compute_root().vectorize(x, 4)
    up.compute_at(h, y).vectorize(x, 8)
    h.vectorize(x, 8)
    return h


@prog([24, 20])
def unroll_c(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    f = hl.Func("f")
    f[x, y] = x * y + x % 3
    f.bound(y, 0, 20).unroll(y, 5).reorder(x, y).vectorize(x, 8).never_partition_all()
    return f


@prog([24, 20])
def aligned(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * y
    g[x, y] = f[x + 1, y] + f[x + 3, y]
    f.compute_at(g, y).align_bounds(x, 8, 1).vectorize(x, 8).align_storage(x, 16).bound_storage(
        x, 64
    )
    return g


@prog([24, 20])
def align_ext(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * y
    g[x, y] = f[x + 1, y] + f[x + 3, y]
    f.compute_at(g, y).align_extent(x, 8).vectorize(x, 8)
    return g


@prog([40])
def fold_explicit(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * x
    g[x] = f[x] + f[x + 1] + f[x + 2]
    f.store_root().compute_at(g, x).fold_storage(x, 4)
    return g


@prog([40])
def fold_too_small(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = x * x
    g[x] = f[x] + f[x + 1] + f[x + 2]
    f.store_root().compute_at(g, x).fold_storage(x, 2)
    return g


@prog([16, 12])
def reorder_out(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f = hl.Func("f")
    f[x, y] = x * 100 + y
    f.reorder(y, x).vectorize(y, 4).unroll(x, 2)
    return f


@prog([16, 12])
def dim_order_3(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    g = hl.Func("g")
    c = hl.Var("c")
    g[x, y, c] = x + y * 10 + c * 100
    g.compute_root().reorder_storage(c, x, y).bound(c, 0, 3).reorder(c, x, y).unroll(c).vectorize(
        x, 4
    )
    f = hl.Func("f")
    f[x, y] = g[x, y, 0] + g[x, y, 1] * g[x, y, 2]
    return f


@prog([16])
def sum_in_sum_same(hl: Any) -> Any:
    x, y = V(hl)[:2]
    r = hl.RDom([(0, 5)])
    f = hl.Func("f")
    f[x] = hl.sum(x * r) + hl.sum(x + r) * hl.maximum(r.x % 3)
    return f


@prog([16])
def sum_into_update(hl: Any) -> Any:
    x, y = V(hl)[:2]
    r = hl.RDom([(0, 5)])
    q = hl.RDom([(0, 3)])
    f = hl.Func("f")
    f[x] = 0
    f[r.x] += hl.sum(q, q.x * r.x)
    return f


@prog([16])
def saturating(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    r = hl.RDom([(0, 13)])
    f = hl.Func("f")
    f[x] = hl.u8(0)
    f[x] = hl.saturating_add(f[x], b[x, r])
    f.update().reorder(x, r.x).vectorize(x, 8)
    return f


@prog([16, 4])
def atomic_2d(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    r = hl.RDom([(0, 16), (0, 13)])
    f = hl.Func("f")
    f[x, y] = 0
    f[hl.i32(b[r.x, r.y]) % 16, y] += r.x * y
    f.update().atomic().parallel(r.y).vectorize(r.x, 4)
    return f


@prog([3])
def atomic_mul(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    r = hl.RDom([(0, 16), (0, 13)])
    f = hl.Func("f")
    f[x] = 1
    f[hl.i32(b[r.x, r.y]) % 3] *= 3
    f.update().atomic().parallel(r.y)
    return f


@prog([3])
def atomic_max_vec(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl, A32)
    r = hl.RDom([(0, 16), (0, 13)])
    f = hl.Func("f")
    f[x] = -5000
    f[x] = hl.max(f[x], b[r.x, r.y] * (x - 1))
    f.update().atomic().vectorize(r.x, 8)
    return f


@prog([8, 8])
def matmul(hl: Any) -> Any:
    x, y, xo, yo, xi, yi, u, v = V(hl)
    b = im(hl, A32)
    k = hl.RDom([(0, 12)])
    f = hl.Func("f")
    f[x, y] = 0
    f[x, y] += b[k, y] * b[x, k]
    g = hl.Func("g")
    g[x, y] = f[x, y]
    g.tile(x, y, xi, yi, 4, 4).vectorize(xi).unroll(yi)
    f.compute_at(g, x).vectorize(x, 4).unroll(y)
    f.update().reorder(x, y, k).vectorize(x, 4).unroll(y).unroll(k, 2)
    return g


@prog([12, 9])
def implicit_bc(hl: Any) -> Any:
    x, y = V(hl)[:2]
    b = im(hl)
    f = hl.Func("f")
    f[hl._] = hl.BoundaryConditions.repeat_edge(b)[hl._]
    g = hl.Func("g")
    g[x, y] = f[x - 3, y - 3]
    return g


@prog([12, 9])
def async_memo(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y
    g[x, y] = f[x, y] * 2
    f.compute_root().memoize()
    return g


@prog([10])
def loop_level_stage(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    r = hl.RDom([(0, 10)])
    f[x] = x * 3
    g[x] = f[x]
    g[r.x] += f[r.x + 1]
    f.compute_at(hl.LoopLevel.root())
    return g


@prog([10])
def compute_at_rvar(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f, g = hl.Func("f"), hl.Func("g")
    r = hl.RDom([(0, 10)])
    f[x] = x * 3
    g[x] = 0
    g[r.x] += f[r.x + 1]
    f.compute_at(g, r.x)
    return g


@prog([10, 10])
def triangular_solve(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f = hl.Func("f")
    r = hl.RDom([(0, 10), (0, 10)])
    r.where(r.x < r.y)
    f[x, y] = x + y * 2
    f[x, r.y] += f[x, r.x]
    f.update().reorder(x, r.x, r.y).vectorize(x, 4, hl.TailStrategy.GuardWithIf)
    return f


@prog([10, 10])
def blend(hl: Any) -> Any:
    x, y = V(hl)[:2]
    f = hl.Func("f")
    r = hl.RDom([(0, 5)])
    f[x, y] = x + y
    f[x, r] = f[x, r] * 2 + 1
    f.update().vectorize(x, 4, hl.TailStrategy.ShiftInwardsAndBlend)
    return f


@prog([37])
def vec_nonpow(hl: Any) -> Any:
    x = V(hl)[0]
    f = hl.Func("f")
    f[x] = hl.u16(x) * 3
    f.vectorize(x, 6, hl.TailStrategy.GuardWithIf)
    return f


@prog([37])
def split_param(hl: Any) -> Any:
    x, _, xo, _, xi = V(hl)[:5]
    p = hl.Param(hl.Int(32), "p")
    p.set(5)
    f = hl.Func("f")
    f[x] = x * 3
    f.split(x, xo, xi, p).reorder(xo, xi)
    return f


@prog([7, 5])
def zero_dim_use(hl: Any) -> Any:
    x, y = V(hl)[:2]
    z, f = hl.Func("z"), hl.Func("f")
    r = hl.RDom([(0, 4)])
    z[()] = 1
    z[()] += r
    f[x, y] = x * z[()] + y
    z.compute_root()
    return f


@prog([5])
def sel_tuple(hl: Any) -> Any:
    x = V(hl)[0]
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = (x, x * 2)
    g[x] = f[x][0] + f[x][1]
    return g
