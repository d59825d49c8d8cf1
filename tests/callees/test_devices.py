"""Functions that leave their values on a device, and pipelines with kernels that others call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.driver.contexts import runtime
from tests.differential.worker import DEVICES

EXTENTS = [40, 21]


def _smooth(gpu: bool, wide: bool) -> hl.Func:
    """Sums of rows and columns; `wide`: with a temporary between two kernels."""
    x, y, xi, yi = hl.vars("x y xi yi")
    image = hl.ImageParam(hl.Int(32), 2, "image")
    weight = hl.Param(hl.Int(32), "weight", 2)
    rows, smooth = hl.Func("rows"), hl.Func("smooth")
    rows[x, y] = image[x, y] + weight * image[x + 1, y]
    smooth[x, y] = rows[x, y] + rows[x, y + 1]
    if gpu:
        smooth.gpu_tile(x, y, xi, yi, 16, 4, hl.TailStrategy.GuardWithIf)
        if wide:
            rows.compute_root().gpu_tile(x, y, xi, yi, 8, 8)
        else:
            rows.compute_at(smooth, x).gpu_threads(x, y)
    return smooth


def _twice(smooth: hl.Func, caller: Callable[..., None]) -> hl.Func:
    x, y = hl.vars("x y")
    plane, once, twice, out = [hl.Func(n) for n in ("plane", "once", "twice", "out")]
    plane[x, y] = x * x + y
    once.define_extern(smooth, {"image": plane, "weight": 3})
    twice.define_extern(smooth, {"image": once, "weight": -1})
    out[x, y] = twice[x, y] + plane[x, y]
    caller(out, plane, once, twice)
    return out


def _on_host(out: hl.Func, *others: hl.Func) -> None:
    for f in others:
        f.compute_root()


def _on_device(out: hl.Func, plane: hl.Func, once: hl.Func, twice: hl.Func) -> None:
    """Kernels around the calls: values go there, come home for a call, and go there again."""
    _on_host(out, plane, once, twice)
    (x, y), (xi, yi) = hl.vars("x y"), hl.vars("xi yi")
    plane.gpu_tile(x, y, xi, yi, 16, 4)
    out.gpu_tile(x, y, xi, yi, 16, 4)


def _in_tasks(out: hl.Func, plane: hl.Func, once: hl.Func, twice: hl.Func) -> None:
    x, y, yi = hl.vars("x y yi")
    out.split(y, y, yi, 8, hl.TailStrategy.GuardWithIf).parallel(y)
    plane.compute_root()
    once.compute_at(out, y)
    twice.compute_at(out, yi)


@pytest.mark.parametrize("device", [d for d in sorted(DEVICES) if d != "cuda"])
@pytest.mark.parametrize("caller", [_on_host, _on_device, _in_tasks])
@pytest.mark.parametrize("wide", [False, True])
def test_a_pipeline_with_kernels_is_called(
    device: str, caller: Callable[..., None], wide: bool
) -> None:
    target = hl.Target(DEVICES[device])
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    want = np.asarray(_twice(_smooth(False, False), _on_host).realize(EXTENTS))
    out = _twice(_smooth(True, wide), caller)
    buffer = hl.Buffer(np.zeros(EXTENTS[::-1], np.int32))
    out.realize(buffer, target)
    found = runtime().devices.find(device)
    before = found.memory().used
    found.reset_most()
    for _ in range(3):
        out.realize(buffer, target)
    np.testing.assert_array_equal(np.asarray(buffer), want)
    assert found.memory().used == before
    report = out.storage(EXTENTS, target=target)
    # How many tasks have a callee's memory at one moment is a matter of luck.
    assert report.exact is not (wide and caller is _in_tasks)
    taken = found.memory().most_temporaries
    assert taken <= report.device_bytes and (taken == report.device_bytes or not report.exact)
    assert (report.device_bytes > 0) is (wide or caller is _on_device)


def test_a_python_function_of_a_program_for_a_device() -> None:
    @hl.register_extern("add_rows")
    def add_rows(source: Any, out: Any) -> None:
        if out.is_bounds_query():
            (x, w), (y, h) = out.bounds()
            source.set_bounds([(x, w), (y, h + 1)])
            return
        out.array()[:] = source.array()[:-1] + source.array()[1:]

    x, y, xi, yi = hl.vars("x y xi yi")
    plane, both, out = hl.Func("plane"), hl.Func("both"), hl.Func("out")
    plane[x, y] = x * y
    both.define_extern("add_rows", [plane], hl.Int(32), [x, y])
    out[x, y] = both[x, y] + 1
    plane.compute_root().gpu_tile(x, y, xi, yi, 8, 8)
    both.compute_root()
    out.gpu_tile(x, y, xi, yi, 8, 8)
    found = np.asarray(out.realize(EXTENTS, hl.Target(DEVICES["emulated"])))
    xs, ys = np.meshgrid(*[np.arange(n) for n in EXTENTS])
    np.testing.assert_array_equal(found, xs * (2 * ys + 1) + 1)


def test_what_no_one_can_fetch_is_an_error(functions: ctypes.CDLL) -> None:
    """Not the zeros that are on the host."""
    f = hl.Func("f")
    f.define_extern("ex_left_on_device", [], hl.Int(32), 1)
    with pytest.raises(hl.ExternError, match=r"ex_left_on_device left f\S* on a device") as error:
        f.realize([5])
    assert "test_devices.py" in str(error.value)
