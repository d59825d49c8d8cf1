"""Lets names of equal values stand for one another, so that their differences are seen to be 0."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.purity import has_side_effect, reads_memory
from bayplan.ir.exprs import Const, Expr, Variable
from bayplan.ir.stmts import For, LetStmt, Stmt
from bayplan.ir.walk import Rewriter, free_variables, substitute
from bayplan.lower.context import Lowering


def merge_equal_lets(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which a let with the value of a let around it is that let.

    The min and the max of a region of one point often come by different ways to the same value;
    a loop over it then has an extent that is plainly 1.

    A name may mean several things in different places, as after unroll_loops.

    Order: after a simplification, which makes equal values the same; before another one, which
    sees what has become constant.
    """
    return _Merge(_shadowed(stmt))(stmt)  # type: ignore[no-any-return]


def _shadowed(stmt: Stmt) -> set[str]:
    """The names that are defined again where they have a meaning already."""
    found: set[str] = set()
    bound: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, Expr):
            return
        name = node.name if isinstance(node, LetStmt | For) else None
        if name in bound:
            found.add(name)
            name = None
        if name is not None:
            bound.add(name)
        for child in node.children():
            visit(child)
        if name is not None:
            bound.discard(name)

    visit(stmt)
    return found


class _Merge(Rewriter):
    memoise = False

    def __init__(self, shadowed: set[str]) -> None:
        super().__init__()
        self.shadowed = shadowed
        # The let around that has a value, and what merged names stand for.
        self.names: dict[Expr, Variable] = {}
        self.merged: dict[str, Expr] = {}

    def __call__(self, node: Any) -> Any:
        if isinstance(node, Expr):
            used = {n: self.merged[n] for n in free_variables(node) if n in self.merged}
            return substitute(used, node) if used else node
        return super().__call__(node)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        value = self(node.value)
        if not self._may_merge(node.name, value):
            return self._with_body(node, value)
        found = self.names.get(value)
        if found is not None:
            # A name has this meaning here alone: in another part of the program, as another
            # iteration of an unrolled loop, it may have another one.
            self.merged[node.name] = found
            body: Stmt = self(node.body)
            del self.merged[node.name]
            return body
        self.names[value] = Variable(value.type, node.name)
        result = self._with_body(node, value)
        del self.names[value]
        return result

    def _may_merge(self, name: str, value: Expr) -> bool:
        return not (
            type(value) is Const
            or name in self.shadowed
            or not self.shadowed.isdisjoint(free_variables(value))
            or has_side_effect(value)
            or reads_memory(value)
        )

    def _with_body(self, node: LetStmt, value: Expr) -> Stmt:
        body = self(node.body)
        if value is node.value and body is node.body:
            return node
        return LetStmt(node.name, value, body)
