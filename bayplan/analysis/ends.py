"""What is done with the ends of intervals: mapped, narrowed, simplified, compared with zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.analysis.facts import Facts
from bayplan.analysis.interval import Interval
from bayplan.analysis.ranges import range_of, type_range
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import Expr
from bayplan.ir.types import Type


def bounds_of_type(t: Type) -> Interval:
    """The interval of all values of a type; open where arithmetic is taken not to overflow."""
    t = t.element_of()
    low, high = type_range(t)
    return Interval(
        None if low is None else const(t, low), None if high is None else const(t, high)
    )


def map_ends(a: Interval, f: Callable[[Expr], Expr]) -> Interval:
    """The interval of a function that rises."""
    return Interval(None if a.min is None else f(a.min), None if a.max is None else f(a.max))


def nearer(
    choose: Callable[[Expr, Expr], Expr], a: Expr | None, b: Expr | None
) -> Expr | None:
    """The tighter of two ends, of which either may be unknown."""
    if a is None:
        return b
    return a if b is None else choose(a, b)


def within_type(a: Interval, t: Type) -> Interval:
    """The interval with the type's ends where it has none."""
    if a.is_bounded():
        return a
    whole = bounds_of_type(t)
    return Interval(
        whole.min if a.min is None else a.min, whole.max if a.max is None else a.max
    )


def simplified(low: Expr | None, high: Expr | None) -> Interval:
    """The interval between two ends, which are simplified."""
    return Interval(
        None if low is None else simplify(low), None if high is None else simplify(high)
    )


def is_not_negative(e: Expr) -> bool:
    """Whether it is known to be at least 0."""
    value = build.constant_value(e)
    if value is not None:
        return value >= 0
    return e.type.kind != "float" and can_prove(build.ge(e, 0))


def is_not_positive(e: Expr) -> bool:
    """Whether it is known to be at most 0."""
    value = build.constant_value(e)
    if value is not None:
        return value <= 0
    return e.type.kind != "float" and can_prove(build.le(e, 0))


def is_positive(e: Expr) -> bool:
    """Whether it is known to be above 0; not so for floats."""
    return e.type.kind != "float" and can_prove(build.gt(e, 0))


def constant_ends(a: Interval) -> tuple[Any, Any]:
    """The ends of an interval as numbers, as far as they are or can be bounded by numbers."""
    low = high = None
    if a.min is not None:
        low = build.constant_value(a.min)
        if low is None and a.min.type.kind != "float":
            low = range_of(simplify(a.min), Facts.none())[0]
    if a.max is not None:
        high = build.constant_value(a.max)
        if high is None and a.max.type.kind != "float":
            high = range_of(simplify(a.max), Facts.none())[1]
    return (low, high)
