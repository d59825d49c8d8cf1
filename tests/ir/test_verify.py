"""Each rule of the verifier refuses what breaks it and lets the rest pass."""

from __future__ import annotations

import pytest

from bayplan.ir.build import block, int32, likely, lt, true, var
from bayplan.ir.errors import ErrorSite, InternalError
from bayplan.ir.exprs import Call, CallKind, Load
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Block,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Provide,
    Stmt,
    Store,
)
from bayplan.ir.types import INT32
from bayplan.ir.verify import verify

x, n = var("x"), var("n")


def loop(body: Stmt, kind: ForKind = ForKind.Serial) -> For:
    return For("x", int32(0), n, kind, Partition.Auto, body)


def allocate(body: Stmt) -> Allocate:
    return Allocate("f", INT32, MemoryType.Heap, (n,), true(), 0, body)


STORE = Store("f", x, x)
ARGUMENTS = frozenset(["n", "out"])


def test_a_sound_program_passes() -> None:
    body = block([loop(STORE), loop(Store("out", Load(INT32, "f", x), x))])
    for stage in ("flattened", "unrolled", "vectorized", "final"):
        verify(allocate(body), stage, ARGUMENTS)
    verify(loop(Provide("f", (x,), (x,))), "scheduled")


@pytest.mark.parametrize(
    ("stmt", "stage", "rule"),
    [
        (loop(STORE), "flattened", "neither allocated here nor an argument"),
        (allocate(STORE), "flattened", '"x" is not defined'),
        (LetStmt("y", var("z"), Evaluate(x)), "flattened", '"z" is not defined'),
        (loop(Provide("f", (x,), (x,))), "flattened", "Provide is not legal"),
        (allocate(loop(STORE)), "scheduled", "Allocate is not legal"),
        (allocate(loop(STORE, ForKind.Unrolled)), "unrolled", "unrolled loop is not legal"),
        (allocate(loop(STORE, ForKind.Vectorized)), "vectorized", "vectorized loop is not legal"),
        (loop(IfThenElse(x, Evaluate(x))), "flattened", "a condition is a scalar bool"),
        (loop(Evaluate(likely(x))), "final", "no likely mark"),
        (Block((Evaluate(n),)), "flattened", "at least two statements"),
        (loop(Evaluate(Call(INT32, "g", (x,), CallKind.FUNC))), "unrolled", "call of kind func"),
        (AssertStmt(n, ErrorSite(InternalError, "m")), "final", "scalar bool"),
    ],
)
def test_each_rule(stmt: Stmt, stage: str, rule: str) -> None:
    with pytest.raises(InternalError, match=rule):
        verify(stmt, stage, ARGUMENTS)


def test_legal_loops_before_their_pass() -> None:
    verify(allocate(loop(STORE, ForKind.Unrolled)), "flattened", ARGUMENTS)
    verify(allocate(loop(STORE, ForKind.Vectorized)), "unrolled", ARGUMENTS)
    guarded = IfThenElse(likely(lt(x, n)), STORE)
    verify(allocate(loop(guarded)), "vectorized", ARGUMENTS)
