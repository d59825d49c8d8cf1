"""sum, minimum, argmax and the like: the Funcs that they make."""

from __future__ import annotations

import pytest

import bayplan as hl
from bayplan.ir.exprs import Call


def made(e: hl.Expr) -> hl.Func:
    """The Func that a reduction made."""
    node = e.node
    assert type(node) is Call
    return hl.Func.of(node.target)


def test_sum_over_its_rdom() -> None:
    x = hl.Var("x")
    r = hl.RDom([(-1, 3)], "r")
    image = hl.ImageParam(hl.UInt(8), 1, "image")
    f = made(hl.sum(hl.u16(image[x + r])))
    assert [v.name() for v in f.args()] == ["x"]
    assert str(f.value()) == "0u16"
    assert [v.name() for v in f.rvars()] == ["r$x"]
    assert f.types() == [hl.UInt(16)]


def test_neutral_values() -> None:
    r = hl.RDom([(0, 3)])
    assert made(hl.product(hl.i16(r))).value().node.value == 1
    assert made(hl.maximum(hl.i16(r))).value().node.value == -(2**15)
    assert made(hl.minimum(hl.u8(r))).value().node.value == 255
    assert made(hl.minimum(hl.f32(r))).value().node.value == float("inf")


def test_rvars_of_an_outer_rdom_become_coordinates() -> None:
    r, q = hl.RDom([(0, 3)], "r"), hl.RDom([(0, 4)], "q")
    f = made(hl.sum(q, r + q))
    assert f.dimensions() == 1
    with pytest.raises(hl.DefinitionError, match="two RDoms"):
        hl.sum(r + q)


def test_argmax_gives_coordinates_and_value() -> None:
    r = hl.RDom([(0, 3), (0, 4)], "r")
    image = hl.ImageParam(hl.UInt(8), 2, "image")
    result = hl.argmax(image[r.x, r.y])
    assert type(result) is tuple
    assert [e.type() for e in result] == [hl.Int(32), hl.Int(32), hl.UInt(8)]
    f = made(result[0])
    assert [v.node.value for v in f.values()] == [0, 0, 0]


def test_names_and_given_funcs() -> None:
    r = hl.RDom([(0, 3)])
    assert made(hl.sum(r.x, "my_total")).name() == "my_total"
    assert made(hl.sum(r, r.x, name="other_total")).name() == "other_total"
    mine = hl.Func("mine")
    hl.sum(r.x, mine)
    assert mine.defined()
    with pytest.raises(hl.DefinitionError, match="defined already"):
        hl.sum(r.x, mine)


def test_without_rdom_is_refused() -> None:
    with pytest.raises(hl.DefinitionError, match="has no RVar"):
        hl.sum(hl.Var("x") + 1)
