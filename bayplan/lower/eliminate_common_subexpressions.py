"""Gives names to what a statement computes more than once."""

from __future__ import annotations

from bayplan.ir.stmts import Stmt
from bayplan.lower.context import Lowering


def eliminate_common_subexpressions(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Gives names to what a statement computes more than once."""
    return stmt
