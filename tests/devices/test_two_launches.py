"""B19, run: each launch of a program carries the shared memory of its own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from tests.devices.programs import EMULATED, OPENCL, emulated

SHARED = hl.MemoryType.GPUShared


def _program(threads: int = 8) -> tuple[hl.Func, hl.ImageParam]:
    """B reverses A through shared memory, C mixes both through more of it, D needs none."""
    t, i = hl.Var("t"), hl.Var("i")
    a = hl.ImageParam(hl.Int(32), 1, "A")
    s, b, s2, c, d = [hl.Func(n) for n in ("s", "B", "s2", "C", "D")]
    s[t] = a[t]
    b[t] = s[7 - t] + 1
    s2[t] = hl.select(t % 2 == 0, a[t // 2], b[t // 2])
    c[t] = s2[15 - 2 * t] + s2[14 - 2 * t]
    d[t] = c[t] * 2
    for f in (b, c, d):
        f.compute_root().bound(t, 0, 8)
        f.split(t, t, i, threads).gpu_blocks(t).gpu_threads(i)
    s.compute_at(b, t).store_in(SHARED).gpu_threads(s.args()[0])
    s2.compute_at(c, t).store_in(SHARED).gpu_threads(s2.args()[0])
    return d, a


def _run(target: hl.Target) -> tuple[Any, str]:
    d, a = _program()
    a.set(hl.Buffer(np.arange(8, dtype=np.int32)))
    return d.realize([8], target).numpy_view(), d.device_source(target)


def test_launches_carry_their_own_bytes() -> None:
    device = emulated()
    with device:
        out, source = _run(EMULATED)
    assert out.tolist() == [16] * 8
    assert [launch.shared_bytes for launch in device.launches()] == [32, 64, 0]
    device.close()
    # Each kernel declares its own memory of the block.
    first, second, third = [part.split("\n}")[0] for part in source.split("__global__")[1:]]
    assert "BP_SHARED(" in first and "BP_SHARED(" in second and "BP_SHARED" not in third


def test_no_argument_is_shared_memory() -> None:
    d, _ = _program()
    source = d.device_source(OPENCL)
    heads = [part[: part.index(") {")] for part in source.split("__kernel")[1:]]
    assert len(heads) == 3 and not any("__local" in head for head in heads), heads


def test_on_opencl() -> None:
    if not hl.host_supports_target_device(OPENCL):
        pytest.skip("no OpenCL device")
    assert _run(OPENCL)[0].tolist() == [16] * 8


def test_sizes_of_the_call() -> None:
    """The bytes of both kernels are known at the launch only."""
    n = hl.Param(hl.Int(32), "n", 4)
    t, i, o, j = hl.Var("t"), hl.Var("i"), hl.Var("o"), hl.Var("j")
    s, b, s2, c = [hl.Func(name) for name in ("s", "B", "s2", "C")]
    s[t] = t * 3
    b[t] = s[t] + s[t + n]
    s2[t] = b[t] + 1
    c[t] = s2[t] + s2[t + 2 * n]
    for f in (b, c):
        f.compute_root().split(t, o, i, 8).gpu_blocks(o).gpu_threads(i)
    for f, of in ((s, b), (s2, c)):
        f.compute_at(of, o).store_in(SHARED).split(t, t, j, 8).serial(t).gpu_threads(j)
    k = np.arange(16)

    def value(at: Any) -> Any:
        return 3 * at + 3 * (at + 5) + 1

    want = value(k) + value(k + 10)
    device = emulated()
    with device:
        n.set(5)
        out = c.realize([16], EMULATED).numpy_view()
        first, second = [launch.shared_bytes for launch in device.launches()]
    np.testing.assert_array_equal(out, want)
    assert first >= (8 + 5) * 4 and second >= (8 + 10) * 4 and first < second
    if hl.host_supports_target_device(OPENCL):
        np.testing.assert_array_equal(c.realize([16], OPENCL).numpy_view(), want)
