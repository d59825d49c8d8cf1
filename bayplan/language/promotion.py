"""How operands of different types meet: Halide's rules, on nodes.

A Python integer takes the type of the other operand and is refused where that would change its
value. Two expressions meet in the wider type; a float wins over integers, a signed integer over
unsigned ones.
"""

from __future__ import annotations

from bayplan.ir.build import const
from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.exprs import NE, Broadcast, Call, CallKind, Cast, Const, Expr
from bayplan.ir.types import BOOL, Float, Int, Type
from bayplan.language.constant_range import fits


def constant(t: Type, value: int | float) -> Expr:
    """The constant `value` wrapped or rounded to the type `t`."""
    if t.kind == "handle":
        raise TypeMismatchError(f"there is no constant {value} of type {t}")
    return const(t, value)


def check_representable(t: Type, value: int) -> None:
    """Refuse an integer literal that would change its value in the type `t`."""
    if t.kind == "handle":
        raise TypeMismatchError(
            f"the integer {value} meets a value of type {t}: "
            "there is no arithmetic on handles"
        )
    if not t.can_represent(value):
        raise TypeMismatchError(
            f"the integer {value} does not fit {t}, the type of the other operand: "
            f"it would become {t.wrap(value)}",
            hint="cast the other operand to a wider type, or write the constant with an "
            "explicit cast",
        )


def literal(value: int, t: Type) -> Expr:
    """The integer literal `value` in the type `t` of the other operand."""
    check_representable(t, value)
    return const(t, value)


def cast_node(t: Type, e: Expr) -> Expr:
    """The value converted to `t`; constants are converted at once."""
    if e.type is t:
        return e
    if (t.kind == "handle") != (e.type.kind == "handle"):
        raise TypeMismatchError(
            f"cannot cast a value of type {e.type} to {t}",
            hint="handles are only reinterpreted to and from uint64",
        )
    if t.width == 1:
        return _cast_to_bool(e)
    if type(e) is Const and (t.kind == "float" or abs(e.value) < 1 << 63):
        return const(t, e.value)
    if t.lane_count > 1 and e.type.lane_count == 1:
        return Broadcast(cast_node(t.element_of(), e), t.lane_count)
    if type(e) is Broadcast and e.lanes == t.lane_count:
        return Broadcast(cast_node(t.element_of(), e.value), t.lane_count)
    return Cast(t, e)


def _cast_to_bool(e: Expr) -> Expr:
    """The lowest bit of the value: a bool is an integer of one bit, and narrow integers wrap."""
    if e.type.kind == "float":
        e = cast_node(Int(32, e.type.lane_count), e)
    if type(e) is Const:
        return const(BOOL, int(e.value) & 1)
    one = const(e.type, 1)
    low = Call(e.type, "bitwise_and", (e, one), CallKind.PURE_INTRINSIC)
    return NE(low, const(e.type, 0))


def constant_integer(e: Expr) -> int | None:
    """The value of a signed integer constant, the only kind that counts as a literal."""
    if type(e) is Const and e.type.kind == "int":
        return int(e.value)
    return None


def match_lanes(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both with the same number of lanes: a scalar is repeated."""
    x, y = a.type.lane_count, b.type.lane_count
    if x == y:
        return a, b
    if x == 1:
        return Broadcast(a, y), b
    if y == 1:
        return a, Broadcast(b, x)
    raise TypeMismatchError(f"operands have {x} and {y} lanes")


def match_bits(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both as wide as the wider one; each keeps its own kind."""
    if a.type.width < b.type.width:
        return cast_node(a.type.with_bits(b.type.width), a), b
    if b.type.width < a.type.width:
        return a, cast_node(b.type.with_bits(a.type.width), b)
    return a, b


def common_type(a: Type, b: Type) -> Type:
    """The type in which values of two types of the same lanes meet."""
    if a is b:
        return a
    if a.kind == "handle" or b.kind == "handle":
        raise TypeMismatchError(f"there is no arithmetic on handles: operands are {a} and {b}")
    if a.kind == "float" or b.kind == "float":
        if a.kind != "float":
            return b
        if b.kind != "float":
            return a
        return a if a.width > b.width else b
    if a.kind == "uint" and b.kind == "uint":
        return a if a.width > b.width else b
    # A bool that meets a signed integer counts as an integer of one bit.
    return Int(max(a.width, b.width), a.lane_count)


def match_types(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both operands of an arithmetic operation or comparison in their common type."""
    if a.type is b.type:
        return a, b
    a, b = match_lanes(a, b)
    t = common_type(a.type, b.type)
    return cast_node(t, a), cast_node(t, b)


def match_types_bitwise(a: Expr, b: Expr, operation: str) -> tuple[Expr, Expr]:
    """Both operands of a bitwise operation: integers of the same signedness, the wider width."""
    for position, e in (("first", a), ("second", b)):
        if e.type.kind not in ("int", "uint"):
            raise TypeMismatchError(
                f"the {position} argument to {operation} must be an integer, not {e.type}"
            )
    if a.type.kind != b.type.kind:
        raise TypeMismatchError(
            f"{operation} takes two signed or two unsigned integers, "
            f"not {a.type} and {b.type}: {a}, {b}"
        )
    a, b = match_lanes(a, b)
    return match_bits(a, b)


def lossless_cast(t: Type, e: Expr) -> Expr | None:
    """The value in the type `t` if that surely keeps it, else None."""
    if e.type is t:
        return e
    # As in Halide, float16 takes over constants only.
    half_of_integer = t.kind == "float" and t.width == 16 and e.type.kind != "float"
    if t.can_represent(e.type) and not half_of_integer:
        return cast_node(t, e)
    if type(e) is Cast and e.type.can_represent(e.value.type):
        return lossless_cast(t, e.value)
    if type(e) is Broadcast:
        value = lossless_cast(t.element_of(), e.value)
        return None if value is None else Broadcast(value, e.lanes)
    if type(e) is Const and t.kind != "handle" and t.can_represent(e.value):
        if t.kind != "float" and not float(e.value).is_integer():
            return None
        return const(t, e.value)
    return cast_node(t, e) if fits(t, e) else None


def as_float(e: Expr) -> Expr:
    """The operand of a function on floats: other types become float32."""
    if e.type.kind == "float":
        return e
    return cast_node(Float(32, e.type.lane_count), e)
