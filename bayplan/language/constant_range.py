"""The integers that an expression can be, from its constants and the types in it alone.

It decides which conversions surely keep a value (`promotion.lossless_cast`), so it must be cheap
and may be coarse; `analysis` has the thorough bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.ir import exprs as ir
from bayplan.ir.types import Type

Range = tuple[int, int]

_DEEPEST: Final = 16
"""Operations that are looked through; what lies deeper can be anything its type holds."""


def constant_range(e: ir.Expr, depth: int = 0) -> Range:
    """The least and the greatest integer that `e` can be."""
    t = e.type
    whole = (int(t.min_value()), int(t.max_value()))
    if type(e) is ir.Const:
        return int(e.value), int(e.value)
    rule = _RULES.get(type(e))
    if rule is None or depth >= _DEEPEST:
        return whole
    found: Range | None = rule(e, depth + 1)
    # What leaves the type wraps, to anywhere.
    if found is None or found[0] < whole[0] or found[1] > whole[1]:
        return whole
    return found


def _integer(e: ir.Expr, depth: int) -> Range | None:
    return constant_range(e, depth) if e.type.is_int_or_uint() else None


def _cast(e: ir.Cast, depth: int) -> Range | None:
    return _integer(e.value, depth)


def _broadcast(e: ir.Broadcast, depth: int) -> Range | None:
    return _integer(e.value, depth)


def _select(e: ir.Select, depth: int) -> Range | None:
    a, b = constant_range(e.true_value, depth), constant_range(e.false_value, depth)
    return min(a[0], b[0]), max(a[1], b[1])


def _add(a: Range, b: Range) -> Range | None:
    return a[0] + b[0], a[1] + b[1]


def _sub(a: Range, b: Range) -> Range | None:
    return a[0] - b[1], a[1] - b[0]


def _mul(a: Range, b: Range) -> Range | None:
    products = [x * y for x in a for y in b]
    return min(products), max(products)


def _div(a: Range, b: Range) -> Range | None:
    if b[0] <= 0:
        return None
    quotients = [x // y for x in a for y in b]
    return min(quotients), max(quotients)


def _mod(a: Range, b: Range) -> Range | None:
    # x % 0 is 0.
    most = max(abs(b[0]), abs(b[1]), 1) - 1
    return (0, min(a[1], most)) if a[0] >= 0 else (0, most)


def _min(a: Range, b: Range) -> Range | None:
    return min(a[0], b[0]), min(a[1], b[1])


def _max(a: Range, b: Range) -> Range | None:
    return max(a[0], b[0]), max(a[1], b[1])


def _shift_right(a: Range, b: Range) -> Range | None:
    if b[0] < 0 or b[1] > 63:
        return None
    shifted = [x >> y for x in a for y in b]
    return min(shifted), max(shifted)


def _and(a: Range, b: Range) -> Range | None:
    limits = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(limits)) if limits else None


def _of_both(combine: Callable[[Range, Range], Range | None]) -> Callable[[Any, int], Range | None]:
    def rule(e: ir.Binary, depth: int) -> Range | None:
        a, b = _integer(e.a, depth), _integer(e.b, depth)
        return None if a is None or b is None else combine(a, b)

    return rule


_INTRINSICS: Final[dict[str, Callable[[Range, Range], Range | None]]] = {
    "widening_add": _add,
    "widening_sub": _sub,
    "widening_mul": _mul,
    "shift_right": _shift_right,
    "bitwise_and": _and,
}


def _call(e: ir.Call, depth: int) -> Range | None:
    combine = _INTRINSICS.get(e.name)
    if combine is None or e.kind is not ir.CallKind.PURE_INTRINSIC:
        return None
    a, b = _integer(e.args[0], depth), _integer(e.args[1], depth)
    return None if a is None or b is None else combine(a, b)


_RULES: Final[dict[type[ir.Expr], Callable[[Any, int], Range | None]]] = {
    ir.Cast: _cast,
    ir.Broadcast: _broadcast,
    ir.Select: _select,
    ir.Add: _of_both(_add),
    ir.Sub: _of_both(_sub),
    ir.Mul: _of_both(_mul),
    ir.Div: _of_both(_div),
    ir.Mod: _of_both(_mod),
    ir.Min: _of_both(_min),
    ir.Max: _of_both(_max),
    ir.Call: _call,
}


def fits(t: Type, e: ir.Expr) -> bool:
    """Whether the integer type `t` surely holds every value of the integer `e`."""
    if not (t.is_int_or_uint() and e.type.is_int_or_uint()):
        return False
    low, high = constant_range(e)
    return t.min_value() <= low and high <= t.max_value()
