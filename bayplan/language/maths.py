"""Functions on floats. Arguments of other types become float32; float16 and float64 stay."""

from __future__ import annotations

from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.types import BOOL, Float
from bayplan.language import operations as op
from bayplan.language.expr import Expr, as_node
from bayplan.language.operations import pure_extern
from bayplan.language.promotion import as_float, cast_node, constant_integer


def _unary(name: str, x: Any) -> Expr:
    e = as_float(as_node(x))
    return Expr(pure_extern(e.type, name, e))


def sin(x: Any) -> Expr:
    """The sine of x radians."""
    return _unary("sin", x)


def asin(x: Any) -> Expr:
    """The angle in radians whose sine is x."""
    return _unary("asin", x)


def cos(x: Any) -> Expr:
    """The cosine of x radians."""
    return _unary("cos", x)


def acos(x: Any) -> Expr:
    """The angle in radians whose cosine is x."""
    return _unary("acos", x)


def tan(x: Any) -> Expr:
    """The tangent of x radians."""
    return _unary("tan", x)


def atan(x: Any) -> Expr:
    """The angle in radians whose tangent is x."""
    return _unary("atan", x)


def sinh(x: Any) -> Expr:
    """The hyperbolic sine."""
    return _unary("sinh", x)


def asinh(x: Any) -> Expr:
    """The inverse of the hyperbolic sine."""
    return _unary("asinh", x)


def cosh(x: Any) -> Expr:
    """The hyperbolic cosine."""
    return _unary("cosh", x)


def acosh(x: Any) -> Expr:
    """The inverse of the hyperbolic cosine."""
    return _unary("acosh", x)


def tanh(x: Any) -> Expr:
    """The hyperbolic tangent."""
    return _unary("tanh", x)


def atanh(x: Any) -> Expr:
    """The inverse of the hyperbolic tangent."""
    return _unary("atanh", x)


def sqrt(x: Any) -> Expr:
    """The square root."""
    return _unary("sqrt", x)


def exp(x: Any) -> Expr:
    """e to the power of x."""
    return _unary("exp", x)


def log(x: Any) -> Expr:
    """The natural logarithm."""
    return _unary("log", x)


def floor(x: Any) -> Expr:
    """x rounded down, still a float."""
    return _unary("floor", x)


def ceil(x: Any) -> Expr:
    """x rounded up, still a float."""
    return _unary("ceil", x)


def round(x: Any) -> Expr:
    """x rounded to nearest, ties to even, still a float."""
    return _unary("round", x)


def trunc(x: Any) -> Expr:
    """x cut toward zero, still a float."""
    return _unary("trunc", x)


def fract(x: Any) -> Expr:
    """What trunc cuts off, with the sign of x."""
    e = as_node(x)
    return Expr(op.sub(e, trunc(x).node))


def atan2(y: Any, x: Any) -> Expr:
    """The angle in radians of the point (x, y), in the type of y."""
    e = as_float(as_node(y))
    return Expr(pure_extern(e.type, "atan2", e, cast_node(e.type, as_node(x))))


def hypot(x: Any, y: Any) -> Expr:
    """The square root of x * x + y * y."""
    a, b = as_node(x), as_node(y)
    return _unary("sqrt", op.add(op.mul(a, a), op.mul(b, b)))


def pow(x: Any, y: Any) -> Expr:
    """x to the power of y: products where y is an integer constant, else a float in x's type."""
    return Expr(op.power(as_node(x), as_node(y)))


def _only_float32(name: str, x: Any) -> ir.Expr:
    e = as_node(x)
    if e.type.kind != "float" or e.type.width != 32:
        raise TypeMismatchError(f"{name} only works for float32, not {e.type}: {e}")
    return e


def erf(x: Any) -> Expr:
    """The error function of a float32."""
    e = _only_float32("erf", x)
    return Expr(pure_extern(e.type, "erf", e))


def fast_exp(x: Any) -> Expr:
    """exp of a float32, quicker and a little less exact."""
    e = _only_float32("fast_exp", x)
    return Expr(pure_extern(e.type, "fast_exp", e))


def fast_log(x: Any) -> Expr:
    """log of a positive float32, quicker and a little less exact."""
    e = _only_float32("fast_log", x)
    return Expr(pure_extern(e.type, "fast_log", e))


def fast_sin(x: Any) -> Expr:
    """sin as a float32, quicker and a little less exact."""
    e = as_float(as_node(x))
    return Expr(pure_extern(e.type, "fast_sin", e))


def fast_cos(x: Any) -> Expr:
    """cos as a float32, quicker and a little less exact."""
    e = as_float(as_node(x))
    return Expr(pure_extern(e.type, "fast_cos", e))


def fast_pow(x: Any, y: Any) -> Expr:
    """x to the power of y, quicker and a little less exact; 0 where x is 0.

    An integer constant y gives products in x's own type, else the result is a float32.
    """
    a, b = as_node(x), as_node(y)
    exponent = constant_integer(b)
    if exponent is not None:
        return Expr(op.integer_power(a, exponent))
    t = Float(32, a.type.lane_count)
    return Expr(pure_extern(t, "fast_pow", cast_node(t, a), cast_node(t, b)))


def _fast_reciprocal(name: str, x: Any) -> Expr:
    e = as_node(x)
    if e.type.kind != "float" or e.type.width > 32:
        raise TypeMismatchError(f"{name} takes a float16 or float32, not {e.type}: {e}")
    return Expr(pure_extern(e.type, name, e))


def fast_inverse(x: Any) -> Expr:
    """1 / x of a float16 or float32, quicker and a little less exact."""
    return _fast_reciprocal("fast_inverse", x)


def fast_inverse_sqrt(x: Any) -> Expr:
    """1 / sqrt(x) of a float16 or float32, quicker and a little less exact."""
    return _fast_reciprocal("fast_inverse_sqrt", x)


def _classify(name: str, x: Any) -> Expr:
    e = as_node(x)
    if e.type.kind != "float":
        raise TypeMismatchError(f"{name} only works for floats, not {e.type}: {e}")
    return Expr(pure_extern(BOOL.with_lanes(e.type.lane_count), name, e))


def is_nan(x: Any) -> Expr:
    """Whether a float is not a number."""
    return _classify("is_nan", x)


def is_inf(x: Any) -> Expr:
    """Whether a float is one of the infinities."""
    return _classify("is_inf", x)


def is_finite(x: Any) -> Expr:
    """Whether a float is neither an infinity nor not a number."""
    return _classify("is_finite", x)
