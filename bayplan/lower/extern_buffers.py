"""The buffers that external functions are given, and the Funcs that must be stored as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bayplan.ir.build import add, int32, intrinsic, sub
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.types import Handle
from bayplan.language.extern_stage import READ
from bayplan.language.function import Function
from bayplan.lower.context import Lowering

Range = tuple[Expr, Expr]
"""Least and greatest coordinate in a dimension."""


def is_buffer(argument: Expr) -> bool:
    """Whether an argument of an external function is a buffer."""
    return type(argument) is Call and argument.name == READ


def element_of(argument: Expr) -> Call:
    """Some element of the buffer that an argument is."""
    assert type(argument) is Call
    element = argument.args[0]
    assert type(element) is Call
    return element


def input_stem(function: Function, argument: int) -> str:
    """What the names of the region begin with that a function needs of a buffer argument."""
    return f"{function.name}.in{argument}"


def buffer_arguments(function: Function) -> Iterator[tuple[int, Call]]:
    """Number and element of each buffer that the function computing a Func is given."""
    call = function.extern()
    if call is None:
        return
    for i, argument in enumerate(call.args):
        if is_buffer(argument):
            yield i, element_of(argument)


def funcs_given_to_externs(functions: Iterable[Function]) -> set[str]:
    """Names of the Funcs that external functions compute or are given.

    Their storage stays plain: a C function knows nothing of windows and rings.
    """
    found: set[str] = set()
    for function in functions:
        if function.extern() is None:
            continue
        found.add(function.name)
        for _, element in buffer_arguments(function):
            if element.kind is CallKind.FUNC:
                found.add(element.name)
    return found


def plain_storage(lowering: Lowering) -> set[str]:
    """As `funcs_given_to_externs`, of all Funcs of a pipeline."""
    return funcs_given_to_externs(lowering.env.values())


def buffer_over(kind: str, element: Call, region: Sequence[Range]) -> Call:
    """A buffer argument of the intrinsic `kind` that begins where the region does.

    Strides are filled in by flatten_storage.
    """
    corner = Call(
        element.type,
        element.name,
        tuple([low for low, _ in region]),
        element.kind,
        element.target,
        element.value_index,
    )
    fields: list[Expr] = []
    for low, high in region:
        fields += [low, add(sub(high, low), 1), int32(0)]
    return intrinsic(Handle(), kind, corner, *fields)
