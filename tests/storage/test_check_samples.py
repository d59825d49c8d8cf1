"""Calls that the checker tries: programs accept them, and their stores are counted right."""

from __future__ import annotations

import pytest

from bayplan.analysis.evaluate import Unknown
from bayplan.ir import build
from bayplan.ir.build import const, eq, ge, le, logical_and, lt
from bayplan.ir.errors import BoundsError, ErrorSite
from bayplan.ir.exprs import Expr, Ramp, ReduceOp, Variable, VectorReduce
from bayplan.ir.stmts import AssertStmt, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import FLOAT32, INT32, Int, Type, UInt
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.check_once import NestOfStores, find_repeated, value_of_lane
from bayplan.storage.check_samples import find_samples
from bayplan.storage.check_walk import Scope, Walk
from tests.storage.statements import block, copy, fill, int32, load, loop, var

SITE = ErrorSite(BoundsError, "no")


def checked(*conditions: Expr) -> Stmt:
    store = copy("out", "input", var("i"))
    checks = [AssertStmt(c, SITE) for c in conditions]
    return block([*checks, loop("i", var("out.extent.0"), store)])


def test_equations_of_checks_hold() -> None:
    a, b, c = (var(f"{name}.extent.0") for name in ("out", "input", "table"))
    samples = find_samples(checked(eq(b, a), eq(c, b), eq(a, c), eq(var("n"), 2 * a)))
    assert len(samples) == 4
    for numbers in samples:
        values = numbers.values
        assert values["out.extent.0"] == values["input.extent.0"] == values["table.extent.0"]
        assert values["n"] == 2 * values["out.extent.0"]


def test_calls_that_are_refused_are_not_tried() -> None:
    extent = var("out.extent.0")
    samples = find_samples(checked(ge(extent, 16), le(extent % 16, 0), ge(var("n"), extent)))
    assert samples
    for numbers in samples:
        assert numbers.values["out.extent.0"] >= 16
        assert numbers.values["out.extent.0"] % 16 == 0
    assert not find_samples(checked(ge(extent, 16), le(extent, 15)))


def test_comparisons_of_checks_hold() -> None:
    # A promised region: the min is given from both sides, the extent from above and below.
    low, extent = var("out.min.0"), var("out.extent.0")
    last = var("last")
    stmt = checked(
        le(low, -1), ge(low + extent, 13), logical_and(ge(low, -1), le(last, 12)), lt(extent, 15)
    )
    samples = find_samples(LetStmt("last", low + extent - 1, stmt))
    assert samples
    for numbers in samples:
        assert (numbers.values["out.min.0"], numbers.values["out.extent.0"]) == (-1, 14)


def test_samples_meet_a_condition_where_it_stands() -> None:
    extent = var("out.extent.0")
    stmt = checked(ge(extent, 5))
    # Only sizes without a rest in tiles of 7.
    scope = Scope("rounded", (extent + 6) // 7 * 7, None, None)
    samples = find_samples(stmt, (eq(extent, var("rounded")), scope))
    assert samples
    for numbers in samples:
        assert numbers.values["out.extent.0"] >= 5
        assert numbers.values["out.extent.0"] % 7 == 0


def test_samples_are_the_same_each_time() -> None:
    stmt = checked(ge(var("n"), 3))
    first, second = find_samples(stmt), find_samples(stmt)
    assert [a.values for a in first] == [b.values for b in second]


@pytest.mark.parametrize(
    ("index", "repeated"), [(1, None), (0, 0), (-1, None)], ids=["rising", "constant", "falling"]
)
def test_an_element_that_is_stored_twice(index: int, repeated: int | None) -> None:
    stmt = loop("i", var("n"), fill("a", var("i") * index))
    leaves = Walk(stmt).leaves
    assert find_repeated(leaves, 0, [Numbers({"n": 9}, 1)]) == repeated
    # A loop further out runs once.
    assert find_repeated(leaves, 1, [Numbers({"n": 9}, 1)]) is None


def test_what_depends_on_data_is_not_tried() -> None:
    stmt = loop("i", 3, fill("a", load("table", var("i"), INT32)))
    with pytest.raises(Unknown):
        find_repeated(Walk(stmt).leaves, 0, [Numbers({}, 1)])
    with pytest.raises(Unknown):
        find_repeated(Walk(loop("i", 3, fill("a", int32(0)))).leaves, 0, [])


X4 = Ramp(var("i") * 4, int32(1), 4)


@pytest.mark.parametrize("inside", [True, False])
def test_conditions_on_all_lanes_of_a_vector(inside: bool) -> None:
    # Whole vectors without a mask, the last one with it; each element has one of them.
    lanes = Variable(INT32.with_lanes(4), "lanes")
    last = var("n") - 1
    whole = le(VectorReduce(ReduceOp.MAX, lanes, 1), last)
    mask = le(lanes, build.broadcast(last, 4))
    value = build.broadcast(const(FLOAT32, 0), 4)
    masked = Store("a", value, lanes, mask if inside else None)
    branches = IfThenElse(whole, Store("a", value, lanes), masked)
    stmt = loop("i", (var("n") + 3) // 4, LetStmt("lanes", X4, branches))
    leaves = Walk(stmt).leaves
    seen: set[int] = set()
    for leaf in leaves:
        if isinstance(leaf.node, Store):
            assert NestOfStores(leaf, 0, Numbers({"n": 10}, 1)).run(seen) is None
    assert seen == set(range(10 if inside else 12))


@pytest.mark.parametrize(
    ("type", "value", "wanted"),
    [(UInt(8), 260, 4), (UInt(16), -1, 65535), (Int(8), 200, -56), (Int(8), -129, 127)],
)
def test_narrow_numbers_wrap(type: Type, value: int, wanted: int) -> None:
    numbers = Numbers({"n": value}, 1)
    assert value_of_lane(build.cast(INT32, build.cast(type, var("n"))), 0, numbers) == wanted
    more = build.cast(type, var("n") - 7) + const(type, 7)
    assert value_of_lane(build.cast(INT32, more), 0, numbers) == wanted
