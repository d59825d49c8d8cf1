"""A constant table: the elements of a Buffer that stands in the algorithm itself."""

from __future__ import annotations

from typing import Any

from bayplan.ir.types import Type


class TableDimension:
    """One dimension of a table, asked as that of a Buffer is."""

    __slots__ = ("_extent", "_min", "_stride")

    def __init__(self, low: int, extent: int, stride: int) -> None:
        self._min = low
        self._extent = extent
        self._stride = stride

    def min(self) -> int:
        """The first coordinate."""
        return self._min

    def extent(self) -> int:
        """The number of coordinates."""
        return self._extent

    def stride(self) -> int:
        """Elements from one coordinate to the next."""
        return self._stride


class Table:
    """The elements of a Buffer, packed in the order in which the Buffer stores them.

    Attributes:
        name: under which the program reads it.
        buffer: where the elements come from, when the program is emitted.
    """

    __slots__ = ("buffer", "name", "order", "_dims")

    def __init__(self, name: str, buffer: Any) -> None:
        self.name = name
        self.buffer = buffer
        given = [buffer.dim(d) for d in range(buffer.dimensions())]
        self.order = sorted(range(len(given)), key=lambda d: (abs(int(given[d].stride())), d))
        strides = [0] * len(given)
        step = 1
        for d in self.order:
            strides[d] = step
            step *= int(given[d].extent())
        self._dims = [
            TableDimension(int(d.min()), int(d.extent()), stride)
            for d, stride in zip(given, strides, strict=True)
        ]

    @property
    def type(self) -> Type:
        """The type of the elements."""
        found: Type = self.buffer.type()
        return found

    @property
    def where(self) -> Any:
        """The user's line that made the Buffer."""
        return self.buffer.where

    def dim(self, d: int) -> TableDimension:
        """A dimension."""
        return self._dims[d]

    def extents(self) -> list[int]:
        """The extents, dimension 0 first."""
        return [dim.extent() for dim in self._dims]

    def elements(self) -> Any:
        """The elements as a flat numpy array in the order of memory."""
        array = self.buffer.numpy_view(reverse_axes=False)
        return array.transpose(self.order[::-1]).reshape(-1)
