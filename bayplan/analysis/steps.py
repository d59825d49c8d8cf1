"""How much an expression changes from one iteration to the next."""

from __future__ import annotations

from bayplan.analysis.linear import difference, is_index_type
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import const
from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.types import INT32
from bayplan.ir.walk import substitute


def step_of(expr: Expr, var: str) -> Expr | None:
    """expr[var + 1] - expr[var] where that is a constant, else None."""
    variable = Variable(INT32, var)
    moved = substitute({var: variable + 1}, expr)
    if not is_index_type(expr.type):
        return None
    form = difference(simplify(moved), simplify(expr))
    return None if form.terms else const(expr.type, form.constant)
