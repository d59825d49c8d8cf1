"""A tiny interpreter of IR expressions, lane by lane, as the targets' oracle."""

from __future__ import annotations

import math
from typing import Any

from bayplan.ir import exprs as E
from bayplan.ir.build import euclidean_div
from bayplan.ir.types import Type
from bayplan.targets.expand_intrinsics import expand_intrinsics

Memory = dict[str, list[Any]]


def evaluate(e: E.Expr, memory: Memory, names: dict[str, list[Any]] | None = None) -> list[Any]:
    """The lanes of the expression."""
    memo: dict[E.Expr, list[Any]] = {}
    scope = dict(names or {})

    def value(e: E.Expr) -> list[Any]:
        found = memo.get(e)
        if found is None:
            found = memo[e] = look(e)
        return found

    def look(e: E.Expr) -> list[Any]:
        t = e.type
        if isinstance(e, E.Const):
            return [e.value]
        if isinstance(e, E.Variable):
            return scope[e.name]
        if isinstance(e, E.Let):
            scope[e.name] = value(e.value)
            return value(e.body)
        if isinstance(e, E.Broadcast):
            return value(e.value) * e.lanes
        if isinstance(e, E.Ramp):
            base, stride = value(e.base), value(e.stride)
            return [t.wrap(b + k * s) for k in range(e.lanes) for b, s in zip(base, stride)]
        if isinstance(e, E.Shuffle):
            lanes = [x for v in e.vectors for x in value(v)]
            return [lanes[i] for i in e.indices]
        if isinstance(e, E.Load):
            index = value(e.index)
            active = value(e.predicate) if e.predicate is not None else [1] * len(index)
            return [memory[e.name][i] if p else 0 for i, p in zip(index, active)]
        if isinstance(e, E.Cast):
            return [convert(x, e.value.type, t) for x in value(e.value)]
        if isinstance(e, E.Not):
            return [int(not x) for x in value(e.value)]
        if isinstance(e, E.Select):
            c = value(e.condition)
            a, b = value(e.true_value), value(e.false_value)
            c = c * len(a) if len(c) == 1 else c
            return [x if k else y for k, x, y in zip(c, a, b)]
        if isinstance(e, E.VectorReduce):
            return reduce(e, value(e.value))
        if isinstance(e, E.Binary):
            return [binary(type(e), x, y, t, e.a.type) for x, y in zip(value(e.a), value(e.b))]
        if isinstance(e, E.Call):
            return call(e)
        raise TypeError(type(e))

    def call(e: E.Call) -> list[Any]:
        expanded = expand_intrinsics(e)
        if expanded is not None:
            return value(expanded)
        t = e.type
        rows = list(zip(*[value(a) for a in e.args]))
        return [t.wrap(primitive(e.name, row, e.args[0].type, t)) for row in rows]

    return value(e)


def convert(x: Any, source: Type, t: Type) -> Any:
    if t.width == 1:
        return int(x != 0)
    if t.kind in ("int", "uint") and source.kind == "float":
        return t.wrap(math.trunc(x))
    return t.wrap(x)


def reduce(e: E.VectorReduce, lanes: list[Any]) -> list[Any]:
    factor = len(lanes) // e.lanes
    result = []
    node = {
        E.ReduceOp.ADD: E.Add,
        E.ReduceOp.MUL: E.Mul,
        E.ReduceOp.MIN: E.Min,
        E.ReduceOp.MAX: E.Max,
        E.ReduceOp.AND: E.And,
        E.ReduceOp.OR: E.Or,
    }[e.op]
    for k in range(e.lanes):
        group = lanes[k * factor : (k + 1) * factor]
        total = group[0]
        for x in group[1:]:
            total = binary(node, total, x, e.type, e.type)
        result.append(total)
    return result


def binary(cls: type, x: Any, y: Any, t: Type, operand: Type) -> Any:
    if cls is E.Add:
        return t.wrap(x + y)
    if cls is E.Sub:
        return t.wrap(x - y)
    if cls is E.Mul:
        return t.wrap(x * y)
    if cls is E.Div:
        if t.kind == "float":
            return t.wrap(x / y) if y else float("nan")
        return t.wrap(euclidean_div(x, y)) if y else 0
    if cls is E.Mod and t.kind == "float":
        return t.wrap(x - y * math.floor(x / y)) if y else float("nan")
    if cls is E.Mod:
        return t.wrap(x - y * euclidean_div(x, y)) if y else 0
    if cls is E.Min:
        return min(x, y)
    if cls is E.Max:
        return max(x, y)
    return int({
        E.EQ: x == y, E.NE: x != y, E.LT: x < y, E.LE: x <= y, E.GT: x > y, E.GE: x >= y,
        E.And: bool(x and y), E.Or: bool(x or y),
    }[cls])  # fmt: skip


def primitive(name: str, args: tuple[Any, ...], source: Type, t: Type) -> Any:
    a = args[0]
    bits = source.width
    mask = (1 << bits) - 1
    if name == "bitwise_and":
        return a & args[1]
    if name == "bitwise_or":
        return a | args[1]
    if name == "bitwise_xor":
        return a ^ args[1]
    if name == "bitwise_not":
        return int(not a) if bits == 1 else ~a
    if name in ("shift_left", "shift_right"):
        n = args[1] if name == "shift_left" else -args[1]
        return a << n if n >= 0 else a >> -n
    if name == "popcount":
        return bin(a & mask).count("1")
    if name == "count_leading_zeros":
        return bits - (a & mask).bit_length()
    if name == "count_trailing_zeros":
        a &= mask
        return (a & -a).bit_length() - 1 if a else bits
    if name == "if_then_else":
        return args[1] if a else args[2]
    if name in ("strict_float",):
        return a
    if name == "fma":
        return a * args[1] + args[2]
    if name in ("sqrt", "exp", "log", "floor", "ceil", "sin", "cos"):
        return getattr(math, name)(a)
    raise KeyError(name)
