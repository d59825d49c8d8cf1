"""The side of Buffers that is on a device: whose elements are newer, and copies between both.

A Buffer's elements may have a twin on a device, which calls with kernels make and keep. Flags say
on which side elements were changed since both were the same, as in Halide's buffers. What is read
through the Buffer in Python is brought to the host first.
"""

from __future__ import annotations

from typing import Any

from bayplan.ir.errors import BufferError, NoDevice
from bayplan.language.buffer_memory import Memory

HOST_DIRTY = 1
DEVICE_DIRTY = 2


class DeviceSide:
    """The methods of a Buffer that are about devices; views of the same memory share the state."""

    __slots__ = ()

    _memory: Memory | None

    def name(self) -> str:
        raise NotImplementedError

    def _flags(self) -> int:
        return 0 if self._memory is None else self._memory.flags()

    def _set_flag(self, flag: int, on: bool) -> None:
        memory = self._memory
        if memory is None:
            return
        memory.is_managed = True
        memory.set_flags(memory.flags() | flag if on else memory.flags() & ~flag)

    def _twin(self) -> Any:
        return None if self._memory is None else self._memory.twin

    def _bring_home(self) -> None:
        """Make the host's elements true before they are read here."""
        twin = self._twin()
        if twin is not None:
            twin.copy_to_host()

    def _changed_here(self) -> None:
        """The host's elements are about to be changed."""
        self._bring_home()
        if self._memory is not None:
            self._memory.set_flags(HOST_DIRTY)

    def has_device_allocation(self) -> bool:
        """Whether it has memory on a device."""
        return self._twin() is not None

    def host_dirty(self) -> bool:
        """Whether the host's elements are newer than a device's."""
        return bool(self._flags() & HOST_DIRTY)

    def set_host_dirty(self, dirty: bool = True) -> None:
        """Say that the host's elements were changed.

        From here on the Buffer trusts the caller to say so: calls with kernels no longer copy
        elements that may have been changed behind its back, through an array over its memory.
        """
        self._set_flag(HOST_DIRTY, dirty)

    def device_dirty(self) -> bool:
        """Whether a device's elements are newer than the host's."""
        return bool(self._flags() & DEVICE_DIRTY)

    def set_device_dirty(self, dirty: bool = True) -> None:
        """Say that a device's elements were changed.

        Raises:
            NoDevice: it has no memory on a device.
        """
        if dirty and self._twin() is None:
            raise NoDevice(f"buffer {self.name()} has no memory on a device")
        self._set_flag(DEVICE_DIRTY, dirty)

    def copy_to_host(self) -> int:
        """Bring the elements to the host, if a device has newer ones.

        Raises:
            DeviceError: the copy failed.
        """
        self._bring_home()
        return 0

    def copy_to_device(self, *args: Any, target: Any = None) -> int:
        """Bring the elements to a device, if the host has newer ones or the device has none.

        Args:
            *args: a Target, or a DeviceAPI and a Target.
            target: whose device it is; None for that of HL_JIT_TARGET.

        Raises:
            NoDevice: there is no such device.
            OutOfDeviceMemory: it has no room.
        """
        self._to_device(args, target, values=True)
        return 0

    def device_malloc(self, *args: Any, target: Any = None) -> int:
        """Give it memory on a device, without copying elements; else as `copy_to_device`."""
        self._to_device(args, target, values=False)
        return 0

    def _to_device(self, args: tuple[Any, ...], target: Any, *, values: bool) -> None:
        from bayplan.language.runnable import put_on_device

        if self._memory is None:
            raise BufferError(f"buffer {self.name()} has no memory")
        put_on_device(self, args, target, values)
        self._memory.is_managed = True

    def device_sync(self) -> int:
        """Wait for all that its device has to do.

        Raises:
            DeviceError: something of it failed.
        """
        twin = self._twin()
        if twin is not None:
            twin.synchronize()
        return 0

    def device_free(self) -> int:
        """Let go of its memory on a device, with the elements there."""
        if self._memory is not None and self._memory.twin is not None:
            self._memory.twin.free()
            self._memory.twin = None
            self._memory.host_dirty = False
        return 0

    def device_deallocate(self) -> int:
        """As `device_free`."""
        return self.device_free()
