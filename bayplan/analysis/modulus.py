"""What is known of the remainder of an expression."""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.analysis.facts import Facts
from bayplan.analysis.ranges import alignment_of
from bayplan.ir.exprs import Expr


def modulus_remainder(
    expr: Expr, scope: Mapping[str, tuple[int, int]] | Facts | None = None
) -> tuple[int, int]:
    """(modulus, remainder) so that expr == k * modulus + remainder; modulus 0: a constant.

    Args:
        expr: an int32 or int64 expression; others give (1, 0).
        scope: (modulus, remainder) of variables, or facts.
    """
    if scope is None:
        return alignment_of(expr, Facts.none())
    if isinstance(scope, Facts):
        return alignment_of(expr, scope)
    facts = Facts.none().child()
    for name, (modulus, remainder) in scope.items():
        if modulus == 0:
            facts.bound_variable(name, remainder, remainder)
        facts.align_variable(name, modulus, remainder)
    return alignment_of(expr, facts)
