"""The layout of a Buffer: its dimensions, and the changes of view that touch no element.

Mins, extents and strides are Python integers, so that sizes beyond 32 bits stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.errors import BoundsError, BufferError
from bayplan.ir.types import Type
from bayplan.language.buffer_memory import Memory


class BufferDimension:
    """One dimension of a Buffer."""

    __slots__ = ("_min", "_extent", "_stride")

    def __init__(self, min: int, extent: int, stride: int) -> None:
        self._min = min
        self._extent = extent
        self._stride = stride

    def min(self) -> int:
        """The first coordinate."""
        return self._min

    def max(self) -> int:
        """The last coordinate."""
        return self._min + self._extent - 1

    def extent(self) -> int:
        """The number of coordinates."""
        return self._extent

    def stride(self) -> int:
        """How far apart neighbours lie, in elements."""
        return self._stride

    def begin(self) -> int:
        """The first coordinate."""
        return self._min

    def end(self) -> int:
        """One more than the last coordinate."""
        return self._min + self._extent

    def __iter__(self) -> Any:
        return iter(range(self._min, self._min + self._extent))

    def __repr__(self) -> str:
        return f"[{self._min},{self._extent},{self._stride}]"


def packed(
    sizes: Sequence[int], order: Sequence[int] | None = None, mins: Sequence[int] | None = None
) -> list[BufferDimension]:
    """Dimensions without gaps; `order` lists them innermost first."""
    dims = range(len(sizes))
    strides = [0] * len(sizes)
    stride = 1
    for d in dims if order is None else order:
        strides[d] = stride
        stride *= sizes[d]
    return [BufferDimension(0 if mins is None else mins[d], sizes[d], strides[d]) for d in dims]


def storage_order(dims: Sequence[BufferDimension]) -> list[int]:
    """The dimensions by the size of their strides, innermost first."""
    return sorted(range(len(dims)), key=lambda d: (abs(dims[d].stride()), d))


class Layout:
    """Gives a Buffer the changes of view: crop, slice, embed, transpose, translate.

    Each exists as a verb that changes the Buffer in place and as a participle that gives a new
    Buffer on the same memory.

    Attributes:
        _dims: the dimensions, 0 first.
        _address: of the element at the mins; 0 where there is no memory.
    """

    __slots__ = ("_type", "_dims", "_address", "_memory", "_name", "_view")

    _type: Type
    _dims: list[BufferDimension]
    _address: int
    _memory: Memory | None
    _name: str
    _view: Any

    def _again(self) -> Any:
        """A new Buffer on the same memory."""
        raise NotImplementedError

    def _checked(self, dimension: int) -> int:
        if not 0 <= dimension < len(self._dims):
            raise BufferError(
                f"buffer {self._name} has {len(self._dims)} dimensions, "
                f"so none numbered {dimension}"
            )
        return dimension

    def _replace(self, dims: list[BufferDimension], moved: int = 0) -> None:
        """Take other dimensions; the first element moves by `moved` elements."""
        self._dims = dims
        self._view = None
        if self._address:
            self._address += moved * self._type.bytes()

    def crop(self, dimension: Any, min: int | None = None, extent: int | None = None) -> None:
        """Keep coordinates from `min` on, `extent` of them; or those of a list of such pairs."""
        if min is None or extent is None:
            rect = list(dimension)
            for d, (low, size) in enumerate(rect):
                self.crop(d, low, size)
            return
        d = self._checked(dimension)
        old = self._dims[d]
        if extent < 0 or min < old.begin() or min + extent > old.end():
            raise BoundsError(
                f"buffer {self._name} cannot be cropped to [{min}, {min + extent}) in dimension "
                f"{d}: it covers [{old.begin()}, {old.end()})"
            )
        dims = list(self._dims)
        dims[d] = BufferDimension(min, extent, old.stride())
        self._replace(dims, (min - old.min()) * old.stride())

    def slice(self, dimension: int, position: int | None = None) -> None:
        """Keep only one coordinate of a dimension (the first one) and drop the dimension."""
        d = self._checked(dimension)
        old = self._dims[d]
        at = old.min() if position is None else position
        if not old.begin() <= at < old.end():
            raise BoundsError(
                f"buffer {self._name} cannot be sliced at {at} in dimension {d}: "
                f"it covers [{old.begin()}, {old.end()})"
            )
        self._replace(self._dims[:d] + self._dims[d + 1 :], (at - old.min()) * old.stride())

    def embed(self, dimension: int, position: int = 0) -> None:
        """Add a dimension with the only coordinate `position`: the opposite of slice."""
        if not 0 <= dimension <= len(self._dims):
            raise BufferError(
                f"buffer {self._name} has {len(self._dims)} dimensions, so a new one cannot become "
                f"number {dimension}"
            )
        stride = 1
        for dim in self._dims:
            stride = max(stride, abs(dim.stride()) * dim.extent())
        added = BufferDimension(position, 1, stride)
        self._replace(self._dims[:dimension] + [added] + self._dims[dimension:])

    def add_dimension(self) -> None:
        """Add an outermost dimension with the only coordinate 0."""
        self.embed(len(self._dims))

    def transpose(self, d1: Any, d2: int | None = None) -> None:
        """Exchange two dimensions; or put all in the order of a list."""
        if d2 is None:
            order = [int(d) for d in d1]
        else:
            order = list(range(len(self._dims)))
            a, b = self._checked(d1), self._checked(d2)
            order[a], order[b] = order[b], order[a]
        if sorted(order) != list(range(len(self._dims))):
            raise BufferError(
                f"{order} does not list each of the {len(self._dims)} dimensions of buffer "
                f"{self._name} once"
            )
        self._replace([self._dims[d] for d in order])

    def translate(self, dimension: Any, dx: int | None = None) -> None:
        """Shift the coordinates of a dimension; or of all, by a list."""
        deltas = {dimension: dx} if dx is not None else dict(enumerate(dimension))
        dims = list(self._dims)
        for d, delta in deltas.items():
            old = dims[self._checked(d)]
            dims[d] = BufferDimension(old.min() + int(delta), old.extent(), old.stride())
        self._replace(dims)

    def set_min(self, *mins: Any) -> None:
        """Give the first dimensions new first coordinates: a list, or one by one."""
        values = list(mins[0]) if len(mins) == 1 and not isinstance(mins[0], int) else list(mins)
        if len(values) > len(self._dims):
            raise ValueError(f"more mins than buffer {self._name} has dimensions")
        dims = list(self._dims)
        for d, value in enumerate(values):
            dims[d] = BufferDimension(int(value), dims[d].extent(), dims[d].stride())
        self._replace(dims)

    def cropped(self, dimension: Any, min: int | None = None, extent: int | None = None) -> Any:
        """A view of fewer coordinates."""
        result = self._again()
        result.crop(dimension, min, extent)
        return result

    def sliced(self, dimension: int, position: int | None = None) -> Any:
        """A view of one coordinate of a dimension, without the dimension."""
        result = self._again()
        result.slice(dimension, position)
        return result

    def embedded(self, dimension: int, position: int = 0) -> Any:
        """A view with one dimension more."""
        result = self._again()
        result.embed(dimension, position)
        return result

    def transposed(self, d1: Any, d2: int | None = None) -> Any:
        """A view with dimensions in another order."""
        result = self._again()
        result.transpose(d1, d2)
        return result

    def translated(self, dimension: Any, dx: int | None = None) -> Any:
        """A view with shifted coordinates."""
        result = self._again()
        result.translate(dimension, dx)
        return result

    def reverse_axes(self) -> Any:
        """A view with the dimensions in the opposite order."""
        return self.transposed(list(range(len(self._dims)))[::-1])
