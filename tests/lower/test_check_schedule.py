"""Illegal schedules: one error that names the Func, the place, what would be legal and the line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import bayplan as hl
from bayplan.ir.errors import ScheduleError
from bayplan.ir.node import compilation
from bayplan.lower.pipeline import prepare, schedule


def refused(output: hl.Func) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught, compilation():
        schedule(prepare([output.function()], None))
    return caught.value


def producer_and_consumer() -> tuple[hl.Func, hl.Func, hl.Var, hl.Var]:
    x, y = hl.vars("x y")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x + y
    g[x, y] = f[x, y] + f[x + 1, y]
    return f, g, x, y


def test_a_level_that_does_not_enclose_the_uses() -> None:
    f, g, x, y = producer_and_consumer()
    h = hl.Func("h")
    h[x, y] = g[x, y] + f[x, y]
    g.compute_root()
    f.compute_at(g, y)
    message = str(refused(h))
    assert f"{f.name()} cannot be computed there:" in message
    assert f"{f.name()}.compute_at({g.name()}, y)" in message
    assert f"{f.name()}.compute_root()" in message
    assert f"{h.name()} uses {f.name()}" in message
    assert "test_check_schedule.py" in message


def test_legal_locations_are_listed_outermost_first() -> None:
    f, g, x, y = producer_and_consumer()
    other = hl.Func("other")
    other[x, y] = x
    f.compute_at(other, x)
    lines = str(refused(g)).splitlines()
    at = lines.index("It could be computed at:")
    name = f.name()
    assert [line.strip() for line in lines[at + 1 : at + 5]] == [
        f"{name}.compute_root()",
        f"{name}.compute_at({g.name()}, Var.outermost())",
        f"{name}.compute_at({g.name()}, y)",
        f"{name}.compute_at({g.name()}, x)",
    ]


def test_storage_outside_of_a_parallel_loop() -> None:
    f, g, _x, y = producer_and_consumer()
    g.parallel(y)
    f.store_root().compute_at(g, y)
    assert "would share the storage of" in str(refused(g))


def test_storage_level_without_compute_level() -> None:
    f, g, _x, y = producer_and_consumer()
    f.store_at(g, y)
    message = str(refused(g))
    assert "store_at" in message
    assert "needs compute_at too" in message


def schedules_of_inlined() -> list[tuple[str, Callable[[hl.Func, hl.Var], object]]]:
    return [
        ("vectorize", lambda f, x: f.vectorize(x)),
        ("unroll", lambda f, x: f.unroll(x)),
        ("parallelize", lambda f, x: f.parallel(x)),
    ]


@pytest.mark.parametrize(("verb", "directive"), schedules_of_inlined())
def test_loops_of_an_inlined_func(
    verb: str, directive: Callable[[hl.Func, hl.Var], object]
) -> None:
    f, g, x, _y = producer_and_consumer()
    directive(f, x)
    message = str(refused(g))
    assert f"{f.name()} is inlined, so it has no loop over x to {verb}" in message


def test_an_output_must_be_root() -> None:
    f, g, x, y = producer_and_consumer()
    h = hl.Func("h")
    h[x, y] = g[x, y]
    g.compute_at(h, y)
    with pytest.raises(ScheduleError, match="is always computed and stored at root"), compilation():
        schedule(prepare([h.function(), g.function()], None))
    assert f.name()


def test_compute_with_needs_equal_levels() -> None:
    x, y = hl.vars("x y")
    f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
    f[x, y] = x
    g[x, y] = y
    h[x, y] = f[x, y] + g[x, y]
    f.compute_root()
    g.compute_at(h, y)
    g.compute_with(f, y)
    assert "compute levels" in str(refused(h))


def test_a_wrapper_for_a_func_that_does_not_call_it() -> None:
    f, g, x, y = producer_and_consumer()
    h = hl.Func("h")
    h[x, y] = g[x, y]
    g.compute_root()
    f.in_(h).compute_root()
    message = str(refused(h))
    assert f"{h.name()} does not use {f.name()}" in message
    assert g.name() in message


def test_an_update_left_unscheduled_is_a_warning() -> None:
    x = hl.Var("x")
    f = hl.Func("f")
    f[x] = x
    f[x] += 1
    f.vectorize(x, 4)
    with compilation():
        lowering = prepare([f.function()], None)
        schedule(lowering)
    assert len(lowering.warnings) == 1
    assert f"update(0) of {f.name()} has no schedule" in lowering.warnings[0]


def test_storage_that_threads_would_share_is_named_as_it_was_asked_for() -> None:
    f, g, x, y = producer_and_consumer()
    xi, yi = hl.vars("xi yi")
    g.gpu_tile(x, y, xi, yi, 8, 4)
    f.hoist_storage(g, y).compute_at(g, x)
    lines = str(refused(g)).splitlines()
    asked = f"  {f.name()}.hoist_storage({g.name()}, y).compute_at({g.name()}, x)"
    assert asked in lines and f"  {f.name()}.compute_at({g.name()}, x)" in lines
