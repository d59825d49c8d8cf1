"""Arrays on CUDA devices: those of CuPy, PyTorch, Numba, JAX and others."""

from __future__ import annotations

import math
from typing import Any

from bayplan.driver.device_buffers import device_of
from bayplan.interop.borrowed import borrow
from bayplan.interop.dlpack import Handed
from bayplan.ir.errors import BufferError
from bayplan.language.buffer import Buffer
from bayplan.language.buffer_memory import type_of_typestr
from bayplan.language.target import Target
from bayplan.runtime.devices import Device


def cuda_array(array: Any, target: Any = None, name: str = "", reverse_axes: bool = True) -> Buffer:
    """A Buffer over an array on a CUDA device, without a copy.

    Its elements are on the device alone: it is an input or an output of kernels. They run on the
    default stream of the device, behind the commands on the array's stream that are known at the
    call of this function.

    Args:
        array: anything with `__cuda_array_interface__` or DLPack.
        target: whose kernels use it; None for "host-cuda". With "host-cuda-emulated" the array's
            memory is the host's.
        name: of the Buffer.
        reverse_axes: the last axis becomes dimension 0.

    Raises:
        BufferError: the array is masked, or its elements are of a type that Buffers do not have.
        NoDevice: there is no CUDA device.
    """
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None and hasattr(array, "__dlpack_device__"):
        return _from_dlpack(array, target, name, reverse_axes)
    if interface is None:
        raise BufferError(f"{type(array).__name__} has no __cuda_array_interface__ and no DLPack")
    if interface.get("mask") is not None:
        raise BufferError("an array with a mask cannot become a Buffer")
    device = _device(target)
    if interface.get("stream") not in (None, 1):
        # Another stream than the legacy default one, which waits for nothing.
        device.synchronize_stream(int(interface["stream"]))
    t = type_of_typestr(interface["typestr"])
    shape = [int(n) for n in interface["shape"]]
    strides = interface.get("strides")
    if strides is None:
        strides = [t.bytes() * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    if any(stride % t.bytes() for stride in strides):
        raise BufferError(f"the strides of the array are no multiples of {t.bytes()} bytes")
    axes = range(len(shape))
    dims = [
        (shape[a], int(strides[a]) // t.bytes())
        for a in (reversed(axes) if reverse_axes else axes)
    ]
    address, read_only = interface["data"]
    return borrow(
        device, t, dims, int(address), 0, array, writable=not read_only, name=name
    )


def _device(target: Any) -> Device:
    return device_of(None, Target("host-cuda") if target is None else target)


def _from_dlpack(array: Any, target: Any, name: str, reverse_axes: bool) -> Buffer:
    device = _device(target)
    given = Handed(array)
    axes = range(len(given.shape))
    dims = [
        (given.shape[a], given.strides[a]) for a in (reversed(axes) if reverse_axes else axes)
    ]
    return borrow(device, given.type, dims, given.address, 0, given, name=name)
