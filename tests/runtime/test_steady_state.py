"""Every application: a second call takes nothing from the system, one in a workspace nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import apps
import bayplan as hl
from apps import harness
from bayplan import driver
from bayplan.driver.values import make_values, output_parameters
from tests.cases.test_b45_allocation_failure import fail_each

SMALL: dict[str, dict[str, Any]] = {
    "iir_blur": {"width": 147, "height": 83},
    "stencil_chain": {"stencils": 13, "width": 200, "height": 160},
    "camera_pipe": {"width": 192, "height": 96},
}


def prepare(name: str) -> harness.Prepared:
    app = harness.load(name, hl, **SMALL.get(name, {}))
    mins, extents = app.boxes()[-1]
    return harness.Prepared(hl, app, harness.make_inputs(app, mins, extents), mins, extents)


@pytest.fixture(autouse=True)
def two_workers() -> Any:
    before = hl.set_num_threads(2)
    hl.memory.trim()
    yield
    hl.set_num_threads(before)
    hl.memory.trim()


@pytest.mark.parametrize("name", apps.NAMES)
def test_a_second_call_takes_nothing_from_the_system(name: str) -> None:
    prepared = prepare(name)
    prepared.run()
    first = hl.memory.last_call()
    assert first.live_bytes == 0
    calls = hl.memory.statistics().system_calls
    for _ in range(3):
        prepared.run()
        counts = hl.memory.last_call()
        assert (counts.system_calls, counts.live_bytes) == (0, 0)
        assert counts.peak_bytes == first.peak_bytes
    assert hl.memory.statistics().system_calls == calls


@pytest.mark.parametrize("name", apps.NAMES)
def test_a_call_in_a_workspace_takes_nothing_at_all(name: str) -> None:
    prepared = prepare(name)
    prepared.run()
    want, peak = prepared.out.copy(), hl.memory.last_call().peak_bytes
    functions = [prepared.app.output.function()]
    compiled = driver.compile_pipeline(functions)
    (parameter,) = output_parameters(functions)
    values = make_values(compiled, {id(parameter): prepared.out_buffer}, {})
    context = driver.context()
    size = compiled.workspace_bytes(values, context)
    assert context.counts.allocations == 0
    assert size == peak
    alignment = compiled.workspace_alignment
    guard = 256
    for skew in (0, 1, alignment - 1) if alignment > 1 else (0,):
        block = np.full(size + 2 * guard + 2 * alignment, 0xCD, np.uint8)
        start = guard + -(block.ctypes.data + guard) % alignment + skew
        need = size + -skew % alignment if size else 0
        prepared.out[...] = 0
        before = hl.memory.statistics()
        compiled.call(values, context, (block.ctypes.data + start, need))
        assert (context.counts.allocations, context.counts.system_calls) == (0, 0)
        now = hl.memory.statistics()
        assert (now.requests, now.system_calls) == (before.requests, before.system_calls)
        assert harness.check_close(prepared.app, prepared.out, want) is None
        assert (block[:start] == 0xCD).all() and (block[start + need :] == 0xCD).all()


@pytest.mark.parametrize("name", apps.NAMES)
def test_any_failing_allocation_ends_the_call(name: str) -> None:
    prepared = prepare(name)
    prepared.run()
    want = prepared.out.copy()

    def run() -> None:
        prepared.out[...] = 0
        prepared.run()
        assert harness.check_close(prepared.app, prepared.out, want) is None

    try:
        fail_each(run, ())
    finally:
        driver.context().check_allocations(False)
