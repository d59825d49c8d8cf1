"""Replaces calls of Funcs that are not scheduled by their values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.node import Node
from bayplan.ir.walk import Rewriter, substitute
from bayplan.language.function import Function
from bayplan.lower.find_calls import CallIndex
from bayplan.lower.qualify import qualify

N = TypeVar("N", bound=Node)


class Inliner(Rewriter):
    """Puts the values of Funcs in the place of calls of them.

    Arguments are substituted for the Func's variables. Equal nodes are one object, so what two
    calls have in common stays shared and no lets are needed. What was found is remembered by
    node.
    """

    def __init__(self, functions: Iterable[Function], calls: CallIndex) -> None:
        super().__init__()
        self._functions = {f.name: f for f in functions}
        self._names = frozenset(self._functions)
        self._calls = calls
        self._values: dict[tuple[str, int], Expr] = {}

    def __call__(self, node: N) -> N:
        # Most of a statement does not call the Funcs in question.
        if self._calls(node).isdisjoint(self._names):
            return node
        return super().__call__(node)

    def rewrite_Call(self, node: Call) -> Any:
        call = self.rebuild(node)
        if call.kind is not CallKind.FUNC or call.name not in self._functions:
            return call
        # One level at a time: equal calls that arise in different places are expanded once.
        found = self._memo.get(call)
        if found is None:
            function = self._functions[call.name]
            args = zip([f"{function.name}.{a}" for a in function.args], call.args, strict=True)
            found = self(substitute(dict(args), self._value(function, call.value_index)))
            self._memo[call] = found
        return found

    def _value(self, function: Function, index: int) -> Expr:
        """The value of a Func with its variables named for it alone."""
        key = (function.name, index)
        value = self._values.get(key)
        if value is None:
            assert function.init is not None
            value = qualify(function.name + ".", function.init.values[index])
            self._values[key] = value
        return value


def can_be_inlined(function: Function) -> bool:
    """Whether the Func is a plain value of its coordinates."""
    if function.init is None or function.updates or function.init.specializations:
        return False
    return function.extern() is None


def inline_functions(node: N, functions: Iterable[Function], calls: CallIndex) -> N:
    """`node` without calls of the Funcs, for schedule_functions and bounds inference."""
    return Inliner(functions, calls)(node)
