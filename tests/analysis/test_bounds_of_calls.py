"""Bounds of intrinsics whose least value is not the least of their type."""

from __future__ import annotations

import pytest

from bayplan.analysis.bounds import bounds_of_expr_in_scope
from bayplan.analysis.interval import Interval
from bayplan.ir.build import constant_value, int32, intrinsic, var
from bayplan.ir.types import UInt


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1, 4, (1, 4)), (-4, -2, (2, 4)), (-3, 2, (0, 3)), (0, 0, (0, 0))],
)
def test_abs_keeps_away_from_zero(low: int, high: int, expected: tuple[int, int]) -> None:
    e = intrinsic(UInt(32), "abs", var("x"))
    found = bounds_of_expr_in_scope(e, {"x": Interval(int32(low), int32(high))}, None)
    assert found.min is not None and found.max is not None
    assert (constant_value(found.min), constant_value(found.max)) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [((5, 6), (1, 2), (3, 5)), ((1, 2), (5, 6), (3, 5)), ((0, 4), (2, 9), (0, 9))],
)
def test_absd_of_ranges_apart(
    a: tuple[int, int], b: tuple[int, int], expected: tuple[int, int]
) -> None:
    e = intrinsic(UInt(32), "absd", var("a"), var("b"))
    scope = {
        "a": Interval(int32(a[0]), int32(a[1])),
        "b": Interval(int32(b[0]), int32(b[1])),
    }
    found = bounds_of_expr_in_scope(e, scope, None)
    assert found.min is not None and found.max is not None
    assert (constant_value(found.min), constant_value(found.max)) == expected
