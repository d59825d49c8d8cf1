"""Buffers as Python functions see them that compute external stages."""

from __future__ import annotations

import ctypes
from typing import Any

from bayplan.ir.types import Float, Handle, Int, Type, UInt
from bayplan.runtime.buffers import BufferRecord

_TYPES = (Int, UInt, Float)


class ExternBuffer:
    """A buffer that an external stage is given, for the time of the call.

    Where the stage is asked for its regions, the buffers have no memory, and what it needs of its
    inputs is written with `set_bounds`.
    """

    __slots__ = ("_record",)

    def __init__(self, address: int) -> None:
        self._record = BufferRecord.from_address(address)

    @staticmethod
    def of(record: BufferRecord) -> ExternBuffer:
        """The buffer of a record that outlives it."""
        return ExternBuffer(ctypes.addressof(record))

    def is_bounds_query(self) -> bool:
        """Whether it has no memory: the stage is asked which region it needs."""
        return not self._record.host and not self._record.device

    def type(self) -> Type:
        """The type of its elements."""
        raw = self._record.type
        return Handle() if raw.code == 3 else _TYPES[raw.code](raw.bits)

    def dimensions(self) -> int:
        """The number of dimensions."""
        return int(self._record.dimensions)

    def bounds(self) -> list[tuple[int, int]]:
        """(min, extent) of each dimension."""
        dims = self._record.dim
        return [(dims[d].min, dims[d].extent) for d in range(self.dimensions())]

    def set_bounds(self, bounds: Any) -> None:
        """Says which region is needed: (min, extent) for each dimension."""
        dims = self._record.dim
        for d, (low, extent) in enumerate(bounds):
            dims[d].min, dims[d].extent = int(low), int(extent)

    def array(self) -> Any:
        """A numpy array over the memory, dimension 0 last, as `numpy.asarray` of a Buffer is."""
        import numpy as np

        if self.is_bounds_query():
            raise ValueError("a buffer of a bounds query has no memory")
        t, dims = self.type(), self._record.dim
        kind = {"int": "i", "uint": "u", "float": "f", "handle": "u"}[t.kind]
        dtype = np.dtype(bool if t.width == 1 else f"{kind}{t.bytes()}")
        order = range(self.dimensions() - 1, -1, -1)
        shape = tuple([dims[d].extent for d in order])
        strides = tuple([dims[d].stride * dtype.itemsize for d in order])
        last = sum([(n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 0])
        size = (last + dtype.itemsize) if last >= 0 else dtype.itemsize
        memory = (ctypes.c_uint8 * size).from_address(self._record.host)
        return np.ndarray(shape, dtype, buffer=memoryview(memory), strides=strides)
