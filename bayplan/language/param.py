"""Param: a scalar that each call of a program is given."""

from __future__ import annotations

from typing import Any

from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.exprs import Const, Variable
from bayplan.ir.source import user_line
from bayplan.ir.types import Type
from bayplan.language import changes
from bayplan.language.expr import Expr, Operators, as_node
from bayplan.language.naming import unique_letter_name
from bayplan.language.parameter import Parameter
from bayplan.language.promotion import cast_node


def exact_value(t: Type, value: Any, name: str) -> int | float:
    """A Python number as a value of the type; refused where an integer would change."""
    if t.kind == "float":
        return t.wrap(float(value))
    if t.kind == "handle":
        return int(value)
    if not isinstance(value, bool | int | float) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or not t.can_represent(value):
        raise TypeMismatchError(
            f"parameter {name}: the value {value!r} does not fit {t}"
        )
    return int(value)


class Param(Operators):
    """A scalar parameter, usable in expressions.

    Args:
        type: its type.
        name: its name; without one it gets a name of its own.
        value: its first value.

    `Param(Int(32), 5)` and `Param(Int(32), "n", 5)` give a value too.
    """

    __slots__ = ("_parameter",)

    def __init__(self, type: Type, *args: Any, **kwargs: Any) -> None:
        name, value = _name_and_value(args, kwargs)
        where = user_line()
        stem = unique_letter_name("p") if name is None else name
        self._parameter = Parameter(stem, type, False, 0, where)
        if value is not None:
            self.set(value)

    @property
    def node(self) -> Variable:
        """The variable that expressions hold."""
        p = self._parameter
        return Variable(p.type, p.name, p)

    def parameter(self) -> Parameter:
        """The data of the parameter."""
        return self._parameter

    def name(self) -> str:
        """The name."""
        return self._parameter.name

    def type(self) -> Type:
        """The type of the value."""
        return self._parameter.type

    def set(self, value: Any) -> None:
        """Set the value of the following calls."""
        p = self._parameter
        p.value = exact_value(p.type, value, p.name)

    def get(self) -> int | float | None:
        """The value it was set to, None before that."""
        return self._parameter.value

    def set_estimate(self, value: Any) -> None:
        """Say which value is usual."""
        p = self._parameter
        p.estimate = Const(p.type, exact_value(p.type, value, p.name))

    def _limit(self, value: Any) -> Any:
        return None if value is None else cast_node(self._parameter.type, as_node(value))

    def set_range(self, min_value: Any, max_value: Any) -> None:
        """Promise that each value lies in [min_value, max_value]; checked by each call."""
        self.set_min_value(min_value)
        self.set_max_value(max_value)

    def set_min_value(self, value: Any) -> None:
        """Promise that no value is less."""
        changes.bump()
        self._parameter.min_value = self._limit(value)

    def set_max_value(self, value: Any) -> None:
        """Promise that no value is greater."""
        changes.bump()
        self._parameter.max_value = self._limit(value)

    def min_value(self) -> Expr:
        """The promised least value, or an undefined Expr."""
        limit = self._parameter.min_value
        return Expr() if limit is None else Expr(limit)

    def max_value(self) -> Expr:
        """The promised greatest value, or an undefined Expr."""
        limit = self._parameter.max_value
        return Expr() if limit is None else Expr(limit)

    def __repr__(self) -> str:
        return f"<bayplan.Param '{self._parameter.name}' type {self._parameter.type}>"


def _name_and_value(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str | None, Any]:
    name: str | None = kwargs.pop("name", None)
    value: Any = kwargs.pop("value", None)
    if kwargs:
        raise TypeError(f"Param() got an unexpected keyword argument {next(iter(kwargs))!r}")
    rest = list(args)
    if rest and isinstance(rest[0], str):
        name = rest.pop(0)
    if rest:
        value = rest.pop(0)
    if rest:
        raise TypeError("Param() takes a type, a name and a value")
    return name or None, value
