"""Temporaries of both sides, whichever of their allocations is the outer one."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from tests.devices.targets import TARGETS


@pytest.mark.parametrize("target_text", TARGETS)
def test_the_only_temporary_of_the_host_is_one_of_the_device_too(target_text: str) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    x, y, xi = hl.vars("x y xi")
    part, out = hl.Func("part"), hl.Func("out")
    r = hl.RDom([(0, 3)], "r")
    part[x, y] = x * 3 + y
    part[x, y] += r.x * (x + 1)
    out[x, y] = part[x, y] * 2 + 1
    # Made on the host, updated on the device, read on the host, in a loop of the host.
    part.compute_at(out, y).store_in(hl.MemoryType.Heap)
    part.update().split(x, x, xi, 8, hl.TailStrategy.GuardWithIf).reorder(r.x, xi, x, y)
    part.update().gpu_blocks(x).gpu_threads(xi)
    got = np.asarray(out.realize([50, 7], target))
    gy, gx = np.mgrid[:7, :50]
    np.testing.assert_array_equal(got, (gx * 3 + gy + 3 * (gx + 1)) * 2 + 1)
