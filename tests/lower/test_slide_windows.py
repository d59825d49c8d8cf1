"""Sliding: the same values, nothing read that is not needed, nothing computed twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.lower.run_lowered import run


def chain(hl: Any, schedule: Callable[..., None] | None = None, taps: int = 3) -> Any:
    """o is a sum of rows of b, b a sum of rows of a."""
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y = hl.vars("x y")
    a, b, o = hl.Func("a"), hl.Func("b"), hl.Func("o")
    a[x, y] = source[x, y] + source[x + 1, y]
    for producer, consumer in ((a, b), (b, o)):
        total = producer[x, y]
        for i in range(1, taps):
            total = total + producer[x, y + i]
        consumer[x, y] = total
    if schedule is not None:
        schedule(hl, a, b, o, x, y)
    return o


def agrees(build: Any, extents: list[int], until: str = "fold_storage", **options: Any) -> Any:
    """Runs with the schedule and without, compares, and gives the run with it."""
    plain = run(build, extents, **{**options, "schedule": None})
    slid = run(build, extents, until, allowed=plain.read, **options)
    assert slid.output == plain.output
    return slid


def at_rows(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
    a.store_root().compute_at(o, y)
    b.store_root().compute_at(o, y)


def at_pixels(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
    a.store_root().compute_at(o, x)
    b.store_root().compute_at(o, x)


def in_strips(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
    yi = hl.Var("yi")
    o.split(y, y, yi, 4)
    a.store_at(o, y).compute_at(o, yi)
    b.store_at(o, y).compute_at(o, yi)


def mixed_levels(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
    a.store_root().compute_at(o, y)
    b.store_at(o, y).compute_at(o, x)


def below_a_root(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
    b.compute_root()
    a.store_root().compute_at(b, y)


def downward(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
    a.store_root().compute_at(o, y)
    b.compute_at(o, y)


SCHEDULES = [at_rows, at_pixels, in_strips, mixed_levels, below_a_root, downward]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("extents", [[5, 9], [4, 4], [1, 5]])
def test_values_and_reads(schedule: Any, extents: list[int]) -> None:
    agrees(chain, extents, schedule=schedule)


@pytest.mark.parametrize("schedule", [at_rows, at_pixels])
def test_each_element_is_computed_once_and_the_ring_is_exact(schedule: Any) -> None:
    found = agrees(chain, [6, 10], schedule=schedule)
    assert found.writes == {"a": 6 * 14, "b": 6 * 12, "o": 60}
    assert found.sizes["a"] == found.sizes["b"] == 6 * 3


def test_five_rows_are_five_rows() -> None:
    found = agrees(chain, [6, 10], schedule=at_rows, taps=5)
    assert found.sizes["a"] == 6 * 5


def test_an_empty_output_computes_nothing() -> None:
    found = run(chain, [6, 0], schedule=at_rows)
    assert found.writes == {}
    assert found.read == []


def test_strips_warm_up_by_themselves() -> None:
    found = agrees(chain, [3, 8], schedule=in_strips)
    assert found.writes["a"] == 3 * 2 * (4 + 4)
    assert found.sizes["a"] == 3 * 3


def pyramid(hl: Any, schedule: Any = None, up: bool = True) -> Any:
    """The producer advances by half a row per row (up), or by two."""
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y = hl.vars("x y")
    a, o = hl.Func("a"), hl.Func("o")
    a[x, y] = source[x, y] * 2
    if up:
        o[x, y] = a[x, y / 2] + 3 * a[x, y / 2 + 1]
    else:
        o[x, y] = a[x, 2 * y] + 2 * a[x, 2 * y + 1] + 4 * a[x, 2 * y + 2]
    if schedule:
        a.store_root().compute_at(o, y)
    return o


@pytest.mark.parametrize("up", [True, False])
def test_producers_at_another_rate(up: bool) -> None:
    found = agrees(pyramid, [3, 9], schedule=True, up=up)
    assert found.writes["a"] == 3 * (6 if up else 19)
    assert found.sizes["a"] == 3 * (2 if up else 3)


def backward(hl: Any, schedule: Any = None) -> Any:
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y = hl.vars("x y")
    a, o = hl.Func("a"), hl.Func("o")
    a[x, y] = source[x, y] * 2
    o[x, y] = a[x, 20 - y] + a[x, 21 - y]
    if schedule:
        a.store_root().compute_at(o, y)
    return o


def test_windows_that_move_down() -> None:
    found = agrees(backward, [3, 9], schedule=True)
    assert found.writes["a"] == 3 * 10
    assert found.sizes["a"] == 3 * 2


def with_updates(hl: Any, schedule: Any = None) -> Any:
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 3)], "r")
    a, o = hl.Func("a"), hl.Func("o")
    a[x, y] = source[x, y]
    a[x, y] += source[x + r.x, y] * 2
    a[x, y] *= 3
    o[x, y] = a[x, y] + a[x, y + 1]
    if schedule:
        a.store_root().compute_at(o, y)
    return o


def test_updates_slide_too() -> None:
    found = agrees(with_updates, [4, 7], schedule=True)
    assert found.writes["a"] == 4 * 8 * 5
    assert found.sizes["a"] == 8


def side_by_side(hl: Any, schedule: Any = None) -> Any:
    """d does not slide and serves both the window of b and the output."""
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y = hl.vars("x y")
    d, b, c, o = hl.Func("d"), hl.Func("b"), hl.Func("c"), hl.Func("o")
    d[x, y] = source[x, y] + 1
    b[x, y] = d[x, y] + d[x, y + 1]
    c[x, y] = source[x + 1, y] * 2
    o[x, y] = b[x, y] + b[x, y + 1] + b[x, y + 2] + d[x, y + 1] + c[x, y] + c[x, y + 1]
    if schedule:
        b.store_root().compute_at(o, y)
        d.compute_at(o, y)
        if schedule == "both":
            c.store_root().compute_at(o, y)
        else:
            c.compute_at(o, y)
    return o


@pytest.mark.parametrize("schedule", ["one", "both"])
def test_rewound_iterations_do_not_read_more_than_the_others(schedule: str) -> None:
    agrees(side_by_side, [3, 6], schedule=schedule)


def unit_loops(hl: Any, schedule: Any = None) -> Any:
    """Two Funcs of a 1 x 1 output with different store and compute levels."""
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y, yo, yi = hl.vars("x y yo yi")
    f0, f1, f2 = hl.Func("f0"), hl.Func("f1"), hl.Func("f2")
    f0[x, y] = source[hl.clamp(x, 0, 2), hl.clamp(y, 0, 2)]
    f1[x, y] = 2 * (f0[x + 1, y + 1] + f0[x - 1, y - 1])
    f2[x, y] = f0[x + 1, y + 1] + f0[x - 1, y - 1] + f1[x + 1, y + 1] + f1[x - 1, y - 1]
    if schedule:
        f2.split(y, yo, yi, 1, hl.TailStrategy.RoundUp)
        f0.store_at(f2, yo).compute_at(f2, x)
        f1.store_root().compute_at(f2, x)
    return f2


@pytest.mark.parametrize("extents", [[1, 1], [3, 2]])
def test_loops_of_one_iteration_rewound_together(extents: list[int]) -> None:
    agrees(unit_loops, extents, schedule=True)


def column_sums(hl: Any, schedule: Any = None) -> Any:
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y, yo, yi = hl.vars("x y yo yi")
    r = hl.RDom([(-2, 5), (-2, 5)], "r")
    copy, s, b = hl.Func("copy"), hl.Func("s"), hl.Func("b")
    copy[x, y] = source[x, y]
    s[x, y] = 0
    s[x, y] += copy[x + r.x, y + r.y]
    b[x, y] = s[x, y] / 25
    if schedule:
        b.split(y, yo, yi, 1)
        s.compute_at(b, yo).store_root()
        copy.compute_at(s, x).store_root()
    return b


def test_a_ring_read_by_a_sum_holds_all_its_rows() -> None:
    found = agrees(column_sums, [6, 6], schedule=True)
    assert found.sizes["copy"] >= 5 * 10


def pyramid_of_three(hl: Any, schedule: Any = None) -> Any:
    """Each level moves at half the rate of the one below it."""
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y, yo, yi = hl.vars("x y yo yi")
    n1, n2, n3, o = hl.Func("n1"), hl.Func("n2"), hl.Func("n3"), hl.Func("o")
    n3[x, y] = source[x, y]
    n2[x, y] = n3[x, y / 2] + n3[x, (y + 1) / 2] * 2
    n1[x, y] = n2[x, y / 2] + n2[x, (y + 1) / 2] * 3
    o[x, y] = n1[x, y / 2] + n1[x, (y + 1) / 2] * 5
    if schedule:
        o.split(y, yo, yi, 16)
        for n in (n1, n2, n3):
            n.store_at(o, yo).compute_at(o, yi)
    return o


def test_deep_pyramids_keep_two_rows_a_level() -> None:
    found = agrees(pyramid_of_three, [2, 32], schedule=True)
    assert [found.sizes[n] for n in ("n1", "n2", "n3")] == [4, 4, 4]
    assert found.writes["n1"] == 2 * 2 * 9
    assert found.writes["n3"] == 2 * 2 * 3


def some_of_a_sum(begin: bool) -> Any:
    """A sum over some of a reduction's iterations, of which each needs three elements."""

    def build(hl: Any, schedule: Any = None) -> Any:
        source = hl.ImageParam(hl.Int(32), 1, "input")
        x = hl.Var("x")
        a, s = hl.Func("a"), hl.Func("s")
        r = hl.RDom([(0, 8)], "r")
        r.where(r.x > 3 if begin else r.x < 5)
        a[x] = source[x] * 2
        s[x] = 0
        s[x] += a[r.x] + a[r.x + 2]
        if schedule:
            a.store_at(s, x).compute_at(s, r.x)
        return s

    return build


def test_what_a_predicate_leaves_out_at_the_end_is_no_gap_in_a_window() -> None:
    assert agrees(some_of_a_sum(False), [1], schedule=True).writes["a"] == 5 + 2


def test_a_window_does_not_slide_over_iterations_that_are_left_out() -> None:
    """The first iteration that is not has no elements of those before it."""
    assert agrees(some_of_a_sum(True), [1], schedule=True).writes["a"] == 4 * 3
