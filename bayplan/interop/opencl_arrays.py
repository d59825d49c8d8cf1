"""Arrays and queues of PyOpenCL."""

from __future__ import annotations

from typing import Any

from bayplan.driver.contexts import runtime
from bayplan.interop.borrowed import borrow
from bayplan.ir.errors import BufferError
from bayplan.language.buffer import Buffer
from bayplan.language.buffer_memory import type_of_typestr
from bayplan.runtime.devices import Device

# Devices over queues of PyOpenCL's, with the queue: as long as the process.
_devices: dict[int, tuple[Device, Any]] = {}


def on_queue(queue: Any) -> Device:
    """The device of a queue of PyOpenCL's: kernels within `with on_queue(queue):` go into it.

    Their commands stay in order with those of the program's own. Buffers that get memory on this
    device meanwhile must be let go of (`device_free`) before they are used on another one's queue.

    Args:
        queue: a `pyopencl.CommandQueue`, in order.

    Raises:
        BufferError: the queue runs its commands out of order.
        NoDevice: there is no loader of OpenCL.
    """
    known = _devices.get(queue.int_ptr)
    if known is not None:
        return known[0]
    import pyopencl

    if queue.properties & pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
        raise BufferError("the queue runs commands out of order; kernels count on their order")
    device = runtime().devices.adopt_opencl(
        queue.context.int_ptr, queue.device.int_ptr, queue.int_ptr
    )
    _devices[queue.int_ptr] = device, queue
    return device


def opencl_array(
    array: Any, queue: Any = None, name: str = "", reverse_axes: bool = True
) -> Buffer:
    """A Buffer over an array of PyOpenCL, without a copy.

    Its elements are on the device alone: it is an input or an output of kernels, within
    `with on_queue(queue):`.

    Args:
        array: a `pyopencl.array.Array`.
        queue: a queue of its context; None for the array's own.
        name: of the Buffer.
        reverse_axes: the last axis becomes dimension 0.

    Raises:
        BufferError: the array has no queue, or elements of a type that Buffers do not have.
    """
    queue = array.queue if queue is None else queue
    if queue is None:
        raise BufferError("the array has no queue of its own", hint="opencl_array(array, queue)")
    t = type_of_typestr(array.dtype.str)
    size = t.bytes()
    axes = range(array.ndim)
    dims = [
        (int(array.shape[a]), int(array.strides[a]) // size)
        for a in (reversed(axes) if reverse_axes else axes)
    ]
    return borrow(
        on_queue(queue), t, dims, array.base_data.int_ptr, int(array.offset), array, name=name
    )
