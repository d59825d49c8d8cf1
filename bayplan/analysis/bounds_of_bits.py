"""Bounds of operations on bits, and of arithmetic that saturates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.analysis.ends import map_ends
from bayplan.analysis.interval import Interval
from bayplan.analysis.linear import is_index_type
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import Call, Expr
from bayplan.ir.types import Type

if TYPE_CHECKING:
    from bayplan.analysis.bounder import Bounder

Ends = tuple[int, int]


def _constants(bounder: Bounder, e: Call) -> list[Ends] | None:
    """Constant ends of all arguments, None where one has none."""
    found: list[Ends] = []
    for arg in e.args:
        low, high = bounder.constants(arg)
        t = arg.type.element_of()
        if t.kind not in ("int", "uint"):
            return None
        least = int(t.min_value()) if low is None else low
        found.append((least, int(t.max_value()) if high is None else high))
    return found


def _fitting(t: Type, low: int, high: int) -> Interval | None:
    """The interval where the type holds both ends; open at the ends of an index type."""
    if not t.can_represent(low) or not t.can_represent(high):
        return None
    open_ended = is_index_type(t)
    return Interval(
        None if open_ended and low == t.min_value() else const(t, low),
        None if open_ended and high == t.max_value() else const(t, high),
    )


def _shift(bounder: Bounder, e: Call) -> Interval | None:
    a, b = bounder(e.args[0]), bounder(e.args[1])
    t = e.type.element_of()
    by = build.constant_value(b.min) if b.is_single_point() and b.min is not None else None
    if isinstance(by, int) and 0 <= by < t.width:
        if e.name == "shift_right":
            factor = 1 << by
            if is_index_type(t) or t.kind == "int":
                return map_ends(a, lambda v: simplify(_divided(v, factor)))
            return map_ends(a, lambda v: _divided(v, factor))
        if e.name == "shift_left" and is_index_type(t) and by < 31:
            return map_ends(a, lambda v: simplify(build.mul(v, 1 << by)))
    if e.name == "shift_right" and t.kind == "uint" and a.max is not None:
        if b.min is not None and (build.constant_value(b.min) or -1) >= 0:
            return Interval(const(t, 0), a.max)
    ends = _constants(bounder, e)
    if ends is None:
        return None
    (low, high), (least, most) = ends
    if least < 0 or most >= t.width:
        return None
    if e.name == "shift_right":
        shifted = [v >> k for v in (low, high) for k in (least, most)]
    else:
        shifted = [v << k for v in (low, high) for k in (least, most)]
    return _fitting(t, min(shifted), max(shifted))


def _divided(e: Expr, by: int) -> Expr:
    if not e.type.can_represent(by):
        return build.intrinsic(e.type, "shift_right", e, const(e.type, by.bit_length() - 1))
    return build.div(e, const(e.type, by))


def either_bits(a: Ends, b: Ends) -> Ends:
    """Ends of a | b: no bit is lost, so it is nearer to -1 than what is negative."""
    negative = [low for low, high in (a, b) if high < 0]
    if negative:
        return (max(negative), -1)
    top = (1 << max(a[1], b[1], 0).bit_length()) - 1
    if a[0] >= 0 and b[0] >= 0:
        return (max(a[0], b[0]), top)
    return (min(a[0], b[0]), top)


def both_bits(a: Ends, b: Ends) -> Ends:
    """Ends of a & b, which is ~(~a | ~b)."""
    low, high = either_bits((~a[1], ~a[0]), (~b[1], ~b[0]))
    return (~high, ~low)


def differing_bits(a: Ends, b: Ends) -> Ends:
    """Ends of a ^ b: no longer than the operands, with the sign that theirs give."""
    width = max([(v if v >= 0 else ~v).bit_length() for v in (*a, *b)])
    signs = {(x < 0) != (y < 0) for x in a for y in b}
    return (-(1 << width) if True in signs else 0, (1 << width) - 1 if False in signs else -1)


_BITS: Final[dict[str, Callable[[Ends, Ends], Ends]]] = {
    "bitwise_and": both_bits,
    "bitwise_or": either_bits,
    "bitwise_xor": differing_bits,
}


def _bits(bounder: Bounder, e: Call) -> Interval | None:
    t = e.type.element_of()
    ends = _constants(bounder, e)
    if ends is None:
        return None
    (a, a_high), (b, b_high) = ends
    if a == a_high and b == b_high:
        value = {"bitwise_and": a & b, "bitwise_or": a | b, "bitwise_xor": a ^ b}[e.name]
        return _fitting(t, value, value)
    return _fitting(t, *_BITS[e.name](*ends))


def _bitwise_not(bounder: Bounder, e: Call) -> Interval | None:
    t = e.type.element_of()
    ends = _constants(bounder, e)
    if ends is None:
        return None
    mask = 0 if t.kind == "int" else (1 << t.width) - 1
    found = [~v if t.kind == "int" else v ^ mask for v in ends[0]]
    return _fitting(t, min(found), max(found))


def _saturating(bounder: Bounder, e: Call) -> Interval | None:
    """Rises and falls with its operands as the sum, difference or product does."""
    t = e.type.element_of()
    if t.kind not in ("int", "uint"):
        return None
    a, b = bounder(e.args[0]), bounder(e.args[1])
    if e.name == "saturating_sub":
        b = Interval(b.max, b.min)
    low = None if a.min is None or b.min is None else _saturated(e, t, a.min, b.min)
    high = None if a.max is None or b.max is None else _saturated(e, t, a.max, b.max)
    if t.kind == "uint" and low is None:
        low = const(t, 0)
    return Interval(low, high)


def _saturated(e: Call, t: Type, a: Expr, b: Expr) -> Expr:
    x, y = build.constant_value(a), build.constant_value(b)
    if x is None or y is None:
        return Call(t, e.name, (a, b), e.kind)
    exact = x - y if e.name == "saturating_sub" else x + y
    return const(t, min(max(int(exact), int(t.min_value())), int(t.max_value())))


def _saturating_cast(bounder: Bounder, e: Call) -> Interval | None:
    t = e.type.element_of()
    low: int | float | None
    high: int | float | None
    low, high = bounder.constants(e.args[0])
    least, greatest = t.min_value(), t.max_value()
    if t.kind == "float":
        return None
    low = least if low is None else min(max(low, least), greatest)
    high = greatest if high is None else min(max(high, least), greatest)
    return Interval(const(t, low), const(t, high))


def _bit_count(bounder: Bounder, e: Call) -> Interval:
    t = e.type.element_of()
    return Interval(const(t, 0), const(t, e.args[0].type.width))


RULES: Final[dict[str, Callable[[Any, Call], Interval | None]]] = {
    "shift_left": _shift,
    "shift_right": _shift,
    "bitwise_and": _bits,
    "bitwise_or": _bits,
    "bitwise_xor": _bits,
    "bitwise_not": _bitwise_not,
    "saturating_add": _saturating,
    "saturating_sub": _saturating,
    "saturating_cast": _saturating_cast,
    "popcount": _bit_count,
    "count_leading_zeros": _bit_count,
    "count_trailing_zeros": _bit_count,
}
