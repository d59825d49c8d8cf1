"""B19: each kernel of a program has its own shared memory, and its launch carries its bytes."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from tests.devices.targets import TARGETS


def make_program() -> hl.Func:
    """K0 reverses eight numbers by way of shared memory, K1 takes them and others by 16."""
    t, to, ti, u = hl.Var("t"), hl.Var("to"), hl.Var("ti"), hl.Var("u")
    a, s, b, s2, c = (hl.Func(name) for name in ("a", "s", "b", "s2", "c"))
    a[t] = t
    s[t] = a[t]
    b[t] = s[7 - t] + 1
    s2[t] = hl.select(t % 2 == 0, a[t / 2], b[t / 2])
    c[t] = s2[15 - 2 * t] + s2[14 - 2 * t]
    s.bound(t, 0, 8)
    s2.bound(t, 0, 16)
    b.bound(t, 0, 8)
    c.bound(t, 0, 8)
    b.compute_root().split(t, to, ti, 8).gpu_blocks(to).gpu_threads(ti)
    s.compute_at(b, to).gpu_threads(t)
    c.split(t, to, ti, 8).gpu_blocks(to).gpu_threads(ti)
    s2.compute_at(c, to).split(t, t, u, 2).gpu_threads(t)
    return c


def test_b19_launches_carry_their_own_bytes() -> None:
    report = make_program().storage([8], target=hl.Target("host-opencl"))
    shared = [a.bytes for a in report.arenas if a.kind == "gpu_shared"]
    assert shared == [32, 64]
    assert {a.kernel for a in report.arenas if a.kind == "gpu_shared"} == {
        a.kernel for a in report.arenas if a.kernel
    }
    # Between the launches b is memory of the device.
    assert report["b"].kind == "gpu_global"
    assert report.device_bytes == report.device_floor_bytes == 32


@pytest.mark.parametrize("target_text", TARGETS)
def test_b19_values(target_text: str) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    np.testing.assert_array_equal(np.array(make_program().realize([8], target)), [8] * 8)


def test_b19_a_kernel_without_shared_memory_asks_for_none() -> None:
    x, xi = hl.Var("x"), hl.Var("xi")
    f = hl.Func("f")
    f[x] = x * 2
    f.gpu_tile(x, xi, 8)
    report = f.storage([64], target=hl.Target("host-opencl"))
    assert not report.arenas
    assert not report.temporaries
