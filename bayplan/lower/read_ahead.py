"""Elements of inputs that sizes and regions depend on: each is read once, before all else.

An element at a constant place, such as `im[0]` or `im[p, 3]` with a parameter p, is one number in
a call. Where it stands in an index, in a condition or in the limit of a loop, it gets a name, so
that it is a single point for bounds analysis and one more size for the storage plan.

It is read before the buffer has been checked, as the checks themselves may depend on it. So the
read is guarded: without memory, or outside of the buffer, it is 0. What was computed from that is
never used: the checks of the buffer come before the program proper, and a bounds query whose
answer depends on such a number is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bayplan.analysis.purity import has_side_effect
from bayplan.ir.build import (
    cast,
    conjunction,
    const,
    eq,
    intrinsic,
    is_const,
    is_one,
    le,
    lt,
    ne,
    var,
)
from bayplan.ir.exprs import Call, CallKind, Const, Expr, Let, StringImm, Variable
from bayplan.ir.stmts import For, IfThenElse, LetStmt, Provide, Realize, Stmt
from bayplan.ir.types import INT64, UINT64
from bayplan.ir.walk import Rewriter, iterate
from bayplan.language.parameter import Parameter
from bayplan.lower.context import Lowering

_LONGEST = 24
"""Characters of the coordinates that a name repeats."""


class ReadAhead:
    """An element that is read ahead.

    Attributes:
        name: the variable that stands for it, which reads like the element: "im[0]".
        call: the element as the algorithm names it; its coordinates are parameters, fields of
            buffers, constants and elements that are read before it.
    """

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Call) -> None:
        self.name = name
        self.call = call

    def is_held(self) -> Expr:
        """Whether the buffer has memory and holds the element; true of one that always does."""
        call = self.call
        name, source = call.name, call.target
        conditions: list[Expr] = []
        if isinstance(source, Parameter):
            address = Call(UINT64, "buffer_host_address", (StringImm(name),), CallKind.INTRINSIC)
            conditions.append(ne(address, const(UINT64, 0)))
        for d, arg in enumerate(call.args):
            low, extent = var(f"{name}.min.{d}"), var(f"{name}.extent.{d}")
            above = lt(cast(INT64, arg), cast(INT64, low) + cast(INT64, extent))
            conditions += [le(low, arg), above, *_promised(source, name, d)]
        return conjunction(conditions)

    def value(self) -> Expr:
        """The element, or 0 where there is none."""
        held = self.is_held()
        if is_one(held):
            return self.call
        return intrinsic(self.call.type, "if_then_else", held, self.call, const(self.call.type, 0))


def _promised(source: object, name: str, d: int) -> list[Expr]:
    """That the buffer is as promised: the address of an element may rely on it."""
    constraints = getattr(source, "constraints", None)
    if not constraints:
        return []
    conditions: list[Expr] = []
    for field in ("min", "stride"):
        promised = getattr(constraints[d], field)
        if promised is not None and is_const(promised):
            conditions.append(eq(var(f"{name}.{field}.{d}"), promised))
    return conditions


def read_ahead(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Puts names in the places of the elements; `add_image_checks` defines them.

    Order: before add_parameter_checks and bounds analysis, on loops as scheduled; after inlining,
    so that indices stand where they are used.
    """
    if not any(_is_element(node, frozenset()) for node in iterate(stmt)):
        return stmt
    result: Stmt = NameElements(lowering)(stmt)
    return result


def _is_element(node: Any, known: Collection[str]) -> bool:
    """Whether a node is an element of an input, at a place that does not move.

    Args:
        known: names of elements that have been found.
    """
    if type(node) is not Call or node.kind is not CallKind.IMAGE or not node.args:
        return False
    return not any(has_side_effect(a) for a in node.args) and all(
        _stands_still(part, known) for arg in node.args for part in iterate(arg)
    )


def _stands_still(part: Any, known: Collection[str]) -> bool:
    if type(part) is Variable:
        return isinstance(part.source, Parameter) or part.name in known
    if type(part) is Call:
        # The elements in coordinates are named first.
        return part.kind is CallKind.IMAGE or part.is_pure()
    return type(part) is not Let


class _Inside(Rewriter):
    """Names all elements in an expression."""

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        known = lowering.read_ahead
        self.names: set[str] = {one.name for one in known}
        self.known = {one.call: Variable(one.call.type, one.name) for one in known}

    def rewrite_Call(self, node: Call) -> Any:
        made: Any = self.rebuild(node)
        if not _is_element(made, self.names):
            return made
        if made not in self.known:
            one = ReadAhead(_name_of(made, self.lowering), made)
            self.lowering.read_ahead.append(one)
            self.names.add(one.name)
            self.known[made] = Variable(made.type, one.name)
        return self.known[made]


class NameElements(Rewriter):
    """Names the elements in the parts of a statement or an expression that regions follow."""

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.inside = _Inside(lowering)

    def rewrite_Call(self, node: Call) -> Any:
        if node.kind is not CallKind.FUNC and node.kind is not CallKind.IMAGE:
            return self.rebuild(node)
        args = tuple([self.inside(a) for a in node.args])
        return Call(node.type, node.name, args, node.kind, node.target, node.value_index)

    def rewrite_Let(self, node: Let) -> Any:
        return Let(node.name, self.inside(node.value), self(node.body))

    def rewrite_LetStmt(self, node: LetStmt) -> Any:
        return LetStmt(node.name, self.inside(node.value), self(node.body))

    def rewrite_For(self, node: For) -> Any:
        low, extent = self.inside(node.min), self.inside(node.extent)
        return For(node.name, low, extent, node.kind, node.partition, self(node.body))

    def rewrite_IfThenElse(self, node: IfThenElse) -> Any:
        other = None if node.else_case is None else self(node.else_case)
        return IfThenElse(self.inside(node.condition), self(node.then_case), other)

    def rewrite_Realize(self, node: Realize) -> Any:
        bounds = tuple([(self.inside(low), self.inside(extent)) for low, extent in node.bounds])
        return Realize(
            node.name, node.types, node.memory_type, bounds, self.inside(node.condition),
            self(node.body),
        )  # fmt: skip

    def rewrite_Provide(self, node: Provide) -> Any:
        values = tuple([self(v) for v in node.values])
        args = tuple([self.inside(a) for a in node.args])
        predicate = None if node.predicate is None else self.inside(node.predicate)
        return Provide(node.name, values, args, predicate)


def _name_of(call: Call, lowering: Lowering) -> str:
    plain = all(type(a) is Const or type(a) is Variable for a in call.args)
    where = ", ".join([str(a) for a in call.args])
    if not plain or "." in where or len(where) > _LONGEST:
        where = "..."
    return lowering.unique_name(f"{call.name}[{where}]")
