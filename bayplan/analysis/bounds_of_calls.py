"""Bounds of calls: Funcs, images, intrinsics and mathematical functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.analysis import bounds_of_bits
from bayplan.analysis.ends import bounds_of_type, map_ends, simplified
from bayplan.analysis.interval import Interval
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import Call, CallKind, Expr

if TYPE_CHECKING:
    from bayplan.analysis.bounder import Bounder


def bounds_of_call(bounder: Bounder, e: Call) -> Interval:
    """The interval of a call."""
    if e.kind is CallKind.FUNC or e.kind is CallKind.IMAGE:
        found = bounder.func_bounds.get((e.name, e.value_index))
        return bounds_of_type(e.type) if found is None else found
    rule = _CALLS.get(e.name)
    if rule is not None:
        result = rule(bounder, e)
        if result is not None:
            return result
    if e.is_pure() and e.args:
        points = [bounder(a) for a in e.args]
        if all(p.is_single_point() for p in points):
            args = tuple([p.min for p in points])
            return Interval.single_point(
                Call(e.type, e.name, args, e.kind, e.target, e.value_index)  # type: ignore[arg-type]
            )
    return bounds_of_type(e.type)


def _first(bounder: Bounder, e: Call) -> Interval:
    return bounder(e.args[0])


def _second(bounder: Bounder, e: Call) -> Interval:
    return bounder(e.args[1])


def _promise(bounder: Bounder, e: Call) -> Interval:
    value, low, high = bounder(e.args[0]), bounder(e.args[1]), bounder(e.args[2])
    least, greatest = low.min, high.max
    if value.min is not None:
        least = value.min if least is None else build.maximum(value.min, least)
    if value.max is not None:
        greatest = value.max if greatest is None else build.minimum(value.max, greatest)
    return simplified(least, greatest)


def _if_then_else(bounder: Bounder, e: Call) -> Interval:
    if len(e.args) < 3:
        return bounder.under(e.args[0], True)(e.args[1])
    return bounder.either(e.args[0], e.args[1], e.args[2])


def _abs(bounder: Bounder, e: Call) -> Interval | None:
    a = bounder(e.args[0])
    t = e.type.element_of()
    zero = const(t, 0)
    if not a.is_bounded():
        return Interval(zero, None) if t.kind != "uint" or t.width >= 32 else None
    assert a.min is not None and a.max is not None
    low, high = build.constant_value(a.min), build.constant_value(a.max)
    least = zero if low is None or high is None else const(t, max(low, -high, 0))
    return Interval(least, simplify(build.maximum(_absolute(t, a.min), _absolute(t, a.max))))


def _absolute(t: Any, e: Expr) -> Expr:
    value = build.constant_value(e)
    return const(t, abs(value)) if value is not None else build.intrinsic(t, "abs", e)


def _absd(bounder: Bounder, e: Call) -> Interval | None:
    a, b = bounder(e.args[0]), bounder(e.args[1])
    t = e.type.element_of()
    if not a.is_bounded() or not b.is_bounded():
        return None
    assert a.min is not None and a.max is not None and b.min is not None and b.max is not None
    ends = [build.constant_value(x) for x in (a.min, a.max, b.min, b.max)]
    if None in ends:
        return None
    most = max(ends[1] - ends[2], ends[3] - ends[0])  # type: ignore[operator]
    least = max(ends[0] - ends[3], ends[2] - ends[1], 0)  # type: ignore[operator]
    return Interval(const(t, least), const(t, max(most, 0)))


def _lerp(bounder: Bounder, e: Call) -> Interval:
    return bounder(e.args[0]).union(bounder(e.args[1]))


def _rising(bounder: Bounder, e: Call) -> Interval | None:
    a = bounder(e.args[0])
    t = e.type.element_of()
    if a.min is None and a.max is None:
        return Interval(const(t, 0), None) if e.name in ("sqrt", "exp") else None
    return map_ends(a, lambda v: Call(t, e.name, (v,), e.kind))


def _rounding(bounder: Bounder, e: Call) -> Interval | None:
    return map_ends(bounder(e.args[0]), lambda v: _rounded(e, v))


def _rounded(e: Call, v: Expr) -> Expr:
    import math

    value = build.constant_value(v)
    if value is not None and math.isfinite(value):
        if e.name == "round":
            whole = float(round(value))
        else:
            whole = float(getattr(math, e.name)(value))
        return const(v.type, whole)
    return Call(v.type, e.name, (v,), e.kind)


def _wave(bounder: Bounder, e: Call) -> Interval:
    t = e.type.element_of()
    return Interval(const(t, -1), const(t, 1))


def _random(bounder: Bounder, e: Call) -> Interval:
    t = e.type.element_of()
    return Interval(const(t, 0), const(t, 1))


def _widening(bounder: Bounder, e: Call) -> Interval | None:
    """widening_add, _sub, _mul of constant bounds: exact in the wider type."""
    a_low, a_high = bounder.constants(e.args[0])
    b_low, b_high = bounder.constants(e.args[1])
    t = e.type.element_of()
    if a_low is None or a_high is None or b_low is None or b_high is None or t.kind == "float":
        return None
    if e.name == "widening_add":
        ends = [a_low + b_low, a_high + b_high]
    elif e.name == "widening_sub":
        ends = [a_low - b_high, a_high - b_low]
    else:
        ends = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
    return Interval(const(t, min(ends)), const(t, max(ends)))


_CALLS: Final[dict[str, Callable[[Any, Call], Interval | None]]] = {
    **bounds_of_bits.RULES,
    "likely": _first,
    "likely_if_innermost": _first,
    "strict_float": _first,
    "print": _first,
    "print_when": _second,
    "return_second": _second,
    "require": _second,
    "promise_clamped": _promise,
    "unsafe_promise_clamped": _promise,
    "if_then_else": _if_then_else,
    "abs": _abs,
    "absd": _absd,
    "lerp": _lerp,
    "sqrt": _rising,
    "exp": _rising,
    "floor": _rounding,
    "ceil": _rounding,
    "round": _rounding,
    "trunc": _rounding,
    "sin": _wave,
    "cos": _wave,
    "random_float": _random,
    "widening_add": _widening,
    "widening_sub": _widening,
    "widening_mul": _widening,
}
