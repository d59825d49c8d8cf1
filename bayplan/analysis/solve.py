"""Solving conditions for one variable."""

from __future__ import annotations

from bayplan.analysis.interval import Interval
from bayplan.ir.exprs import Expr


def solve_expression(expr: Expr, var: str) -> Expr:
    """The expression with `var` alone on the left of comparisons as far as that is possible."""
    return expr


def solve_for_inner_interval(condition: Expr, var: str) -> Interval:
    """An interval of `var` in which the condition surely holds."""
    return Interval.nothing()


def solve_for_outer_interval(condition: Expr, var: str) -> Interval:
    """An interval of `var` outside of which the condition surely fails."""
    return Interval.everything()
