"""Values whose computation prints or ends the call."""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir import exprs as ir
from bayplan.ir.errors import TypeMismatchError
from bayplan.ir.source import user_line
from bayplan.language.expr import Expr, as_node

_LONGEST_CONDITION: Final = 200
"""Characters of a condition's text that an error shows."""


def _arguments(function: str, args: tuple[Any, ...]) -> tuple[ir.Expr, ...]:
    if not args:
        raise TypeError(f"{function}() needs a value to give back")
    return tuple([as_node(arg, strings=True) for arg in args])


def _effect(t: Any, name: str, args: tuple[ir.Expr, ...]) -> Expr:
    return Expr(ir.Call(t, name, args, ir.CallKind.INTRINSIC))


def print(*args: Any) -> Expr:
    """The first value; computing it prints all values and strings, with spaces, on one line."""
    nodes = _arguments("print", args)
    return _effect(nodes[0].type, "print", nodes)


def print_when(condition: Any, *args: Any) -> Expr:
    """As `print` where the condition holds; elsewhere just the first value."""
    nodes = _arguments("print_when", args)
    test = as_node(condition)
    if not test.type.is_bool():
        raise TypeMismatchError(f"the condition of print_when must be a bool, not {test.type}")
    return _effect(nodes[0].type, "print_when", (test, *nodes))


def require(condition: Any, value: Any, *message: Any) -> Expr:
    """The value where the condition holds; else the call ends with an error.

    The error says the values and strings of the message, else the value, and the condition.
    """
    test = as_node(condition)
    if not test.type.is_bool():
        raise TypeMismatchError(f"the condition of require must be a bool, not {test.type}")
    nodes = _arguments("require", (value, *message))
    text = str(test)
    if len(text) > _LONGEST_CONDITION:
        text = text[: _LONGEST_CONDITION - 3] + "..."
    if message:
        said = (*nodes[1:], ir.StringImm(f"(required: {text})"))
    else:
        said = (ir.StringImm(f"the requirement ({text}) does not hold for"), nodes[0])
    args = (test, nodes[0], *said)
    return Expr(ir.Call(nodes[0].type, "require", args, ir.CallKind.INTRINSIC, user_line()))
