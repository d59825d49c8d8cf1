"""Simplifies the whole program; stands between the passes that leave something to simplify."""

from __future__ import annotations

from bayplan.analysis.simplify import simplify
from bayplan.ir.stmts import Stmt
from bayplan.lower.context import Lowering


def simplify_program(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in a simpler form.

    Order: after uniquify_names, as equal names are taken for equal values.
    """
    return simplify(stmt)
