"""B31: several arrays of run-time size in one block of shared memory begin at different bytes."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from tests.devices.targets import TARGETS


def make_program() -> tuple[hl.Func, hl.Param, hl.Param]:
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    n, m = hl.Param(hl.Int(32), "n"), hl.Param(hl.Int(32), "m")
    a, b, c, out = (hl.Func(name) for name in ("a", "b", "c", "b31"))
    a[x] = x
    b[x] = hl.f64(10.5) + hl.f64(x)
    c[x] = -1
    out[x] = hl.select(x < n, hl.f64(a[hl.min(x, n - 1)]), b[hl.clamp(x - n, 0, m - 1)])
    out[x] += hl.f64(c[x % 4]) * 100
    for f, extent in ((a, n), (b, m), (c, 4)):
        f.bound(x, 0, extent)
    out.compute_root().split(x, xo, xi, 8).gpu_blocks(xo).gpu_threads(xi)
    out.update().split(x, xo, xi, 8).gpu_blocks(xo).gpu_threads(xi)
    for f in (a, b):
        f.compute_at(out, xo).gpu_threads(x).store_in(hl.MemoryType.GPUShared)
    return out, n, m


@pytest.mark.parametrize("target_text", TARGETS)
def test_b31_offsets_and_values(target_text: str) -> None:
    target = hl.Target(target_text)
    out, n, m = make_program()
    n.set(5)
    m.set(3)
    report = out.storage([8], target=target)
    offsets = {t.func.split("$")[0]: t.offset for t in report}
    # Eight byte elements come first, so that nothing is padded: not even the 48 bytes of
    # 20 padded to 24, and 24.
    assert sorted([offsets["a"], offsets["b"]]) == [0, 24]
    assert offsets["b"] % 8 == 0
    (arena,) = [a for a in report.arenas if a.kind == "gpu_shared"]
    assert arena.bytes == 44
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    result = np.array(out.realize([8], target))
    np.testing.assert_array_equal(result + 100, [0, 1, 2, 3, 4, 10.5, 11.5, 12.5])


def test_b31_one_of_no_elements_takes_no_bytes() -> None:
    out, n, m = make_program()
    n.set(0)
    m.set(3)
    report = out.storage([3], target=hl.Target("host-opencl"))
    (arena,) = [a for a in report.arenas if a.kind == "gpu_shared"]
    assert {t.func.split("$")[0]: t.offset for t in report}["b"] == 0
    assert arena.bytes == 24
