"""BoundaryConditions: Funcs that are defined everywhere, made from what is defined in a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bayplan.ir.build import (
    add,
    cast,
    clamp,
    false,
    ge,
    intrinsic,
    likely,
    logical_or,
    lt,
    mod,
    mul,
    select,
    sub,
)
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.types import INT32, UInt
from bayplan.language.definition import define_pure, new_function
from bayplan.language.expr import as_node
from bayplan.language.func import Func
from bayplan.language.function import Function
from bayplan.language.promotion import lossless_cast
from bayplan.language.rdom import as_range, region_of
from bayplan.language.tuple import tuple_elements

Box = list[tuple[Expr, Expr] | None]
"""(min, extent) of each dimension, None where it is not bounded."""

Coordinate = Callable[[Expr, Expr, Expr], Expr]


def _bound(value: Any, what: str, dim: int, kind: str) -> Expr | None:
    if value is None or (hasattr(value, "defined") and not value.defined()):
        return None
    node = lossless_cast(INT32, as_node(value))
    if node is None:
        raise TypeMismatchError(
            f"the {what} of dimension {dim} given to {kind} does not fit an int32: {value}"
        )
    return node


def _box(kind: str, name: str, dimensions: int, bounds: Sequence[Any]) -> Box:
    if len(bounds) > dimensions:
        raise DefinitionError(
            f"{kind} is given bounds for {len(bounds)} dimensions, but {name} has {dimensions}"
        )
    box: Box = []
    for i, entry in enumerate(bounds):
        low, extent = (None, None) if entry is None else as_range(entry)
        first, size = _bound(low, "min", i, kind), _bound(extent, "extent", i, kind)
        if (first is None) != (size is None):
            raise DefinitionError(
                f"{kind} is given only one of min and extent of dimension {i} of {name}"
            )
        box.append((first, size) if first is not None and size is not None else None)
    return box + [None] * (dimensions - len(bounds))


def _source(kind: str, f: Any, bounds: Any) -> tuple[Function, Box]:
    """The Func to be extended, and the box in which it is defined."""
    if isinstance(f, Func):
        if not f.defined():
            raise DefinitionError(f"{kind} is given {f.name()}, which is not defined yet")
        if bounds is None:
            raise TypeError(f"{kind} of a Func needs the bounds in which it is defined")
        function = f.function()
    elif hasattr(f, "dimensions") and hasattr(f, "dim"):
        function = Func(f).function()
        if bounds is None:
            bounds = region_of(f)
    else:
        raise TypeError(f"{kind} takes a Func, a Buffer or an ImageParam, not {type(f).__name__}")
    return function, _box(kind, function.name, function.dimensions(), list(bounds))


def _calls(function: Function, args: Sequence[Expr]) -> list[Expr]:
    return [
        Call(t, function.name, tuple(args), CallKind.FUNC, function, i)
        for i, t in enumerate(function.output_types)
    ]


def _extend(kind: str, f: Any, bounds: Any, coordinate: Coordinate) -> Func:
    """The Func that reads `f` at other coordinates wherever those leave the box."""
    function, box = _source(kind, f, bounds)
    return Func.of(_extend_box(kind, function, box, coordinate))


def _extend_box(kind: str, function: Function, box: Box, coordinate: Coordinate) -> Function:
    args: list[Expr] = []
    for name, found in zip(function.args, box, strict=True):
        v: Expr = Variable(INT32, name)
        args.append(v if found is None else coordinate(v, found[0], found[1]))
    bounded = new_function(kind)
    define_pure(bounded, list(function.args), _calls(function, args))
    return bounded


def _last(low: Expr, extent: Expr) -> Expr:
    return sub(add(low, extent), 1)


def _inside(v: Expr, low: Expr, extent: Expr) -> Expr:
    return clamp(likely(v), low, _last(low, extent))


def _outside(v: Expr, low: Expr, extent: Expr) -> Expr:
    return logical_or(lt(v, low), ge(v, add(low, extent)))


def _rarely(v: Expr, low: Expr, extent: Expr, coordinate: Expr) -> Expr:
    """`coordinate` outside of the box, `v` in it.

    The clamp is marked likely as a whole too: the other branch may hold a likely of its own, from
    the tail of a loop, and partitioning must still know which branch is the usual one.
    """
    return select(_outside(v, low, extent), coordinate, likely(_inside(v, low, extent)))


def _image(v: Expr, low: Expr, extent: Expr) -> Expr:
    return _rarely(v, low, extent, add(mod(sub(v, low), extent), low))


def _mirror_image(v: Expr, low: Expr, extent: Expr) -> Expr:
    twice = mul(extent, 2)
    offset = mod(sub(v, low), twice)
    offset = select(ge(offset, extent), sub(sub(twice, 1), offset), offset)
    # The clamp tells the analysis of bounds what is true anyway.
    return _rarely(v, low, extent, clamp(add(offset, low), low, _last(low, extent)))


def _mirror_interior(v: Expr, low: Expr, extent: Expr) -> Expr:
    limit = sub(extent, 1)
    offset = sub(mod(sub(v, low), mul(limit, 2)), limit)
    distance = cast(INT32, intrinsic(UInt(32), "abs", offset))
    coordinate = clamp(add(sub(limit, distance), low), low, _last(low, extent))
    return _rarely(v, low, extent, coordinate)


def repeat_edge(f: Any, bounds: Any = None) -> Func:
    """Outside of the box, the value at the nearest point of it.

    Args:
        f: a Func, Buffer or ImageParam.
        bounds: (min, extent) for each dimension, or for the first ones; (None, None) leaves a
            dimension as it is. Not needed for Buffers and ImageParams.
    """
    return _extend("repeat_edge", f, bounds, _inside)


def repeat_image(f: Any, bounds: Any = None) -> Func:
    """Outside of the box, the box repeated; arguments as of `repeat_edge`."""
    return _extend("repeat_image", f, bounds, _image)


def mirror_image(f: Any, bounds: Any = None) -> Func:
    """Outside of the box, the box mirrored, edges twice; arguments as of `repeat_edge`."""
    return _extend("mirror_image", f, bounds, _mirror_image)


def mirror_interior(f: Any, bounds: Any = None) -> Func:
    """Outside of the box, the box mirrored, edges once; arguments as of `repeat_edge`."""
    return _extend("mirror_interior", f, bounds, _mirror_interior)


def constant_exterior(f: Any, exterior: Any, bounds: Any = None) -> Func:
    """Outside of the box, the value `exterior`; other arguments as of `repeat_edge`.

    Args:
        f: a Func, Buffer or ImageParam.
        exterior: an Expr of the type of `f`, or a Tuple where `f` has several values.
        bounds: as for `repeat_edge`.
    """
    function, box = _source("constant_exterior", f, bounds)
    outside: Expr = false()
    for name, found in zip(function.args, box, strict=True):
        if found is not None:
            v = Variable(INT32, name)
            outside = logical_or(outside, lt(v, found[0]))
            outside = logical_or(outside, ge(v, add(found[0], found[1])))
    elements = tuple_elements(exterior)
    values = [exterior] if elements is None else elements
    if len(values) != function.outputs():
        raise DefinitionError(
            f"constant_exterior is given {len(values)} values for {function.name}, which has "
            f"{function.outputs()}"
        )
    edge = _extend_box("repeat_edge", function, box, _inside)
    args: list[Expr] = [Variable(INT32, name) for name in function.args]
    results = []
    for value, inner in zip(values, _calls(edge, args), strict=True):
        literal = isinstance(value, int) and not isinstance(value, bool)
        node = as_node(value, inner.type if literal else None)
        if node.type is not inner.type:
            raise TypeMismatchError(
                f"the exterior of {function.name} is a {node.type}, its values are {inner.type}"
            )
        results.append(select(outside, node, likely(inner)))
    bounded = new_function("constant_exterior")
    define_pure(bounded, list(function.args), results)
    return Func.of(bounded)
