"""What schedules and definitions can be beside blocks and threads: values are the evaluator's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate
from tests.devices.targets import TARGETS

Built = tuple[hl.Func, list[int]]
GUARD = hl.TailStrategy.GuardWithIf


def _pair() -> tuple[hl.Func, hl.Func]:
    x, y = hl.vars("x y")
    near, out = hl.Func("near"), hl.Func("out")
    near[x, y] = x * 3 - y * y
    out[x, y] = near[x, y] + near[x + 1, y]
    return near, out


def _specialized() -> Built:
    """Another kernel for each value of a parameter, and none for the others."""
    x, y, xi, yi = hl.vars("x y xi yi")
    p = hl.Param(hl.Int(32), "p", 3)
    near, out = hl.Func("near"), hl.Func("out")
    near[x, y] = x * p + y
    out[x, y] = near[x, y] + near[x + 1, y]
    out.specialize(p == 3).gpu_tile(x, y, xi, yi, 8, 4)
    out.specialize(p > 3).gpu_tile(x, y, xi, yi, 4, 4)
    near.compute_root().specialize(p == 3).gpu_tile(x, y, xi, yi, 8, 8)
    return out, [20, 9]


def _specialized_inside() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    p = hl.Param(hl.Int(32), "p", 3)
    near, out = _pair()
    out.gpu_tile(x, y, xi, yi, 8, 4)
    near.compute_at(out, x).specialize(p == 3).gpu_threads(x, y)
    near.specialize_fail("p is 3")
    return out, [20, 9]


def _wrapper_of_an_input() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    image = hl.ImageParam(hl.Float(32), 2, "image")
    image.set(hl.Buffer(np.random.default_rng(0).random((20, 30), dtype=np.float32)))
    f = hl.Func("f")
    f[x, y] = image[x, y] + image[x + 1, y + 2] * image[x + 3, y]
    f.gpu_tile(x, y, xi, yi, 8, 4)
    wrapper = image.in_(f)
    wrapper.compute_at(f, x).gpu_threads(*wrapper.args()[:2])
    return f, [20, 9]


def _clone() -> Built:
    """One copy on its own, one in the block."""
    x, y, xi, yi = hl.vars("x y xi yi")
    a, b, c, d = [hl.Func(n) for n in "abcd"]
    a[x, y] = x * y + 1
    b[x, y] = a[x, y] * 2
    c[x, y] = a[x + 1, y] * 3
    d[x, y] = b[x, y] + c[x, y]
    d.gpu_tile(x, y, xi, yi, 8, 4)
    b.compute_at(d, x).gpu_threads(x, y)
    c.compute_root().gpu_tile(x, y, xi, yi, 4, 4)
    a.clone_in(c).compute_root().gpu_tile(x, y, xi, yi, 8, 8)
    a.compute_at(d, x).gpu_threads(x, y)
    return d, [20, 9]


def _tuples() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    a, d = hl.Func("a"), hl.Func("d")
    a[x, y] = (x * y, hl.f32(x) + y, hl.u8(x))
    d[x, y] = (a[x, y][0] + a[x + 1, y][0], a[x, y][1] * 2, a[x, y][2] + hl.u8(1))
    d.gpu_tile(x, y, xi, yi, 8, 4)
    a.compute_at(d, x).gpu_threads(x, y)
    return d, [20, 9]


def _halves() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    f16 = hl.Float(16)
    a, d = hl.Func("a"), hl.Func("d")
    a[x, y] = hl.cast(f16, x) / hl.cast(f16, 3) + hl.cast(f16, y)
    d[x, y] = hl.f32(a[x, y] + a[x + 1, y])
    d.gpu_tile(x, y, xi, yi, 8, 4)
    a.compute_at(d, x).gpu_threads(x, y)
    return d, [20, 9]


def _truths() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    a, d = hl.Func("a"), hl.Func("d")
    a[x, y] = (x * y) % 3 == 1
    d[x, y] = hl.select(a[x, y] & ~a[x + 1, y], x, y)
    d.gpu_tile(x, y, xi, yi, 8, 4)
    a.compute_at(d, x).gpu_threads(x, y)
    return d, [20, 9]


def _tables() -> Built:
    """The values of a Buffer that the program holds, read by kernels and by the host."""
    x, y, xi, yi = hl.vars("x y xi yi")
    table = hl.Buffer(np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32))
    a, d = hl.Func("a"), hl.Func("d")
    a[x] = table[x % 8] * 2
    d[x, y] = a[x] + table[(x + y) % 8]
    d.gpu_tile(x, y, xi, yi, 8, 4)
    a.compute_root()
    return d, [20, 9]


def _numbers_drawn() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    a, d = hl.Func("a"), hl.Func("d")
    a[x, y] = hl.random_int(7) & 255
    d[x, y] = a[x, y] + 1
    d.gpu_tile(x, y, xi, yi, 8, 4)
    a.compute_at(d, x).gpu_threads(x, y)
    return d, [20, 9]


def _loops_in_common() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    a, b, d = hl.Func("a"), hl.Func("b"), hl.Func("d")
    a[x, y] = x + y
    b[x, y] = x - y
    d[x, y] = a[x, y] * b[x, y] + a[x + 1, y]
    d.gpu_tile(x, y, xi, yi, 8, 4)
    a.compute_at(d, x).gpu_threads(x, y)
    b.compute_at(d, x).gpu_threads(x, y).compute_with(a, x)
    return d, [20, 9]


def _one_kernel_for_two() -> Built:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    a, b, d = hl.Func("a"), hl.Func("b"), hl.Func("d")
    a[x, y] = x + y
    b[x, y] = x - y
    d[x, y] = a[x, y] * b[x, y]
    for f in (a, b):
        f.compute_root().gpu_tile(x, y, xo, yo, xi, yi, 8, 4)
    b.compute_with(a, xi)
    return d, [20, 9]


def _partial_sums() -> Built:
    x, u, xi, yi = hl.vars("x u xi yi")
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    data = hl.Buffer(np.random.default_rng(1).integers(0, 99, (5, 64)).astype(np.int32))
    r = hl.RDom([(0, 64), (0, 5)], "r")
    f = hl.Func("f")
    f[x] = 0
    f[x] += data[r.x, r.y] * (x + 1)
    f.update(0).split(r.x, ro, ri, 8)
    part = f.update(0).rfactor(ro, u)
    part.compute_root().gpu_tile(x, u, xi, yi, 4, 4)
    part.update(0).gpu_tile(x, u, xi, yi, 4, 4)
    f.gpu_tile(x, xi, 4).update(0).gpu_tile(x, xi, 4)
    return f, [9]


def _window_of_a_thread() -> Built:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    a, d = hl.Func("a"), hl.Func("d")
    a[x, y] = x * x + y
    d[x, y] = a[x, y] + a[x, y + 1] + a[x, y + 2]
    d.split(x, xo, xi, 8).split(y, yo, yi, 8).reorder(yi, xi, xo, yo)
    d.gpu_blocks(xo, yo).gpu_threads(xi)
    a.store_at(d, xi).compute_at(d, yi)
    return d, [20, 19]


def _window_of_a_block() -> Built:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    a, d = hl.Func("a"), hl.Func("d")
    a[x, y] = x * x + y
    d[x, y] = a[x, y] + a[x, y + 1] + a[x, y + 2]
    d.split(x, xo, xi, 8).split(y, yo, yi, 8).reorder(xi, yi, xo, yo)
    d.gpu_blocks(xo, yo).gpu_threads(xi)
    a.store_at(d, xo).compute_at(d, yi).gpu_threads(x).fold_storage(y, 3)
    return d, [20, 19]


def _storage_directives() -> Built:
    """Longer rows, another order of dimensions, more storage than loops; rows fetched ahead."""
    x, y, xi, yi = hl.vars("x y xi yi")
    near, out = _pair()
    out.gpu_tile(x, y, xi, yi, 8, 4)
    near.compute_at(out, x).gpu_threads(x, y)
    near.align_storage(y, 7).reorder_storage(y, x)
    out.prefetch(near, yi, yi, 1)
    return out, [20, 9]


def _five_dimensions() -> Built:
    a, b, c, d, e = every = hl.vars("a b c d e")
    f, h = hl.Func("f"), hl.Func("h")
    f[every] = a + 2 * b + 3 * c + 5 * d + 7 * e
    h[every] = f[every] + f[a + 1, b, c, d, e]
    h.fuse(d, e, d).gpu_blocks(b, c, d).gpu_threads(a)
    f.compute_root().gpu_blocks(a, b, c)
    return h, [4, 3, 2, 3, 2]


def _one_thread() -> Built:
    x, xi = hl.vars("x xi")
    r = hl.RDom([(0, 100)], "r")
    f, h = hl.Func("f"), hl.Func("h")
    f[()] = 0
    f[()] += r
    h[x] = f[()] + x
    f.compute_root().gpu_single_thread()
    f.update(0).gpu_single_thread()
    h.gpu_tile(x, xi, 8)
    return h, [20]


def _no_elements() -> Built:
    x, y, xi, yi = hl.vars("x y xi yi")
    near, out = _pair()
    out.gpu_tile(x, y, xi, yi, 8, 4, GUARD)
    near.compute_at(out, x).gpu_threads(x, y)
    return out, [0, 9]


PROGRAMS: list[Callable[[], Built]] = [
    _specialized, _specialized_inside, _wrapper_of_an_input, _clone, _tuples, _halves, _truths,
    _tables, _numbers_drawn, _loops_in_common, _one_kernel_for_two, _partial_sums,
    _window_of_a_thread, _window_of_a_block, _storage_directives, _five_dimensions, _one_thread,
    _no_elements,
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__.strip("_"))
def test_values_are_the_evaluators(build: Callable[[], Built], target: str) -> None:
    func, extents = build()
    assert hl.Pipeline(func).device_source(hl.Target(target))
    found: Any = func.realize(extents, hl.Target(target))
    gots = list(found) if isinstance(found, tuple | list) else [found]
    want = evaluate(func, [0] * len(extents), extents)
    for got, values in zip(gots, want if isinstance(want, tuple) else [want], strict=True):
        np.testing.assert_allclose(np.asarray(got), values, rtol=1e-6)


def test_two_outputs_on_two_sides() -> None:
    x, y, xi, yi = hl.vars("x y xi yi")
    s, p, q = hl.Func("s"), hl.Func("p"), hl.Func("q")
    s[x, y] = x * y
    p[x, y] = s[x, y] + 1
    q[x, y] = s[x, y] - 1
    s.compute_root().gpu_tile(x, y, xi, yi, 8, 4)
    p.gpu_tile(x, y, xi, yi, 8, 4)
    for target in TARGETS:
        a, b = [hl.Buffer(np.zeros((9, 20), np.int32)) for _ in range(2)]
        hl.Pipeline([p, q]).realize([a, b], hl.Target(target))
        np.testing.assert_array_equal(np.asarray(a) - 1, np.outer(np.arange(9), np.arange(20)))
        np.testing.assert_array_equal(np.asarray(a) - np.asarray(b), 2)


def test_in_place() -> None:
    x, y, xi, yi = hl.vars("x y xi yi")
    image, f = hl.ImageParam(hl.Int(32), 2, "image"), hl.Func("f")
    f[x, y] = image[x, y] * 3 + 1
    f.may_alias(image)
    f.gpu_tile(x, y, xi, yi, 8, 4, GUARD)
    for target in TARGETS:
        array = np.arange(180, dtype=np.int32).reshape(9, 20)
        buffer = hl.Buffer(array)
        image.set(buffer)
        f.realize(buffer, hl.Target(target))
        np.testing.assert_array_equal(array, np.arange(180).reshape(9, 20) * 3 + 1)


@pytest.mark.parametrize("what", [lambda x: hl.print(x), lambda x: hl.require(x < 100, x, "far")])
def test_what_a_kernel_cannot_do_names_the_line_of_its_func(what: Callable[[Any], Any]) -> None:
    x, xi = hl.vars("x xi")
    f = hl.Func("f")
    f[x] = what(x + 1)
    f.gpu_tile(x, xi, 8)
    with pytest.raises(hl.ScheduleError, match="which a kernel cannot do") as error:
        f.realize([20], hl.Target("host-cuda-emulated"))
    assert error.value.where == f.function().where
