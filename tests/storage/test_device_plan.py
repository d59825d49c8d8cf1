"""Pyramids of temporaries in the blocks of a kernel: as few bytes as live together, and right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate
from bench.gpu_programs import LEVELS, floor_bytes, make_pyramid
from tests.devices.targets import TARGETS

HEAP, SHARED = hl.MemoryType.Heap, hl.MemoryType.GPUShared


@pytest.mark.parametrize("run_time", [False, True])
@pytest.mark.parametrize("kind", [HEAP, SHARED])
@pytest.mark.parametrize("growing", [True, False])
def test_pyramids_take_their_floor(growing: bool, kind: hl.MemoryType, run_time: bool) -> None:
    base: Any = 16
    if run_time:
        base = hl.Param(hl.Int(32), "n")
        base.set(16)
    pyramid = make_pyramid(growing, kind, base)
    report = pyramid.storage([64], target=hl.Target("host-opencl"))
    wanted = "gpu_shared" if kind is SHARED else "gpu_global"
    assert {t.kind for t in report} == {wanted}
    assert len(report) == LEVELS
    (arena,) = [a for a in report.arenas if a.kernel]
    assert arena.bytes == arena.floor_bytes == floor_bytes(growing, 16)
    assert report.peak_bytes == 0
    if kind is HEAP:
        # A slice for each of two blocks.
        assert arena.copies == 2
        assert report.device_bytes == report.device_floor_bytes == 2 * arena.bytes
    for a in report:
        for b in report:
            if a is not b and a.life_begin < b.life_end and b.life_begin < a.life_end:
                assert a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset


@pytest.mark.parametrize("target_text", TARGETS)
@pytest.mark.parametrize("kind", [HEAP, SHARED])
@pytest.mark.parametrize("growing", [True, False])
def test_pyramids_are_right(target_text: str, growing: bool, kind: hl.MemoryType) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    if growing:
        want = np.asarray(evaluate(make_pyramid(growing, kind, 16), [0], [64]))
        result = np.asarray(make_pyramid(growing, kind, 16).realize([64], target))
        np.testing.assert_array_equal(result, want)
    n = hl.Param(hl.Int(32), "n")
    pyramid = make_pyramid(growing, kind, n)
    for count in (16, 5, 1):
        n.set(count)
        want = np.asarray(evaluate(make_pyramid(growing, kind, count), [0], [64]))
        np.testing.assert_array_equal(np.asarray(pyramid.realize([64], target)), want)


def make_chain(stages: int) -> hl.Func:
    """Kernels one after the other, each of which needs what the one before made."""
    x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
    previous: hl.Func | None = None
    for i in range(stages):
        f = hl.Func(f"stage{i}")
        f[x, y] = hl.f32(x + y * 3) if previous is None else previous[x, y] + previous[x, y] * 2
        f.compute_root().gpu_tile(x, y, xi, yi, 8, 8)
        previous = f
    assert previous is not None
    return previous


def test_temporaries_between_kernels_share_device_memory() -> None:
    report = make_chain(6).storage([64, 32], target=hl.Target("host-opencl"))
    assert [t.kind for t in report] == ["gpu_global"] * 5
    assert report.device_bytes == report.device_floor_bytes == 2 * 64 * 32 * 4
    assert report.peak_bytes == report.allocations == 0
    (arena,) = report.arenas
    assert arena.name.endswith(".device_alloc")
    assert arena.kind == "gpu_global"


@pytest.mark.parametrize("target_text", TARGETS)
def test_chains_and_stages_of_both_sides_are_right(target_text: str) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    want = np.asarray(evaluate(make_chain(6), [0, 0], [40, 30]))
    np.testing.assert_array_equal(np.asarray(make_chain(6).realize([40, 30], target)), want)


def make_windows(n: hl.Param) -> hl.Func:
    """Three kernels with two global temporaries in each, whose sizes follow from a parameter."""
    x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
    previous: hl.Func | None = None
    for i in range(3):
        a, b, d = hl.Func(f"a{i}"), hl.Func(f"b{i}"), hl.Func(f"d{i}")
        a[x, y] = hl.i32(x + y * 7) if previous is None else previous[x, y] % 1000
        b[x, y] = a[x, y] + a[x + n, y]
        d[x, y] = b[x, y] + b[x, y + n]
        d.compute_root().gpu_tile(x, y, xi, yi, 8, 8)
        for f in (a, b):
            f.compute_at(d, x).gpu_threads(x, y).store_in(HEAP)
        previous = d
    assert previous is not None
    return previous


def test_slices_of_kernels_share_with_what_is_between_kernels() -> None:
    n = hl.Param(hl.Int(32), "n")
    n.set(2)
    report = make_windows(n).storage([32, 24], target=hl.Target("host-opencl"))
    (call,) = [a for a in report.arenas if not a.kernel]
    slices = [a for a in report.arenas if a.kernel]
    assert len(slices) == 3
    assert all(a.arena == call.name for a in slices)
    # 10 * 10 and 8 * 10 elements, both alive while the second is made.
    assert [a.bytes for a in slices] == [4 * (100 + 80)] * 3
    assert all(a.bytes == a.floor_bytes for a in slices)
    taken = [(a.offset, a.offset + a.copies * a.stride_bytes) for a in slices]
    assert max(end for _, end in taken) <= call.bytes == report.device_bytes
    assert report.device_bytes == report.device_floor_bytes
    assert report.device_bytes < sum([end - begin for begin, end in taken])
    assert report.exact


@pytest.mark.parametrize("target_text", TARGETS)
def test_slices_of_kernels_hold_values(target_text: str) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    n = hl.Param(hl.Int(32), "n")
    windows = make_windows(n)
    for value in (0, 2, -3):
        n.set(value)
        want = np.asarray(evaluate(windows, [0, 0], [20, 17]))
        np.testing.assert_array_equal(np.asarray(windows.realize([20, 17], target)), want)


def test_no_temporary_lives_in_an_output_with_bytes_on_a_device() -> None:
    x = hl.Var("x")

    def program() -> hl.Func:
        made, out = hl.Func("made"), hl.Func("out")
        made[x] = x * 3
        out[x] = made[x] + 1
        made.compute_root()
        return out

    on_host = program().storage([40])
    assert on_host["made"].arena.startswith("out")
    # Bytes that are copied from the device would be the temporary's.
    report = program().storage([40], target=hl.Target("host-opencl"))
    assert report["made"].arena == report["made"].name
