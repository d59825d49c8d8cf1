"""Refuses programs in which one name means two things: loads and stores go by names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan.ir.errors import DefinitionError
from bayplan.ir.stmts import Realize, Stmt
from bayplan.ir.walk import iterate
from bayplan.lower.context import Lowering
from bayplan.lower.program import Argument

_TITLES: Final = {
    "scalar": "the parameter",
    "input_buffer": "the input buffer",
    "output_buffer": "the output",
}


def check_names(stmt: Stmt, arguments: Sequence[Argument], lowering: Lowering) -> None:
    """Raises an error where arguments have one name, or one with a Func that has storage.

    Order: before flattening, while storage has the names of Funcs.
    """
    known: dict[str, Argument] = {}
    for argument in arguments:
        other = known.setdefault(argument.name, argument)
        if other is not argument:
            raise DefinitionError(
                f"{_TITLES[other.kind]} {other.name} and {_TITLES[argument.kind]} {argument.name} "
                "have the same name",
                argument.where,
                "give one of them another name",
            )
    for node in iterate(stmt):
        if type(node) is Realize and node.name in known:
            argument = known[node.name]
            raise DefinitionError(
                f"{_TITLES[argument.kind]} {argument.name} and the Func {node.name} have the same "
                "name",
                lowering.where(node.name) or argument.where,
                "give one of them another name",
            )
