"""Temporaries that take over another's bytes element by element, and those that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver

WIDTH, HEIGHT = 61, 17
FULL = 4 * WIDTH * HEIGHT
Tail = hl.TailStrategy


def chain(
    step: Callable[[Any, Any, Any], Any],
    schedule: Callable[[Any, Any, Any], Any],
    stages: int = 10,
    gap: int = 0,
) -> tuple[np.ndarray, np.ndarray, Any]:
    """The outcome of `stages` root stages of which each is a step of the one before.

    Rows of the output are `gap` elements apart.
    """
    x, y = hl.Var("x"), hl.Var("y")
    source = hl.ImageParam(hl.Float(32), 2, "source")
    data = np.random.default_rng(1).random((HEIGHT + 2 * stages, WIDTH + 2 * stages), np.float32)
    buffer = hl.Buffer(data)
    buffer.set_min([-stages, -stages])
    source.set(buffer)
    before: Any = source
    funcs = []
    for i in range(stages):
        f = hl.Func(f"stage_{i}")
        f[x, y] = step(before, x, y)
        funcs.append(f)
        before = f
    for f in funcs[:-1]:
        f.compute_root()
    for f in funcs:
        schedule(f, x, y)
    whole = np.full((HEIGHT, WIDTH + gap), -1, np.float32)
    out = hl.Buffer(whole[:, :WIDTH])
    funcs[-1].realize(out)
    result = np.array(out)
    assert (whole[:, WIDTH:] == -1).all()
    report = funcs[-1].storage(out)
    assert driver.context().counts.peak_bytes == report.peak_bytes
    return data, result, report


def pointwise(f: Any, x: Any, y: Any) -> Any:
    return f[x, y] * 0.5 + 1.0


@pytest.mark.parametrize(
    "schedule",
    [
        lambda f, x, y: f,
        lambda f, x, y: f.parallel(y),
        lambda f, x, y: f.vectorize(x, 8, Tail.GuardWithIf),
        lambda f, x, y: f.vectorize(x, 8, Tail.GuardWithIf).parallel(y),
        lambda f, x, y: f.reorder(y, x),
    ],
    ids=["plain", "parallel", "vector", "vector-parallel", "columns"],
)
@pytest.mark.parametrize("gap", [0, 3])
def test_ten_pointwise_stages_take_one_buffer_or_none(schedule: Any, gap: int) -> None:
    data, result, report = chain(pointwise, schedule, gap=gap)
    expected = data[10:-10, 10:-10]
    for _ in range(10):
        expected = expected * np.float32(0.5) + np.float32(1.0)
    np.testing.assert_array_equal(result, expected)
    assert {t.offset for t in report} == {0}
    others = {t.name for t in report.temporaries[1:]}
    if gap:
        assert FULL <= report.peak_bytes <= FULL + 64
        assert set(report.temporaries[0].shares) == others
    else:
        assert report.peak_bytes == report.floor_bytes == report.allocations == 0
        output = report.temporaries[0].arena
        assert set(report.temporaries[0].shares) == {output, *others}
        assert report.temporaries[1].in_place_of == report.temporaries[0].name
        assert report.formula == "0"


def test_a_tail_that_computes_points_twice_is_not_done_in_place() -> None:
    data, result, report = chain(pointwise, lambda f, x, y: f.vectorize(x, 8, Tail.ShiftInwards))
    expected = data[10:-10, 10:-10]
    for _ in range(10):
        expected = expected * np.float32(0.5) + np.float32(1.0)
    np.testing.assert_array_equal(result, expected)
    assert FULL + 64 < report.peak_bytes <= 2 * (FULL + 64)
    assert not any(t.in_place_of for t in report)


@pytest.mark.parametrize(
    "step",
    [
        lambda f, x, y: f[x - 1, y] + f[x, y],
        lambda f, x, y: f[x, y + 1] + f[x, y],
        lambda f, x, y: f[WIDTH - x, y] + 1.0,
        lambda f, x, y: f[x, y] + f[0, 0],
    ],
    ids=["left", "below", "mirrored", "corner"],
)
def test_stages_that_read_elsewhere_take_two_buffers(step: Any) -> None:
    data, result, report = chain(step, lambda f, x, y: f, stages=4)
    plain = _inlined(step, data, 4)
    np.testing.assert_array_equal(result, plain)
    floor = report.floor_bytes
    assert floor > FULL + 64
    assert floor <= report.peak_bytes <= 1.02 * floor


def _inlined(step: Any, data: np.ndarray, stages: int) -> np.ndarray:
    """The same without any temporary."""
    x, y = hl.Var("x"), hl.Var("y")
    buffer = hl.Buffer(data)
    buffer.set_min([-stages, -stages])
    before: Any = hl.ImageParam(hl.Float(32), 2, "source")
    before.set(buffer)
    for i in range(stages):
        f = hl.Func(f"inlined_{i}")
        f[x, y] = step(before, x, y)
        before = f
    return np.array(before.realize([WIDTH, HEIGHT]))


def test_elements_of_another_type_are_not_taken_over() -> None:
    x = hl.Var("x")
    a, b, c = hl.Func("a"), hl.Func("b"), hl.Func("c")
    a[x] = hl.cast(hl.Float(32), x)
    b[x] = hl.cast(hl.Int(32), a[x] * 2.0)
    c[x] = b[x] + 1
    a.compute_root()
    b.compute_root()
    result = c.realize([1000])
    assert [result[i] for i in (0, 7, 999)] == [1, 15, 1999]
    report = c.storage([1000])
    assert report["b"].arena == c.name() and report["a"].arena != c.name()
    assert report.peak_bytes == 4000


@pytest.mark.parametrize("by", [2, 3])
def test_a_part_that_goes_on_into_the_next_is_not_done_in_place(by: int) -> None:
    x, xo, xi, outer, inner = hl.vars("x xo xi outer inner")
    a, b, out = hl.funcs("a b out")
    a[x] = x * 3
    b[x] = a[x] * 5
    out[x] = b[99 - x]
    for f in (a, b):
        f.compute_root().store_in(hl.MemoryType.Heap)
    b.bound(x, 0, 100)
    b.split(x, xo, xi, 3, Tail.GuardWithIf).split(xi, outer, inner, by, Tail.RoundUp)
    np.testing.assert_array_equal(np.array(out.realize([100])), (99 - np.arange(100)) * 15)
    assert out.storage([100])[b.name()].shares == ((a.name(),) if by == 3 else ())


def test_an_update_reads_its_own_bytes() -> None:
    x, r = hl.Var("x"), hl.RDom([(1, 999)])
    a, b, c = hl.Func("a"), hl.Func("b"), hl.Func("c")
    a[x] = x
    b[x] = a[x] * 2
    b[r] = b[r - 1] + b[r]
    c[x] = b[x]
    a.compute_root()
    b.compute_root()
    assert c.realize([1000])[999] == 999 * 1000
    report = c.storage([1000])
    assert report["b"].in_place_of == ""
    assert report.peak_bytes == 4000


def test_an_update_that_reads_the_old_bytes_finds_them() -> None:
    x = hl.Var("x")
    a, b, c = hl.Func("a"), hl.Func("b"), hl.Func("c")
    a[x] = x * 3
    b[x] = a[x] * 2
    with pytest.warns(RuntimeWarning, match="hides its earlier definitions"):
        b[x] = a[x] + 5
    c[x] = b[x]
    a.compute_root()
    b.compute_root()
    assert [c.realize([1000])[i] for i in (1, 999)] == [8, 3002]


def test_what_is_read_again_keeps_its_bytes() -> None:
    x = hl.Var("x")
    a, b, c = hl.Func("a"), hl.Func("b"), hl.Func("c")
    a[x] = x * 3
    b[x] = a[x] + 1
    c[x] = b[x] * a[x]
    a.compute_root()
    b.compute_root()
    assert c.realize([1000])[999] == 2998 * 2997
    report = c.storage([1000])
    assert report["b"].in_place_of == ""
    assert report.peak_bytes == 4000
