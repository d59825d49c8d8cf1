"""rfactor and the proof that it rests on."""

from __future__ import annotations

from typing import Any

import pytest

import bayplan as hl
from bayplan.language.associativity import prove_associativity


def proof(define: Any) -> Any:
    """The proof for the first update of the Func that `define` makes."""
    f = define(hl.Var("x"), hl.RDom([(0, 8)], "r"), hl.ImageParam(hl.UInt(8), 1, "image"))
    update = f.function().updates[0]
    return prove_associativity(f.name(), update.args, update.values)


def one(value: Any, init: Any) -> Any:
    """A Func of one value with the update `value(own, new)`."""

    def define(x: Any, r: Any, image: Any) -> Any:
        f = hl.Func("f")
        f[x] = init
        f[x] = value(f[x], hl.cast(f.type(), image[r]))
        return f

    return define


@pytest.mark.parametrize(
    ("value", "init", "identity"),
    [
        (lambda a, b: a + b, hl.i32(0), 0),
        (lambda a, b: b + a + b, hl.i32(0), 0),
        (lambda a, b: a - b, hl.i32(0), 0),
        (lambda a, b: b * a, hl.f32(1), 1),
        (lambda a, b: hl.min(b, a), hl.u8(0), 255),
        (lambda a, b: hl.max(a, b), hl.i16(0), -(2**15)),
        (lambda a, b: hl.select(b > a, b, a), hl.i32(0), -(2**31)),
        (lambda a, b: hl.select(a < b, a, b), hl.i32(0), 2**31 - 1),
        (lambda a, b: hl.saturating_add(a, b), hl.u8(0), 0),
        (lambda a, b: hl.u8(hl.min(hl.u16(a) + hl.u16(b), hl.u16(255))), hl.u8(0), 0),
        (lambda a, b: a, hl.i32(0), 0),
    ],
)
def test_associative(value: Any, init: Any, identity: int) -> None:
    found = proof(one(value, init))
    assert found is not None
    assert found.identities[0].value == identity
    assert found.commutative


@pytest.mark.parametrize(
    "value",
    [
        lambda a, b: b - a,
        lambda a, b: a + a * b,
        lambda a, b: a / b,
        lambda a, b: b,
        lambda a, b: a * b + 1,
        lambda a, b: hl.select(a < b, b + 1, a),
    ],
)
def test_not_associative(value: Any) -> None:
    assert proof(one(value, hl.i32(0))) is None


def test_complex_product_is_associative() -> None:
    def define(x: Any, r: Any, image: Any) -> Any:
        f = hl.Func("f")
        f[x] = (1, 0)
        a, b = hl.i32(image[r]), hl.i32(image[r + 1])
        f[x] = (f[x][0] * a - f[x][1] * b, f[x][0] * b + f[x][1] * a)
        return f

    assert [i.value for i in proof(define).identities] == [1, 0]


def test_another_element_is_not_a_reduction() -> None:
    def define(x: Any, r: Any, image: Any) -> Any:
        f = hl.Func("f")
        f[x] = 0
        f[r] = f[r - 1] + 1
        return f

    assert proof(define) is None


def histogram() -> tuple[hl.Func, hl.RDom, hl.ImageParam]:
    x = hl.Var("x")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    r = hl.RDom([(0, 18), (0, 8)], "r")
    f = hl.Func("histogram")
    f[x] = 0
    f[hl.i32(image[r.x, r.y])] += 1
    return f, r, image


def test_rfactor_moves_the_reduction() -> None:
    f, r, _ = histogram()
    u = hl.Var("u")
    partial = f.update().rfactor(r.y, u)
    assert [v.name() for v in partial.args()] == ["x", "u"]
    assert [v.name() for v in partial.rvars()] == ["r$x"]
    assert str(f.update_value()) == f"{f.name()}(x) + {partial.name()}(x, r$y)"
    assert [v.name() for v in f.rvars()] == ["r$y"]
    kinds = [d.dim_type.name for d in f.update().definition.schedule.dims]
    assert kinds == ["ImpureRVar", "PureVar", "PureVar"]


def test_rfactor_after_a_split_guards_the_tail() -> None:
    f, r, _ = histogram()
    u, ro, ri = hl.Var("u"), hl.RVar("ro"), hl.RVar("ri")
    partial = f.update().split(r.x, ro, ri, 4).rfactor(ri, u)
    assert str(partial.update().definition.predicate) == "likely(ro * 4 + u <= 17)"
    assert [v.name() for v in partial.rvars()] == ["ro", "r$y"]


@pytest.mark.parametrize("way", ["reorder", "plain", "split", "inner", "fuse", "both"])
def test_values_are_kept(way: str) -> None:
    np = pytest.importorskip("numpy")
    f, r, image = histogram()
    data = np.random.default_rng(3).integers(0, 40, (8, 18), dtype=np.uint8)
    u, v, ro, ri = hl.Var("u"), hl.Var("v"), hl.RVar("ro"), hl.RVar("ri")
    stage = f.update()
    if way == "plain":
        stage.rfactor(r.y, u).compute_root().update().parallel(u)
    elif way == "reorder":
        stage.reorder(r.y, r.x).rfactor(r.x, u).compute_root().vectorize(u, 8)
    elif way == "split":
        stage.split(r.x, ro, ri, 4).rfactor(ro, u).compute_root()
    elif way == "inner":
        partial = stage.split(r.x, ro, ri, 5).rfactor(ri, u)
        partial.compute_root().update().vectorize(u, 4)
    elif way == "fuse":
        fused = hl.RVar("rf")
        stage.fuse(r.x, r.y, fused).split(fused, ro, ri, 7).rfactor(ro, u).compute_root()
    else:
        stage.rfactor([(r.x, u), (r.y, v)]).compute_root()
    image.set(hl.Buffer(data))
    result = np.asarray(f.realize([40]))
    assert (result == np.bincount(data.ravel(), minlength=40)).all()
