"""Rules for operations on ramps and broadcasts: they become ramps and broadcasts again."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.ranges import alignment_of
from bayplan.analysis.simplify import Simplifier
from bayplan.ir import build
from bayplan.ir.exprs import (
    GE,
    GT,
    LE,
    LT,
    Add,
    Binary,
    Broadcast,
    Const,
    Div,
    Expr,
    Mod,
    Mul,
    Ramp,
    Sub,
)


def lift(s: Simplifier, cls: type[Binary], a: Any, b: Any) -> Expr | None:
    """The operation on two simplified vectors done on what they are made of, or None."""
    a_class = type(a)
    b_class = type(b)
    if a_class is Broadcast and b_class is Broadcast:
        if a.lanes == b.lanes:
            return build.broadcast(s(_make(cls, a.value, b.value)), a.lanes)
        return None
    if a.type.kind != "int" or a.type.width < 32:
        return None
    if a_class is Ramp:
        if b_class is Ramp and a.lanes == b.lanes:
            return _two_ramps(s, cls, a, b)
        if b_class is Broadcast and a.lanes == b.lanes and a.base.type is b.value.type:
            return _ramp_and_value(s, cls, a, b.value)
    elif a_class is Broadcast and b_class is Ramp and a.lanes == b.lanes:
        if a.value.type is b.base.type:
            return _value_and_ramp(s, cls, a.value, b)
    return None


def _make(cls: type[Binary], a: Expr, b: Expr) -> Expr:
    folded = build.fold_binary(cls, a, b)
    return cls(a, b) if folded is None else folded


def _two_ramps(s: Simplifier, cls: type[Binary], a: Ramp, b: Ramp) -> Expr | None:
    if cls is Add or cls is Sub:
        stride = s(_make(cls, a.stride, b.stride))
        return build.ramp(s(_make(cls, a.base, b.base)), stride, a.lanes)
    if a.stride is b.stride and cls is not Mul and cls is not Div and cls is not Mod:
        if issubclass(cls, _Comparison):
            return build.broadcast(s(_make(cls, a.base, b.base)), a.lanes)
    return None


_Comparison: Any = LT.__mro__[1]


def _ramp_and_value(s: Simplifier, cls: type[Binary], a: Ramp, value: Expr) -> Expr | None:
    lanes = a.lanes
    if cls is Add or cls is Sub:
        return build.ramp(s(_make(cls, a.base, value)), a.stride, lanes)
    if cls is Mul:
        stride = s(_make(Mul, a.stride, value))
        return build.ramp(s(_make(Mul, a.base, value)), stride, lanes)
    if (cls is Div or cls is Mod) and type(value) is Const and value.value > 0:
        return _divided(s, cls, a, value)
    if issubclass(cls, _Comparison):
        return _compared(s, cls, a, value)
    return None


def _value_and_ramp(s: Simplifier, cls: type[Binary], value: Expr, b: Ramp) -> Expr | None:
    if cls is Add or cls is Mul:
        return _ramp_and_value(s, cls, b, value)
    if cls is Sub:
        stride = s(build.sub(build.const(b.stride.type, 0), b.stride))
        return build.ramp(s(_make(Sub, value, b.base)), stride, b.lanes)
    turned: dict[Any, Any] = {LT: GT, LE: GE, GT: LT, GE: LE}
    if cls in turned:
        return _compared(s, turned[cls], b, value)
    return None


def _divided(s: Simplifier, cls: type[Binary], a: Ramp, value: Const) -> Expr | None:
    """A ramp divided by a constant, where it becomes a ramp or a broadcast."""
    by = int(value.value)
    if a.base.type.lane_count != 1 or type(a.stride) is not Const:
        return None
    step = int(a.stride.value)
    base = s(_make(cls, a.base, value))
    if step % by == 0:
        step = step // by if cls is Div else 0
        return build.ramp(base, build.const(a.stride.type, step), a.lanes)
    # All lanes in the same group of `by`: the first one's place in it is known.
    modulus, remainder = alignment_of(a.base, s.facts)
    place = remainder % by
    if modulus % by == 0 and 0 <= place + step * (a.lanes - 1) < by:
        if cls is Div:
            return build.broadcast(base, a.lanes)
        return build.ramp(base, a.stride, a.lanes)
    return None


def _compared(s: Simplifier, cls: type[Binary], a: Ramp, value: Expr) -> Expr | None:
    """A ramp compared with one value, where all lanes agree."""
    if cls not in (LT, LE, GT, GE) or type(a.stride) is not Const or a.type.lane_count != a.lanes:
        return None
    last = build.add(a.base, build.const(a.base.type, int(a.stride.value) * (a.lanes - 1)))
    ends = [s(_make(cls, a.base, value)), s(_make(cls, last, value))]
    if build.is_one(ends[0]) and build.is_one(ends[1]):
        return build.true(a.lanes)
    if build.is_zero(ends[0]) and build.is_zero(ends[1]):
        return build.false(a.lanes)
    return None
