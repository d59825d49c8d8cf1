"""Vectors that alternate between cases are computed in parts and woven together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bayplan.ir import build
from bayplan.ir.build import var
from bayplan.ir.exprs import Broadcast, Expr, Load, Ramp, Shuffle
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Block, Stmt, Store
from bayplan.ir.types import INT32
from bayplan.ir.walk import iterate
from bayplan.lower.rewrite_interleavings import rewrite_interleavings
from tests.lower.build_statements import lowering

x = var("x")
WIDE = INT32.with_lanes(8)


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with compilation():
        yield


def ramp(base: Expr, stride: int = 1, lanes: int = 8) -> Expr:
    return build.ramp(base, stride, lanes)


def element(name: str, index: Expr) -> Load:
    return Load(INT32.with_lanes(index.type.lane_count), name, index)


def rewritten(stmt: Stmt) -> Stmt:
    return rewrite_interleavings(stmt, lowering())


def test_a_quotient_of_a_ramp_is_read_densely_by_parts() -> None:
    half = ramp(x) // Broadcast(build.int32(2), 8)
    result = rewritten(Store("f", element("g", half), ramp(x)))
    assert type(result) is Store
    assert type(result.value) is Shuffle
    assert result.value.indices == (0, 4, 1, 5, 2, 6, 3, 7)
    for n in iterate(result):
        if type(n) is Load:
            assert type(n.index) is Ramp
            assert build.is_one(n.index.stride)


def test_only_the_taken_side_of_an_alternating_select_is_computed() -> None:
    two = Broadcast(build.int32(2), 8)
    even = build.eq(ramp(build.int32(0)) % two, Broadcast(build.int32(0), 8))
    value = build.select(
        even,
        element("a", ramp(build.int32(0)) // two),
        element("b", ramp(build.int32(0)) // two),
    )
    result = rewritten(Store("f", value, ramp(x)))
    loads = [n for n in iterate(result) if type(n) is Load]
    assert sorted([n.name for n in loads]) == ["a", "b"]


def test_dense_values_are_left_alone() -> None:
    store = Store("f", element("g", ramp(x)), ramp(x))
    assert rewritten(store) is store


def test_stores_that_fill_a_stretch_become_one() -> None:
    parts = [Store("f", element(n, ramp(x)), ramp(x * 3 + i, 3)) for i, n in enumerate("rgb")]
    result = rewritten(Block((parts[1], parts[0], parts[2])))
    assert type(result) is Store
    assert build.is_one(result.index.stride)  # type: ignore[attr-defined]
    assert type(result.value) is Shuffle
    assert [v.name for v in result.value.vectors] == ["r", "g", "b"]  # type: ignore[attr-defined]
    assert result.value.indices[:4] == (0, 8, 16, 1)


def test_stores_with_a_gap_or_that_read_each_other_stay() -> None:
    gap = Block(tuple([Store("f", element("g", ramp(x)), ramp(x + i, 3)) for i in (0, 1, 3)]))
    assert rewritten(gap) is gap
    reads = Block(tuple([Store("f", element("f", ramp(x)), ramp(x + i, 2)) for i in (0, 1)]))
    assert rewritten(reads) is reads
