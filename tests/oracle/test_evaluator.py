"""The reference evaluator against values worked out by hand and against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from apps import harness
from bayplan.reference import evaluate
from tests.apps import formulas


def _line(f: hl.Func, low: int, count: int) -> list[Any]:
    return list(evaluate(f, [low], [count]).tolist())


def test_quotients_leave_remainders_that_are_not_negative() -> None:
    x = hl.Var("x")
    a, b = hl.ImageParam(hl.Int(32), 1, "a"), hl.ImageParam(hl.Int(32), 1, "b")
    a.set(hl.Buffer(np.array([-7, 7, -7, 7, -8, 5], np.int32)))
    b.set(hl.Buffer(np.array([-2, -2, 2, 2, -3, 0], np.int32)))
    f = hl.Func("f")
    f[x] = (a[x] / b[x], a[x] % b[x])
    quotient, rest = evaluate(f, [0], [6])
    assert quotient.tolist() == [4, -3, -4, 3, 3, 0]
    assert rest.tolist() == [1, 1, 1, 1, 1, 0]


def test_narrow_integers_wrap() -> None:
    x = hl.Var("x")
    f = hl.Func("f")
    f[x] = hl.u8(x) * hl.u8(x) + hl.u8(250)
    assert _line(f, 0, 5) == [250, 251, 254, 3, 10]


def test_updates_run_in_order_and_their_domain_serially() -> None:
    x = hl.Var("x")
    f = hl.Func("f")
    f[x] = x
    r = hl.RDom([(1, 5)])
    f[r] = f[r - 1] + f[r]
    f[0] = 100
    assert _line(f, 0, 7) == [100, 1, 3, 6, 10, 15, 6]


def test_the_first_variable_of_a_domain_runs_fastest() -> None:
    f = hl.Func("f")
    r = hl.RDom([(0, 3), (0, 2)])
    f[()] = hl.i64(0)
    f[()] = f[()] * 10 + hl.i64(r.x + 3 * r.y + 1)
    assert evaluate(f, [], [])[()] == 123456


def test_a_region_without_points_needs_nothing() -> None:
    x, y = hl.vars("x y")
    image = hl.ImageParam(hl.UInt(8), 2)
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = (image[x, y], hl.f32(x))
    g[x, y] = f[x + 1, y][1]
    first, second = evaluate(f, [0, 0], [0, 3])
    assert (first.shape, first.dtype) == ((3, 0), np.uint8)
    assert (second.shape, second.dtype) == ((3, 0), np.float32)
    assert evaluate(g, [1, 1], [2, 0]).shape == (0, 2)


def test_where_leaves_points_out() -> None:
    x = hl.Var("x")
    f = hl.Func("f")
    r = hl.RDom([(0, 5), (0, 5)])
    r.where(r.x + r.y == 3)
    f[x] = 0
    f[r.x] += r.y
    assert _line(f, 0, 5) == [3, 2, 1, 0, 0]


def test_a_histogram() -> None:
    x = hl.Var("x")
    data = hl.ImageParam(hl.UInt(8), 1, "data")
    data.set(hl.Buffer(np.array([3, 1, 3, 9, 3], np.uint8)))
    f = hl.Func("f")
    r = hl.RDom([(0, 5)])
    f[x] = 0
    f[hl.clamp(hl.i32(data[r]), 0, 4)] += 1
    assert _line(f, 0, 6) == [0, 1, 0, 3, 1, 0]


def test_argmin_gives_the_first_of_equals() -> None:
    x = hl.Var("x")
    f = hl.Func("f")
    r = hl.RDom([(-3, 7)])
    f[x] = hl.argmin(hl.abs(r - x) / 2)
    index, value = evaluate(f, [-1], [3])
    assert index.tolist() == [-2, -1, 0]
    assert value.tolist() == [0, 0, 0]


def test_undef_leaves_what_was_there() -> None:
    x = hl.Var("x")
    f = hl.Func("f")
    f[x] = hl.undef(hl.Int(32))
    f[2] = 5
    assert evaluate(f, [2], [1]).tolist() == [5]


def test_a_constant_beyond_the_border() -> None:
    x = hl.Var("x")
    data = hl.ImageParam(hl.UInt(8), 1, "data")
    data.set(hl.Buffer(np.array([3, 1, 2], np.uint8)))
    f, bounded = hl.Func("f"), hl.BoundaryConditions.constant_exterior(data, 9)
    f[x] = bounded[x]
    assert _line(f, -2, 7) == [9, 9, 3, 1, 2, 9, 9]


@pytest.mark.parametrize(
    ("operation", "want"),
    [
        ("saturating_add", [127, -128]),
        ("halving_add", [113, -115]),
        ("rounding_halving_add", [114, -114]),
        ("absd", [27, 27]),
        ("widening_mul", [12700, 12928]),
    ],
)
def test_fixed_point(operation: str, want: list[int]) -> None:
    x = hl.Var("x")
    a, b = hl.ImageParam(hl.Int(8), 1, "a"), hl.ImageParam(hl.Int(8), 1, "b")
    a.set(hl.Buffer(np.array([127, -128], np.int8)))
    b.set(hl.Buffer(np.array([100, -101], np.int8)))
    f = hl.Func("f")
    f[x] = getattr(hl, operation)(a[x], b[x])
    assert _line(f, 0, 2) == want


SMALL: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "blur": ({}, {}),
    "unsharp": ({}, {}),
    "harris": ({}, {}),
    "iir_blur": ({"width": 21, "height": 17}, {}),
    "stencil_chain": ({"stencils": 5, "width": 160, "height": 160}, {"stencils": 5}),
    "camera_pipe": ({}, {}),
}


@pytest.mark.parametrize("name", SMALL)
def test_applications(name: str) -> None:
    parameters, more = SMALL[name]
    app = harness.load(name, hl, **parameters)
    box = app.cases[0] if app.cases else (app.mins, app.extents)
    arrays = harness.make_inputs(app, *box, 3)
    prepared = harness.Prepared(hl, app, arrays, *box)
    got = evaluate(prepared.app.output, *box)
    want = getattr(formulas, name)(arrays, *box, **more)
    if app.rtol:
        scale = float(np.max(np.abs(want)))
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale)
    else:
        np.testing.assert_array_equal(got, want)
