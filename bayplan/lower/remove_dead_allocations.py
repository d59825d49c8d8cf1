"""Drops allocations that nothing reads or writes."""

from __future__ import annotations

from bayplan.ir.build import nothing
from bayplan.ir.exprs import Load
from bayplan.ir.stmts import Allocate, Free, Stmt, Store
from bayplan.ir.walk import Rewriter, iterate
from bayplan.lower.context import Lowering


def remove_dead_allocations(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement without allocations that are never used.

    Order: after simplifications, which may have dropped the last use; before plan_storage.
    """
    used = {n.name for n in iterate(stmt) if type(n) is Load or type(n) is Store}
    return _Remove(used)(stmt)


class _Remove(Rewriter):
    def __init__(self, used: set[str]) -> None:
        super().__init__()
        self.used = used

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        if node.name in self.used:
            return self.rebuild(node)  # type: ignore[no-any-return]
        return self(node.body)

    def rewrite_Free(self, node: Free) -> Stmt:
        return node if node.name in self.used else nothing()
