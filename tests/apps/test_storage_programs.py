"""The programs of `bench.storage` give the wheel's values and take what is promised for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as bp
from apps import harness
from bayplan import driver
from bench import storage_programs

SMALL: dict[str, dict[str, int]] = {
    "row_stages": {"width": 77, "rows": 5},
    "dead_then_three": {},
    "pointwise_chain": {"width": 45, "height": 7},
    "average_chain": {"stages": 4, "width": 70, "height": 9},
    "local_pyramid": {"width": 150, "height": 140},
}


def _build(name: str, hl: Any, **sizes: int) -> harness.App:
    build: Callable[..., harness.App] = getattr(storage_programs, name)
    return build(hl, **(sizes or SMALL[name]))


@pytest.mark.parametrize("name", SMALL)
def test_the_wheel_agrees(name: str) -> None:
    hl = pytest.importorskip("halide")
    theirs, ours = _build(name, hl), _build(name, bp)
    arrays = harness.make_inputs(theirs, theirs.mins, theirs.extents)
    want, got = harness.run(hl, theirs, arrays), harness.run(bp, ours, arrays)
    assert harness.check_close(ours, got, want) is None


def _second_call(app: harness.App) -> Any:
    arrays = harness.make_inputs(app, app.mins, app.extents)
    prepared = harness.Prepared(bp, app, arrays, app.mins, app.extents)
    prepared.run()
    first = prepared.out.copy()
    prepared.run()
    np.testing.assert_array_equal(prepared.out, first)
    counts = driver.context().counts
    assert counts.live_bytes == 0
    assert counts.allocations == counts.releases
    return counts


def test_rows_take_two_rows_at_a_time() -> None:
    app = _build("row_stages", bp, width=1000, rows=1000)
    counts = _second_call(app)
    assert counts.allocations == 1
    assert counts.system_calls == 0
    assert counts.peak_bytes <= 8000 + 64
    report = bp.Pipeline(app.output).storage(list(app.extents))
    assert report.floor_bytes == 8000
    assert report.sum_bytes == 28000


def test_the_dead_make_room_for_several() -> None:
    counts = _second_call(_build("dead_then_three", bp))
    assert counts.peak_bytes <= 2560
    assert counts.system_calls == 0


def test_a_pointwise_chain_takes_one_buffer() -> None:
    app = _build("pointwise_chain", bp, width=256, height=64)
    assert _second_call(app).peak_bytes <= 256 * 64 * 4


@pytest.mark.parametrize("name", ["average_chain", "local_pyramid"])
def test_the_peak_is_near_the_floor(name: str) -> None:
    app = _build(name, bp)
    counts = _second_call(app)
    report = bp.Pipeline(app.output).storage(list(app.extents))
    assert report.peak_bytes <= 1.02 * report.floor_bytes + 64 * len(report)
    assert counts.peak_bytes <= report.peak_bytes
    assert counts.system_calls == 0


def test_mallocs_of_the_wheel_are_counted() -> None:
    hl = pytest.importorskip("halide")
    from bench.wheel_mallocs import count_mallocs

    app = _build("row_stages", hl, width=1000, rows=10)
    arrays = harness.make_inputs(app, app.mins, app.extents)
    assert count_mallocs(app, arrays, app.mins, app.extents, 1) == (70, 8000)
