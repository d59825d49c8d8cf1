"""Intervals of expressions, the values an expression may take."""

from __future__ import annotations

from bayplan.analysis.linear import constant_difference
from bayplan.ir.build import conjunction, ge, le, maximum, minimum
from bayplan.ir.exprs import Expr


class Interval:
    """The values from `min` to `max`, both included; None means unbounded on that side.

    `empty` marks the interval without any value, whose ends mean nothing.
    """

    __slots__ = ("empty", "max", "min")

    def __init__(
        self, min: Expr | None = None, max: Expr | None = None, empty: bool = False
    ) -> None:
        self.min = min
        self.max = max
        self.empty = empty

    @staticmethod
    def everything() -> Interval:
        """The interval of all values."""
        return Interval(None, None)

    @staticmethod
    def nothing() -> Interval:
        """The interval of no value."""
        return Interval(None, None, empty=True)

    @staticmethod
    def single_point(e: Expr) -> Interval:
        """The interval of one value."""
        return Interval(e, e)

    def is_everything(self) -> bool:
        """Whether neither end is known."""
        return self.min is None and self.max is None and not self.empty

    def is_empty(self) -> bool:
        """Whether this is known to hold no value."""
        return self.empty

    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return self.min is not None and self.max is not None and not self.empty

    def is_single_point(self, e: Expr | None = None) -> bool:
        """Whether both ends are the same expression (and that is `e`, when given)."""
        return self.min is not None and self.min is self.max and (e is None or self.min is e)

    def union(self, other: Interval) -> Interval:
        """The least interval around both."""
        if self.empty:
            return other
        if other.empty:
            return self
        low = None if self.min is None or other.min is None else lesser(self.min, other.min)
        high = None if self.max is None or other.max is None else greater(self.max, other.max)
        return Interval(low, high)

    def intersection(self, other: Interval) -> Interval:
        """What lies in both; ends may cross where that cannot be known."""
        if self.empty or other.empty:
            return Interval.nothing()
        low = self.min
        if low is None:
            low = other.min
        elif other.min is not None:
            low = greater(low, other.min)
        high = self.max
        if high is None:
            high = other.max
        elif other.max is not None:
            high = lesser(high, other.max)
        return Interval(low, high)

    def include(self, e: Expr) -> Interval:
        """The least interval around this one and the value `e`."""
        return self.union(Interval(e, e))

    def contains(self, e: Expr) -> Expr:
        """The condition that `e` lies in the interval."""
        parts = []
        if self.min is not None:
            parts.append(ge(e, self.min))
        if self.max is not None:
            parts.append(le(e, self.max))
        return conjunction(parts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Interval)
            and self.min is other.min
            and self.max is other.max
            and self.empty == other.empty
        )

    def __hash__(self) -> int:
        return hash((self.min, self.max, self.empty))

    def __repr__(self) -> str:
        if self.empty:
            return "Interval(nothing)"
        low = "-inf" if self.min is None else str(self.min)
        high = "inf" if self.max is None else str(self.max)
        return f"Interval({low}, {high})"


def lesser(a: Expr, b: Expr) -> Expr:
    """min(a, b), decided at once where a - b is a constant."""
    distance = constant_difference(a, b)
    if distance is None:
        return minimum(a, b)
    return a if distance <= 0 else b


def greater(a: Expr, b: Expr) -> Expr:
    """max(a, b), decided at once where a - b is a constant."""
    distance = constant_difference(a, b)
    if distance is None:
        return maximum(a, b)
    return a if distance >= 0 else b
