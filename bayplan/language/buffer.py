"""Buffer: an array in memory with coordinates, as programs read and write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from bayplan.ir.errors import BoundsError, BufferError, DefinitionError
from bayplan.ir.exprs import Call, CallKind
from bayplan.ir.source import user_line
from bayplan.ir.types import Type
from bayplan.language.buffer_device import DeviceSide
from bayplan.language.buffer_layout import BufferDimension, Layout, packed, storage_order
from bayplan.language.buffer_memory import ArrayView, Memory, allocate, layout_of_array
from bayplan.language.expr import Expr
from bayplan.language.image_call import image_arguments
from bayplan.language.naming import unique_letter_name, unique_name

__all__ = ["Buffer", "BufferDimension"]


class Buffer(Layout, DeviceSide):
    """An array of elements of one type, dimension 0 first.

    Made of a type and sizes; or over the memory of an array, which is not copied and whose axes
    are taken in reverse, so that the last one becomes dimension 0::

        Buffer(Int(32), [width, height])
        Buffer(Int(32), [width, height, 3], [2, 0, 1])     # storage order, innermost first
        Buffer(array, name="input", reverse_axes=True)
        Buffer(other)                                      # another view of the same memory

    `buffer[x, y]` is an element as a Python number; with Exprs it is an Expr.
    """

    __slots__ = ("where", "_symbol", "_named", "__weakref__")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.where = user_line()
        self._symbol = ""
        self._view = None
        self._type = Type("uint", 8)
        self._dims = []
        self._address = 0
        self._memory = None
        self._name = ""
        self._named = False
        if not args and not kwargs:
            return
        if "type" in kwargs or (args and isinstance(args[0], Type)):
            self._make(*args, **kwargs)
        else:
            self._wrap(*args, **kwargs)

    def _make(
        self, type: Type, sizes: Any, storage_order: Any = None, name: str | None = None
    ) -> None:
        if isinstance(storage_order, str):
            storage_order, name = None, storage_order
        if type.lanes() != 1 or type.kind == "handle":
            raise BufferError(f"a Buffer cannot hold elements of type {type}")
        self._name_it(name)
        extents = _sizes(sizes, self._name)
        if storage_order is not None and sorted(storage_order) != list(range(len(extents))):
            raise BufferError(
                f"the storage order {list(storage_order)} of buffer {self._name} does not list "
                f"each of its {len(extents)} dimensions once"
            )
        self._type = type
        self._dims = packed(extents, storage_order)
        self.allocate()

    def _wrap(self, buffer: Any, name: str | None = None, reverse_axes: bool = True) -> None:
        if isinstance(buffer, Buffer):
            self._share(buffer)
            self._name_it(name or (buffer._name if buffer._named else None))
            return
        self._name_it(name)
        layout = layout_of_array(buffer)
        axes = range(len(layout.shape))
        size = layout.type.bytes()
        self._type = layout.type
        self._dims = [
            BufferDimension(0, layout.shape[a], layout.strides[a] // size)
            for a in (reversed(axes) if reverse_axes else axes)
        ]
        self._memory = layout.memory
        self._address = layout.memory.address

    def _name_it(self, name: str | None) -> None:
        self._named = bool(name)
        self._name = name or unique_letter_name("b")

    def _share(self, other: Buffer) -> None:
        self._type = other._type
        self._dims = list(other._dims)
        self._memory = other._memory
        self._address = other._address

    def _again(self) -> Buffer:
        result = Buffer()
        result._share(self)
        result._name_it(self._name if self._named else None)
        return result

    # Other ways to make one.

    @staticmethod
    def make_scalar(type: Type, name: str = "") -> Buffer:
        """A Buffer without dimensions: one element, at []."""
        return Buffer(type, [], name)

    @staticmethod
    def make_interleaved(
        type: Type, width: int, height: int, channels: int, name: str = ""
    ) -> Buffer:
        """A picture whose channels, dimension 2, lie next to each other."""
        return Buffer(type, [width, height, channels], [2, 0, 1], name)

    @staticmethod
    def make_with_shape_of(src: Buffer, name: str = "") -> Buffer:
        """New memory for the same coordinates, in the same storage order."""
        result = Buffer()
        result._type = src._type
        result._name_it(name)
        sizes = [dim.extent() for dim in src._dims]
        mins = [dim.min() for dim in src._dims]
        result._dims = packed(sizes, storage_order(src._dims), mins)
        result.allocate()
        return result

    @staticmethod
    def make_bounds_query(type: Type, sizes: Any, name: str = "") -> Buffer:
        """A Buffer without memory, for questions about bounds."""
        result = Buffer()
        result._type = type
        result._name_it(name)
        result._dims = packed(_sizes(sizes, result._name))
        return result

    def set_bounds(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Give a Buffer without memory other coordinates: (min, extent) of each dimension."""
        if self._address:
            raise BufferError(f"buffer {self._name} has memory, so its bounds cannot be set")
        mins = [low for low, _ in bounds]
        self._dims = packed([extent for _, extent in bounds], None, mins)

    # Questions.

    def defined(self) -> bool:
        """Whether this is a Buffer at all."""
        return self._name != ""

    def _required(self) -> None:
        if not self.defined():
            raise DefinitionError("an undefined Buffer is used")

    def name(self) -> str:
        """The name, for messages and emitted code."""
        return self._name

    def set_name(self, name: str) -> None:
        """Give it another name."""
        self._name_it(name)
        self._symbol = ""

    def type(self) -> Type:
        """The type of the elements."""
        self._required()
        return self._type

    def dimensions(self) -> int:
        """Number of dimensions."""
        return len(self._dims)

    def dim(self, dimension: int) -> BufferDimension:
        """The min, extent and stride of a dimension."""
        return self._dims[self._checked(dimension)]

    def _extent(self, dimension: int) -> int:
        return self._dims[dimension].extent() if dimension < len(self._dims) else 1

    def width(self) -> int:
        """The extent of dimension 0."""
        return self._extent(0)

    def height(self) -> int:
        """The extent of dimension 1."""
        return self._extent(1)

    def channels(self) -> int:
        """The extent of dimension 2."""
        return self._extent(2)

    def left(self) -> int:
        """The first coordinate in dimension 0."""
        return self.dim(0).min()

    def right(self) -> int:
        """The last coordinate in dimension 0."""
        return self.dim(0).max()

    def top(self) -> int:
        """The first coordinate in dimension 1."""
        return self.dim(1).min()

    def bottom(self) -> int:
        """The last coordinate in dimension 1."""
        return self.dim(1).max()

    def number_of_elements(self) -> int:
        """The product of the extents."""
        return math.prod([dim.extent() for dim in self._dims])

    def size_in_bytes(self) -> int:
        """The bytes from the lowest to the highest element, gaps included."""
        if any(dim.extent() == 0 for dim in self._dims):
            return 0
        span = sum([abs(dim.stride()) * (dim.extent() - 1) for dim in self._dims])
        return (span + 1) * self._type.bytes()

    def contains(self, *coords: Any) -> bool:
        """Whether the coordinates, a list or one by one, lie within the Buffer."""
        values = coords[0] if len(coords) == 1 and not isinstance(coords[0], int) else coords
        if len(values) > len(self._dims):
            raise ValueError(f"more coordinates than buffer {self._name} has dimensions")
        return all(d.begin() <= c < d.end() for c, d in zip(values, self._dims, strict=False))

    def same_as(self, other: Buffer) -> bool:
        """Whether both are the same Buffer object."""
        return self is other

    # Memory.

    def host_address(self) -> int:
        """The address of the element at the mins, 0 where there is no memory."""
        return self._address

    def is_writable(self) -> bool:
        """Whether a program may write into it."""
        return self._memory is None or self._memory.writable

    def allocate(self) -> None:
        """Give it new memory for its coordinates."""
        self._required()
        self._memory = allocate(self.size_in_bytes(), self._name)
        low = sum([min(0, dim.stride() * (dim.extent() - 1)) for dim in self._dims])
        self._address = self._memory.address - low * self._type.bytes()
        self._view = None

    def deallocate(self) -> None:
        """Let go of its memory."""
        self._memory = None
        self._address = 0
        self._view = None

    def _held_memory(self) -> Memory:
        self._required()
        if self._memory is None:
            raise BufferError(f"buffer {self._name} has no memory")
        return self._memory

    def _array_view(self, reverse_axes: bool) -> ArrayView:
        dims = self._dims[::-1] if reverse_axes else self._dims
        size = self._type.bytes()
        shape = [dim.extent() for dim in dims]
        strides = [dim.stride() * size for dim in dims]
        return ArrayView(self._type, shape, strides, self._held_memory(), self._address)

    def numpy_view(self, reverse_axes: bool = True) -> Any:
        """A numpy array on the same memory, by default with dimension 0 as its last axis."""
        self._show()
        return self._as_numpy(reverse_axes)

    def _as_numpy(self, reverse_axes: bool) -> Any:
        import numpy as np

        return np.asarray(self._array_view(reverse_axes))

    def _show(self) -> None:
        """From here on others have the memory too."""
        self._bring_home()
        self._held_memory().is_shared = True

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self._show()
        return self._array_view(True).__array_interface__

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.numpy_view())

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.numpy_view().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def _elements(self) -> Any:
        """A numpy array with axis d for dimension d, kept until the layout changes."""
        self._bring_home()
        if self._view is None:
            self._view = self._as_numpy(reverse_axes=False)
        return self._view

    # Elements.

    def _position(self, key: Any) -> tuple[int, ...]:
        self._required()
        coords = key if isinstance(key, tuple | list) else (key,)
        if len(coords) != len(self._dims):
            raise ValueError(
                f"buffer {self._name} has {len(self._dims)} dimensions, "
                f"but {len(coords)} coordinates were given"
            )
        position = []
        for axis, (coord, dim) in enumerate(zip(coords, self._dims, strict=True)):
            if not dim.begin() <= coord < dim.end():
                raise IndexError(
                    f"index {coord} is out of bounds for axis {axis} with min={dim.min()}, "
                    f"extent={dim.extent()}"
                )
            position.append(coord - dim.min())
        return tuple(position)

    def __getitem__(self, key: Any) -> Any:
        coords = key if isinstance(key, tuple | list) else (key,)
        if all(hasattr(c, "__index__") for c in coords):
            return self._elements()[self._position([c.__index__() for c in coords])].item()
        return Expr(self.call(coords))

    def __setitem__(self, key: Any, value: Any) -> None:
        coords = key if isinstance(key, tuple | list) else (key,)
        if not all(hasattr(c, "__index__") for c in coords):
            raise TypeError(f"an element of buffer {self._name} is set at integer coordinates")
        if not self.is_writable():
            raise BufferError(f"buffer {self._name} is read-only memory")
        self._changed_here()
        self._elements()[self._position([c.__index__() for c in coords])] = self._fitting(value)

    def _fitting(self, value: Any) -> int | float:
        """A value as an element; a number that the type cannot hold is refused."""
        if self._type.kind == "float":
            return float(value)
        if self._type.width == 1:
            return bool(value)
        if isinstance(value, float) or not hasattr(value, "__index__"):
            raise TypeError(f"{value!r} cannot be an element of type {self._type}")
        number = int(value)
        if not self._type.can_represent(number):
            raise BufferError(f"{number} does not fit the type {self._type} of {self._name}")
        return number

    def call(self, coords: Sequence[Any]) -> Call:
        """The node for the element at coordinates that are Exprs."""
        self._required()
        if not self._symbol:
            self._symbol = unique_name(self._name) if self._named else self._name
        args = image_arguments(f"buffer {self._name}", coords, len(self._dims))
        return Call(self._type, self._symbol, args, CallKind.IMAGE, self)

    def fill(self, value: Any) -> None:
        """Set all elements to one value."""
        self._held_memory()
        if not self.is_writable():
            raise BufferError(f"buffer {self._name} is read-only memory")
        self._changed_here()
        self._elements()[...] = self._fitting(value)

    def all_equal(self, value: Any) -> bool:
        """Whether all elements have one value."""
        self._held_memory()
        return bool((self._elements() == self._fitting(value)).all())

    def copy(self) -> Buffer:
        """The same elements in new memory without gaps."""
        result = Buffer.make_with_shape_of(self)
        result._elements()[...] = self._elements()
        return result

    def copy_from(self, src: Buffer) -> None:
        """Take over the elements of another Buffer at the coordinates that both have."""
        if src._type is not self._type or len(src._dims) != len(self._dims):
            raise BufferError(
                f"buffer {self._name} of type {self._type} with {len(self._dims)} dimensions "
                f"cannot take the elements of {src._name} of type {src._type} with {len(src._dims)}"
            )
        box = []
        for mine, other in zip(self._dims, src._dims, strict=True):
            low = max(mine.begin(), other.begin())
            box.append((low, max(0, min(mine.end(), other.end()) - low)))
        if all(extent for _, extent in box):
            self._changed_here()
            self.cropped(box)._elements()[...] = src.cropped(box)._elements()

    def for_each_element(self, f: Callable[[list[int]], Any]) -> None:
        """Call `f` with a list of coordinates for each element, dimension 0 innermost."""
        import itertools

        ranges = [range(dim.begin(), dim.end()) for dim in reversed(self._dims)]
        for position in itertools.product(*ranges):
            f(list(position[::-1]))

    def __repr__(self) -> str:
        if not self.defined():
            return "<undefined bayplan.Buffer>"
        shape = ",".join([repr(dim) for dim in self._dims])
        return f"<bayplan.Buffer of type {self._type} shape:[{shape}]>"


def _sizes(sizes: Any, name: str) -> list[int]:
    if isinstance(sizes, int):
        raise TypeError(f"the sizes of a Buffer are a list, not the number {sizes}")
    extents = [int(size) for size in sizes]
    for d, extent in enumerate(extents):
        if extent < 0:
            raise BoundsError(f"buffer {name}: the size {extent} in dimension {d} is negative")
    return extents
