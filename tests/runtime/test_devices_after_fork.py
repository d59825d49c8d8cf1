"""A forked child gets an error from a driver that its parent opened, and does not wait for ever."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import bayplan as hl

OPENCL = hl.Target("host-opencl")


def _kernel() -> hl.Func:
    f, x, xi = hl.Func("f"), hl.Var("x"), hl.Var("xi")
    f[x] = x * 2
    f.gpu_tile(x, xi, 16)
    return f


def _text_of_child(action: Callable[[], str]) -> str:
    """What the action gives in a forked child."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, action().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def _failure(action: Callable[[], object]) -> str:
    try:
        return f"no error: {action()}"
    except hl.BayplanError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.skipif(not hl.host_supports_target_device(OPENCL), reason="no OpenCL device")
def test_opencl_of_the_parent_is_refused_in_the_child() -> None:
    f = _kernel()
    buffer = hl.Buffer(hl.Int(32), [40])
    f.realize(buffer, OPENCL)
    text = _text_of_child(lambda: _failure(lambda: f.realize([40], OPENCL)))
    assert text.startswith("NoDevice") and "fork" in text and str(os.getpid()) in text, text
    text = _text_of_child(lambda: _failure(lambda: np.asarray(buffer)))
    assert text.startswith("DeviceError") and "fork" in text, text
    # The host still computes in the child, and the parent goes on with its device.
    g, x = hl.Func("g"), hl.Var("x")
    g[x] = x + 1
    assert _text_of_child(lambda: str(np.asarray(g.realize([3])).tolist())) == "[1, 2, 3]"
    np.testing.assert_array_equal(np.asarray(buffer), np.arange(40) * 2)
    np.testing.assert_array_equal(np.asarray(f.realize([50], OPENCL)), np.arange(50) * 2)


def test_the_emulated_device_goes_on_in_a_child() -> None:
    f, target = _kernel(), hl.Target("host-cuda-emulated")
    f.realize([8], target)
    text = _text_of_child(lambda: str(np.asarray(f.realize([4], target)).tolist()))
    assert text == "[0, 2, 4, 6]"
