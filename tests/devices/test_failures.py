"""What ends a call with kernels: an error with the numbers, nothing lost, a right next call."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import bayplan as hl
from bayplan.driver.compile import CompiledPipeline, compile_pipeline
from bayplan.driver.contexts import context, runtime
from bayplan.ir.errors import (
    DeviceError,
    DeviceLimitError,
    NoDevice,
    OutOfDeviceMemory,
    OutOfMemory,
)
from tests.devices.programs import EMULATED, OPENCL, Blur, emulated, refused

needs_opencl = pytest.mark.skipif(
    not hl.host_supports_target_device(OPENCL), reason="no OpenCL device"
)


def test_out_of_device_memory_names_the_temporary() -> None:
    blur = Blur(200, 100)
    device = emulated(memory_bytes=70_000)
    with device:
        error = refused(lambda: blur.blur_y.realize(blur.sizes, EMULATED), OutOfDeviceMemory)
    assert isinstance(error, OutOfMemory) and error.code == "BP-D003"
    assert "blur_x" in error.message and error.where is not None
    assert error.numbers[0] == 200 * 102 * 4 and str(error.numbers[0]) in error.message
    blur.input.set(hl.Buffer(blur.array))
    gc.collect()
    assert device.memory().used == 0
    device.close()
    with emulated():
        blur.check(EMULATED)


def test_out_of_device_memory_for_a_buffer() -> None:
    blur = Blur(200, 100)
    device = emulated(memory_bytes=170_000)
    with device:
        error = refused(lambda: blur.blur_y.realize(blur.sizes, EMULATED), OutOfDeviceMemory)
    assert "buffer blur_y" in error.message or "buffer input" in error.message
    blur.input.set(hl.Buffer(blur.array))
    gc.collect()
    assert device.memory().used == 0


@pytest.mark.parametrize("limit", range(0, 400_000, 20_000))
def test_any_amount_of_memory(limit: int) -> None:
    """Either right, or refused with nothing left; the same device then works with more."""
    blur = Blur(200, 100)
    device = emulated(memory_bytes=max(limit, 1))
    with device:
        try:
            blur.check(EMULATED)
        except OutOfDeviceMemory as error:
            assert limit < 300_000, error
    blur.input.set(hl.Buffer(blur.array))
    gc.collect()
    assert device.memory().used == 0
    device.close()


def test_too_many_threads() -> None:
    device = emulated(threads=16)
    with device:
        error = refused(lambda: Blur().check(EMULATED), DeviceLimitError)
    assert error.numbers[:5] == (32, 8, 4, 1, 16)
    assert "32 threads" in error.message and "blur_x" in error.message
    assert device.launches() == []
    device.limits.threads = 32
    with device:
        Blur().check(EMULATED)


def test_too_many_threads_along_an_axis() -> None:
    device = emulated(block_threads=(4, 1024, 64))
    with device:
        error = refused(lambda: Blur().check(EMULATED), DeviceLimitError)
    assert "at most 4 x 1024 x 64" in error.message


def test_too_many_blocks() -> None:
    device = emulated(blocks=(4, 65535, 65535))
    with device:
        error = refused(lambda: Blur().check(EMULATED), DeviceLimitError)
    assert "5 x 7 x 1 blocks" in error.message and "4 x 65535 x 65535" in error.message


def _broken(target: hl.Target, before: str, after: str) -> tuple[Blur, CompiledPipeline]:
    """A program whose kernels are spoiled on their way to the device's compiler."""
    blur = Blur()
    compiled = compile_pipeline([blur.blur_y._function], target)
    assert before in compiled.source
    compiled.source = compiled.source.replace(before, after)
    return blur, compiled


@needs_opencl
def test_a_kernel_that_the_device_refuses() -> None:
    from bayplan.targets.c_device import kernels_key

    blur, compiled = _broken(OPENCL, '"    const int32_t', '"    const integer')
    key = kernels_key("opencl", compiled.device_source)
    compiled.source = compiled.source.replace(key, f"{key}_broken")
    error = refused(lambda: blur.blur_y.realize(blur.sizes, OPENCL), DeviceError)
    assert error.code == "BP-D002" and "blur_x" in error.message
    # The words of the device's compiler, which callers in C see too.
    assert "integer" in error.message and "error" in error.message
    assert len(error.message) > 600 and error.message.strip()[-40:] in context().failure_text()
    Blur().check(OPENCL)


def test_an_emulated_kernel_that_fails() -> None:
    """A barrier that only some threads come to; another kernel is waiting for the same memory."""
    blur = Blur()
    compiled = compile_pipeline([blur.blur_y._function], EMULATED)
    from bayplan.targets.c_device import kernels_key

    key = kernels_key("emulated", compiled.device_source)
    line = '"    const int32_t thread_id_x = (int32_t)threadIdx.x;\\n"'
    assert compiled.source.count(line) == 2
    compiled.source = compiled.source.replace(
        line, f'{line}\n"    if (thread_id_x == 1) __syncthreads();\\n"'
    ).replace(key, f"{key}_broken")
    device = emulated()
    with device:
        error = refused(lambda: blur.blur_y.realize(blur.sizes, EMULATED), DeviceError)
        assert "blur_x" in error.message and "divergent barrier" in error.message
        other = Blur()
        other.check(EMULATED)
    for one in (blur, other):
        one.input.set(hl.Buffer(one.array))
    gc.collect()
    assert device.memory().used == 0


def test_without_a_device_of_the_kind() -> None:
    if hl.host_supports_target_device(hl.Target("host-cuda")):
        pytest.skip("there is a CUDA device")
    error = refused(lambda: Blur().check(hl.Target("host-cuda")), NoDevice)
    assert "libcuda.so.1" in error.message and "cuda-emulated" in error.hint
    with pytest.raises(NoDevice, match=r"libcuda\.so\.1"):
        runtime().devices.find("cuda")
    with pytest.raises(NoDevice, match="no device"):
        hl.Buffer(hl.Int(32), [4]).copy_to_device(hl.Target("host"))


def test_bounds_and_checks_need_no_device() -> None:
    """Questions about a program are answered where its device is missing."""
    blur = Blur()
    target = hl.Target("host-cuda")
    blur.input.reset()
    blur.blur_y.infer_input_bounds(blur.sizes, target)
    assert blur.input.get().width() == blur.width + 2
    small = hl.Buffer(np.zeros((4, 4), np.float32))
    blur.input.set(small)
    with pytest.raises(hl.BayplanError, match="too short"):
        blur.blur_y.realize(blur.sizes, target)


def test_an_output_without_elements_launches_nothing() -> None:
    x, xi = hl.Var("x"), hl.Var("xi")
    f, g = hl.Func("f"), hl.Func("g")
    g[x] = x * 2
    f[x] = g[x] + 1
    f.gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    g.compute_root().gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    device = emulated()
    with device:
        assert f.realize([0], EMULATED).number_of_elements() == 0
        assert device.launches() == []
        assert f.realize([1], EMULATED)[0] == 1
    assert len(device.launches()) == 2
