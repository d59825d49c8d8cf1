"""Which Funcs are called where: the facts that ordering, scheduling and inlining ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.ir.build import block, nothing
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.node import Node
from bayplan.ir.stmts import Block, Provide, Stmt
from bayplan.ir.walk import iterate
from bayplan.language.function import Definition, Function

_NO_NAMES: frozenset[str] = frozenset()


class CallIndex:
    """Answers which Funcs a node calls, for passes that look only where a Func is used.

    Answers are remembered by node for as long as the index lives, so asking again after a small
    change costs only the nodes that changed.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Node, frozenset[str]] = {}

    def __call__(self, node: Node) -> frozenset[str]:
        """Names of the Funcs that are called in the node."""
        known = self._known.get(node)
        if known is not None:
            return known
        result = _NO_NAMES
        for child in node.children():
            names = self(child)
            if names and not names <= result:
                result = result | names if result else names
        if type(node) is Call and node.kind is CallKind.FUNC and node.name not in result:
            result = result | {node.name}
        self._known[node] = result
        return result


class TouchIndex(CallIndex):
    """As CallIndex, but of Funcs that are called or written."""

    __slots__ = ()

    def __call__(self, node: Node) -> frozenset[str]:
        """Names of the Funcs that are called or written in the node."""
        known = self._known.get(node)
        if known is None:
            known = super().__call__(node)
            if type(node) is Provide:
                known = known | {node.name}
                self._known[node] = known
        return known


def trim_to(name: str, stmt: Stmt, touched: TouchIndex) -> Stmt:
    """The parts of a statement that touch a Func, with the lets and loops around them.

    Asking for the region of one Func in a deep pipeline would else walk all of it.
    """
    if name not in touched(stmt):
        return nothing()
    if isinstance(stmt, Block):
        return block([trim_to(name, s, touched) for s in stmt.stmts if name in touched(s)])
    children = stmt.children()
    trimmed: list[Any] = []
    changed = False
    for child in children:
        new: Any = child
        if isinstance(child, Stmt):
            new = trim_to(name, child, touched)
        changed = changed or new is not child
        trimmed.append(new)
    result: Any = stmt.with_children(trimmed) if changed else stmt
    assert isinstance(result, Stmt)
    return result


def definition_exprs(definition: Definition) -> Iterator[Expr]:
    """The expressions of a definition and of its specializations."""
    yield definition.predicate
    yield from definition.values
    yield from definition.args
    schedule = definition.schedule
    for rvar in schedule.rvars:
        yield rvar.min
        yield rvar.extent
    for split in schedule.splits:
        if split.factor is not None:
            yield split.factor
    for directive in schedule.prefetches:
        yield directive.offset
    for special in definition.specializations:
        yield special.condition
        yield from definition_exprs(special.definition)


def function_exprs(function: Function) -> Iterator[Expr]:
    """All expressions of a Func: definitions, schedule, promises about its output buffers."""
    schedule = function.schedule
    for bound in schedule.bounds:
        for e in (bound.min, bound.extent, bound.modulus, bound.remainder):
            if e is not None:
                yield e
    for dim in schedule.storage_dims:
        for e in (dim.alignment, dim.bound, dim.fold_factor):
            if e is not None:
                yield e
    for definition in function.stages():
        yield from definition_exprs(definition)


def direct_calls(function: Function) -> dict[str, Any]:
    """The Funcs a Func calls, by name, in the order they are met; itself included if it does."""
    found: dict[str, Any] = {}
    for node in iterate(*function_exprs(function)):
        if type(node) is Call and node.kind is CallKind.FUNC and node.name not in found:
            found[node.name] = node.target
    return found
