"""B07: an output that is the input is refused, unless the schedule makes it safe and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl


def _increment(tail: Any = None, offset: int = 0) -> tuple[Any, Any]:
    x, xo, xi = hl.vars("x xo xi")
    source = hl.ImageParam(hl.Int(32), 1, "source")
    out = hl.Func("out")
    out[x] = source[x + offset] + 1
    if tail is not None:
        out.split(x, xo, xi, 4, tail)
    return out, source


def test_b07_the_same_array_is_refused_at_the_call() -> None:
    out, source = _increment(hl.TailStrategy.Auto)
    data = np.arange(10, dtype=np.int32)
    source.set(hl.Buffer(data))
    with pytest.raises(hl.AliasError) as caught:
        out.realize(hl.Buffer(data))
    assert "out" in str(caught.value) and "source" in str(caught.value)
    np.testing.assert_array_equal(data, np.arange(10))


def test_b07_in_place_with_a_guarded_tail() -> None:
    out, source = _increment(hl.TailStrategy.GuardWithIf)
    out.may_alias(source)
    data = np.arange(10, dtype=np.int32)
    source.set(hl.Buffer(data))
    out.realize(hl.Buffer(data))
    np.testing.assert_array_equal(data, np.arange(1, 11))


def test_b07_a_tail_that_computes_twice_is_refused() -> None:
    out, source = _increment(hl.TailStrategy.ShiftInwards)
    with pytest.raises(hl.AliasError):
        out.may_alias(source)
        out.compile_jit()


@pytest.mark.parametrize(("offset", "parallel"), [(-1, False), (1, True)])
def test_b07_reading_what_was_overwritten_is_refused(offset: int, parallel: bool) -> None:
    out, source = _increment(offset=offset)
    if parallel:
        out.parallel(out.args()[0])
    with pytest.raises(hl.AliasError):
        out.may_alias(source)
        out.compile_jit()


def test_b07_views_that_only_touch_are_accepted() -> None:
    out, source = _increment(hl.TailStrategy.ShiftInwards)
    data = np.arange(20, dtype=np.int32)
    source.set(hl.Buffer(data[:10]))
    out.realize(hl.Buffer(data[10:]))
    np.testing.assert_array_equal(data[10:], np.arange(1, 11))
    np.testing.assert_array_equal(data[:10], np.arange(10))
