"""Functions of arithmetic that give exact results on integers: min, max, clamp, abs, lerp, ..."""

from __future__ import annotations

from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.errors import TypeMismatchError
from bayplan.language import operations as op
from bayplan.language.expr import Expr, as_node, as_nodes
from bayplan.language.operations import pure_intrinsic
from bayplan.language.promotion import cast_node, constant_integer, lossless_cast, match_types


def max(*args: Any) -> Expr:
    """The greatest of two or more values, in their common type."""
    if len(args) < 2:
        raise ValueError("max() takes at least two values")
    nodes = as_nodes(args)
    result = nodes.pop()
    while nodes:
        result = op.maximum(nodes.pop(), result)
    return Expr(result)


def min(*args: Any) -> Expr:
    """The least of two or more values, in their common type."""
    if len(args) < 2:
        raise ValueError("min() takes at least two values")
    nodes = as_nodes(args)
    result = nodes.pop()
    while nodes:
        result = op.minimum(nodes.pop(), result)
    return Expr(result)


def _limit(value: ir.Expr, limit: Any, position: str, function: str) -> ir.Expr:
    node = as_node(limit)
    cast = lossless_cast(value.type, node)
    if cast is None:
        raise TypeMismatchError(
            f"{function} keeps the type of its first argument ({value}), {value.type}, "
            f"which cannot hold the {position} argument ({node}) of type {node.type}",
            hint="use an explicit cast",
        )
    return cast


def clamp(value: Any, min_value: Any, max_value: Any) -> Expr:
    """The value, or the limit that it lies beyond; the type is that of the value."""
    e = as_node(value)
    low = _limit(e, min_value, "second", "clamp")
    high = _limit(e, max_value, "third", "clamp")
    return Expr(ir.Max(ir.Min(e, high), low))


def _promise(name: str, value: Any, min_value: Any, max_value: Any) -> Expr:
    e = as_node(value)
    limits: list[ir.Expr] = []
    open_ends = (e.type.min_value(), e.type.max_value())
    for limit, position, end in zip(
        (min_value, max_value), ("second", "third"), open_ends, strict=True
    ):
        if limit is None or (isinstance(limit, Expr) and not limit.defined()):
            limits.append(ir.Const(e.type, end))
        else:
            limits.append(_limit(e, limit, position, name))
    return Expr(pure_intrinsic(e.type, name, e, limits[0], limits[1]))


def unsafe_promise_clamped(value: Any, min_value: Any = None, max_value: Any = None) -> Expr:
    """The value, which the user promises to lie within the limits; None leaves an end open."""
    return _promise("unsafe_promise_clamped", value, min_value, max_value)


def promise_clamped(value: Any, min_value: Any = None, max_value: Any = None) -> Expr:
    """The value, which is known to lie within the limits; None leaves an end open."""
    return _promise("promise_clamped", value, min_value, max_value)


def abs_node(e: ir.Expr) -> ir.Expr:
    """The absolute value; of intN it is a uintN, so that it always fits."""
    if e.type.kind == "uint":
        return e
    if e.type.kind == "handle":
        raise TypeMismatchError(f"abs of a {e.type}")
    t = e.type.with_code("uint") if e.type.kind == "int" else e.type
    return pure_intrinsic(t, "abs", e)


def abs(value: Any) -> Expr:
    """The absolute value; of intN it is a uintN, so that it always fits."""
    return Expr(abs_node(as_node(value)))


def absd(a: Any, b: Any) -> Expr:
    """|a - b| without overflow: of intN a uintN."""
    x, y = match_types(as_node(a), as_node(b))
    if x.type.kind == "float":
        return Expr(abs_node(ir.Sub(x, y)))
    t = x.type.with_code("uint") if x.type.kind == "int" else x.type
    return Expr(pure_intrinsic(t, "absd", x, y))


def lerp(zero_value: Any, one_value: Any, weight: Any) -> Expr:
    """From `zero_value` at weight 0 to `one_value` at weight 1.

    The weight is a float in [0, 1], or an unsigned integer whose whole range spans 0 to 1.
    """
    zero, one, w = as_node(zero_value), as_node(one_value), as_node(weight)
    if constant_integer(zero) is not None:
        zero = cast_node(one.type, zero)
    if constant_integer(one) is not None:
        one = cast_node(zero.type, one)
    if zero.type is not one.type:
        raise TypeMismatchError(
            f"lerp goes between values of one type: {zero} has type {zero.type}, "
            f"{one} has type {one.type}"
        )
    if w.type.kind not in ("uint", "float"):
        raise TypeMismatchError(
            f"the weight of a lerp must be a float or an unsigned integer, "
            f"but {w} has type {w.type}"
        )
    if zero.type.kind != "float":
        if zero.type.width > 32:
            raise TypeMismatchError(f"lerp between values of type {zero.type} is not supported")
        if type(w) is ir.Const and w.type.kind == "float" and not 0.0 <= w.value <= 1.0:
            raise TypeMismatchError(
                f"the weight of a lerp between integers is {w.value}, not in the range [0.0, 1.0]"
            )
    return Expr(pure_intrinsic(zero.type, "lerp", zero, one, w))


def _round_to_zero(name: str, rounding_down: type[ir.Binary], a: Any, b: Any) -> Expr:
    x, y = match_types(as_node(a), as_node(b))
    if x.type.kind == "uint":
        return Expr(rounding_down(x, y))
    if x.type.kind != "int":
        raise TypeMismatchError(f"{name} takes integers, not {x.type}: {x}")
    return Expr(pure_intrinsic(x.type, name, x, y))


def div_round_to_zero(a: Any, b: Any) -> Expr:
    """a / b on integers, cut toward zero as in C; b must not be 0."""
    return _round_to_zero("div_round_to_zero", ir.Div, a, b)


def mod_round_to_zero(a: Any, b: Any) -> Expr:
    """The remainder that belongs to div_round_to_zero; it has the sign of a."""
    return _round_to_zero("mod_round_to_zero", ir.Mod, a, b)


def fma(a: Any, b: Any, c: Any) -> Expr:
    """a * b + c on floats, rounded once."""
    x, y, z = as_nodes((a, b, c))
    if x.type.kind != "float":
        raise TypeMismatchError(f"fma takes floats, not {x.type}: {x}")
    if not x.type is y.type is z.type:
        raise TypeMismatchError(
            f"the arguments of fma must have one type, not {x.type}, {y.type} and {z.type}"
        )
    return Expr(pure_intrinsic(x.type, "fma", x, y, z))


def logical_not(value: Any) -> Expr:
    """The contrary of a bool."""
    return Expr(op.logical_not(as_node(value)))
