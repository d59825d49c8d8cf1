"""Devices seen from Python: their limits, what was launched on them, what memory they hold."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Final

from bayplan.ir.errors import DeviceError, NoDevice, OutOfMemory


class Limits(ctypes.Structure):
    """What a device has room for (`bp_device_limits`).

    Attributes:
        shared_bytes: memory that the threads of a block share, where it does not ask for more.
        shared_bytes_opt_in: most of it, where it does; 0: no more.
        memory_bytes: of the device.
        threads: of a block.
        block_threads: of a block along x, y, z.
        blocks: along x, y, z.
        lanes: threads that run in step, 0: not known.
    """

    _fields_ = [
        ("shared_bytes", ctypes.c_uint64),
        ("shared_bytes_opt_in", ctypes.c_uint64),
        ("memory_bytes", ctypes.c_uint64),
        ("threads", ctypes.c_int64),
        ("block_threads", ctypes.c_int64 * 3),
        ("blocks", ctypes.c_int64 * 3),
        ("lanes", ctypes.c_int32),
    ]


class _Record(ctypes.Structure):
    _fields_ = [
        ("api", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("limits", Limits),
    ]


class DeviceMemory(ctypes.Structure):
    """A device's pool of memory at one moment.

    Attributes:
        used: bytes of blocks in use.
        kept: bytes of blocks kept for later calls.
        events: commands that are remembered for the sake of other queues.
        allocations: how often the device was asked for memory.
        temporaries: bytes that temporaries of calls have, as they were asked for; not those of
            buffers.
        most_temporaries: the most of these at one moment since `reset_most`.
    """

    _fields_ = [
        ("used", ctypes.c_uint64),
        ("kept", ctypes.c_uint64),
        ("events", ctypes.c_int64),
        ("allocations", ctypes.c_int64),
        ("temporaries", ctypes.c_uint64),
        ("most_temporaries", ctypes.c_uint64),
    ]


class Launch(ctypes.Structure):
    """One launch of a kernel, as it was asked for.

    Attributes:
        kernel: name of the kernel's function.
        blocks: along x, y, z.
        threads: of a block along x, y, z.
        shared_bytes: memory that the threads of a block share.
        opted_in: whether it had to ask for so much shared memory.
        arguments: memories and numbers that the kernel was given.
    """

    _fields_ = [
        ("_kernel", ctypes.c_char_p),
        ("_blocks", ctypes.c_int64 * 3),
        ("_threads", ctypes.c_int64 * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("_opted_in", ctypes.c_int32),
        ("arguments", ctypes.c_int32),
    ]

    @property
    def kernel(self) -> str:
        return (self._kernel or b"").decode()

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(self._blocks)

    @property
    def threads(self) -> tuple[int, ...]:
        return tuple(self._threads)

    @property
    def opted_in(self) -> bool:
        return bool(self._opted_in)

    def __repr__(self) -> str:
        return (
            f"Launch({self.kernel}, blocks {self.blocks}, threads {self.threads}, "
            f"{self.shared_bytes} B shared)"
        )


class Module(ctypes.Structure):
    """`bp_module`: the kernels of a program."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("api", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("options", ctypes.c_char_p),
        ("key", ctypes.c_char_p),
        ("binary", ctypes.c_void_p),
        ("binary_bytes", ctypes.c_uint64),
        ("state", ctypes.c_void_p),
    ]


_POINTER: Final = ctypes.c_void_p
_WHY: Final = ctypes.POINTER(ctypes.c_char_p)

_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "bp_rt_find_device": (_POINTER, [_POINTER, ctypes.c_char_p, _WHY]),
    "bp_use_device": (_POINTER, [ctypes.c_char_p, _POINTER]),
    "bp_device_close": (None, [_POINTER]),
    "bp_record_launches": (ctypes.c_int32, [_POINTER, ctypes.c_int32]),
    "bp_launch_records": (ctypes.c_int32, [_POINTER, ctypes.POINTER(Launch), ctypes.c_int32]),
    "bp_device_memory": (None, [_POINTER, ctypes.POINTER(DeviceMemory)]),
    "bp_device_reset_most": (None, [_POINTER]),
    "bp_device_trim_pool": (ctypes.c_uint64, [_POINTER]),
    "bp_device_wait": (ctypes.c_int32, [_POINTER]),
    "bp_emulated_new": (_POINTER, [ctypes.POINTER(Limits), ctypes.c_int32]),
    "bp_emulated_waiting": (ctypes.c_int64, [_POINTER]),
    "bp_opencl_add_loaders": (None, [ctypes.c_char_p]),
    "bp_opencl_report": (ctypes.c_int32, [_WHY]),
    "bp_cuda_report": (ctypes.c_int32, [_WHY]),
    "bp_cuda_add_compilers": (None, [ctypes.c_char_p]),
    "bp_cuda_needs_binary": (ctypes.c_int32, []),
    "bp_copy_to_host": (ctypes.c_int32, [_POINTER]),
    "bp_copy_to": (ctypes.c_int32, [_POINTER, _POINTER]),
    "bp_device_malloc": (ctypes.c_int32, [_POINTER, _POINTER]),
    "bp_device_sync": (ctypes.c_int32, [_POINTER]),
    "bp_device_free": (None, [_POINTER]),
    "bp_device_message": (ctypes.c_char_p, []),
    "bp_cuda_wait_for_stream": (ctypes.c_int32, [_POINTER, ctypes.c_uint64]),
    "bp_opencl_adopt": (_POINTER, [_POINTER, _POINTER, _POINTER, _WHY]),
    "bp_lend_twin": (
        None, [_POINTER, _POINTER, _POINTER, ctypes.c_uint64, ctypes.c_uint64]
    ),
}


class Devices:
    """The devices that a runtime library knows."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        for name, (result, args) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = args
        self.tell_places()

    def tell_places(self) -> None:
        """Tells the runtime about libraries inside Python packages."""
        loaders = "\n".join([str(path) for path in find_opencl_loaders()])
        self.library.bp_opencl_add_loaders(loaders.encode() or None)
        compilers = "\n".join([str(path) for path in find_nvrtc()])
        self.library.bp_cuda_add_compilers(compilers.encode() or None)

    def find(self, api: str) -> Device:
        """The device of this process for "opencl", "cuda" or "emulated".

        Raises:
            NoDevice: there is none; the message says what was looked for and where.
        """
        why = ctypes.c_char_p()
        pointer = self.library.bp_rt_find_device(None, api.encode(), ctypes.byref(why))
        if not pointer:
            raise NoDevice((why.value or b"").decode(errors="replace"))
        return Device(self, pointer)

    def new_emulated(self, *, late: bool = False, **limits: Any) -> Device:
        """An emulated device of its own.

        Args:
            late: commands wait until somebody waits for them.
            **limits: those of `Limits` that differ from the usual ones.
        """
        values = Limits.from_buffer_copy(self.find("emulated").limits)
        for name, value in limits.items():
            kind = type(getattr(values, name))
            setattr(values, name, kind(*value) if isinstance(value, tuple) else value)
        pointer = self.library.bp_emulated_new(ctypes.byref(values), int(late))
        if not pointer:
            raise OutOfMemory("there is no memory for an emulated device")
        return Device(self, pointer, owned=True)

    def adopt_opencl(self, context: int, device: int, queue: int) -> Device:
        """A device over a context and an in-order queue of others.

        Args:
            context: the `cl_context`.
            device: the `cl_device_id`.
            queue: the `cl_command_queue`, in which all commands are put.

        Raises:
            NoDevice: there is no loader.
        """
        why = ctypes.c_char_p()
        pointer = self.library.bp_opencl_adopt(context, device, queue, ctypes.byref(why))
        if not pointer:
            raise NoDevice((why.value or b"").decode(errors="replace"))
        return Device(self, pointer, owned=True)

    def report(self, api: str) -> tuple[bool, str]:
        """Whether there is a device of the kind, and what was found where."""
        text = ctypes.c_char_p()
        function = getattr(self.library, f"bp_{api}_report")
        found = function(ctypes.byref(text))
        # A few hundred bytes, once: the text is not given back.
        return bool(found), (text.value or b"").decode(errors="replace")

    def message(self) -> str:
        """What the last failed function for buffers had to say."""
        return (self.library.bp_device_message() or b"").decode(errors="replace")


class TwinRecord(ctypes.Structure):
    """`bp_twin`: memory on a device that a buffer's elements are in too."""

    _fields_ = [
        ("base", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
        ("block", ctypes.c_void_p),
        ("device", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("borrowed", ctypes.c_int32),
    ]


class Device:
    """A device that kernels run on.

    Attributes:
        devices: the runtime it belongs to.
        pointer: address of the `bp_device`.
    """

    def __init__(self, devices: Devices, pointer: int, owned: bool = False) -> None:
        self.devices = devices
        self.pointer = pointer
        self._library = devices.library
        self._record = _Record.from_address(pointer)
        self._owned = owned

    @property
    def api(self) -> str:
        """"opencl", "cuda" or "emulated"."""
        return str(self._record.api.decode())

    @property
    def name(self) -> str:
        """What the device calls itself."""
        return str(self._record.name.decode(errors="replace"))

    @property
    def limits(self) -> Limits:
        """What it has room for; what is set here holds from the next launch on."""
        return self._record.limits  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Device({self.api}: {self.name})"

    def __enter__(self) -> Device:
        """Kernels of its kind run on it within the block."""
        self._before = self._library.bp_use_device(self.api.encode(), self.pointer)
        return self

    def __exit__(self, *_: Any) -> None:
        self._library.bp_use_device(self.api.encode(), self._before)

    def record_launches(self, room: int = 1024) -> None:
        """Keeps the last launches from now on; 0: none."""
        self._library.bp_record_launches(self.pointer, room)

    def launches(self) -> list[Launch]:
        """The launches that were kept, the oldest first."""
        count = self._library.bp_launch_records(self.pointer, None, 0)
        records = (Launch * max(count, 1))()
        count = min(count, self._library.bp_launch_records(self.pointer, records, count))
        return [Launch.from_buffer_copy(records[i]) for i in range(count)]

    def memory(self) -> DeviceMemory:
        """Its pool of memory at this moment."""
        record = DeviceMemory()
        self._library.bp_device_memory(self.pointer, ctypes.byref(record))
        return record

    def reset_most(self) -> None:
        """Counts the most bytes of temporaries anew, from what they have now."""
        self._library.bp_device_reset_most(self.pointer)

    def trim(self) -> int:
        """Gives memory that is kept for later calls back; its bytes."""
        return int(self._library.bp_device_trim_pool(self.pointer))

    def synchronize(self) -> None:
        """Waits for all commands.

        Raises:
            DeviceError: one of them failed.
        """
        if self._library.bp_device_wait(self.pointer) < 0:
            raise DeviceError(self.devices.message())

    def synchronize_stream(self, stream: int) -> None:
        """Waits for all commands on a stream of a CUDA device (2: the thread's own default one).

        Raises:
            DeviceError: one of them failed.
        """
        if self._library.bp_cuda_wait_for_stream(self.pointer, stream) < 0:
            raise DeviceError(self.devices.message())

    def waiting(self) -> int:
        """Commands that wait in the queue of an emulated device that runs late."""
        return int(self._library.bp_emulated_waiting(self.pointer))

    def close(self) -> None:
        """Gives a device that is not the process's own back; its buffers must be gone."""
        if self._owned and self.pointer:
            self._library.bp_device_close(self.pointer)
            self.pointer = 0


def _folder_of(package: str) -> Path | None:
    """Where a package is installed; it is not imported."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(places[0]) if places else None


def find_opencl_loaders() -> list[Path]:
    """OpenCL loaders inside Python packages.

    That of pyopencl's wheel finds the drivers of other wheels by the variable PYOPENCL_HOME, and
    crashes without it; it is set here as pyopencl does.
    """
    folder = _folder_of("pyopencl")
    if folder is None:
        return []
    found = []
    for place in (folder / ".libs", folder.parent / "pyopencl.libs"):
        found += sorted(place.glob("libOpenCL*"))
    if found:
        os.environ.setdefault("PYOPENCL_HOME", str(folder))
    return found


def find_nvrtc() -> list[Path]:
    """Libraries of NVRTC inside Python packages."""
    folder = _folder_of("nvidia")
    if folder is None:
        return []
    return sorted(folder.glob("*/lib/libnvrtc.so*")) + sorted(folder.glob("*/lib/libnvrtc-*.so*"))
