"""Stack temporaries of one thread share bytes once their lives do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver

ROW = 1000


def rows(schedule: str = "") -> tuple[Any, Any]:
    """Seven rows, each of which reads the one before backwards, for each row of the output."""
    x, y = hl.Var("x"), hl.Var("y")
    source = hl.ImageParam(hl.Float(32), 2, "source")
    before: Any = source
    funcs = []
    for i in range(7):
        f = hl.Func(f"row_{i}")
        f[x, y] = before[ROW - 1 - x, y] + 1.0
        funcs.append(f)
        before = f
    out = hl.Func("out")
    out[x, y] = before[ROW - 1 - x, y]
    for f in funcs:
        f.compute_at(out, y).bound_extent(x, ROW).store_in(hl.MemoryType.Stack)
    out.bound(x, 0, ROW)
    if schedule == "parallel":
        out.parallel(y)
    return source, out


@pytest.mark.parametrize("schedule", ["", "parallel"])
def test_seven_rows_take_the_stack_of_two(schedule: str) -> None:
    source, out = rows(schedule)
    data = np.random.default_rng(0).random((20, ROW), np.float32)
    source.set(hl.Buffer(data))
    result = np.array(out.realize([ROW, 20]))
    expected = data.copy()
    for _ in range(7):
        expected = expected + np.float32(1.0)
    np.testing.assert_array_equal(result, expected)
    assert driver.context().counts.allocations == 0
    report = out.storage([ROW, 20])
    assert report.stack_bytes <= 2 * (4 * ROW + 64)
    first, second, third = report.temporaries[:3]
    assert first.offset == third.offset != second.offset
    assert third.name in first.shares
    assert ".stack[" in driver.lowered_text(out._final_functions())


def test_small_arrays_stay_apart() -> None:
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    a, b, c = hl.Func("a"), hl.Func("b"), hl.Func("c")
    a[x] = x * 2
    b[x] = a[x] + a[x + 1]
    c[x] = b[x] + b[x + 1]
    c.split(x, xo, xi, 8)
    for f in (a, b):
        f.compute_at(c, xo).store_in(hl.MemoryType.Stack)
    assert c.realize([64])[5] == sum([2 * (5 + i) for i in (0, 1, 1, 2)])
    assert ".stack" not in driver.lowered_text(c._final_functions())
