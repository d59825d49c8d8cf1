"""Buffers of calls with kernels: which memory on a device they have, before and after a call.

Memory on a device outlives the call that made it and belongs to the Buffer's memory, so that views
of it share it. It has the layout of the Buffer it was made for; a call with another view of the
same memory brings the elements home first.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from bayplan.driver.contexts import runtime
from bayplan.ir.errors import DeviceError, NoDevice, OutOfDeviceMemory
from bayplan.language.target import Target
from bayplan.language.target_names import DeviceAPI, TargetFeature
from bayplan.runtime.binding import BP_OUT_OF_MEMORY
from bayplan.runtime.buffers import BufferRecord, make_record
from bayplan.runtime.devices import Device

HOST_DIRTY: Final = 1
DEVICE_DIRTY: Final = 2
NO_VALUES: Final = 256
_WAYS: Final = HOST_DIRTY | DEVICE_DIRTY

_APIS: Final = {DeviceAPI.OpenCL: "opencl", DeviceAPI.CUDA: "cuda"}


class Twin:
    """The memory on a device of a Buffer's memory.

    Attributes:
        layout: what `layout_of` gave for the Buffer it was made for.
    """

    def __init__(self, record: BufferRecord, layout: tuple[Any, ...]) -> None:
        self._library = runtime().devices.library
        self._record = BufferRecord.from_buffer_copy(record)
        # Not the Buffer: its memory owns this.
        self._dims = record.keep[1]
        self.layout = layout

    def __del__(self) -> None:
        self.free()

    @property
    def flags(self) -> int:
        """1: the host's elements are newer; 2: the device's are."""
        return int(self._record.flags) & _WAYS

    @flags.setter
    def flags(self, flags: int) -> None:
        self._record.flags = flags & _WAYS

    @property
    def native(self) -> int:
        """The address of the `bp_twin`."""
        return int(self._record.device)

    def free(self) -> None:
        """Gives the memory back to the device, with its elements."""
        if self._record.device:
            self._library.bp_device_free(ctypes.addressof(self._record))

    def copy_to_host(self) -> None:
        """Brings what is newer on the device to the host.

        Raises:
            DeviceError: the copy failed, or an earlier kernel did.
        """
        if self._record.flags & DEVICE_DIRTY:
            check(self._library.bp_copy_to_host(ctypes.addressof(self._record)))

    def synchronize(self) -> None:
        """Waits for the device."""
        check(self._library.bp_device_sync(ctypes.addressof(self._record)))

    def lend(self, record: BufferRecord) -> None:
        """Gives a record of the same layout, for a call, this memory."""
        record.device = self._record.device
        record.device_interface = self._record.device_interface
        record.flags = self._record.flags

    def take_back(self, record: BufferRecord) -> None:
        """Takes over what a call made of the memory that it was lent."""
        self._record.device = record.device
        self._record.device_interface = record.device_interface
        self.flags = record.flags


def check(status: int) -> None:
    """Raises what a function of the runtime for buffers has to say."""
    if status >= 0:
        return
    message = runtime().devices.message()
    raise (OutOfDeviceMemory if status == BP_OUT_OF_MEMORY else DeviceError)(message)


def layout_of(buffer: Any) -> tuple[Any, ...]:
    """Where the elements of a Buffer are, but for their coordinates."""
    dims = [buffer.dim(d) for d in range(buffer.dimensions())]
    return buffer.host_address(), *[(dim.extent(), dim.stride()) for dim in dims]


class CallBuffers:
    """The buffers of one call of a program for a device, before and after it.

    Args:
        has_device: whether the program may touch a device at all.
        fresh: ids of Buffers whose elements nobody has written yet.
    """

    def __init__(self, has_device: bool, fresh: frozenset[int] = frozenset()) -> None:
        self.has_device = has_device
        self._fresh = fresh
        self._given: list[tuple[Any, BufferRecord]] = []
        self._written: list[Any] = []

    def add(self, buffer: Any, name: str, *, written: bool) -> BufferRecord:
        """The record of a Buffer for the call.

        Args:
            buffer: an argument.
            name: of the argument, for messages.
            written: the call writes it.
        """
        record = make_record(buffer, name)
        memory = buffer._memory
        if memory is None:
            return record
        if written:
            self._written.append(buffer)
        if not self.has_device:
            if memory.twin is not None:
                memory.twin.copy_to_host()
                if written:
                    memory.set_flags(HOST_DIRTY)
            return record
        if any(other._memory is memory for other, _ in self._given):
            # Two arguments in one memory: none of them keeps memory on the device.
            self._forget(memory)
            for other, given in self._given:
                if other._memory is memory:
                    given.device, given.device_interface, given.flags = 0, None, 0
        twin = memory.twin
        if twin is not None and twin.layout != layout_of(buffer):
            self._forget(memory)
            twin = None
        if twin is not None:
            twin.lend(record)
            if memory.is_shared and not memory.is_managed and not record.flags & DEVICE_DIRTY:
                record.flags |= HOST_DIRTY
        elif id(buffer) in self._fresh:
            record.flags |= NO_VALUES
        self._given.append((buffer, record))
        return record

    @staticmethod
    def _forget(memory: Any) -> None:
        if memory.twin is not None:
            memory.twin.copy_to_host()
            memory.twin.free()
            memory.twin = None

    def finish(self, *, bring_home: bool = True) -> None:
        """Notes what the call made of the buffers, whether it failed or not.

        Args:
            bring_home: copy outputs to the host whose memory others have too.
        """
        memories = [buffer._memory for buffer, _ in self._given]
        failure: BaseException | None = None
        for buffer, record in self._given:
            memory = buffer._memory
            if sum([m is memory for m in memories]) > 1:
                failure = self._settle(record) or failure
            elif memory.twin is not None:
                memory.twin.take_back(record)
                if not record.device:
                    memory.twin = None
            elif record.device:
                memory.twin = Twin(record, layout_of(buffer))
                memory.host_dirty = False
        if failure is not None:
            raise failure
        if not bring_home:
            return
        for buffer in self._written:
            memory = buffer._memory
            if memory.twin is not None and memory.is_shared:
                memory.twin.copy_to_host()

    @staticmethod
    def _settle(record: BufferRecord) -> BaseException | None:
        """Ends the life of memory on a device that the call made for itself."""
        library = runtime().devices.library
        pointer = ctypes.addressof(record)
        failure: BaseException | None = None
        try:
            if record.flags & DEVICE_DIRTY:
                check(library.bp_copy_to_host(pointer))
        except (DeviceError, OutOfDeviceMemory) as error:
            failure = error
        if record.device:
            library.bp_device_free(pointer)
        return failure


def device_of(api: DeviceAPI | None, target: Any) -> Device:
    """The device that a target's kernels run on.

    Raises:
        NoDevice: the target has none, or it is not there.
    """
    from bayplan.language.target import get_jit_target_from_environment

    found = get_jit_target_from_environment() if target is None else Target(target)
    if api is None or api is DeviceAPI.Default_GPU:
        api = found.device_api()
    if api is DeviceAPI.CUDA and found.is_emulated:
        return runtime().devices.find("emulated")
    name = _APIS.get(api)
    if name is None:
        raise NoDevice(
            f"the target {found} has no device",
            hint="name one: host-opencl, host-cuda, host-cuda-emulated",
        )
    return runtime().devices.find(name)


def has_device_of(api: DeviceAPI) -> bool:
    """Whether this machine has a device of the kind."""
    name = _APIS.get(api)
    try:
        return name is not None and bool(runtime().devices.find(name))
    except NoDevice:
        return False


def put_on_device(buffer: Any, api: DeviceAPI | None, target: Any, values: bool) -> None:
    """Gives a Buffer memory on a device, and brings its elements there if asked for."""
    device = device_of(api, target)
    memory = buffer._memory
    twin = memory.twin
    if twin is not None and twin.layout != layout_of(buffer):
        twin.copy_to_host()
        twin.free()
        twin = memory.twin = None
    record = make_record(buffer, buffer.name())
    if twin is not None:
        twin.lend(record)
    library = runtime().devices.library
    function = library.bp_copy_to if values else library.bp_device_malloc
    try:
        check(function(device.pointer, ctypes.addressof(record)))
    finally:
        if twin is not None:
            twin.take_back(record)
        elif record.device:
            if not values:
                record.flags |= HOST_DIRTY
            memory.twin = Twin(record, layout_of(buffer))
            memory.host_dirty = False


def has_device(target: Any) -> bool:
    """Whether programs for a target may touch a device."""
    features = (TargetFeature.OpenCL, TargetFeature.CUDA)
    any_of = getattr(target, "features_any_of", None)
    return any_of is not None and bool(any_of(features))


