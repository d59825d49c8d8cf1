"""Illegal schedules for a GPU: one error with the Func, the loop, the user's line and a hint.

Where the wheel refuses a schedule it is refused here too, and where it takes one it is taken, but
for the differences that are listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bayplan as hl
from bayplan.ir.node import compilation
from bayplan.lower import pipeline

NAMES = "x y z w xi yi"
Schedule = Callable[..., Any]

# What is said -> the schedule of the consumer g, of its producer f (a line a statement).
REFUSED: dict[str, tuple[str, list[str]]] = {
    "threads without blocks": ("g.gpu_threads(x)", ["threads x of g", "in no loop over blocks"]),
    "lanes without blocks": ("g.gpu_lanes(x)", ["lanes x of g", "in no loop over blocks"]),
    "blocks in threads": ("g.gpu_threads(y).gpu_blocks(x)", ["threads y of g", "in no loop"]),
    "blocks in threads of blocks": (
        "g.split(y, y, yi, 4).reorder(x, yi, y).gpu_blocks(y).gpu_threads(yi).gpu_blocks(x)",
        ["blocks x of g", "inside the loop over threads yi of g"],
    ),
    "a serial loop between blocks": (
        "g.tile(x, y, xi, yi, 8, 8).reorder(xi, x, yi, y).gpu_blocks(x, y).gpu_threads(xi)",
        ["the serial loop over yi of g is between", "the loop over blocks y of g"],
    ),
    "a production between blocks": (
        "g.gpu_tile(x, y, xi, yi, 8, 8); f.compute_at(g, y).gpu_threads(x)",
        ["the storage of f", "is between", "blocks x of g"],
    ),
    "threads in lanes": (
        "g.tile(x, y, xi, yi, 8, 8).gpu_blocks(x, y).gpu_threads(xi).gpu_lanes(yi)",
        ["threads xi of g", "inside the loop over lanes yi of g", "innermost"],
    ),
    "too many lanes": (
        "g.tile(x, y, xi, yi, 33, 8).gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)",
        ["lanes xi of g", "33 iterations", "32"],
    ),
    "lanes without a constant extent": (
        "g.gpu_blocks(y).gpu_lanes(x)",
        ["lanes x of g", "must be a constant"],
    ),
    "tasks of the host in a kernel": (
        "g.tile(x, y, xi, yi, 8, 8).gpu_blocks(x, y).gpu_threads(xi).parallel(yi)",
        ["parallel loop over yi of g", "would be the host's"],
    ),
    "a producer with tasks of the host": (
        "g.gpu_tile(x, y, xi, yi, 8, 8); f.compute_at(g, x).parallel(y)",
        ["parallel loop over y of f", "inside the loop over blocks x of g"],
    ),
    "a producer with blocks in a kernel": (
        "g.gpu_tile(x, y, xi, yi, 8, 8); f.compute_at(g, x).gpu_blocks(y).gpu_threads(x)",
        ["blocks y of f", "blocks x of g"],
    ),
    "four loops over blocks": (
        "g.tile(x, y, xi, yi, 8, 8).gpu_blocks(x, y, xi).gpu_blocks(yi)",
        ["blocks xi of g", "inside 3 others", "fuse()"],
    ),
    "four loops over threads": (
        "g.split(x, x, w, 4).tile(x, y, xi, yi, 8, 8).gpu_blocks(y).gpu_threads(x, xi, yi)"
        ".gpu_threads(w)",
        ["threads w of g", "inside 3 others"],
    ),
    "another device than the target has": (
        "g.gpu_tile(x, xi, 8, device_api=hl.DeviceAPI.OpenCL)",
        ["of g asks for a device of the kind OpenCL", "made for CUDA"],
    ),
    "storage outside of threads that compute": (
        "g.gpu_tile(x, y, xi, yi, 8, 8); f.compute_at(g, xi).store_at(g, x)",
        ["share the storage of f", "g.xi"],
    ),
    "storage hoisted out of threads": (
        "g.gpu_tile(x, y, xi, yi, 8, 8); f.compute_at(g, xi).hoist_storage(g, x)",
        ["share the storage of f", "g.xi"],
    ),
    "a loop over threads of a Func that is inlined": (
        "f.gpu_tile(x, xi, 8)",
        ["f is inlined", "xi"],
    ),
}

TAKEN: dict[str, str] = {
    "blocks without threads": "g.gpu_blocks(x)",
    "threads as many as elements": "g.gpu_blocks(y).gpu_threads(x)",
    "threads in threads": "g.gpu_tile(x, y, xi, yi, 8, 8); f.compute_at(g, yi).gpu_threads(x)",
    "vectors around threads": "g.tile(x, y, xi, yi, 8, 8).gpu_blocks(x, y).vectorize(yi)"
    ".gpu_threads(xi)",
    "unrolled loops around threads": "g.tile(x, y, xi, yi, 8, 8).gpu_blocks(x, y).unroll(yi)"
    ".gpu_threads(xi)",
    "loops of the host around blocks": "g.gpu_blocks(x)",
    "tasks of the host around blocks": "g.parallel(y).gpu_blocks(x)",
    "shared memory in threads": "g.gpu_tile(x, y, xi, yi, 8, 8)\n"
    "f.compute_at(g, xi).store_in(hl.MemoryType.GPUShared)",
    "registers in blocks": "g.gpu_tile(x, y, xi, yi, 8, 8)\n"
    "f.compute_at(g, x).store_in(hl.MemoryType.Register).gpu_threads(x)",
}

STRICTER: dict[str, tuple[str, list[str]]] = {
    "more threads than any device has": (
        "g.gpu_tile(x, y, xi, yi, 64, 32)",
        ["64 * 32 = 2048 threads", "1024"],
    ),
}
"""Refused here, and in the wheel's case by the device alone."""


def _build(module: Any, schedule: str) -> Any:
    x, y = module.Var("x"), module.Var("y")
    f, g = module.Func("f"), module.Func("g")
    f[x, y] = x + y
    g[x, y] = f[x, y] + f[x + 1, y]
    names = {name: module.Var(name) for name in NAMES.split()}
    exec(schedule, {"hl": module, "f": f, "g": g, **names})
    return g


def _lower(schedule: str, target: str = "host-cuda") -> None:
    g = _build(hl, schedule)
    with compilation():
        pipeline.lower([g.function()], hl.Target(target), "g")


@pytest.mark.parametrize("name", [*REFUSED, *STRICTER])
def test_refused(name: str) -> None:
    schedule, words = {**REFUSED, **STRICTER}[name]
    with pytest.raises(hl.ScheduleError) as caught:
        _lower(schedule)
    message = re.sub(r"\$\d+", "", str(caught.value))
    for word in words:
        assert word in message, message
    assert "test_check_gpu_loops.py" in message or "<string>" in message


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    _lower(TAKEN[name])


@pytest.mark.parametrize("name", [*REFUSED, *TAKEN])
def test_the_wheel_says_the_same(name: str, tmp_path: Path) -> None:
    halide = pytest.importorskip("halide")
    schedule = TAKEN[name] if name in TAKEN else REFUSED[name][0]

    def lower() -> None:
        g = _build(halide, schedule)
        text = halide.StmtOutputFormat.Text
        target = halide.Target("host-cuda")
        g.compile_to_lowered_stmt(str(tmp_path / "g.stmt"), [], text, target=target)

    if name in TAKEN:
        lower()
        return
    with pytest.raises(halide.HalideError):
        lower()


def test_a_target_without_a_gpu() -> None:
    with pytest.raises(hl.ScheduleError) as caught:
        _lower("g.gpu_tile(x, xi, 8)", "host")
    assert "loop over xi of g" in str(caught.value) and "has no GPU" in str(caught.value)
    assert 'hl.Target("opencl")' in str(caught.value)
    assert caught.value.where is not None
    with pytest.raises(hl.ScheduleError, match="has no GPU"):
        _build(hl, "g.gpu_tile(x, xi, 8)").realize([8, 8])


def test_loops_of_specializations_ask_for_a_device_too() -> None:
    schedule = "g.specialize(hl.Param(hl.Int(32), 'n') > 3).gpu_tile(x, xi, 8)"
    with pytest.raises(hl.ScheduleError, match="has no GPU"):
        _lower(schedule, "host")
    _lower(schedule, "host-opencl")


def test_a_stage_of_a_c_function_is_not_called_in_a_kernel() -> None:
    x, y, xi = hl.vars("x y xi")
    f, g = hl.Func("f"), hl.Func("g")
    f.define_extern("make", [], hl.Int(32), 2)
    g[x, y] = f[x, y] + 1
    g.gpu_tile(x, xi, 8)
    f.compute_at(g, x)
    match = r"computed by a C function.*blocks x of g"
    with pytest.raises(hl.ScheduleError, match=match), compilation():
        pipeline.lower([g.function()], hl.Target("opencl"), "g")
