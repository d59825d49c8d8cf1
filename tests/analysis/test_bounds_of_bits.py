"""Bounds of operations on bits and of saturating arithmetic, against all values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from bayplan.analysis.bounds import bounds_of_expr_in_scope
from bayplan.analysis.interval import Interval
from bayplan.ir.build import const, constant_value, int32, intrinsic, maximum, minimum, mod, var
from bayplan.ir.exprs import Cast, Expr, Variable
from bayplan.ir.types import Int, Type, UInt

INT8, UINT8 = Int(8), UInt(8)

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "saturating_add": lambda a, b: a + b,
    "saturating_sub": lambda a, b: a - b,
}

SIGNED = [(-128, -120), (-5, -3), (-2, 3), (0, 6), (4, 4), (119, 127), (-128, 127)]
UNSIGNED = [(0, 3), (5, 6), (7, 17), (128, 130), (250, 255), (0, 255)]


def _bounds(e: Expr, **scope: tuple[int, int]) -> tuple[int, int]:
    t = e.type
    variables = {
        name: Interval(const(t, low), const(t, high)) for name, (low, high) in scope.items()
    }
    found = bounds_of_expr_in_scope(e, variables)
    assert found.min is not None and found.max is not None
    low, high = constant_value(found.min), constant_value(found.max)
    assert isinstance(low, int) and isinstance(high, int)
    return low, high


def _clamped(t: Type, value: int) -> int:
    return min(max(value, int(t.min_value())), int(t.max_value()))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("t", "ends"), [(INT8, SIGNED), (UINT8, UNSIGNED)])
def test_all_values_lie_between_the_ends(
    name: str, t: Type, ends: list[tuple[int, int]]
) -> None:
    e = intrinsic(t, name, Variable(t, "a"), Variable(t, "b"))
    for a, b in product(ends, ends):
        low, high = _bounds(e, a=a, b=b)
        values = [
            _clamped(t, OPERATIONS[name](x, y))
            for x in range(a[0], a[1] + 1)
            for y in range(b[0], b[1] + 1)
        ]
        least, greatest = min(values), max(values)
        assert low <= least and greatest <= high
        if name.startswith("saturating"):
            assert (low, high) == (least, greatest)
        else:
            # The signs are exact, so an index stays inside on the side where it can.
            assert (low < 0) == (least < 0) and (high < 0) == (greatest < 0)


@pytest.mark.parametrize("name", ["shift_left", "shift_right"])
@pytest.mark.parametrize(("t", "ends"), [(INT8, SIGNED), (UINT8, UNSIGNED)])
def test_shifts_that_overflow_may_be_anything(
    name: str, t: Type, ends: list[tuple[int, int]]
) -> None:
    e = intrinsic(t, name, Variable(t, "a"), Variable(t, "b"))
    for a, by in product(ends, [(0, 0), (1, 1), (0, 3), (2, 7)]):
        exact = [
            x << y if name == "shift_left" else x >> y
            for x in range(a[0], a[1] + 1)
            for y in range(by[0], by[1] + 1)
        ]
        low, high = _bounds(e, a=a, b=by)
        if t.can_represent(min(exact)) and t.can_represent(max(exact)):
            assert low <= min(exact) and max(exact) <= high
        else:
            assert (low, high) == (t.min_value(), t.max_value())


def test_a_remainder_of_a_narrow_type_is_smaller_than_the_divisor() -> None:
    a = Variable(INT8, "a")
    assert _bounds(mod(a, const(INT8, -9)), a=(-128, 127)) == (0, 8)
    assert _bounds(mod(a, const(INT8, -128)), a=(-128, 127)) == (0, 127)
    assert _bounds(mod(a, Variable(INT8, "b")), a=(-128, 127), b=(-8, 3)) == (0, 7)


def test_what_the_simplifier_knows_of_an_expression_the_bounds_know_too() -> None:
    # It drops the clamp to 0..8, so the remainder itself must be seen to lie there.
    remainder = Cast(Int(32), mod(Cast(Int(16), var("x")), const(Int(16), -9)))
    clamped = minimum(maximum(remainder, int32(0)), int32(8))
    found = bounds_of_expr_in_scope(clamped, {"x": Interval.everything()})
    assert found.min is not None and found.max is not None
    assert (constant_value(found.min), constant_value(found.max)) == (0, 8)


def test_bits_of_an_unbounded_index_stay_unbounded() -> None:
    e = intrinsic(Int(32), "bitwise_or", var("x"), int32(7))
    found = bounds_of_expr_in_scope(e, {"x": Interval.everything()})
    assert found.min is None and found.max is None
