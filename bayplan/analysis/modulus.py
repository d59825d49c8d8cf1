"""What is known of the remainder of an expression."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.ir.exprs import Const, Expr


def modulus_remainder(
    expr: Expr, scope: Mapping[str, tuple[int, int]] | None = None
) -> tuple[int, int]:
    """(modulus, remainder) so that expr == k * modulus + remainder; modulus 0: a constant."""
    if type(expr) is Const and isinstance(expr.value, int):
        return (0, expr.value)
    return (1, 0)
