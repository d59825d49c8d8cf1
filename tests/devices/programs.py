"""Programs with kernels for the tests of devices."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np

import bayplan as hl
from bayplan.driver.contexts import runtime
from bayplan.runtime.devices import Device

EMULATED = hl.Target("host-cuda-emulated")
OPENCL = hl.Target("host-opencl")


def emulated(**limits: Any) -> Device:
    """An emulated device of its own, whose launches are recorded."""
    device = runtime().devices.new_emulated(**limits)
    device.record_launches()
    return device


def refused(action: Callable[[], Any], kind: type[hl.BayplanError]) -> Any:
    """The error that an action ends with; nothing of the action is left but it."""
    try:
        action()
    except kind as error:
        error.__traceback__ = None
        found = error
    else:
        raise AssertionError(f"there was no {kind.__name__}")
    gc.collect()
    return found


class Blur:
    """Two stages, each a kernel; what is between them is device memory."""

    def __init__(self, width: int = 40, height: int = 24) -> None:
        self.width, self.height = width, height
        x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
        self.input = hl.ImageParam(hl.Float(32), 2, "input")
        self.blur_x, self.blur_y = hl.Func("blur_x"), hl.Func("blur_y")
        source = self.input
        self.blur_x[x, y] = source[x, y] + source[x + 1, y] + source[x + 2, y]
        self.blur_y[x, y] = self.blur_x[x, y] + self.blur_x[x, y + 1] + self.blur_x[x, y + 2]
        self.blur_y.gpu_tile(x, y, xi, yi, 8, 4)
        self.blur_x.compute_root().gpu_tile(x, y, xi, yi, 8, 4)
        self.array = np.arange((width + 2) * (height + 2), dtype=np.float32) % 17
        self.array = self.array.reshape(height + 2, width + 2)
        self.input.set(hl.Buffer(self.array))

    @property
    def sizes(self) -> list[int]:
        return [self.width, self.height]

    def expected(self) -> Any:
        """What numpy makes of the input."""
        a = self.array
        b = a[:, :-2] + a[:, 1:-1] + a[:, 2:]
        return b[:-2] + b[1:-1] + b[2:]

    def check(self, target: hl.Target) -> None:
        """Runs it and compares."""
        np.testing.assert_array_equal(
            self.blur_y.realize(self.sizes, target).numpy_view(), self.expected()
        )


def tile(size: int, *, threads: int = 16, kind: Any = hl.MemoryType.GPUShared) -> hl.Func:
    """A square tile of float32 in the shared memory of each block, copied to the output."""
    x, y, xi, yi, xo, yo = [hl.Var(n) for n in ("x", "y", "xi", "yi", "xo", "yo")]
    xt, yt = hl.Var("xt"), hl.Var("yt")
    made, out = hl.Func("tile"), hl.Func("out")
    made[x, y] = hl.cast(hl.Float(32), x + 3 * y)
    out[x, y] = made[x, y] * 2
    out.tile(x, y, xo, yo, xi, yi, size, size).gpu_blocks(xo, yo)
    out.tile(xi, yi, xt, yt, threads, threads).gpu_threads(xt, yt)
    made.compute_at(out, xo).store_in(kind)
    made.tile(x, y, xi, yi, xt, yt, threads, threads).gpu_threads(xt, yt)
    return out
