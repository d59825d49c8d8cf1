"""Tightens loops to the iterations that do something."""

from __future__ import annotations

from bayplan.ir.stmts import Stmt
from bayplan.lower.context import Lowering


def trim_no_ops(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Tightens loops to the iterations that do something."""
    return stmt
