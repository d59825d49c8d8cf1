"""Shapes of kernels that plans elsewhere got wrong: bytes of a block, and values on devices."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate
from bench import gpu_programs
from bench.gpu_programs import SHAPES, Shape, count_barriers
from tests.devices.targets import TARGETS


@pytest.mark.parametrize(("build", "bytes"), SHAPES)
def test_bytes_of_a_block(build: Shape, bytes: int) -> None:
    func, extents = build()
    report = func.storage(extents, target=hl.Target("host-opencl"))
    (arena,) = report.arenas
    assert arena.kind == "gpu_shared"
    assert arena.bytes == bytes


@pytest.mark.parametrize("target_text", TARGETS)
@pytest.mark.parametrize(("build", "bytes"), SHAPES)
def test_values(build: Shape, bytes: int, target_text: str) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    func, extents = build()
    want = np.asarray(evaluate(build()[0], [0] * len(extents), extents))
    np.testing.assert_array_equal(np.asarray(func.realize(extents, target)), want)


@pytest.mark.parametrize(
    ("build", "barriers"),
    [
        (lambda: gpu_programs.three_stages(True), 3),
        (lambda: gpu_programs.three_stages(False), 2),
        (gpu_programs.straight_line, 3),
        (lambda: gpu_programs.fill_at(0), 0),
        (lambda: gpu_programs.fill_at(10), 2),
    ],
    ids=["three stages", "without sharing", "straight line", "fill of its own", "fill"],
)  # fmt: skip
def test_barriers(build: Shape, barriers: int) -> None:
    """As few as the bytes need, and the values are right with them."""
    func, extents = build()
    assert count_barriers(func) == barriers
    test_values(build, 0, TARGETS[0])


def test_bytes_are_given_on_at_once_for_one_barrier() -> None:
    func, extents = gpu_programs.straight_line()
    (arena,) = func.storage(extents, target=hl.Target("host-opencl")).arenas
    assert arena.bytes == arena.floor_bytes == 2 * 256
