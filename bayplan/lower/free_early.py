"""Marks where the life of each allocation ends, for lives, reports and emission."""

from __future__ import annotations

from bayplan.ir import build
from bayplan.ir.stmts import Allocate, Block, Free, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import StmtRewriter
from bayplan.lower.context import Lowering
from bayplan.lower.storage_uses import StorageUses


def free_early(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with a Free after the last statement that uses an allocation.

    The Free stands in the scope of the Allocate, never inside a loop or a case of an if.

    Order: after all that moves or drops statements; before plan_storage.
    """
    return _FreeEarly()(stmt)


class _FreeEarly(StmtRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.uses = StorageUses()

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        body = self._free_in(node.name, self(node.body))
        children = list(node.children())
        children[-1] = body
        return node.with_children(children)

    def _free_in(self, name: str, stmt: Stmt) -> Stmt:
        """The statement with the Free after its last use of the allocation."""
        cls = type(stmt)
        if cls is Block:
            parts = list(stmt.stmts)
            last = len(parts) - 1
            while last >= 0 and name not in self.uses.of(parts[last]):
                last -= 1
            if last < 0:
                return stmt
            return build.block(
                [*parts[:last], self._free_in(name, parts[last]), *parts[last + 1 :]]
            )
        if cls in (LetStmt, ProducerConsumer, Allocate) and name in self.uses.of(stmt.body):
            children = list(stmt.children())
            children[-1] = self._free_in(name, stmt.body)
            return stmt.with_children(children)
        return build.block([stmt, Free(name)])
