"""Whether evaluating an expression can be left out, repeated or moved."""

from __future__ import annotations

from bayplan.ir.exprs import Call, Expr, Load
from bayplan.ir.walk import iterate


def is_pure(expr: Expr) -> bool:
    """Whether the value depends on its variables alone and nothing else happens: no loads."""
    return not any([_reads_or_acts(n) for n in iterate(expr)])


def has_side_effect(expr: Expr) -> bool:
    """Whether evaluating does something besides giving a value (loads do not count)."""
    return any([type(n) is Call and _acts(n) for n in iterate(expr)])


def _acts(call: Call) -> bool:
    return not call.is_pure() and call.kind.value not in ("func", "image")


def _reads_or_acts(n: object) -> bool:
    return type(n) is Load or (type(n) is Call and not n.is_pure())
