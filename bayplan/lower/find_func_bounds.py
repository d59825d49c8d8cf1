"""Finds the range of the values of each Func, for bounds of indices that are looked up."""

from __future__ import annotations

from bayplan.analysis.bounds import compute_func_value_bounds
from bayplan.ir.stmts import Stmt
from bayplan.lower.context import Lowering


def find_func_bounds(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Fills `lowering.func_bounds`; gives back the statement as it is.

    Order: before infer_bounds, which asks for them.
    """
    lowering.func_bounds = compute_func_value_bounds(lowering.order, lowering.env)
    return stmt
