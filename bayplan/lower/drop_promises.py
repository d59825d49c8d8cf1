"""Drops the promises that values lie in a range, once bounds analysis has used them."""

from __future__ import annotations

from typing import Any

from bayplan.ir.exprs import Call
from bayplan.ir.stmts import Stmt
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering


def drop_promises(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Puts the value in the place of each promise about it.

    Order: after the last pass that asks for regions of Funcs.
    """
    return _DropPromises()(stmt)


class _DropPromises(Rewriter):
    def rewrite_Call(self, node: Call) -> Any:
        if node.is_intrinsic("promise_clamped") or node.is_intrinsic("unsafe_promise_clamped"):
            return self(node.args[0])
        return self.rebuild(node)
