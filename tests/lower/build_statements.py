"""Short makers of statements for the tests of passes."""

from __future__ import annotations

from bayplan.ir import build
from bayplan.ir.exprs import Expr, Load
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import Allocate, For, Stmt, Store
from bayplan.ir.types import INT32, Type
from bayplan.lower.context import Lowering


def lowering() -> Lowering:
    return Lowering([], {}, None)


def loop(name: str, low: int | Expr, extent: int | Expr, kind: ForKind, body: Stmt) -> For:
    zero = build.int32(0)
    return For(name, build.like(zero, low), build.like(zero, extent), kind, Partition.Auto, body)


def load(name: str, index: Expr, t: Type = INT32) -> Load:
    return Load(t, name, index)


def allocate(name: str, size: int | Expr, body: Stmt) -> Allocate:
    size = build.like(build.int32(0), size)
    return Allocate(name, INT32, MemoryType.Auto, (size,), build.true(), 0, body)


def store(name: str, value: Expr, index: Expr) -> Store:
    return Store(name, value, index)
