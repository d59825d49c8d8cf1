"""Lets names of equal values stand for one another, so that their differences are seen to be 0."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.purity import has_side_effect, reads_memory
from bayplan.ir.exprs import Const, Expr, Variable
from bayplan.ir.stmts import LetStmt, Stmt
from bayplan.ir.walk import Rewriter, free_variables, substitute
from bayplan.lower.context import Lowering


def merge_equal_lets(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which a let with the value of a let around it is that let.

    The min and the max of a region of one point often come by different ways to the same value;
    a loop over it then has an extent that is plainly 1.

    Order: after uniquify_names, as a name must mean one thing, and after a simplification, which
    makes equal values the same; before another one, which sees what has become constant.
    """
    return _Merge()(stmt)  # type: ignore[no-any-return]


class _Merge(Rewriter):
    memoise = False

    def __init__(self) -> None:
        super().__init__()
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
        if type(value) is Const or has_side_effect(value) or reads_memory(value):
            return self._with_body(node, value)
        found = self.names.get(value)
        if found is not None:
            self.merged[node.name] = found
            return self(node.body)  # type: ignore[no-any-return]
        self.names[value] = Variable(value.type, node.name)
        result = self._with_body(node, value)
        del self.names[value]
        return result

    def _with_body(self, node: LetStmt, value: Expr) -> Stmt:
        body = self(node.body)
        if value is node.value and body is node.body:
            return node
        return LetStmt(node.name, value, body)
