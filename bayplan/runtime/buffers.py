"""Buffers and scalars as the entry points of programs take them: C records over Python's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

from bayplan.ir.errors import AllocationTooLarge, BufferError, TypeMismatchError
from bayplan.ir.types import Type

_INT32_MAX: Final = (1 << 31) - 1

_CODES: Final = {"int": 0, "uint": 1, "float": 2, "handle": 3}


class BufferType(ctypes.Structure):
    """`bp_type`: code, bits, lanes."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class BufferDim(ctypes.Structure):
    """`bp_dim`: min, extent, stride in elements."""

    _fields_ = [
        ("min", ctypes.c_int32),
        ("extent", ctypes.c_int32),
        ("stride", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    ]


class BufferRecord(ctypes.Structure):
    """`bp_buffer`; keeps its dimensions and its memory alive through `keep`."""

    _fields_ = [
        ("device", ctypes.c_uint64),
        ("device_interface", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("type", BufferType),
        ("dimensions", ctypes.c_int32),
        ("dim", ctypes.POINTER(BufferDim)),
        ("padding", ctypes.c_void_p),
    ]
    keep: Any


def _check_int32(name: str, what: str, dim: int, value: int) -> None:
    if not -_INT32_MAX - 1 <= value <= _INT32_MAX:
        raise AllocationTooLarge(
            f"buffer {name}: its {what} in dimension {dim} is {value}, beyond the limit "
            f"{_INT32_MAX} of what a program can index"
        )


def make_record(buffer: Any, name: str) -> BufferRecord:
    """The C record of a `language.buffer.Buffer`, for one call.

    Args:
        buffer: a Buffer; its memory must outlive the record (`keep` holds it).
        name: of the argument, for messages.

    Raises:
        AllocationTooLarge: a min, extent or stride does not fit 32 bits.
    """
    rank = buffer.dimensions()
    dims = (BufferDim * max(rank, 1))()
    for d in range(rank):
        dim = buffer.dim(d)
        values = (int(dim.min()), int(dim.extent()), int(dim.stride()))
        for what, value in zip(("min", "extent", "stride"), values, strict=True):
            _check_int32(name, what, d, value)
        dims[d].min, dims[d].extent, dims[d].stride = values
    record = _record(buffer.type(), rank, dims)
    record.host = buffer.host_address()
    record.keep = (buffer, dims)
    return record


def find_span(record: BufferRecord) -> tuple[int, int]:
    """Addresses of a record's first byte and of the byte behind its last; equal for no bytes."""
    low = high = 0
    for d in range(record.dimensions):
        dim = record.dim[d]
        if dim.extent <= 0:
            return 0, 0
        reach = (dim.extent - 1) * dim.stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    size = (record.type.bits + 7) // 8
    host = record.host or 0
    return (host + low * size, host + (high + 1) * size) if host else (0, 0)


def make_query(t: Type, bounds: list[tuple[int, int]]) -> BufferRecord:
    """A record without memory: the program writes into it which bounds it needs.

    Args:
        t: element type.
        bounds: (min, extent) of each dimension to begin with.
    """
    dims = (BufferDim * max(len(bounds), 1))()
    stride = 1
    for d, (low, extent) in enumerate(bounds):
        dims[d].min, dims[d].extent, dims[d].stride = low, extent, stride
        stride *= max(extent, 1)
    record = _record(t, len(bounds), dims)
    record.keep = (dims,)
    return record


def _record(t: Type, rank: int, dims: Any) -> BufferRecord:
    record = BufferRecord()
    record.type.code = _CODES[t.kind]
    record.type.bits = t.width
    record.type.lanes = 1
    record.dimensions = rank
    record.dim = ctypes.cast(dims, ctypes.POINTER(BufferDim))
    return record


_SCALARS: Final[dict[tuple[str, int], Callable[[Any], Any]]] = {
    ("int", 8): ctypes.c_int8,
    ("int", 16): ctypes.c_int16,
    ("int", 32): ctypes.c_int32,
    ("int", 64): ctypes.c_int64,
    ("uint", 1): ctypes.c_uint8,
    ("uint", 8): ctypes.c_uint8,
    ("uint", 16): ctypes.c_uint16,
    ("uint", 32): ctypes.c_uint32,
    ("uint", 64): ctypes.c_uint64,
    ("float", 32): ctypes.c_float,
    ("float", 64): ctypes.c_double,
    ("handle", 64): ctypes.c_void_p,
}


def scalar_class(t: Type) -> Any:
    """The ctypes class of a scalar argument."""
    return _SCALARS[t.kind, t.width]


def make_scalar(t: Type, value: Any, name: str) -> Any:
    """A scalar argument as a ctypes object.

    Raises:
        TypeMismatchError: the value is not a number its type can hold.
    """
    if t.kind == "handle":
        return ctypes.c_void_p(int(value))
    try:
        number = float(value) if t.kind == "float" else int(value)
    except (TypeError, ValueError):
        raise TypeMismatchError(f"parameter {name}: {value!r} is not a {t}") from None
    if t.kind != "float" and (number != value or not t.can_represent(number)):
        raise TypeMismatchError(f"parameter {name}: {value!r} does not fit {t}")
    if (t.kind, t.width) == ("float", 16):
        import struct

        bits = struct.unpack("<H", struct.pack("<e", number))[0]
        return ctypes.c_uint16(bits)
    return _SCALARS[t.kind, t.width](number)


def check_shape(buffer: Any, t: Type, rank: int, title: str, where: Any) -> None:
    """Checks element type and rank before the program is called.

    Raises:
        BufferError: they are not what the program was compiled for.
    """
    given = buffer.type()
    if given is not t:
        raise BufferError(
            f"{title} has type {given}, but the program was compiled for {t}", where
        )
    if buffer.dimensions() != rank:
        raise BufferError(
            f"{title} has {buffer.dimensions()} dimensions, but the program was compiled "
            f"for {rank}",
            where,
        )
