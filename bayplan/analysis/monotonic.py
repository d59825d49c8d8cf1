"""Whether an expression rises or falls with a variable."""

from __future__ import annotations

from enum import Enum

from bayplan.ir.exprs import Expr
from bayplan.ir.walk import uses_variable


class Monotonic(Enum):
    """How an expression changes as a variable grows."""

    Constant = "constant"
    Increasing = "increasing"
    Decreasing = "decreasing"
    Unknown = "unknown"


def is_monotonic(expr: Expr, var: str) -> Monotonic:
    """How the expression changes as the variable grows (never strictly)."""
    return Monotonic.Unknown if uses_variable(expr, var) else Monotonic.Constant
