"""What comparisons of integers always are, by the constant ends of both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bayplan.ir.exprs import EQ, GE, GT, LE, LT, NE

Ends = tuple[int | None, int | None]


def _below(a: Ends, b: Ends) -> bool:
    return a[1] is not None and b[0] is not None and a[1] < b[0]


def _not_above(a: Ends, b: Ends) -> bool:
    return a[1] is not None and b[0] is not None and a[1] <= b[0]


def _less(a: Ends, b: Ends) -> bool | None:
    return True if _below(a, b) else False if _not_above(b, a) else None


def _less_or_equal(a: Ends, b: Ends) -> bool | None:
    return True if _not_above(a, b) else False if _below(b, a) else None


def _equal(a: Ends, b: Ends) -> bool | None:
    if _below(a, b) or _below(b, a):
        return False
    return True if _not_above(a, b) and _not_above(b, a) else None


def _unequal(a: Ends, b: Ends) -> bool | None:
    equal = _equal(a, b)
    return None if equal is None else not equal


DECISIONS: Final[dict[type, Callable[[Ends, Ends], bool | None]]] = {
    LT: _less,
    GT: lambda a, b: _less(b, a),
    LE: _less_or_equal,
    GE: lambda a, b: _less_or_equal(b, a),
    EQ: _equal,
    NE: _unequal,
}
"""Of each comparison: whether it holds for all values between the ends, None where for some."""
