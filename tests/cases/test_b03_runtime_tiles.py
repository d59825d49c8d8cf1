"""B03: a tile in shared memory whose height is a parameter asks for what it needs, not more."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from tests.devices.targets import TARGETS

HEIGHTS = [1, 4, 6, 7, 1024]
TILE_BYTES = 32 * 4 * 4


def make_program() -> tuple[hl.Func, hl.Param]:
    x, y, xi, yi, xii, yii = (hl.Var(name) for name in ("x", "y", "xi", "yi", "xii", "yii"))
    h = hl.Param(hl.Int(32), "h")
    g, f = hl.Func("g"), hl.Func("f")
    g[x, y] = hl.f32(0) + 0 * hl.cast(hl.Float(32), x)
    f[x, y] = g[x, y] * 2
    guard = hl.TailStrategy.GuardWithIf
    f.tile(x, y, xi, yi, 64, h, guard).tile(xi, yi, xii, yii, 32, 4, guard)
    f.gpu_blocks(x, y).gpu_threads(xii, yii)
    g.compute_at(f, xi).gpu_threads(x, y)
    return f, h


@pytest.mark.parametrize("h", HEIGHTS)
def test_b03_the_report_says_what_a_launch_asks_for(h: int) -> None:
    f, height = make_program()
    height.set(h)
    report = f.storage([1024, 1024], target=hl.Target("host-opencl"))
    (arena,) = [a for a in report.arenas if a.kind == "gpu_shared"]
    assert arena.bytes <= TILE_BYTES
    assert h != 1024 or arena.bytes == TILE_BYTES
    assert arena.bytes == arena.floor_bytes
    assert report["g"].kind == "gpu_shared"
    assert report["g"].asked == "auto"


@pytest.mark.parametrize("target_text", TARGETS)
def test_b03_values(target_text: str) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    f, height = make_program()
    for h in HEIGHTS:
        height.set(h)
        out = np.full((64, 96), 7, np.float32)
        f.realize(hl.Buffer(out), target)
        assert not out.any(), h


def test_b03_sizes_are_never_those_of_a_tile() -> None:
    f, _ = make_program()
    text = driver.lowered_text(f._final_functions(), hl.Target("host-opencl"))
    line = next(s for s in text.splitlines() if "allocate g" in s)
    assert "32 * 4" in line
    assert "GPUShared" in line
