"""Vectorised loops become statements on vectors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bayplan.ir import build
from bayplan.ir.build import var
from bayplan.ir.exprs import Load, Ramp, Select, VectorReduce
from bayplan.ir.memory import ForKind
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate, Atomic, Block, For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.walk import iterate
from bayplan.lower.vectorize_loops import vectorize_loops
from tests.lower.build_statements import allocate, load, loop, lowering, store

VECTOR, SERIAL = ForKind.Vectorized, ForKind.Serial
x, y, n = var("x"), var("y"), var("n")


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with compilation():
        yield


def vectorized(stmt: Stmt) -> Stmt:
    return vectorize_loops(stmt, lowering())


def nodes(stmt: Stmt, cls: type) -> list:
    return [node for node in iterate(stmt) if type(node) is cls]


def test_dense_and_strided_accesses_are_ramps() -> None:
    result = vectorized(loop("x", var("m") * 8, 8, VECTOR, store("f", load("g", x * 2 + 1), x)))
    assert type(result) is Store
    assert result.index is Ramp(var("m") * 8, build.int32(1), 8)
    assert type(result.value) is Load
    assert type(result.value.index) is Ramp
    assert build.is_const(result.value.index.stride, 2)


def test_what_does_not_vary_stays_scalar() -> None:
    result = vectorized(loop("x", 0, 4, VECTOR, store("f", load("g", y) + x, x)))
    loads = nodes(result, Load)
    assert len(loads) == 1
    assert loads[0].index is y


def test_likely_guard_tests_once_and_falls_back_to_predicates() -> None:
    guard = build.likely(build.lt(x + y * 8, n))
    body = IfThenElse(guard, store("f", load("g", x + y * 8), x + y * 8))
    result = vectorized(loop("x", 0, 8, VECTOR, body))
    assert type(result) is IfThenElse
    assert result.condition.type.lane_count == 1
    assert type(result.then_case) is Store
    assert result.then_case.predicate is None
    assert type(result.else_case) is Store
    assert result.else_case.predicate is not None
    assert result.else_case.value.predicate is not None


def test_a_condition_that_guards_more_than_stores_runs_lane_by_lane() -> None:
    inner = Atomic("f", store("f", load("f", load("g", x)) + 1, load("g", x)))
    result = vectorized(loop("x", 0, 4, VECTOR, IfThenElse(build.lt(x, n), inner)))
    loops = nodes(result, For)
    assert len(loops) == 1
    assert loops[0].kind is SERIAL


def test_nested_loops_give_the_product_of_lanes_innermost_next_to_each_other() -> None:
    inner = loop("y", 0, 8, VECTOR, store("f", load("g", y + x * 8), y + x * 8))
    result = vectorized(loop("x", 0, 4, VECTOR, inner))
    assert type(result) is Store
    assert result.value.type.lane_count == 32


def test_atomic_sum_over_lanes_is_reduced() -> None:
    update = Atomic("f", store("f", load("f", y) + load("g", x), y))
    result = vectorized(loop("x", 0, 8, VECTOR, update))
    assert type(result) is Atomic
    assert type(result.body) is Store
    reduces = nodes(result, VectorReduce)
    assert [r.lanes for r in reduces] == [1]


def test_atomic_sum_of_a_value_that_does_not_vary_counts_each_lane() -> None:
    update = Atomic("f", store("f", load("f", y) + load("g", y), y))
    result = vectorized(loop("x", 0, 8, VECTOR, update))
    assert len(nodes(result, VectorReduce)) == 1


def test_masked_reduction_adds_the_neutral_value() -> None:
    update = Atomic("f", store("f", build.minimum(load("f", y), load("g", x)), y))
    result = vectorized(loop("x", 0, 8, VECTOR, IfThenElse(build.lt(x, n), update)))
    selects = nodes(result, Select)
    assert len(selects) == 1
    assert build.is_const(selects[0].false_value, 2**31 - 1)


def test_allocation_has_one_copy_per_lane() -> None:
    body = Block((store("t", x, build.int32(3)), store("f", load("t", build.int32(3)), x)))
    result = vectorized(loop("x", 0, 4, VECTOR, allocate("t", 5, body)))
    assert type(result) is Allocate
    assert [build.constant_value(e) for e in result.extents] == [4, 5]
    assert type(result.body.stmts[0].index) is Ramp
    assert build.is_const(result.body.stmts[0].index.base, 12)


def test_vector_let_keeps_a_name() -> None:
    body = LetStmt("t", load("g", load("h", x)), store("f", var("t") * var("t"), x))
    result = vectorized(loop("x", 0, 4, VECTOR, body))
    assert type(result) is LetStmt
    assert result.value.type.lane_count == 4


def test_inner_loop_with_a_vector_extent_runs_to_the_longest_lane() -> None:
    inner = loop("i", 0, load("g", x), SERIAL, store("f", load("h", var("i")), x))
    result = vectorized(loop("x", 0, 4, VECTOR, inner))
    assert type(result) is For
    assert result.extent.type.lane_count == 1
