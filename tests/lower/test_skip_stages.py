"""Productions and allocations whose values no one uses are left out."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from bayplan.analysis.evaluate import evaluate
from bayplan.ir import build
from bayplan.ir.build import var
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.node import compilation
from bayplan.ir.stmts import IfThenElse, ProducerConsumer, Provide, Realize, Stmt
from bayplan.ir.walk import iterate
from bayplan.lower.skip_stages import skip_stages
from tests.lower.build_statements import (
    call,
    function,
    loop,
    lowering,
    produce_and_consume,
    realize,
)

x, p, q = var("x"), var("p"), var("q")


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with compilation():
        yield


def one_stage(value_of: object) -> Stmt:
    f = function("f", "x")
    value = value_of(f)  # type: ignore[operator]
    body = produce_and_consume(
        f,
        loop("x", 0, 8, ForKind.Serial, Provide("f", (x,), (x,))),
        loop("x", 0, 8, ForKind.Serial, Provide("g", (value,), (x,))),
    )
    return skip_stages(realize(f, [(0, 8)], body), lowering())


def condition_of(stmt: Stmt) -> Expr:
    assert type(stmt) is Realize
    return stmt.condition


def test_used_under_a_select_on_a_parameter() -> None:
    condition = build.gt(p, 3)
    stmt = one_stage(lambda f: build.select(condition, call(f, x), build.int32(0)))
    assert condition_of(stmt) is not build.true()
    producer = next(n for n in iterate(stmt) if type(n) is ProducerConsumer)
    assert type(producer.body) is IfThenElse
    assert producer.body.condition is condition_of(stmt)


def test_used_always_is_left_alone() -> None:
    stmt = one_stage(lambda f: call(f, x) + build.select(build.gt(p, 3), call(f, x), x))
    assert condition_of(stmt) is build.true()


def test_a_condition_on_an_inner_loop_says_nothing() -> None:
    stmt = one_stage(lambda f: build.select(build.gt(x, 3), call(f, x), build.int32(0)))
    assert condition_of(stmt) is build.true()


def test_a_chain_of_stages_is_skipped_together() -> None:
    f, g = function("f", "x"), function("g", "x")
    last = build.select(build.gt(p, 3), call(g, x), build.int32(0))
    inner = produce_and_consume(g, Provide("g", (call(f, x),), (x,)), Provide("h", (last,), (x,)))
    outer = produce_and_consume(f, Provide("f", (x,), (x,)), realize(g, [(0, 8)], inner))
    stmt = skip_stages(realize(f, [(0, 8)], outer), lowering())
    assert evaluate(condition_of(stmt), {"p": 4}) == 1
    assert evaluate(condition_of(stmt), {"p": 3}) == 0


def test_deep_selects_cost_no_more_than_their_nodes() -> None:
    def deep(f: object) -> Expr:
        value: Expr = build.int32(0)
        for i in range(60):
            value = build.select(build.gt(p, i), value + call(f, x), value - call(f, x))  # type: ignore
        return value

    start = time.perf_counter()
    one_stage(deep)
    assert time.perf_counter() - start < 10
