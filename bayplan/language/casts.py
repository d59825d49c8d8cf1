"""Conversions between types, under their long and their short names."""

from __future__ import annotations

from typing import Any

from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.exprs import Const
from bayplan.ir.types import Float, Int, Type, UInt
from bayplan.language.expr import Expr, as_node
from bayplan.language.operations import pure_intrinsic
from bayplan.language.promotion import cast_node


def _converted(t: Type, value: Any) -> Expr:
    """A short cast: a Python number becomes the constant at once, wrapped to the type."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Expr(Const(t, t.wrap(value)))
    return cast(t.with_lanes(as_node(value).type.lane_count), value)


def cast(t: Type, value: Any) -> Expr:
    """The value converted to the type `t`: integers wrap, floats are cut toward zero."""
    return Expr(cast_node(t, as_node(value)))


def saturating_cast(t: Type, value: Any) -> Expr:
    """The value converted to the type `t`, or the nearest value the type has."""
    e = as_node(value)
    if t.lane_count == 1:
        t = t.with_lanes(e.type.lane_count)
    if t.kind == "handle" or e.type.kind == "handle":
        raise TypeMismatchError(f"cannot cast a value of type {e.type} to {t}")
    return Expr(pure_intrinsic(t, "saturating_cast", e))


def reinterpret(t: Type, value: Any) -> Expr:
    """The bits of the value taken as the type `t` of the same size."""
    e = as_node(value)
    before, after = e.type.width * e.type.lane_count, t.width * t.lane_count
    if before != after:
        raise TypeMismatchError(
            f"reinterpret takes the bits of a {e.type}, {before} of them, as a {t}, "
            f"which has {after}"
        )
    if e.type is t:
        return Expr(e)
    return Expr(pure_intrinsic(t, "reinterpret", e))


def i8(value: Any) -> Expr:
    """The value as int8."""
    return _converted(Int(8), value)


def i16(value: Any) -> Expr:
    """The value as int16."""
    return _converted(Int(16), value)


def i32(value: Any) -> Expr:
    """The value as int32."""
    return _converted(Int(32), value)


def i64(value: Any) -> Expr:
    """The value as int64."""
    return _converted(Int(64), value)


def u8(value: Any) -> Expr:
    """The value as uint8."""
    return _converted(UInt(8), value)


def u16(value: Any) -> Expr:
    """The value as uint16."""
    return _converted(UInt(16), value)


def u32(value: Any) -> Expr:
    """The value as uint32."""
    return _converted(UInt(32), value)


def u64(value: Any) -> Expr:
    """The value as uint64."""
    return _converted(UInt(64), value)


def f16(value: Any) -> Expr:
    """The value as float16."""
    return _converted(Float(16), value)


def f32(value: Any) -> Expr:
    """The value as float32."""
    return _converted(Float(32), value)


def f64(value: Any) -> Expr:
    """The value as float64."""
    return _converted(Float(64), value)


def i8_sat(value: Any) -> Expr:
    """The value clamped to the range of int8, as int8."""
    return saturating_cast(Int(8), value)


def i16_sat(value: Any) -> Expr:
    """The value clamped to the range of int16, as int16."""
    return saturating_cast(Int(16), value)


def i32_sat(value: Any) -> Expr:
    """The value clamped to the range of int32, as int32."""
    return saturating_cast(Int(32), value)


def i64_sat(value: Any) -> Expr:
    """The value clamped to the range of int64, as int64."""
    return saturating_cast(Int(64), value)


def u8_sat(value: Any) -> Expr:
    """The value clamped to the range of uint8, as uint8."""
    return saturating_cast(UInt(8), value)


def u16_sat(value: Any) -> Expr:
    """The value clamped to the range of uint16, as uint16."""
    return saturating_cast(UInt(16), value)


def u32_sat(value: Any) -> Expr:
    """The value clamped to the range of uint32, as uint32."""
    return saturating_cast(UInt(32), value)


def u64_sat(value: Any) -> Expr:
    """The value clamped to the range of uint64, as uint64."""
    return saturating_cast(UInt(64), value)
