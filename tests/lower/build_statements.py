"""Short makers of statements for the tests of passes."""

from __future__ import annotations

from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, Load
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import Allocate, For, ProducerConsumer, Realize, Stmt, Store
from bayplan.ir.types import INT32, Type
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.language.schedule import StorageDim
from bayplan.lower.context import Lowering


def lowering(*functions: Function) -> Lowering:
    return Lowering([], {f.name: f for f in functions}, None)


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


def function(name: str, *args: str) -> Function:
    """A Func with an int32 value, as far as passes on storage look at it."""
    result = Function(name)
    result.args = list(args)
    result.output_types = [INT32]
    result.output_buffers = [Parameter(name, INT32, True, len(args), None)]
    result.schedule.storage_dims = [StorageDim(arg) for arg in args]
    return result


def call(of: Function, *args: Expr) -> Call:
    return Call(INT32, of.name, args, CallKind.FUNC, of)


def realize(of: Function, bounds: list[tuple[int | Expr, int | Expr]], body: Stmt) -> Realize:
    zero = build.int32(0)
    pairs = tuple([(build.like(zero, low), build.like(zero, extent)) for low, extent in bounds])
    return Realize(of.name, (INT32,), MemoryType.Auto, pairs, build.true(), body)


def produce_and_consume(of: Function, producer: Stmt, consumer: Stmt) -> Stmt:
    return build.block(
        [
            ProducerConsumer(of.name, True, producer),
            ProducerConsumer(of.name, False, consumer),
        ]
    )
