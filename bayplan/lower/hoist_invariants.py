"""Moves what does not change in a loop out of it."""

from __future__ import annotations

from bayplan.ir.stmts import Stmt
from bayplan.lower.context import Lowering


def hoist_invariants(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Moves what does not change in a loop out of it."""
    return stmt
