"""Arithmetic, comparisons and bit operations on nodes, with the language's promotions."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.ir import exprs as ir
from bayplan.ir.build import const
from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.types import Float, Type
from bayplan.language.promotion import (
    as_float,
    cast_node,
    check_representable,
    constant_integer,
    match_bits,
    match_lanes,
    match_types,
    match_types_bitwise,
)

Shift = Callable[[ir.Expr, ir.Expr], ir.Expr]


def pure_intrinsic(t: Type, name: str, *args: ir.Expr) -> ir.Call:
    """A call of the pure intrinsic `name` that gives a `t`."""
    return ir.Call(t, name, args, ir.CallKind.PURE_INTRINSIC)


def pure_extern(t: Type, name: str, *args: ir.Expr) -> ir.Call:
    """A call of the function `name` of the maths library that gives a `t`."""
    return ir.Call(t, name, args, ir.CallKind.PURE_EXTERN)


def add(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a + b."""
    return ir.Add(*match_types(a, b))


def sub(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a - b."""
    return ir.Sub(*match_types(a, b))


def mul(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a * b."""
    return ir.Mul(*match_types(a, b))


def div(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a / b, which rounds down on integers."""
    return ir.Div(*match_types(a, b))


def floor_div(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a // b: a / b rounded down, also on floats."""
    quotient = div(a, b)
    if quotient.type.kind == "float":
        return pure_extern(quotient.type, "floor", quotient)
    return quotient


def mod(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a % b, never negative on integers."""
    return ir.Mod(*match_types(a, b))


def lt(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a < b."""
    return ir.LT(*match_types(a, b))


def le(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a <= b."""
    return ir.LE(*match_types(a, b))


def gt(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a > b."""
    return ir.GT(*match_types(a, b))


def ge(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a >= b."""
    return ir.GE(*match_types(a, b))


def eq(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a == b."""
    return ir.EQ(*match_types(a, b))


def ne(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a != b."""
    return ir.NE(*match_types(a, b))


def minimum(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The lesser of a and b."""
    return ir.Min(*match_types(a, b))


def maximum(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """The greater of a and b."""
    return ir.Max(*match_types(a, b))


def negate(a: ir.Expr) -> ir.Expr:
    """-a."""
    return ir.Sub(const(a.type, 0), a)


def logical_not(a: ir.Expr) -> ir.Expr:
    """The contrary of a bool."""
    if not a.type.is_bool():
        raise TypeMismatchError(f"logical_not takes a bool, not {a.type}: {a}")
    return ir.Not(a)


def bitwise_and(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a & b; on bools, both hold."""
    a, b = match_types_bitwise(a, b, "bitwise and")
    return ir.And(a, b) if a.type.is_bool() else pure_intrinsic(a.type, "bitwise_and", a, b)


def bitwise_or(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a | b; on bools, either holds."""
    a, b = match_types_bitwise(a, b, "bitwise or")
    return ir.Or(a, b) if a.type.is_bool() else pure_intrinsic(a.type, "bitwise_or", a, b)


def bitwise_xor(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a ^ b; on bools, they differ."""
    a, b = match_types_bitwise(a, b, "bitwise xor")
    return ir.NE(a, b) if a.type.is_bool() else pure_intrinsic(a.type, "bitwise_xor", a, b)


def bitwise_not(a: ir.Expr) -> ir.Expr:
    """~a; on bools, the contrary."""
    if a.type.kind not in ("int", "uint"):
        raise TypeMismatchError(f"bitwise not takes an integer, not {a.type}")
    return ir.Not(a) if a.type.is_bool() else pure_intrinsic(a.type, "bitwise_not", a)


def _shift(name: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    for e in (a, b):
        if e.type.kind not in ("int", "uint"):
            raise TypeMismatchError(f"a shift takes integers, not {e.type}: {e}")
    a, b = match_bits(*match_lanes(a, b))
    return pure_intrinsic(a.type, name, a, b)


def shift_left(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a << b; by a negative b to the right."""
    return _shift("shift_left", a, b)


def shift_right(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a >> b, keeping the sign; by a negative b to the left."""
    return _shift("shift_right", a, b)


def shift_by_literal(build: Shift, opposite: Shift, a: ir.Expr, bits: int) -> ir.Expr:
    """A shift by a Python integer: by a negative one it is the opposite shift."""
    if a.type.kind not in ("int", "uint"):
        raise TypeMismatchError(f"a shift takes integers, not {a.type}: {a}")
    t = a.type.with_code("uint")
    check_representable(t, abs(bits))
    return build(a, const(t, bits)) if bits >= 0 else opposite(a, const(t, -bits))


def integer_power(a: ir.Expr, exponent: int) -> ir.Expr:
    """a to a constant power as products (their number grows with the logarithm)."""
    if exponent == 0:
        return const(a.type, 1)
    if exponent == 1:
        return a
    if exponent < 0:
        return ir.Div(const(a.type, 1), integer_power(a, -exponent))
    half = integer_power(a, exponent >> 1)
    square = ir.Mul(half, half)
    return ir.Mul(square, a) if exponent & 1 else square


def power(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """a ** b: products for an integer constant b, else a float function of a's width."""
    exponent = constant_integer(b)
    if exponent is not None:
        return integer_power(a, exponent)
    a = as_float(a)
    t = Float(a.type.width, a.type.lane_count)
    return pure_extern(t, "pow", a, cast_node(t, b))
