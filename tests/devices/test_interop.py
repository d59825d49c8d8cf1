"""Arrays of other libraries on devices are inputs and outputs of kernels, without a copy."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.interop import cuda_array, dlpack, on_queue, opencl_array
from bayplan.ir.errors import BufferError
from tests.devices.programs import EMULATED, OPENCL, Blur, emulated

needs_opencl = pytest.mark.skipif(
    not hl.host_supports_target_device(OPENCL), reason="no OpenCL device"
)


class CudaArray:
    """What others show of an array on a CUDA device; with the emulation it is the host's."""

    def __init__(self, array: Any, **more: Any) -> None:
        shown = array.__array_interface__
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": shown["shape"],
            "typestr": shown["typestr"],
            "strides": shown["strides"],
            "data": shown["data"],
            "version": 3,
            "stream": 1,
            **more,
        }


class DlpackArray:
    """An array that says by DLPack that it is on a CUDA device."""

    given_back = 0

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, stream: int) -> Any:
        assert stream == 1
        array, n = self.array, self.array.ndim
        managed = dlpack.ManagedTensor()
        tensor = managed.tensor
        tensor.data, tensor.device_type, tensor.ndim = array.ctypes.data - 8, 2, n
        tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset = 2, 32, 1, 8
        shape = (ctypes.c_int64 * n)(*array.shape)
        strides = (ctypes.c_int64 * n)(*[s // 4 for s in array.strides])
        tensor.shape, tensor.strides = shape, strides

        def give_back(_address: int) -> None:
            DlpackArray.given_back += 1

        managed.deleter = type(managed.deleter)(give_back)
        self.kept = managed, shape, strides
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(managed), b"dltensor", None)


def _queue() -> Any:
    cl = pytest.importorskip("pyopencl")
    for platform in cl.get_platforms():
        if "Portable" in platform.name or "NVIDIA" in platform.name:
            return cl.CommandQueue(cl.Context(platform.get_devices()[:1]))
    pytest.skip("PyOpenCL finds no device")


def test_cuda_arrays() -> None:
    blur = Blur()
    out = np.zeros((30, 50), np.float32)
    part = out[3 : 3 + blur.height, 4 : 4 + blur.width]
    with emulated() as device:
        blur.input.set(cuda_array(CudaArray(blur.array), EMULATED))
        buffer = cuda_array(CudaArray(part), EMULATED, name="out")
        assert buffer.device_dirty() and buffer.has_device_allocation()
        blur.blur_y.realize(buffer, EMULATED)
        # Only what is between the kernels took memory of the device.
        assert device.memory().allocations == 1
    np.testing.assert_array_equal(part, blur.expected())
    assert out.sum() == part.sum()


def test_dlpack() -> None:
    blur = Blur()
    out = np.zeros((30, 50), np.float32)
    part = out[3 : 3 + blur.height, 4 : 4 + blur.width]
    producers = DlpackArray(blur.array), DlpackArray(part)
    with emulated():
        blur.input.set(cuda_array(producers[0], EMULATED))
        buffer = cuda_array(producers[1], EMULATED)
        blur.blur_y.realize(buffer, EMULATED)
    np.testing.assert_array_equal(part, blur.expected())
    assert out.sum() == part.sum() and DlpackArray.given_back == 0
    del buffer
    blur.input.set(hl.Buffer(blur.array))
    gc.collect()
    assert DlpackArray.given_back == 2


def test_what_is_refused() -> None:
    array = np.zeros((4, 4), np.float32)
    with pytest.raises(BufferError, match="no __cuda_array_interface__"):
        cuda_array([1, 2], EMULATED)
    with pytest.raises(BufferError, match="kind 1, not of CUDA"):
        cuda_array(array, EMULATED)
    with pytest.raises(BufferError, match="mask"):
        cuda_array(CudaArray(array, mask=CudaArray(array)), EMULATED)
    buffer = cuda_array(CudaArray(array), EMULATED)
    with pytest.raises(BufferError, match="nowhere else"):
        buffer[0, 0]
    with pytest.raises(BufferError, match="nowhere else"):
        buffer.copy_to_host()
    frozen = np.zeros((4, 4), np.float32)
    frozen.flags.writeable = False
    x, y, xi, yi = [hl.Var(n) for n in ("x", "y", "xi", "yi")]
    f = hl.Func("f")
    f[x, y] = hl.f32(x + y)
    f.gpu_tile(x, y, xi, yi, 4, 4)
    with pytest.raises(BufferError, match="read-only"):
        f.realize(cuda_array(CudaArray(frozen), EMULATED), EMULATED)
    # Programs of the host cannot reach it.
    g = hl.Func("g")
    source = hl.ImageParam(hl.Float(32), 2, "source")
    g[x, y] = source[x, y]
    source.set(buffer)
    with pytest.raises(BufferError, match="nowhere else"):
        g.realize([4, 4])


@needs_opencl
def test_opencl_arrays() -> None:
    queue = _queue()
    from pyopencl import array as arrays

    blur = Blur()
    given = arrays.to_device(queue, blur.array)
    out = arrays.zeros(queue, (blur.height, blur.width), np.float32)
    whole = arrays.zeros(queue, (blur.height + 4, blur.width + 9), np.float32)
    part = whole[3 : 3 + blur.height, 2 : 2 + blur.width]
    blur.input.set(opencl_array(given))
    with on_queue(queue) as device:
        device.record_launches()
        blur.blur_y.realize(opencl_array(out), OPENCL)
        blur.blur_y.realize(opencl_array(part), OPENCL)
        assert len(device.launches()) == 4
    # No wait: the queue has the order.
    np.testing.assert_array_equal(out.get(), blur.expected())
    around = whole.get()
    found = around[3 : 3 + blur.height, 2 : 2 + blur.width]
    np.testing.assert_array_equal(found, blur.expected())
    assert around.sum() == found.sum()
    given.fill(1)
    with on_queue(queue):
        blur.blur_y.realize(opencl_array(out), OPENCL)
    assert (out.get() == 9).all()
    # On the program's own device: that is another one.
    other = Blur()
    other.check(OPENCL)
    with pytest.raises(hl.BayplanError):
        blur.blur_y.realize(blur.sizes, OPENCL)


@needs_opencl
def test_queues_without_order_are_refused() -> None:
    cl = pytest.importorskip("pyopencl")
    queue = _queue()
    flag = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    try:
        loose = cl.CommandQueue(queue.context, properties=flag)
    except cl.Error:
        pytest.skip("the device has no such queues")
    with pytest.raises(BufferError, match="out of order"):
        on_queue(loose)
