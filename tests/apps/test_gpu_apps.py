"""GPU schedules of the applications and the shared-memory kernels agree with the evaluator."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from apps import blur, harness
from apps.kernels import NAMES as KERNELS
from bayplan.reference import evaluate
from tests.devices.targets import TARGETS

SMALL: dict[str, dict[str, Any]] = {
    "iir_blur": {"width": 96, "height": 64, "channels": 2},
    "camera_pipe": {"width": 112, "height": 48},
}
# The output box of each application; the region must suit the tails of the schedule.
BOXES: dict[str, harness.Box] = {
    "blur": ((0, 0), (70, 45)),
    "unsharp": ((0, 0, 0), (67, 45, 3)),
    "harris": ((3, 3), (130, 33)),
    "camera_pipe": ((0, 0, 0), (112, 48, 3)),
    "iir_blur": ((0, 0, 0), (96, 64, 2)),
}
PROGRAMS = [
    *[("blur", {"gpu": which}) for which in blur.GPU_SCHEDULES],
    *[(name, {"gpu": True}) for name in ("unsharp", "harris", "camera_pipe", "iir_blur")],
    *[(f"kernels.{name}", {}) for name in KERNELS],
    ("kernels.matrix_product", {"dtype": "int32"}),
    ("kernels.cell_mass", {"degree": 5}),
]


def _run(name: str, arguments: dict[str, Any], target: hl.Target) -> None:
    arguments = {**SMALL.get(name, {}), **arguments}
    app: harness.App = importlib.import_module(f"apps.{name}").build(hl, **arguments)
    mins, extents = BOXES.get(name, (app.mins, app.extents))
    prepared = harness.Prepared(hl, app, harness.make_inputs(app, mins, extents), mins, extents)
    want = evaluate(app.output, list(mins), list(extents))
    app.output.realize(prepared.out_buffer, target)
    problem = harness.check_close(app, prepared.out, want)
    assert problem is None, problem
    # A second call has other bytes in device memory, and the same result.
    prepared.out[...] = 0
    prepared.out_buffer.set_host_dirty()
    app.output.realize(prepared.out_buffer, target)
    assert harness.check_close(app, prepared.out, want) is None


@pytest.mark.parametrize("target_text", TARGETS)
@pytest.mark.parametrize(("name", "arguments"), PROGRAMS, ids=lambda v: str(v))
def test_gpu_schedule_agrees_with_the_evaluator(
    name: str, arguments: dict[str, Any], target_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    _run(name, arguments, target)


def test_the_matrix_product_is_right() -> None:
    """The evaluator itself, against numpy."""
    app = importlib.import_module("apps.kernels.matrix_product").build(hl, dtype="int32")
    arrays = harness.make_inputs(app, app.mins, app.extents)
    harness.Prepared(hl, app, arrays, app.mins, app.extents)
    got = evaluate(app.output, list(app.mins), list(app.extents))
    np.testing.assert_array_equal(got, arrays["A"] @ arrays["B"])
