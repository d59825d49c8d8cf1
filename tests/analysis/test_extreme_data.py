"""Rewriting index arithmetic must not overflow where data takes part in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl

DATA = np.array([-(2**31), 2**31 - 1, 0, 5, -7, 2**31 - 5, -(2**31) + 3], np.int32)


@pytest.mark.parametrize(
    ("build", "compute"),
    [
        (lambda m, x: hl.max(x + 9, m), lambda m, x: np.maximum(x + 9, m)),
        (lambda m, x: hl.min(x - 9, m), lambda m, x: np.minimum(x - 9, m)),
        (lambda m, x: hl.max(m, x * 2 - 4), lambda m, x: np.maximum(m, x * 2 - 4)),
        (lambda m, x: hl.clamp(m, x - 3, x + 3), lambda m, x: np.clip(m, x - 3, x + 3)),
        (lambda m, x: hl.i32(m >= x - 9), lambda m, x: m >= x - 9),
        (lambda m, x: hl.i32(x - 9 >= m), lambda m, x: x - 9 >= m),
        (lambda m, x: hl.i32(m < x + 9), lambda m, x: m < x + 9),
        (lambda m, x: hl.i32(x + 9 < m), lambda m, x: x + 9 < m),
    ],
)
def test_the_least_and_the_greatest_number(
    build: Callable[[Any, Any], Any], compute: Callable[[Any, Any], Any]
) -> None:
    x = hl.Var("x")
    image = hl.ImageParam(hl.Int(32), 1, "image")
    image.set(hl.Buffer(DATA))
    f = hl.Func("f")
    f[x] = build(image[x], x)
    expected = compute(DATA.astype(np.int64), np.arange(len(DATA))).astype(np.int32)
    np.testing.assert_array_equal(np.array(f.realize([len(DATA)])), expected)


def test_a_maximum_begins_with_the_least_number() -> None:
    x, r = hl.Var("x"), hl.RDom([(0, 5)])
    image = hl.ImageParam(hl.Int(32), 1, "image")
    image.set(hl.Buffer(np.arange(20, dtype=np.int32)))
    f = hl.Func("f")
    f[x] = hl.maximum(r, image[x + r] + 9)
    assert np.array(f.realize([4])).tolist() == [13, 14, 15, 16]
