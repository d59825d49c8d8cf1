"""Temporaries that live in the bytes of an output, and those that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import bayplan as hl
from bayplan import driver

COUNT = 1000
Tail = hl.TailStrategy


def pair(define: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """A root stage and an output that is defined by it."""
    x = hl.Var("x")
    a, out = hl.Func("a"), hl.Func("out")
    a[x] = hl.cast(hl.Int(32), x * 3)
    out[x] = define(a, x)
    a.compute_root()
    return a, out


def run(out: Any, count: int = COUNT) -> tuple[np.ndarray, Any]:
    """The outcome and the report, whose peak is what the allocator saw."""
    result = np.array(out.realize([count]))
    report = out.storage([count])
    assert driver.context().counts.peak_bytes == report.peak_bytes
    return result, report


def test_a_dense_output_holds_what_is_computed_into_it() -> None:
    a, out = pair(lambda a, x: a[x] + 1)
    result, report = run(out)
    np.testing.assert_array_equal(result, np.arange(COUNT) * 3 + 1)
    assert report.peak_bytes == 0 and report["a"].arena == out.name()
    assert "in " + out.name() in str(report)
    assert report["a"].bytes == 4 * COUNT


def test_heap_means_heap() -> None:
    a, out = pair(lambda a, x: a[x] + 1)
    a.store_in(hl.MemoryType.Heap)
    _, report = run(out)
    assert report.peak_bytes == 4 * COUNT and report["a"].shares == ()


@pytest.mark.parametrize(
    "define",
    [
        lambda a, x: a[x] + a[x + 1],
        lambda a, x: a[COUNT - 1 - x],
        lambda a, x: a[x] + a[0],
        lambda a, x: a[hl.clamp(a[x], 0, COUNT - 1)],
        lambda a, x: a[x // 2] + x,
        lambda a, x: hl.cast(hl.Int(16), a[x]),
        lambda a, x: hl.select(x % 2 == 0, a[x], hl.undef(hl.Int(32))),
    ],
    ids=["right", "mirror", "first", "gather", "half", "narrow", "undefined"],
)
def test_elements_that_are_read_elsewhere_stay_apart(define: Any) -> None:
    a, out = pair(define)
    x = hl.Var("x")
    b = hl.Func("b")
    b[x] = hl.cast(hl.Int(32), x * 3)
    inlined = hl.Func("inlined")
    inlined[x] = define(b, x)
    begun = np.full(COUNT, 7, np.int16 if out.type() == hl.Int(16) else np.int32)
    result, wanted = begun.copy(), begun.copy()
    out.realize(hl.Buffer(result))
    inlined.realize(hl.Buffer(wanted))
    np.testing.assert_array_equal(result, wanted)
    report = out.storage([COUNT])
    assert report.peak_bytes >= 4 * report["a"].extents[0] > 0


def test_a_shifted_box_has_its_elements_in_the_same_places() -> None:
    a, out = pair(lambda a, x: a[x - 1])
    result, report = run(out)
    np.testing.assert_array_equal(result, (np.arange(COUNT) - 1) * 3)
    assert report.peak_bytes == 0


def test_a_last_part_that_is_shifted_inwards_reads_its_elements_twice() -> None:
    a, out = pair(lambda a, x: a[x] * 5)
    out.vectorize(out.args()[0], 8, Tail.ShiftInwards)
    result, report = run(out, 1001)
    np.testing.assert_array_equal(result, np.arange(1001) * 15)
    assert report.peak_bytes == 4 * 1001


@pytest.mark.parametrize(
    ("length", "by", "apart"), [(3, 2, False), (4, 2, True), (6, 4, False), (8, 4, True)]
)
@pytest.mark.parametrize("how", ["split", "outer part", "fused"])
def test_parts_that_go_on_into_the_next_part(length: int, by: int, apart: bool, how: str) -> None:
    x, y, xo, xi, yo, yi, xy, outer, inner = hl.vars("x y xo xi yo yi xy outer inner")
    a, out = hl.funcs("a out")
    a[x, y] = x * 3 + y
    out[x, y] = a[x, y] * 5
    a.compute_root()
    if how == "fused":
        out.tile(x, y, xo, yo, xi, yi, length // 2, 2, Tail.GuardWithIf)
        out.fuse(xi, yi, xy).split(xy, outer, inner, by, Tail.RoundUp)
        apart = length // 2 * 2 % by == 0
    elif how == "split":
        out.split(x, xo, xi, length, Tail.GuardWithIf).split(xi, outer, inner, by, Tail.RoundUp)
    else:
        out.split(x, xo, xi, length * 2, Tail.Predicate)
        out.split(xi, xi, yi, 2, Tail.RoundUp)
        out.split(xi, outer, inner, by, Tail.RoundUp)
    result = np.array(out.realize([24, 10]))
    ys, xs = np.mgrid[:10, :24]
    np.testing.assert_array_equal(result, (xs * 3 + ys) * 5)
    assert out.storage([24, 10]).peak_bytes == (0 if apart else 960)


@pytest.mark.parametrize("tail", [Tail.GuardWithIf, Tail.RoundUp, Tail.Predicate])
def test_vectors_and_threads(tail: Any) -> None:
    x, y = hl.vars("x y")
    a, out = hl.Func("a"), hl.Func("out")
    a[x, y] = hl.cast(hl.Float(32), x + y * 100)
    out[x, y] = a[x, y] * 2
    a.compute_root().vectorize(x, 8, tail).parallel(y)
    out.vectorize(x, 8, tail).parallel(y)
    width = 64 if tail is Tail.RoundUp else 61
    result = np.array(out.realize([width, 40]))
    ys, xs = np.mgrid[:40, :width]
    np.testing.assert_array_equal(result, (xs + ys * 100) * 2)
    assert driver.context().counts.peak_bytes == 0


def test_boxes_that_begin_elsewhere_or_are_larger() -> None:
    x, r = hl.Var("x"), hl.RDom([(0, 10)])
    a, s, out = hl.funcs("a s out")
    a[x] = hl.cast(hl.Int(32), x)
    s[()] = 0
    s[()] += a[r]
    out[x] = a[x] + s[()]
    a.compute_root()
    s.compute_root()
    for low, count, bytes_needed in ((0, 50, 0), (0, 8, 40), (5, 50, 220), (-5, 50, 0), (2, 4, 40)):
        result = hl.Buffer(np.zeros(count, np.int32))
        result.set_min([low])
        out.realize(result)
        np.testing.assert_array_equal(np.array(result), np.arange(low, low + count) + 45)
        assert driver.context().counts.peak_bytes == bytes_needed
        assert out.storage(result).peak_bytes == bytes_needed


def test_two_that_are_read_together_share_no_bytes() -> None:
    x = hl.Var("x")
    a, b, out = hl.funcs("a b out")
    a[x] = hl.cast(hl.Int(32), x)
    b[x] = hl.cast(hl.Int(32), 3 * x)
    out[x] = a[x] * 1000 + b[x]
    a.compute_root()
    b.compute_root()
    result, report = run(out)
    np.testing.assert_array_equal(result, np.arange(COUNT) * 1003)
    assert report.peak_bytes == 4 * COUNT
    assert sorted([t.arena == out.name() for t in report]) == [False, True]


def test_values_of_a_tuple() -> None:
    x = hl.Var("x")
    a, out = hl.Func("a"), hl.Func("out")
    a[x] = hl.Tuple([hl.cast(hl.Int(32), x), hl.cast(hl.Int(32), x * 2)])
    out[x] = hl.Tuple([a[x][0] + a[x][1], a[x][0] - a[x][1]])
    a.compute_root()
    first, second = out.realize([COUNT])
    np.testing.assert_array_equal(np.array(first), np.arange(COUNT) * 3)
    np.testing.assert_array_equal(np.array(second), -np.arange(COUNT))


def test_an_output_that_another_output_reads() -> None:
    x = hl.Var("x")
    a, first, second = hl.funcs("a first second")
    a[x] = hl.cast(hl.Int(32), x)
    first[x] = a[x] + 1
    second[x] = first[x] * a[x]
    a.compute_root()
    pipeline = hl.Pipeline([first, second])
    one, two = pipeline.realize([COUNT])
    numbers = np.arange(COUNT)
    np.testing.assert_array_equal(np.array(one), numbers + 1)
    np.testing.assert_array_equal(np.array(two), (numbers + 1) * numbers)
    report = pipeline.storage([COUNT])
    assert report["a"].arena != first.name()


def test_an_input_that_is_the_same_buffer() -> None:
    x = hl.Var("x")
    for late in (False, True):
        source = hl.ImageParam(hl.Int(32), 1, "source")
        a, b, out = hl.funcs("a b out")
        a[x] = source[x] * 2
        b[x] = a[x] + (source[COUNT - 1 - x] if late else 1)
        out[x] = b[x] + 5
        a.compute_root()
        b.compute_root()
        out.may_alias(source)
        data = np.arange(COUNT, dtype=np.int32)
        wanted = data * 2 + (data[::-1] if late else 1) + 5
        buffer = hl.Buffer(data)
        source.set(buffer)
        out.realize(buffer)
        np.testing.assert_array_equal(data, wanted)
        # What is computed while the input is still read elsewhere has bytes of its own.
        assert driver.context().counts.peak_bytes == (4 * COUNT if late else 0)


@pytest.mark.parametrize("donated", [False, True])
def test_pointers_to_the_same_bytes_are_not_restrict(donated: bool) -> None:
    x = hl.Var("x")
    source, other = [hl.ImageParam(hl.Int(32), 1, name) for name in ("source", "other")]
    a, out = hl.funcs("a out")
    a[x] = source[x] + other[x]
    out[x] = a[x] * 3 + 1
    a.compute_root()
    if donated:
        out.may_alias(source)
    for f in (source, other):
        f.set(hl.Buffer(np.arange(9, dtype=np.int32)))
    text = driver.compile_pipeline([out._function]).source
    heads = [part.partition("{")[0] for part in text.split("/* The loop over ")[1:]]
    into_a, into_out = heads
    assert "restrict" not in into_out
    # Of the input that is the output, and of what lives in it, nothing can be said.
    assert into_a.count("restrict") == (1 if donated else 3)
    np.testing.assert_array_equal(np.array(out.realize([9])), np.arange(9) * 6 + 1)


def test_no_plan_no_bytes_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYPLAN_STORAGE_PLAN", "0")
    a, out = pair(lambda a, x: a[x] + 4)
    result, _ = run(out)
    np.testing.assert_array_equal(result, np.arange(COUNT) * 3 + 4)
    assert driver.context().counts.peak_bytes == 4 * COUNT


def test_a_workspace_is_as_large_as_the_output_has_gaps() -> None:
    x, y = hl.vars("x y")
    image = hl.ImageParam(hl.Float(32), 2, "image")
    a, out = hl.Func("a"), hl.Func("out")
    a[x, y] = image[x, y] + 1
    out[x, y] = a[x, y] * 2
    a.compute_root()
    call = out.compile_to_callable([image])
    data = np.random.default_rng(1).random((20, 30), np.float32)
    dense, whole = np.zeros((20, 30), np.float32), np.zeros((20, 40), np.float32)
    view = whole[:, :30]
    assert call.workspace_bytes(data, dense) == 0
    size = call.workspace_bytes(data, view)
    assert size == 2400
    call(data, dense, workspace=bytearray())
    call(data, view, workspace=np.zeros(size + 64, np.uint8))
    for result in (dense, view):
        np.testing.assert_array_equal(result, (data + 1) * 2)
    assert not whole[:, 30:].any()


# Random chains.

STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "point": lambda f, x, y: f[x, y] * 2 + x,
    "right": lambda f, x, y: f[x, y] + f[x + 1, y],
    "below": lambda f, x, y: f[x, y] - f[x, y + 1],
    "shifted": lambda f, x, y: f[x + 1, y] + 3,
    "twice": lambda f, x, y: f[x, y] * f[x, y],
}
NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "point": lambda a, xs: a * 2 + xs,
    "right": lambda a, xs: a[:, :-1] + a[:, 1:],
    "below": lambda a, xs: a[:-1] - a[1:],
    "shifted": lambda a, xs: a[:, 1:] + 3,
    "twice": lambda a, xs: a * a,
}
SCHEDULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "plain": lambda f, x, y: f,
    "parallel": lambda f, x, y: f.parallel(y),
    "vector": lambda f, x, y: f.vectorize(x, 4, Tail.GuardWithIf),
    "inwards": lambda f, x, y: f.vectorize(x, 4, Tail.ShiftInwards),
    "columns": lambda f, x, y: f.reorder(y, x),
    "tiles": lambda f, x, y: f.tile(x, y, *hl.vars("xo yo xi yi"), 8, 4, Tail.GuardWithIf),
    "fused": lambda f, x, y: f.fuse(x, y, hl.Var("xy")).parallel(hl.Var("xy")),
    "unrolled": lambda f, x, y: f.unroll(x, 2, Tail.GuardWithIf),
}


@examples(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.sampled_from(sorted(SCHEDULES))),
        min_size=2, max_size=5,
    ),
    st.integers(4, 21), st.integers(1, 13), st.sampled_from([0, 0, 2]), st.booleans(),
)  # fmt: skip
def test_random_chains(
    stages: list[tuple[str, str]], width: int, height: int, gap: int, donated: bool
) -> None:
    x, y = hl.vars("x y")
    source = hl.ImageParam(hl.Int(32), 2, "source")
    wide = sum([step in ("right", "shifted") for step, _ in stages])
    high = sum([step == "below" for step, _ in stages])
    donated = donated and not wide and not high and not gap and stages[-1][1] != "inwards"
    before: Any = source
    for i, (step, schedule) in enumerate(stages):
        f = hl.Func(f"stage{i}")
        f[x, y] = STEPS[step](before, x, y)
        SCHEDULES[schedule](f, x, y)
        f.compute_root()
        before = f
    if donated:
        before.may_alias(source)
    rng = np.random.default_rng(width)
    data = rng.integers(-9, 9, (height + high, width + wide), np.int32)
    wanted = data
    for step, _ in stages:
        wanted = NUMPY[step](wanted, np.arange(wanted.shape[1], dtype=np.int32))
    whole = data if donated else np.full((height, width + gap), 5, np.int32)
    out = hl.Buffer(whole[:, :width])
    source.set(out if donated else hl.Buffer(data))
    before.realize(out)
    np.testing.assert_array_equal(whole[:, :width], wanted)
    assert (whole[:, width:] == 5).all()
    report = before.storage(out)
    assert driver.context().counts.peak_bytes == report.peak_bytes >= report.floor_bytes
