"""Var: the name of a dimension of a Func or of a loop."""

from __future__ import annotations

from typing import Final

from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Variable
from bayplan.ir.types import INT32, Type
from bayplan.language.expr import Operators
from bayplan.language.naming import unique_letter_name
from bayplan.language.schedule import OUTERMOST

PLACEHOLDER: Final = "_"
"""Name of the Var that stands for all dimensions that are not written out."""


def implicit_index(name: str) -> int:
    """3 for "_3", -1 for names that are not those of implicit Vars."""
    if len(name) > 1 and name[0] == PLACEHOLDER and name[1:].isdigit():
        return int(name[1:])
    return -1


class Var(Operators):
    """A free variable: two Vars with the same name are the same.

    Args:
        name: its name; without one it gets a name of its own.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            name = unique_letter_name("v")
        elif not isinstance(name, str):
            raise TypeError(f"the name of a Var is a str, not {type(name).__name__}")
        elif "." in name:
            raise ScheduleError(f'"{name}" cannot name a Var: names of Vars have no dots')
        self._name = name

    @property
    def node(self) -> Variable:
        """The int32 variable that expressions hold."""
        return Variable(INT32, self._name)

    def name(self) -> str:
        """The name."""
        return self._name

    def type(self) -> Type:
        """The type of a coordinate, int32."""
        return INT32

    def same_as(self, other: Var) -> bool:
        """Whether both are the same variable."""
        return self._name == other._name

    def is_implicit(self) -> bool:
        """Whether this is one of _0, _1, ..."""
        return implicit_index(self._name) >= 0 or self.is_placeholder()

    def implicit_index(self) -> int:
        """3 for the implicit Var _3, -1 for others."""
        return implicit_index(self._name)

    def is_placeholder(self) -> bool:
        """Whether this is `_`, which stands for the dimensions that are left out."""
        return self._name == PLACEHOLDER

    @staticmethod
    def implicit(index: int) -> Var:
        """The implicit Var with this number."""
        return Var(f"_{index}")

    @staticmethod
    def outermost() -> Var:
        """The loop around all loops of a Func."""
        return Var(OUTERMOST)

    def __repr__(self) -> str:
        return f"<bayplan.Var '{self._name}'>"

    def __str__(self) -> str:
        return self._name


def vars(names: str | list[str] | tuple[str, ...]) -> tuple[Var, ...]:
    """One Var for each of the names, given as a list or in one str with spaces or commas."""
    if isinstance(names, str):
        names = names.replace(",", " ").split()
    return tuple([Var(name) for name in names])


IMPLICIT: Final = tuple([Var(f"_{i}") for i in range(10)])
"""The Vars _0 to _9."""
