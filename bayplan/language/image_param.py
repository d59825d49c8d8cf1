"""ImageParam: a buffer that each call reads; OutputImageParam: one that it writes."""

from __future__ import annotations

from typing import Any

from bayplan.ir import build
from bayplan.ir.errors import BufferError, DefinitionError, TypeMismatchError
from bayplan.ir.exprs import Call, CallKind, Variable
from bayplan.ir.exprs import Expr as Node
from bayplan.ir.source import user_line
from bayplan.ir.types import INT32, Type
from bayplan.language import changes
from bayplan.language.buffer import Buffer
from bayplan.language.definition import define_pure, new_function
from bayplan.language.expr import Expr, as_node
from bayplan.language.function import Function
from bayplan.language.image_call import image_arguments
from bayplan.language.naming import reserve_name, unique_letter_name
from bayplan.language.parameter import Parameter
from bayplan.language.promotion import lossless_cast


def _coordinate(value: Any, what: str) -> Node | None:
    """An int32 node for a constraint; None for an undefined Expr, which promises nothing."""
    if value is None or (isinstance(value, Expr) and not value.defined()):
        return None
    node = as_node(value)
    cast = lossless_cast(INT32, node)
    if cast is None:
        raise TypeMismatchError(f"{what} must be an int32, but {node} has type {node.type}")
    return cast


class Dimension:
    """One dimension of a parameter that is a buffer: its fields, and promises about them."""

    __slots__ = ("_parameter", "_index")

    def __init__(self, parameter: Parameter, index: int) -> None:
        if not 0 <= index < parameter.dimensions:
            raise BufferError(
                f"{parameter.name} has {parameter.dimensions} dimensions, so none numbered {index}"
            )
        self._parameter = parameter
        self._index = index

    def min(self) -> Expr:
        """The first coordinate."""
        return Expr(self._parameter.field("min", self._index))

    def extent(self) -> Expr:
        """The number of coordinates."""
        return Expr(self._parameter.field("extent", self._index))

    def stride(self) -> Expr:
        """How far apart neighbours lie, in elements."""
        return Expr(self._parameter.field("stride", self._index))

    def max(self) -> Expr:
        """The last coordinate."""
        p = self._parameter
        low, extent = p.field("min", self._index), p.field("extent", self._index)
        return Expr(build.sub(build.add(low, extent), 1))

    def _set(self, field: str, value: Any) -> Dimension:
        changes.bump()
        what = f"the {field} of dimension {self._index} of {self._parameter.name}"
        setattr(self._parameter.constraints[self._index], field, _coordinate(value, what))
        return self

    def set_min(self, min: Any) -> Dimension:
        """Promise the first coordinate; checked by each call."""
        return self._set("min", min)

    def set_extent(self, extent: Any) -> Dimension:
        """Promise the number of coordinates; checked by each call."""
        return self._set("extent", extent)

    def set_stride(self, stride: Any) -> Dimension:
        """Promise the stride; checked by each call. None takes the promise back."""
        return self._set("stride", stride)

    def set_bounds(self, min: Any, extent: Any) -> Dimension:
        """Promise first coordinate and number; checked by each call."""
        return self.set_min(min).set_extent(extent)

    def set_estimate(self, min: Any, extent: Any) -> Dimension:
        """Say which first coordinate and number are usual."""
        return self._set("min_estimate", min)._set("extent_estimate", extent)

    set_bounds_estimate = set_estimate

    def dim(self, dimension: int) -> Dimension:
        """Another dimension of the same buffer, for chains of calls."""
        return Dimension(self._parameter, dimension)


class OutputImageParam:
    """A handle on a buffer parameter: what `Func.output_buffer()` gives.

    Args:
        parameter: the data; None makes an undefined handle.
    """

    __slots__ = ("_parameter",)

    def __init__(self, parameter: Parameter | None = None) -> None:
        self._parameter = parameter

    def parameter(self) -> Parameter:
        """The data of the parameter."""
        if self._parameter is None:
            raise DefinitionError(f"an undefined {type(self).__name__} is used")
        return self._parameter

    def defined(self) -> bool:
        """Whether this is a parameter at all."""
        return self._parameter is not None

    def name(self) -> str:
        """The name."""
        return self.parameter().name

    def type(self) -> Type:
        """The type of the elements."""
        return self.parameter().type

    def dimensions(self) -> int:
        """Number of dimensions."""
        return self.parameter().dimensions

    def dim(self, dimension: int) -> Dimension:
        """A dimension: its fields as Exprs, and promises about them."""
        return Dimension(self.parameter(), dimension)

    def _dim(self, dimension: int, what: str) -> Dimension:
        if dimension >= self.dimensions():
            raise BufferError(
                f"{self.name()} has {self.dimensions()} dimensions, so it has no {what}"
            )
        return self.dim(dimension)

    def width(self) -> Expr:
        """The extent of dimension 0."""
        return self._dim(0, "width").extent()

    def height(self) -> Expr:
        """The extent of dimension 1."""
        return self._dim(1, "height").extent()

    def channels(self) -> Expr:
        """The extent of dimension 2."""
        return self._dim(2, "channels").extent()

    def left(self) -> Expr:
        """The first coordinate in dimension 0."""
        return self._dim(0, "left").min()

    def right(self) -> Expr:
        """The last coordinate in dimension 0."""
        return self._dim(0, "right").max()

    def top(self) -> Expr:
        """The first coordinate in dimension 1."""
        return self._dim(1, "top").min()

    def bottom(self) -> Expr:
        """The last coordinate in dimension 1."""
        return self._dim(1, "bottom").max()

    def host_alignment(self) -> int:
        """The promised alignment of the first element, in bytes."""
        return self.parameter().host_alignment

    def set_host_alignment(self, bytes: int) -> Any:
        """Promise the alignment of the first element; checked by each call."""
        if bytes <= 0 or bytes & (bytes - 1):
            raise BufferError(f"the alignment of {self.name()} must be a power of two, not {bytes}")
        changes.bump()
        self.parameter().host_alignment = bytes
        return self

    def set_estimates(self, estimates: Any) -> Any:
        """Say which (min, extent) is usual in each dimension."""
        pairs = list(estimates)
        if len(pairs) != self.dimensions():
            raise BufferError(
                f"{len(pairs)} estimates were given for {self.name()}, "
                f"which has {self.dimensions()} dimensions"
            )
        for d, pair in enumerate(pairs):
            low, extent = pair if isinstance(pair, tuple | list) else (pair.min, pair.extent)
            self.dim(d).set_estimate(low, extent)
        return self

    def store_in(self, memory_type: Any) -> Any:
        """Accepted for programs that ask where a device keeps the buffer; there is one place."""
        return self

    def __repr__(self) -> str:
        title = type(self).__name__
        p = self._parameter
        if p is None:
            return f"<bayplan.{title} {title}()>"
        return f"<bayplan.{title} '{p.name}', dims: {p.dimensions}, type: {p.type}>"


class ImageParam(OutputImageParam):
    """An input buffer, usable in expressions: `image[x, y]`.

    Args:
        type: of the elements.
        dimensions: their number.
        name: its name; without one it gets a name of its own.

    In a pipeline it is a Func of its own, inlined unless scheduled through `in_()`.
    """

    __slots__ = ("_function",)

    def __init__(
        self, type: Type | None = None, dimensions: int | None = None, name: str = ""
    ) -> None:
        self._function: Function | None = None
        if type is None or dimensions is None:
            super().__init__()
            return
        if type.kind == "handle" or type.lanes() != 1:
            raise BufferError(f"an ImageParam cannot hold elements of type {type}")
        stem = name or unique_letter_name("p")
        if name:
            reserve_name(name)
        super().__init__(Parameter(stem, type, True, int(dimensions), user_line()))

    def function(self) -> Function:
        """The Func that stands for it in expressions, defined as the elements themselves."""
        if self._function is None:
            p = self.parameter()
            found = new_function(f"{p.name}_im")
            names = [f"_{d}" for d in range(p.dimensions)]
            coords = tuple([Variable(INT32, name) for name in names])
            define_pure(found, names, [Call(p.type, p.name, coords, CallKind.IMAGE, p)])
            found.where = p.where
            self._function = found
        return self._function

    def func(self) -> Any:
        """The same Func, as a `Func`."""
        from bayplan.language.func import Func

        return Func.of(self.function())

    def __getitem__(self, key: Any) -> Expr:
        p = self.parameter()
        coords = key if isinstance(key, tuple | list) else (key,)
        args = image_arguments(f"ImageParam {p.name}", coords, p.dimensions)
        function = self.function()
        return Expr(Call(p.type, function.name, args, CallKind.FUNC, function))

    def in_(self, *funcs: Any) -> Any:
        """A Func that copies the image, for one Func, several, or all that use it."""
        return self.func().in_(*funcs)

    def trace_loads(self) -> Any:
        """Print each element that is read."""
        return self.func().trace_loads()

    def set(self, buffer: Any) -> None:
        """Set the buffer of the following calls: a Buffer or anything that makes one."""
        p = self.parameter()
        found = buffer if isinstance(buffer, Buffer) else Buffer(buffer)
        if found.defined() and found.type() is not p.type:
            raise BufferError(
                f"ImageParam {p.name} has elements of type {p.type}; the buffer {found.name()} has "
                f"elements of type {found.type()}",
                p.where,
            )
        if found.defined() and found.dimensions() != p.dimensions:
            raise BufferError(
                f"ImageParam {p.name} has {p.dimensions} dimensions; the buffer {found.name()} has "
                f"{found.dimensions()}",
                p.where,
            )
        p.buffer = found if found.defined() else None

    def get(self) -> Buffer:
        """The buffer it was set to; an undefined Buffer before that."""
        found = self.parameter().buffer
        return Buffer() if found is None else found

    def reset(self) -> None:
        """Forget the buffer."""
        self.parameter().buffer = None
