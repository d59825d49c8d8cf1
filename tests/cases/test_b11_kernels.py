"""B11, over several kernels: what lies between them has one base, taken once; none is lost."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from tests.devices.targets import TARGETS


def device(text: str) -> hl.Target:
    target = hl.Target(text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    return target


def make_sums() -> tuple[hl.Func, list[hl.Func]]:
    r = hl.RDom([(0, 10)])
    t0, t1, out = hl.Func("t0"), hl.Func("t1"), hl.Func("sums")
    t0[()] = hl.i32(0)
    t0[()] += r * r
    t1[()] = hl.i32(0)
    t1[()] += r * r * r
    out[()] = t0[()] + t1[()]
    for f in (t0, t1):
        f.compute_root().gpu_single_thread()
        f.update().gpu_single_thread()
    out.gpu_single_thread()
    return out, [t0, t1]


@pytest.mark.parametrize("target_text", TARGETS)
def test_two_sums_and_their_sum(target_text: str) -> None:
    target = device(target_text)
    out, _ = make_sums()
    result = hl.Buffer(hl.Int(32), [])
    out.realize(result, target)
    result.copy_to_host()
    assert result[()] == 285 + 2025 == 2310


def test_two_sums_are_alive_together() -> None:
    out, _ = make_sums()
    report = out.storage(hl.Buffer(hl.Int(32), []), target=hl.Target("host-opencl"))
    assert [t.kind for t in report] == ["gpu_global"] * 2
    assert report.device_floor_bytes == 8
    (arena,) = report.arenas
    assert arena.name.endswith(".device_alloc")


def make_copies(first: int, second: int) -> hl.Pipeline:
    x, xi, funcs = hl.Var("x"), hl.Var("xi"), []
    for name, source, size in (("y", "t1", first), ("z", "t2", second)):
        t, f = hl.Func(source), hl.Func(name)
        t[x] = x
        f[x] = t[size - 1 - x]
        t.compute_root().bound(x, 0, size).gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
        f.gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
        funcs.append(f)
    return hl.Pipeline(funcs)


@pytest.mark.parametrize(("first", "second", "size_bytes"), [(10, 10, 40), (10, 20, 80)])
def test_one_after_the_other_share_a_base(first: int, second: int, size_bytes: int) -> None:
    pipeline = make_copies(first, second)
    outputs: list[Any] = [hl.Buffer(np.zeros(n, np.int32)) for n in (first, second)]
    report = pipeline.storage(outputs, target=hl.Target("host-opencl"))
    assert report.device_bytes == report.device_floor_bytes == size_bytes
    assert report.peak_bytes == 0
    assert report["t1"].shares == (report["t2"].name,)
    text = driver.lowered_text(pipeline._final_functions(), hl.Target("host-opencl"))
    own = [s for s in re.findall(r"allocate \S+\[.*", text) if " at " not in s]
    assert len(own) == 1
    assert "GPUGlobal" in own[0]


@pytest.mark.parametrize("target_text", TARGETS)
def test_nothing_is_lost_between_kernels(target_text: str) -> None:
    target = device(target_text)
    for first, second in ((10, 10), (10, 20)):
        outputs = [np.zeros(n, np.int32) for n in (first, second)]
        make_copies(first, second).realize([hl.Buffer(o) for o in outputs], target)
        for output in outputs:
            np.testing.assert_array_equal(output, np.arange(len(output))[::-1])
