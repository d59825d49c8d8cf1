"""Kernels of real schedules, thread by thread: no races, the values of the evaluator, no device.

What is counted too is how often a block waits.
"""

from __future__ import annotations

import importlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from apps import harness
from bayplan.reference import evaluate
from tests.differential.choices import Choices
from tests.differential.generate import generate
from tests.storage.interpret_kernels import ORDERS
from tests.storage.interpret_values import Unsupported
from tests.storage.run_kernels import run_func_on_device, run_program_on_device

COUNT = 24
APPS: list[tuple[str, dict[str, Any], harness.Box, int]] = [
    ("blur", {"gpu": "inline"}, ((0, 0), (37, 17)), 0),
    # One barrier in each of 2 x 3 blocks.
    ("blur", {"gpu": "cache"}, ((0, 0), (37, 17)), 6),
    ("blur", {"gpu": "slide"}, ((0, 0), (32, 17)), 0),
    ("blur", {"gpu": "slide_vector"}, ((0, 0), (64, 9)), 0),
    # Behind the gray image and behind its gradients.
    ("harris", {"gpu": True}, ((3, 3), (62, 14)), 2),
    ("kernels.histogram", {"width": 64, "height": 32}, ((0,), (256,)), 18),
]


def check(func: hl.Func, mins: list[int], extents: list[int], order: str = "shuffled") -> int:
    """Runs the Func, compares it with the evaluator, and says how often blocks waited."""
    got, machine = run_func_on_device(func, mins, extents, order=order)
    want = evaluate(func, mins, extents)
    np.testing.assert_array_equal(got, want)
    assert machine.kernels > 0
    return machine.barriers


@pytest.mark.parametrize(("name", "arguments", "box", "barriers"), APPS, ids=str)
def test_applications(
    name: str, arguments: dict[str, Any], box: harness.Box, barriers: int
) -> None:
    app = importlib.import_module(f"apps.{name}").build(hl, **arguments)
    mins, extents = box
    kept = harness.Prepared(hl, app, harness.make_inputs(app, mins, extents), mins, extents)
    want = evaluate(app.output, list(mins), list(extents))
    got, machine = run_func_on_device(app.output, mins, extents, order="shuffled")
    assert harness.check_close(app, got, want) is None
    assert machine.barriers == barriers
    del kept


def test_random_programs() -> None:
    """No races in random programs; enough of them have barriers and shared memory to tell."""
    found: Counter[str] = Counter()
    failures: list[str] = []
    for seed in range(COUNT):
        program = generate(Choices.from_seed(7000 + seed), stored=seed % 2 == 1, gpu=True)
        try:
            found += run_program_on_device(program, seed=seed, limit=4_000)
        except Unsupported:
            found["skipped"] += 1
        except AssertionError as error:
            failures.append(f"seed {7000 + seed}: {error}")
    assert not failures, "\n".join(failures)
    assert found["kernels"] > 20 and found["barriers"] > 10 and found["shared"] > 3, found


def image() -> tuple[hl.ImageParam, np.ndarray]:
    data = (np.arange(40 * 40, dtype=np.int32).reshape(40, 40) * 7919) % 1009
    source = hl.ImageParam(hl.Int(32), 2, "source")
    source.set(hl.Buffer(data))
    return source, data


@pytest.mark.parametrize("order", ORDERS)
def test_a_pyramid_in_shared_memory(order: str) -> None:
    source, _data = image()
    x, y, xi, yi = hl.vars("x y xi yi")
    fine, half, quarter, out = hl.Func("fine"), hl.Func("half"), hl.Func("quarter"), hl.Func("out")
    fine[x, y] = source[x, y] + 1
    half[x, y] = fine[2 * x, 2 * y] + fine[2 * x + 1, 2 * y] + fine[2 * x, 2 * y + 1]
    quarter[x, y] = half[2 * x, 2 * y] + half[2 * x + 1, 2 * y + 1]
    out[x, y] = quarter[x / 4, y / 4] + half[x / 2, y / 2] + fine[x, y]
    out.gpu_tile(x, y, xi, yi, 8, 8)
    for stage in (fine, half, quarter):
        stage.compute_at(out, x).gpu_threads(x, y)
    # fine before half, half before quarter, quarter before out: in each of 4 blocks.
    assert check(out, [0, 0], [16, 16], order) == 12


@pytest.mark.parametrize("order", ORDERS)
def test_a_sum_over_the_threads_of_a_block(order: str) -> None:
    source, _data = image()
    x, y, u = hl.vars("x y u")
    r = hl.RDom([(0, 32)], "r")
    total, out = hl.Func("total"), hl.Func("out")
    total[y] = 0
    total[y] += source[r, y]
    ro, ri = hl.RVar("ro"), hl.RVar("ri")
    total.update().split(r, ro, ri, 8)
    parts = total.update().rfactor(ri, u)
    out[x, y] = total[y] + x
    out.reorder(x, y).gpu_blocks(y).gpu_threads(x)
    total.compute_at(out, y)
    parts.compute_at(out, y).gpu_threads(u)
    parts.update().gpu_threads(u)
    # The parts before their sum, which one thread makes, and the sum before the row: 4 blocks.
    assert check(out, [0, 0], [16, 4], order) == 8


@pytest.mark.parametrize("order", ORDERS)
def test_a_histogram_in_shared_memory(order: str) -> None:
    source, _data = image()
    x, y = hl.vars("x y")
    r = hl.RDom([(0, 32)], "r")
    counts, out = hl.Func("counts"), hl.Func("out")
    counts[x] = 0
    counts[source[r, y0()] % 16] += 1
    out[x, y] = counts[x] + y
    out.gpu_blocks(y).gpu_threads(x)
    counts.compute_at(out, y).gpu_threads(x)
    counts.update().atomic().gpu_threads(r)
    assert check(out, [0, 0], [16, 3], order) == 6


def y0() -> int:
    return 5


@pytest.mark.parametrize("order", ORDERS)
def test_rows_that_slide_in_a_loop_of_the_block(order: str) -> None:
    source, _data = image()
    x, y, xi, yo, yi = hl.vars("x y xi yo yi")
    blur, out = hl.Func("blur"), hl.Func("out")
    blur[x, y] = source[x, y] + source[x + 1, y]
    out[x, y] = blur[x, y] + blur[x + 1, y + 1]
    out.split(x, x, xi, 8).split(y, yo, yi, 4).reorder(xi, yi, x, yo)
    out.gpu_blocks(x, yo).gpu_threads(xi)
    blur.compute_at(out, yi).gpu_threads(x)
    # In 4 blocks, for each of 4 rows: before it is read, and before the next one is written.
    assert check(out, [0, 0], [16, 8], order) == 4 * (4 + 4)


def test_a_temporary_between_two_kernels() -> None:
    source, _data = image()
    x, y, xi, yi = hl.vars("x y xi yi")
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x, y] = source[x, y] * 3
    second[x, y] = first[x, y] + first[x + 1, y]
    out[x, y] = second[x, y] + first[x, y + 1]
    first.compute_root().gpu_tile(x, y, xi, yi, 8, 4)
    second.compute_root()
    out.gpu_tile(x, y, xi, yi, 4, 4)
    assert check(out, [0, 0], [13, 9]) == 0
