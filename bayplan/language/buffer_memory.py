"""Memory of Buffers: new, or that of an array made elsewhere, which is never copied."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Final

from bayplan.ir.errors import AllocationTooLarge, BufferError, OutOfMemory
from bayplan.ir.types import Type

ALIGNMENT: Final = 128
"""Bytes that new memory is aligned to: a cache line, and the widest vectors."""

_LITTLE: Final = sys.byteorder == "little"
_KINDS: Final = {"i": "int", "u": "uint", "f": "float"}


class Memory:
    """A stretch of memory and whatever keeps it alive.

    Attributes:
        twin: its memory on a device (the driver's `Twin`), None where there is none.
        host_dirty: the host's bytes were said to be newer, while there is no twin.
        is_shared: others can change or read the bytes without asking.
        is_managed: the user says when bytes are changed.
    """

    __slots__ = ("address", "owner", "writable", "twin", "host_dirty", "is_shared", "is_managed")

    def __init__(
        self, address: int, owner: Any, writable: bool, is_shared: bool = False
    ) -> None:
        self.address = address
        self.owner = owner
        self.writable = writable
        self.twin: Any = None
        self.host_dirty = False
        self.is_shared = is_shared
        self.is_managed = False

    def flags(self) -> int:
        """Whose bytes are newer: 1 the host's, 2 the device's."""
        return int(self.host_dirty) if self.twin is None else int(self.twin.flags)

    def set_flags(self, flags: int) -> None:
        """Sets whose bytes are newer."""
        if self.twin is None:
            self.host_dirty = bool(flags & 1)
        else:
            self.twin.flags = flags


class ArrayLayout:
    """What an array says of itself; strides in bytes, axes in the array's own order."""

    __slots__ = ("type", "shape", "strides", "memory")

    def __init__(
        self, t: Type, shape: Sequence[int], strides: Sequence[int], memory: Memory
    ) -> None:
        self.type = t
        self.shape = list(shape)
        self.strides = list(strides)
        self.memory = memory


def allocate(size_bytes: int, name: str) -> Memory:
    """New memory without particular contents.

    Raises:
        AllocationTooLarge: no process can address that many bytes.
        OutOfMemory: the system does not give them.
    """
    import numpy as np

    if size_bytes + ALIGNMENT > sys.maxsize:
        raise AllocationTooLarge(
            f"buffer {name} would take {size_bytes} bytes, beyond the limit {sys.maxsize}"
        )
    try:
        block = np.empty(max(size_bytes, 1) + ALIGNMENT, np.uint8)
    except MemoryError:
        raise OutOfMemory(
            f"there is no memory for the {size_bytes} bytes of buffer {name}"
        ) from None
    address = block.__array_interface__["data"][0]
    return Memory(address + -address % ALIGNMENT, block, True)


def typestr_of(t: Type) -> str:
    """The array interface's name of an element type, such as "<i4"."""
    if t.kind == "handle":
        raise BufferError(f"a buffer of {t} cannot be seen as an array")
    if t.width == 1:
        return "|b1"
    letter = {"int": "i", "uint": "u", "float": "f"}[t.kind]
    order = "|" if t.width == 8 else ("<" if _LITTLE else ">")
    return f"{order}{letter}{t.width // 8}"


def type_of_typestr(typestr: str) -> Type:
    """The element type for the array interface's name of it."""
    order, letter, size = typestr[0], typestr[1], int(typestr[2:])
    foreign = order == (">" if _LITTLE else "<") and size > 1
    if letter == "b" and size == 1:
        return Type("uint", 1)
    kind = _KINDS.get(letter)
    if foreign or kind is None or size not in (1, 2, 4, 8) or (letter == "f" and size == 1):
        reason = "its bytes are in the other order" if foreign else "there is no such element type"
        raise BufferError(f'an array of "{typestr}" cannot become a Buffer: {reason}')
    return Type(kind, size * 8)


def layout_of_array(source: Any) -> ArrayLayout:
    """The layout of anything with `__array_interface__`, the buffer protocol or DLPack."""
    interface = getattr(source, "__array_interface__", None)
    if interface is None:
        source = _as_numpy(source)
        interface = source.__array_interface__
    data = interface.get("data")
    if data is None or isinstance(data, bytes | bytearray | memoryview):
        source = _as_numpy(source)
        interface = source.__array_interface__
        data = interface["data"]
    if "descr" in interface and len(interface["descr"]) > 1:
        raise BufferError("an array of records cannot become a Buffer")
    t = type_of_typestr(interface["typestr"])
    shape = [int(n) for n in interface["shape"]]
    strides = interface.get("strides")
    if strides is None:
        strides = [t.bytes() * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    # An array without elements may point anywhere; address 0 would mean that it has no memory, and
    # the call a question for its bounds.
    address = int(data[0]) if math.prod(shape) else ALIGNMENT
    for axis, stride in enumerate(strides):
        if stride % t.bytes():
            raise BufferError(
                f"axis {axis} of the array has a stride of {stride} bytes, which is no multiple of "
                f"the {t.bytes()} bytes of {t}",
                hint="copy the array first",
            )
    if address % t.bytes():
        raise BufferError(
            f"the array's {t} elements do not lie at multiples of {t.bytes()} bytes",
            hint="copy the array first",
        )
    return ArrayLayout(t, shape, strides, Memory(address, source, not data[1], is_shared=True))


def _as_numpy(source: Any) -> Any:
    """A numpy array over the memory of `source`."""
    import numpy as np

    if hasattr(source, "__dlpack__"):
        # The array counts as read-only where the producer says so, or cannot say otherwise.
        return np.from_dlpack(source)
    try:
        view = memoryview(source)
    except TypeError:
        raise TypeError(
            f"a Buffer is made of a type and sizes, or of something with the buffer protocol, "
            f"__array_interface__ or DLPack, not of {type(source).__name__}: {source!r}"
        ) from None
    return np.asarray(view)


class ArrayView:
    """A view of memory that numpy can take over by `np.asarray`."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(
        self, t: Type, shape: Sequence[int], strides: Sequence[int], memory: Memory, address: int
    ) -> None:
        self.owner = memory.owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": typestr_of(t),
            "shape": tuple(shape),
            "strides": tuple(strides),
            "data": (address, not memory.writable),
        }
