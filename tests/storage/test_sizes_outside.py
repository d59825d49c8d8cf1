"""Sizes found outside of the loops are those that the loops need, not more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


def halves(strip: int) -> tuple[Any, Any]:
    """Strips of an image that is put together from one of half its size, and that from a quarter.

    Both ends of a region are halved, so intervals alone count a row too many at each level.
    """
    x, y, yo, yi = hl.vars("x y yo yi")
    source = hl.ImageParam(hl.Float(32), 2, "source")
    quarter, half, out = hl.Func("quarter"), hl.Func("half"), hl.Func("out")
    quarter[x, y] = source[x, y] + 1.0
    half[x, y] = quarter[x, y / 2] + quarter[x, (y + 1) / 2]
    out[x, y] = half[x, y / 2] + half[x, (y + 1) / 2]
    out.split(y, yo, yi, strip, hl.TailStrategy.GuardWithIf)
    for f in (quarter, half):
        f.compute_at(out, yo).store_in(hl.MemoryType.Heap)
    return source, out


@pytest.mark.parametrize(("strip", "height"), [(3, 40), (7, 61), (16, 5), (5, 5 * 300)])
def test_the_plan_takes_what_single_allocations_take(
    strip: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.random.default_rng(3).random((height // 4 + 3, 50), np.float32)
    taken = {}
    results = {}
    for plan in ("0", "1"):
        monkeypatch.setenv("BAYPLAN_STORAGE_PLAN", plan)
        source, out = halves(strip)
        source.set(hl.Buffer(data))
        results[plan] = np.array(out.realize([50, height]))
        taken[plan] = driver.context().counts.peak_bytes
        assert out.storage([50, height]).peak_bytes == taken[plan]
    np.testing.assert_array_equal(results["0"], results["1"])
    quarter = data + np.float32(1.0)
    y, half_y = np.arange(height), np.arange(height // 2 + 2)
    half = quarter[half_y // 2] + quarter[(half_y + 1) // 2]
    np.testing.assert_array_equal(results["1"], half[y // 2] + half[(y + 1) // 2])
    # Each of the two is aligned.
    assert taken["1"] <= taken["0"] + 2 * 63
