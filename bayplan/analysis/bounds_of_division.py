"""Bounds of quotients and remainders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.analysis.ends import bounds_of_type, is_not_negative, is_positive, simplified
from bayplan.analysis.interval import Interval
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.ir import build
from bayplan.ir.build import const

if TYPE_CHECKING:
    from bayplan.analysis.bounder import Bounder

_EVERYTHING: Final = Interval.everything()


def bounds_of_quotient(bounder: Bounder, e: Any) -> Interval:
    """The interval of a division, which rounds down, or of one of floats."""
    a, b = bounder(e.a), bounder(e.b)
    t = e.type
    if t.kind == "float":
        return _divide_floats(a, b)
    if b.min is None or b.max is None:
        return _no_longer_than(a) if t.kind != "uint" else Interval(const(t, 0), a.max)
    positive = can_prove(build.gt(b.min, 0))
    if b.is_single_point() and (positive or build.is_const(b.min)):
        low = None if a.min is None else build.div(a.min, b.min)
        high = None if a.max is None else build.div(a.max, b.min)
        return simplified(low, high) if positive else simplified(high, low)
    if not positive and a.is_bounded() and can_prove(build.lt(b.max, 0)):
        return _quotient_ends(a, b)
    if b.is_single_point() and a.min is not None and a.max is not None:
        # Which end is which shows when the program runs; an exact end is worth that.
        ends = build.div(a.min, b.min), build.div(a.max, b.min)
        forward = build.gt(b.min, 0)
        return simplified(
            build.select(forward, ends[0], ends[1]), build.select(forward, ends[1], ends[0])
        )
    if not positive:
        return _no_longer_than(a) if t.kind != "uint" else Interval(const(t, 0), a.max)
    low = high = None
    if a.min is not None:
        low = build.minimum(build.div(a.min, b.min), build.div(a.min, b.max))
    if a.max is not None:
        high = build.maximum(build.div(a.max, b.min), build.div(a.max, b.max))
    return simplified(low, high)


def _quotient_ends(a: Interval, b: Interval) -> Interval:
    """Of bounded dividends and divisors that have one sign."""
    assert a.min is not None and a.max is not None and b.min is not None and b.max is not None
    ends = [build.div(x, y) for x in (a.min, a.max) for y in (b.min, b.max)]
    low = high = ends[0]
    for end in ends[1:]:
        low, high = build.minimum(low, end), build.maximum(high, end)
    return simplified(low, high)


def _no_longer_than(a: Interval) -> Interval:
    """An integer quotient is never larger in magnitude than the dividend."""
    if a.min is None or a.max is None:
        return _EVERYTHING
    negated_low, negated_high = -a.max, -a.min
    return simplified(
        build.minimum(a.min, negated_low), build.maximum(a.max, negated_high)
    )


def _divide_floats(a: Interval, b: Interval) -> Interval:
    if not b.is_bounded() or not a.is_bounded():
        return _EVERYTHING
    assert b.min is not None and b.max is not None
    assert a.min is not None and a.max is not None
    least, greatest = build.constant_value(b.min), build.constant_value(b.max)
    if not b.is_single_point() and not (
        least is not None and greatest is not None and (least > 0 or greatest < 0)
    ):
        return _EVERYTHING
    low = high = None
    for x in (a.min, a.max):
        for y in (b.min, b.max):
            q = build.div(x, y)
            low = q if low is None else build.minimum(low, q)
            high = q if high is None else build.maximum(high, q)
    return Interval(low, high)


def bounds_of_remainder(bounder: Bounder, e: Any) -> Interval:
    """The interval of a remainder, which is never negative."""
    t = e.type
    if t.kind == "float":
        return _EVERYTHING
    a, b = bounder(e.a), bounder(e.b)
    zero = const(t.element_of(), 0)
    if b.max is None:
        high = a.max if a.min is not None and is_not_negative(a.min) else None
        return Interval(zero, high)
    by = build.constant_value(b.max) if b.is_single_point() else None
    if by is not None and by > 0 and a.is_bounded():
        assert a.min is not None and a.max is not None
        if simplify(build.div(a.min, b.max)) is simplify(build.div(a.max, b.max)):
            return simplified(build.mod(a.min, b.max), build.mod(a.max, b.max))
    if b.min is not None and is_not_negative(b.min):
        high = build.sub(b.max, const(t.element_of(), 1))
    elif b.min is not None and t.kind == "int":
        # Not `max(b.max, -b.min) - 1`: the least value of a type has no negative in it.
        high = build.maximum(build.sub(b.max, 1), build.sub(const(t.element_of(), -1), b.min))
    else:
        bound = bounds_of_type(t).max
        if bound is None:
            return Interval(zero, None)
        high = bound
    if not is_positive(b.max):
        high = build.maximum(high, zero)
    if a.max is not None and a.min is not None and is_not_negative(a.min):
        high = build.minimum(high, a.max)
    return simplified(zero, high)
