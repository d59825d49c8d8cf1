"""RDoms, and which of their variables may run in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import bayplan as hl


def test_names_and_bounds() -> None:
    r = hl.RDom([(2, 10), (0, 5)], "dom")
    assert [v.name() for v in r] == ["dom$x", "dom$y"]
    assert (str(r.x.min()), str(r.x.extent())) == ("2", "10")
    assert len(r) == 2
    assert r.z.name() == "dom$z"
    image = hl.ImageParam(hl.UInt(8), 2, "picture")
    assert hl.RDom(image).y.name() == "picture$y"
    assert str(hl.RDom(image).y.extent()) == "picture.extent.1"


def test_only_one_dimension_is_an_expression() -> None:
    assert str(hl.RDom([(0, 3)], "one") + 1) == "one$x + 1"
    with pytest.raises(hl.DefinitionError, match="has 2 dimensions"):
        hl.RDom([(0, 3), (0, 3)]) + 1


def test_predicate_joins_and_is_final_after_use() -> None:
    x = hl.Var("x")
    r = hl.RDom([(0, 3), (0, 3)], "tri")
    r.where(r.x < r.y)
    r.where(r.x > 0)
    f = hl.Func("f")
    f[x] += r.x
    assert str(f.update().definition.predicate) == "tri$x < tri$y && tri$x > 0"
    with pytest.raises(hl.DefinitionError, match="no predicate any more"):
        r.where(r.x > 1)


Definition = Callable[[Any, Any, Any, Any, Any], None]


def scatter(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x, r.y] = 3


def row_sum(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x, y] += r.y


def scan(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x, y] = f[r.x - 1, y] + 1


def other_half(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x, y] = f[r.x + 16, y]


def odd_from_even(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[2 * r.x, y] = f[2 * r.x + 1, y]


def mixed_radix(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x * 8 + r.y, y] = 3


def overlapping_radix(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x * 7 + r.y, y] = 3


def looked_up(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[g[r.x], r.y] = 3


def reversed_reads(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x, y] = f[15 - r.x, y]


def folded(f: Any, g: Any, x: Any, y: Any, r: Any) -> None:
    f[r.x % 4, y] = r.x


@pytest.mark.parametrize(
    ("define", "pure"),
    [
        (scatter, "xy"),
        (row_sum, "x"),
        (scan, ""),
        (other_half, "x"),
        (odd_from_even, "x"),
        (mixed_radix, "xy"),
        (overlapping_radix, ""),
        (looked_up, "y"),
        (reversed_reads, ""),
        (folded, ""),
    ],
)
def test_pure_rvars(define: Definition, pure: str) -> None:
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 16), (0, 8)], "r")
    f, g = hl.Func("f"), hl.Func("g")
    g[x] = x
    f[x, y] = 0
    define(f, g, x, y, r)
    dims = f.update().definition.schedule.dims
    assert "".join([d.var[-1] for d in dims if d.dim_type.name == "PureRVar"]) == pure


def test_symbolic_extents() -> None:
    x = hl.Var("x")
    n = hl.Param(hl.Int(32), "n")
    r = hl.RDom([(0, n)], "r")
    f, g = hl.Func("f"), hl.Func("g")
    f[x] = 0
    f[r.x + n] = r.x
    assert f.update().definition.schedule.dims[0].dim_type.name == "PureRVar"
    g[x] = 0
    g[r.x] = g[r.x + 1]
    assert g.update().definition.schedule.dims[0].dim_type.name == "ImpureRVar"
