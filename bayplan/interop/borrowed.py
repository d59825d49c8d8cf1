"""Buffers whose elements are in memory of others on a device, and nowhere else."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from bayplan.driver.contexts import runtime
from bayplan.ir.errors import BufferError
from bayplan.ir.types import Type
from bayplan.language.buffer import Buffer
from bayplan.language.buffer_layout import BufferDimension
from bayplan.language.buffer_memory import Memory
from bayplan.runtime.buffers import BufferRecord, make_record
from bayplan.runtime.devices import Device, TwinRecord


class BorrowedTwin:
    """Memory of somebody else's on a device, as `driver.device_buffers.Twin` for calls.

    Attributes:
        layout: where the elements of the Buffer are, see `driver.device_buffers.layout_of`.
        flags: 2: the elements are on the device.
    """

    def __init__(
        self, record: BufferRecord, layout: tuple[Any, ...], owner: Any, twin: TwinRecord
    ) -> None:
        self._record = record
        self._owner = owner
        self._twin = twin
        self.layout = layout
        self.flags = 2

    def free(self) -> None:
        """Nothing is ours."""

    def copy_to_host(self) -> None:
        """Refused: the elements have no place on the host."""
        raise BufferError(
            "the elements of this buffer are in an array on a device, and nowhere else",
            hint="copy the array itself to the host; views of the buffer cannot be made",
        )

    def synchronize(self) -> None:
        """Waits for the device."""
        from bayplan.driver.device_buffers import check

        check(runtime().devices.library.bp_device_sync(ctypes.addressof(self._record)))

    def lend(self, record: BufferRecord) -> None:
        """Gives a record of the same layout this memory."""
        record.device = self._record.device
        record.device_interface = self._record.device_interface
        record.flags = 2

    def take_back(self, record: BufferRecord) -> None:
        """Takes over nothing: the memory is where it was."""
        if record.device != self._record.device:
            raise BufferError("an array on one device was given to kernels of another one")


def borrow(
    device: Device,
    t: Type,
    dims: Sequence[tuple[int, int]],
    base: int,
    offset: int,
    owner: Any,
    *,
    writable: bool = True,
    name: str = "",
) -> Buffer:
    """A Buffer over memory of somebody else's.

    Args:
        device: that the memory is on.
        t: type of the elements.
        dims: extent and stride, in elements, of each dimension.
        base: what the device calls the memory.
        offset: bytes from there to the element at the mins.
        owner: keeps the memory alive.
        writable: whether programs may write it.
        name: of the Buffer.
    """
    buffer = Buffer()
    buffer._type = t
    buffer._dims = [BufferDimension(0, extent, stride) for extent, stride in dims]
    buffer._name_it(name or None)
    memory = Memory(0, owner, writable)
    memory.is_managed = True
    buffer._memory = memory
    record, twin = make_record(buffer, buffer.name()), TwinRecord()
    record.keep = record.keep[1:]
    runtime().devices.library.bp_lend_twin(
        ctypes.addressof(record), device.pointer, ctypes.addressof(twin), base, offset
    )
    from bayplan.driver.device_buffers import layout_of

    memory.twin = BorrowedTwin(record, layout_of(buffer), owner, twin)
    return buffer
