"""Index arithmetic computed anew in 64 bits, to see whether 32 were enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bayplan.ir.build import add, cast, const, le, logical_and, maximum, minimum, mul, sub
from bayplan.ir.exprs import Add, Call, Expr, Max, Min, Mul, Select, Sub
from bayplan.ir.types import INT32, INT64

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
_ARITHMETIC: Final[dict[type, Callable[[Expr, Expr], Expr]]] = {
    Add: add, Sub: sub, Mul: mul, Min: minimum, Max: maximum
}  # fmt: skip


class Widen:
    """Gives expressions in 64 bits, with the arithmetic itself done in them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Expr, Expr] = {}

    def __call__(self, e: Expr) -> Expr:
        """The same in 64 bits."""
        found = self._known.get(e)
        if found is None:
            found = self._known[e] = self._widen(e)
        return found

    def _widen(self, e: Expr) -> Expr:
        if e.type is not INT32:
            return cast(INT64, e)
        combine = _ARITHMETIC.get(type(e))
        if combine is not None:
            a, b = e.children()
            assert isinstance(a, Expr) and isinstance(b, Expr)
            return combine(self(a), self(b))
        if type(e) is Select:
            return Select(e.condition, self(e.true_value), self(e.false_value))
        if type(e) is Call and e.name == "largest_over":
            *loop, value = e.args
            return Call(INT64, e.name, (*loop, self(value)), e.kind)
        return cast(INT64, e)


def fits(wide: Expr) -> Expr:
    """Whether a number of 64 bits is one of 32."""
    low, high = const(INT64, INT32_MIN), const(INT64, INT32_MAX)
    return logical_and(le(low, wide), le(wide, high))
