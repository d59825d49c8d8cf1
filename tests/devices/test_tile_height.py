"""B03, run: shared bytes of a tile do not grow with a height that is known at the call."""

from __future__ import annotations

import pytest

import bayplan as hl
from tests.devices.programs import EMULATED, OPENCL, emulated


def _program(h: hl.Param) -> hl.Func:
    x, y, xi, yi, xii, yii = [hl.Var(n) for n in ("x", "y", "xi", "yi", "xii", "yii")]
    f, g = hl.Func("f"), hl.Func("g")
    g[x, y] = 0.0
    f[x, y] = g[x, y] * 2
    f.compute_root().tile(x, y, xi, yi, 64, h)
    f.tile(xi, yi, xii, yii, 32, 4, hl.TailStrategy.GuardWithIf)
    f.gpu_blocks(x, y).gpu_threads(xii, yii)
    g.compute_at(f, xi).store_in(hl.MemoryType.GPUShared).gpu_threads(*g.args())
    return f


@pytest.mark.parametrize("height", [1, 4, 6, 7, 1024])
def test_shared_bytes(height: int) -> None:
    h = hl.Param(hl.Int(32), "h", height)
    f = _program(h)
    device = emulated(shared_bytes=1024, shared_bytes_opt_in=0)
    with device:
        result = f.realize([256, 128 if height < 1024 else 1024], EMULATED)
    assert result.all_equal(0.0)
    shared = [launch.shared_bytes for launch in device.launches()]
    assert shared and all(size <= 512 for size in shared)
    assert height != 1024 or shared == [512]
    device.close()


def test_on_opencl() -> None:
    if not hl.host_supports_target_device(OPENCL):
        pytest.skip("no OpenCL device")
    h = hl.Param(hl.Int(32), "h", 6)
    assert _program(h).realize([256, 120], OPENCL).all_equal(0.0)
