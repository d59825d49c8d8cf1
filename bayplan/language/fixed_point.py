"""Fixed-point arithmetic: widening, saturating, halving and rounding operations on integers."""

from __future__ import annotations

from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.build import const
from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.types import Type
from bayplan.language.expr import Expr, as_node
from bayplan.language.operations import pure_intrinsic
from bayplan.language.promotion import (
    check_representable,
    lossless_cast,
    match_bits,
    match_lanes,
    match_types,
)


def _widened(t: Type, name: str) -> Type:
    if t.kind == "handle" or t.width * 2 > 64 or t.width == 1:
        raise TypeMismatchError(f"{name}: there is no type of twice the width of {t}")
    return t.widen()


def _widen_right(name: str, a: Any, b: Any) -> Expr:
    x, y = match_lanes(as_node(a), as_node(b))
    if not (x.type.is_int_or_uint() and y.type.is_int_or_uint()):
        raise TypeMismatchError(f"{name} takes integers, not {x.type} and {y.type}")
    wide = _widened(y.type, name)
    if wide is not x.type:
        raise TypeMismatchError(
            f"{name} takes a first argument of twice the width of the second, "
            f"not {x.type} and {y.type}"
        )
    return Expr(pure_intrinsic(wide, name, x, y))


def widen_right_add(a: Any, b: Any) -> Expr:
    """a + b, where a has twice the width of b."""
    return _widen_right("widen_right_add", a, b)


def widen_right_sub(a: Any, b: Any) -> Expr:
    """a - b, where a has twice the width of b."""
    return _widen_right("widen_right_sub", a, b)


def widen_right_mul(a: Any, b: Any) -> Expr:
    """a * b, where a has twice the width of b."""
    return _widen_right("widen_right_mul", a, b)


def widening_add(a: Any, b: Any) -> Expr:
    """a + b in twice the width."""
    x, y = match_types(as_node(a), as_node(b))
    return Expr(pure_intrinsic(_widened(x.type, "widening_add"), "widening_add", x, y))


def widening_sub(a: Any, b: Any) -> Expr:
    """a - b in twice the width, signed."""
    x, y = match_types(as_node(a), as_node(b))
    t = _widened(x.type, "widening_sub")
    if t.kind == "uint":
        t = t.with_code("int")
    return Expr(pure_intrinsic(t, "widening_sub", x, y))


def widening_mul(a: Any, b: Any) -> Expr:
    """a * b in twice the width; signed where one of them is."""
    x, y = as_node(a), as_node(b)
    if x.type.kind == "float" or y.type.kind == "float":
        t = x.type if x.type.kind == "float" else y.type
        exact = [e if e.type.kind == "float" else lossless_cast(t, e) for e in (x, y)]
        if exact[0] is None or exact[1] is None:
            raise TypeMismatchError(
                f"widening_mul cannot promote losslessly between {x.type} and {y.type}",
                hint="use an explicit cast",
            )
        x, y = exact[0], exact[1]
    x, y = match_lanes(*match_bits(x, y))
    t = _widened(x.type, "widening_mul")
    if t.kind == "uint" and y.type.kind == "int":
        t = t.with_code("int")
    return Expr(pure_intrinsic(t, "widening_mul", x, y))


def _same_type(name: str, a: Any, b: Any) -> Expr:
    x, y = match_types(as_node(a), as_node(b))
    if x.type.kind == "handle":
        raise TypeMismatchError(f"{name} of a {x.type}")
    return Expr(pure_intrinsic(x.type, name, x, y))


def saturating_add(a: Any, b: Any) -> Expr:
    """a + b, or the nearest value the type has."""
    return _same_type("saturating_add", a, b)


def saturating_sub(a: Any, b: Any) -> Expr:
    """a - b, or the nearest value the type has."""
    return _same_type("saturating_sub", a, b)


def halving_add(a: Any, b: Any) -> Expr:
    """(a + b) / 2 rounded down, without overflow."""
    return _same_type("halving_add", a, b)


def rounding_halving_add(a: Any, b: Any) -> Expr:
    """(a + b + 1) / 2 rounded down, without overflow."""
    return _same_type("rounding_halving_add", a, b)


def halving_sub(a: Any, b: Any) -> Expr:
    """(a - b) / 2 rounded down, without overflow."""
    return _same_type("halving_sub", a, b)


def _amount(a: ir.Expr, bits: int) -> ir.Expr:
    t = a.type.with_code("uint")
    check_representable(t, bits)
    return const(t, bits)


def _shift(name: str, opposite: str, widens: bool, a: Any, b: Any) -> Expr:
    """A shift; by a negative Python integer it is the opposite one."""
    x = as_node(a)
    if not x.type.is_int_or_uint():
        raise TypeMismatchError(f"{name} takes integers, not {x.type}: {x}")
    if isinstance(b, int):
        if b < 0:
            name, b = opposite, -b
        y = _amount(x, b)
    else:
        y = as_node(b)
        if not y.type.is_int_or_uint():
            raise TypeMismatchError(f"{name} takes integers, not {y.type}: {y}")
    x, y = match_bits(*match_lanes(x, y))
    return Expr(pure_intrinsic(_widened(x.type, name) if widens else x.type, name, x, y))


def widening_shift_left(a: Any, b: Any) -> Expr:
    """a << b in twice the width."""
    return _shift("widening_shift_left", "widening_shift_right", True, a, b)


def widening_shift_right(a: Any, b: Any) -> Expr:
    """a >> b in twice the width."""
    return _shift("widening_shift_right", "widening_shift_left", True, a, b)


def rounding_shift_left(a: Any, b: Any) -> Expr:
    """a << b; by a negative b, a right shift that rounds."""
    return _shift("rounding_shift_left", "rounding_shift_right", False, a, b)


def rounding_shift_right(a: Any, b: Any) -> Expr:
    """a >> b rounded to nearest, ties up; by a negative b, a left shift."""
    return _shift("rounding_shift_right", "rounding_shift_left", False, a, b)


def _mul_shift_right(name: str, a: Any, b: Any, shift: Any) -> Expr:
    x, y = as_node(a), as_node(b)
    q = _amount(x, shift) if isinstance(shift, int) else as_node(shift)
    if q.type.kind != "uint":
        raise TypeMismatchError(f"the shift of {name} must be unsigned, not {q.type}: {q}")
    x, y = match_types(x, y)
    x, q = match_bits(*match_lanes(x, q))
    # The shift may have widened x.
    x, y = match_types(x, y)
    return Expr(pure_intrinsic(x.type, name, x, y, q))


def mul_shift_right(a: Any, b: Any, shift: Any) -> Expr:
    """(a * b) >> shift computed without overflow, or the nearest value the type has."""
    return _mul_shift_right("mul_shift_right", a, b, shift)


def rounding_mul_shift_right(a: Any, b: Any, shift: Any) -> Expr:
    """As mul_shift_right, rounded to nearest."""
    return _mul_shift_right("rounding_mul_shift_right", a, b, shift)
