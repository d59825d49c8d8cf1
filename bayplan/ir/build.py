"""Makers of nodes that fold constants and the plainest identities, for passes and analyses.

They keep nodes small at no cost; anything that needs thought is left to `analysis.simplify`.
Python numbers are accepted on the right and take the type of the other operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    CallKind,
    Cast,
    Const,
    Div,
    Expr,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Variable,
)
from bayplan.ir.stmts import Block, Evaluate, Stmt
from bayplan.ir.types import BOOL, INT32, Type

Operand = Expr | int | float


def int32(value: int) -> Const:
    """The int32 constant `value`."""
    return Const(INT32, value)


def const(t: Type, value: int | float) -> Expr:
    """The constant `value` wrapped to the type `t`, broadcast to its lanes."""
    if t.lane_count == 1:
        return Const(t, t.wrap(value))
    element = t.element_of()
    return Broadcast(Const(element, element.wrap(value)), t.lane_count)


def true(lanes: int = 1) -> Expr:
    """The bool that holds."""
    return const(BOOL.with_lanes(lanes), 1)


def false(lanes: int = 1) -> Expr:
    """The bool that does not hold."""
    return const(BOOL.with_lanes(lanes), 0)


def like(other: Expr, value: Operand) -> Expr:
    """`value` as a node: itself, or a constant of the type of `other`."""
    if isinstance(value, Expr):
        return value
    return const(other.type, value)


def var(name: str) -> Variable:
    """The int32 variable `name`."""
    return Variable(INT32, name)


def constant_value(e: Expr) -> int | float | None:
    """The number a constant (or broadcast constant) stands for, else None."""
    while type(e) is Broadcast:
        e = e.value
    if type(e) is Const:
        return e.value
    return None


def is_const(e: Expr, value: int | float | None = None) -> bool:
    """Whether `e` is a constant, and equal to `value` when one is given."""
    found = constant_value(e)
    return found is not None and (value is None or found == value)


def is_zero(e: Expr) -> bool:
    """Whether `e` is the constant 0."""
    return constant_value(e) == 0


def is_one(e: Expr) -> bool:
    """Whether `e` is the constant 1 (true, for bools)."""
    return constant_value(e) == 1


def floor_div(a: int, b: int) -> int:
    """Integer division as the language defines it: floor, and 0 where b is 0."""
    return 0 if b == 0 else a // b


def floor_mod(a: int, b: int) -> int:
    """Integer remainder as the language defines it: in [0, |b|), and 0 where b is 0."""
    return 0 if b == 0 else a % abs(b)


def euclidean_div(a: int, b: int) -> int:
    """The quotient that belongs to `floor_mod`: a == b * quotient + remainder."""
    if b == 0:
        return 0
    return (a - a % abs(b)) // b


def _float_div(a: float, b: float) -> float | None:
    return None if b == 0 else a / b


_FOLD: Final[dict[type[Binary], Callable[[Any, Any], Any]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Min: min,
    Max: max,
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
    And: lambda a, b: a and b,
    Or: lambda a, b: a or b,
}


def fold_binary(cls: type[Binary], a: Expr, b: Expr) -> Expr | None:
    """The constant that `cls` of two constants is, or None where it is not to be folded.

    An int32 or int64 result that overflows is left alone: it is the user's fault, not ours to hide.
    """
    x = constant_value(a)
    y = constant_value(b)
    if x is None or y is None:
        return None
    t = a.type
    if cls is Div:
        value: Any = _float_div(x, y) if t.kind == "float" else euclidean_div(int(x), int(y))
    elif cls is Mod:
        value = None if t.kind == "float" else floor_mod(int(x), int(y))
    else:
        value = _FOLD[cls](x, y)
    if value is None:
        return None
    if cls in (EQ, NE, LT, LE, GT, GE):
        return const(BOOL.with_lanes(t.lane_count), 1 if value else 0)
    if t.kind == "int" and t.width >= 32 and t.wrap(value) != value:
        return None
    return const(t, value)


def add(a: Expr, b: Operand) -> Expr:
    """a + b."""
    b = like(a, b)
    folded = fold_binary(Add, a, b)
    if folded is not None:
        return folded
    if a.type.kind != "float":
        if is_zero(b):
            return a
        if is_zero(a):
            return b
        # (x + c1) + c2 and (x - y) + y, the forms index arithmetic is full of.
        if type(a) is Add and type(b) is Const and type(a.b) is Const:
            return add(a.a, add(a.b, b))
        if type(a) is Sub and a.b is b:
            return a.a
    return Add(a, b)


def sub(a: Expr, b: Operand) -> Expr:
    """a - b."""
    b = like(a, b)
    folded = fold_binary(Sub, a, b)
    if folded is not None:
        return folded
    if a.type.kind != "float":
        if is_zero(b):
            return a
        if a is b:
            return const(a.type, 0)
        if type(b) is Const and b.type.kind == "int" and -b.value >= -(1 << 31):
            return add(a, Const(b.type, b.type.wrap(-b.value)))
        if type(a) is Add:
            if a.a is b:
                return a.b
            if a.b is b:
                return a.a
    return Sub(a, b)


def mul(a: Expr, b: Operand) -> Expr:
    """a * b."""
    b = like(a, b)
    folded = fold_binary(Mul, a, b)
    if folded is not None:
        return folded
    if is_one(b):
        return a
    if is_one(a):
        return b
    if a.type.kind != "float":
        if is_zero(a):
            return a
        if is_zero(b):
            return b
        if is_const(a):
            return Mul(b, a)
    return Mul(a, b)


def div(a: Expr, b: Operand) -> Expr:
    """a / b: floor division on integers."""
    b = like(a, b)
    folded = fold_binary(Div, a, b)
    if folded is not None:
        return folded
    if is_one(b):
        return a
    return Div(a, b)


def mod(a: Expr, b: Operand) -> Expr:
    """a % b: non-negative remainder on integers."""
    b = like(a, b)
    folded = fold_binary(Mod, a, b)
    if folded is not None:
        return folded
    if is_one(b) and a.type.kind != "float":
        return const(a.type, 0)
    return Mod(a, b)


def minimum(a: Expr, b: Operand) -> Expr:
    """The lesser of a and b."""
    b = like(a, b)
    if a is b:
        return a
    folded = fold_binary(Min, a, b)
    return folded if folded is not None else Min(a, b)


def maximum(a: Expr, b: Operand) -> Expr:
    """The greater of a and b."""
    b = like(a, b)
    if a is b:
        return a
    folded = fold_binary(Max, a, b)
    return folded if folded is not None else Max(a, b)


def clamp(value: Expr, low: Operand, high: Operand) -> Expr:
    """max(min(value, high), low)."""
    return maximum(minimum(value, high), low)


def _compare(cls: type[Binary], when_same: bool, a: Expr, b: Operand) -> Expr:
    b = like(a, b)
    folded = fold_binary(cls, a, b)
    if folded is not None:
        return folded
    if a is b and a.type.kind != "float":
        return true(a.type.lane_count) if when_same else false(a.type.lane_count)
    return cls(a, b)


def eq(a: Expr, b: Operand) -> Expr:
    """a == b."""
    return _compare(EQ, True, a, b)


def ne(a: Expr, b: Operand) -> Expr:
    """a != b."""
    return _compare(NE, False, a, b)


def lt(a: Expr, b: Operand) -> Expr:
    """a < b."""
    return _compare(LT, False, a, b)


def le(a: Expr, b: Operand) -> Expr:
    """a <= b."""
    return _compare(LE, True, a, b)


def gt(a: Expr, b: Operand) -> Expr:
    """a > b."""
    return _compare(GT, False, a, b)


def ge(a: Expr, b: Operand) -> Expr:
    """a >= b."""
    return _compare(GE, True, a, b)


def logical_and(a: Expr, b: Expr) -> Expr:
    """Both hold."""
    if is_one(a) or is_zero(b):
        return b
    if is_one(b) or is_zero(a) or a is b:
        return a
    return And(a, b)


def logical_or(a: Expr, b: Expr) -> Expr:
    """Either holds."""
    if is_zero(a) or is_one(b):
        return b
    if is_zero(b) or is_one(a) or a is b:
        return a
    return Or(a, b)


_NEGATED: Final[dict[type[Expr], type[Binary]]] = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}


def logical_not(a: Expr) -> Expr:
    """The contrary holds (comparisons of integers are turned round)."""
    value = constant_value(a)
    if value is not None:
        return const(a.type, 0 if value else 1)
    if type(a) is Not:
        return a.value
    turned = _NEGATED.get(type(a))
    if turned is not None and a.a.type.kind != "float":  # type: ignore[attr-defined]
        return turned(a.a, a.b)  # type: ignore[attr-defined]
    return Not(a)


def select(condition: Expr, true_value: Expr, false_value: Operand) -> Expr:
    """`true_value` where `condition` holds, else `false_value`."""
    false_value = like(true_value, false_value)
    value = constant_value(condition)
    if value is not None:
        return true_value if value else false_value
    if true_value is false_value:
        return true_value
    return Select(condition, true_value, false_value)


def cast(t: Type, e: Expr) -> Expr:
    """The value converted to `t`; `t` may be a scalar type, lanes are kept."""
    if t.lane_count != e.type.lane_count:
        t = t.with_lanes(e.type.lane_count)
    if e.type is t:
        return e
    if type(e) is Const and t.kind != "handle":
        if e.type.kind == "float" and t.kind != "float" and not abs(e.value) < 2**31:
            return Cast(t, e)
        return Const(t, t.wrap(e.value))
    if type(e) is Broadcast:
        return Broadcast(cast(t.with_lanes(e.value.type.lane_count), e.value), e.lanes)
    return Cast(t, e)


def broadcast(e: Expr, lanes: int) -> Expr:
    """`e` repeated in `lanes` lanes; itself where that is one."""
    return e if lanes == 1 else Broadcast(e, lanes)


def ramp(base: Expr, stride: Operand, lanes: int) -> Expr:
    """base, base + stride, ...; `base` itself for one lane."""
    if lanes == 1:
        return base
    stride = like(base, stride)
    return Broadcast(base, lanes) if is_zero(stride) else Ramp(base, stride, lanes)


def intrinsic(t: Type, name: str, *args: Expr) -> Call:
    """A call of the pure intrinsic `name`."""
    return Call(t, name, args, CallKind.PURE_INTRINSIC)


def likely(e: Expr) -> Expr:
    """`e`, marked as what nearly always holds or is taken."""
    return Call(e.type, "likely", (e,), CallKind.PURE_INTRINSIC)


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """All of the conditions hold."""
    result: Expr = true()
    for condition in conditions:
        result = logical_and(result, condition)
    return result


def nothing() -> Stmt:
    """The empty statement."""
    return Evaluate(Const(INT32, 0))


def is_nothing(s: Stmt) -> bool:
    """Whether `s` is the empty statement."""
    return type(s) is Evaluate and is_const(s.value)


def block(stmts: Iterable[Stmt | None]) -> Stmt:
    """The statements one after another, flat and without empty ones."""
    flat: list[Stmt] = []
    for s in stmts:
        if s is None or is_nothing(s):
            continue
        if type(s) is Block:
            flat.extend(s.stmts)
        else:
            flat.append(s)
    if not flat:
        return nothing()
    return flat[0] if len(flat) == 1 else Block(tuple(flat))
