"""Coordinates become element indices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bayplan.analysis.evaluate import evaluate
from bayplan.ir import build
from bayplan.ir.build import var
from bayplan.ir.exprs import Const, Expr
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate, LetStmt, Provide, Stmt, Store
from bayplan.ir.types import INT32, INT64
from bayplan.lower.flatten_storage import flatten_storage, widen_index
from tests.lower.build_statements import call, function, lowering, realize

x, y, n = var("x"), var("y"), var("n")


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with compilation():
        yield


def element(stmt: Stmt, values: dict[str, int]) -> int:
    """The index of the first store, with lets taken into account."""
    values = dict(values)
    while type(stmt) is not Store:
        if type(stmt) is LetStmt:
            values[stmt.name] = int(evaluate(stmt.value, values))
        stmt = stmt.children()[-1]  # type: ignore[assignment]
    return int(evaluate(stmt.index, values))


def flat(dims: list, values: dict[str, int], bounds: list, order: list[int] | None = None) -> int:
    f = function("f", *[f"a{i}" for i in range(len(dims))])
    if order is not None:
        f.schedule.storage_dims = [f.schedule.storage_dims[i] for i in order]
    body = Provide("f", (x,), tuple(dims))
    return element(flatten_storage(realize(f, bounds, body), lowering(f)), values)


def test_dimension_0_is_dense_and_mins_are_subtracted() -> None:
    assert flat([x, y], {"x": 7, "y": 5}, [(3, 10), (4, 6)]) == (7 - 3) + (5 - 4) * 10


def test_sizes_known_at_run_time() -> None:
    values = {"x": 7, "y": 5, "n": 100}
    assert flat([x, y], values, [(n - 97, n), (4, 6)]) == (7 - 3) + (5 - 4) * 100


def test_reordered_storage() -> None:
    assert flat([x, y], {"x": 7, "y": 5}, [(3, 10), (4, 6)], [1, 0]) == (7 - 3) * 6 + (5 - 4)


def test_aligned_storage_pads_the_dimension() -> None:
    f = function("f", "x", "y")
    f.schedule.storage_dims[0].alignment = build.int32(8)
    stmt = flatten_storage(realize(f, [(0, 10), (0, 6)], Provide("f", (x,), (x, y))), lowering(f))
    assert element(stmt, {"x": 1, "y": 2}) == 33
    assert type(stmt) is Allocate
    assert [build.constant_value(e) for e in stmt.extents] == [16, 6]


def test_scalar_storage_has_one_element() -> None:
    f = function("f")
    stmt = flatten_storage(realize(f, [], Provide("f", (x,), ())), lowering(f))
    assert type(stmt) is Allocate
    assert stmt.extents == ()
    assert element(stmt, {}) == 0


def test_outputs_are_indexed_in_64_bits() -> None:
    f = function("f", "x", "y")
    stmt = flatten_storage(Provide("f", (call(f, x, y),), (x + 1, y)), lowering(f))
    assert type(stmt) is Store
    assert stmt.index.type is INT64
    values = {"x": 9, "y": 70000, "f.min.0": 0, "f.min.1": 0, "f.stride.1": 70000, "f.stride.0": 1}
    assert int(evaluate(stmt.index, values)) == 10 + 70000 * 70000


def test_widening_is_pushed_to_the_leaves() -> None:
    wide: Expr = widen_index(x * 2 + y - 1)
    values = {"x": 2**31 - 1, "y": 2**31 - 1}
    assert int(evaluate(wide, values)) == 3 * (2**31 - 1) - 1


def test_constrained_fields_are_constants() -> None:
    f = function("f", "x")
    constraint = f.output_buffers[0].constraints[0]
    constraint.min = constraint.extent = Const(INT32, 5)
    stmt = flatten_storage(Provide("f", (x,), (x,)), lowering(f))
    assert type(stmt) is Store
    assert stmt.index.type is INT32
    assert int(evaluate(stmt.index, {"x": 9})) == 4
