"""What the language adds to `Type`: its code as an enumeration, its limits as Exprs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from bayplan.ir.exprs import Const
from bayplan.ir.types import Type
from bayplan.language.expr import Expr


class TypeCode(StrEnum):
    """The kind of a `Type`."""

    Int = "int"
    UInt = "uint"
    Float = "float"
    Handle = "handle"


def _code(self: Type) -> TypeCode:
    """The kind of the type, as an enumeration."""
    return TypeCode(self.kind)


def _min(self: Type) -> Expr:
    """The least value of one lane as a constant (minus infinity for floats)."""
    return Expr(Const(self.element_of(), self.min_value()))


def _max(self: Type) -> Expr:
    """The greatest value of one lane as a constant (infinity for floats)."""
    return Expr(Const(self.element_of(), self.max_value()))


def _is_min(self: Type, value: int | float) -> bool:
    """Whether `value` is the least value of one lane."""
    return value == self.min_value()


def _is_max(self: Type, value: int | float) -> bool:
    """Whether `value` is the greatest value of one lane."""
    return value == self.max_value()


def _same_handle_type(self: Type, other: Type) -> bool:
    """Whether both are opaque pointers, or neither is."""
    return (self.kind == "handle") == (other.kind == "handle")


def attach() -> None:
    """Give `Type` the methods that need Exprs; `ir` itself knows no Exprs."""
    methods: dict[str, Any] = {
        "code": _code,
        "min": _min,
        "max": _max,
        "is_min": _is_min,
        "is_max": _is_max,
        "same_handle_type": _same_handle_type,
    }
    for name, method in methods.items():
        setattr(Type, name, method)


attach()
