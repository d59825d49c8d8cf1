"""Whether evaluating an expression can be left out, repeated or moved.

The answers are computed once per node, from its children, and remembered with the nodes.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.linear import cache
from bayplan.ir.exprs import Call, CallKind, Expr, Load

_READS: Final = 1
_ACTS: Final = 2

_ACTING: Final = frozenset([CallKind.EXTERN, CallKind.INTRINSIC])
_READING: Final = frozenset([CallKind.FUNC, CallKind.IMAGE])


def _effects(e: Any, known: dict[Any, int]) -> int:
    found = known.get(e)
    if found is not None:
        return found
    effects = 0
    if type(e) is Load:
        effects = _READS
    elif type(e) is Call:
        if e.kind in _ACTING:
            effects = _ACTS
        elif e.kind in _READING:
            effects = _READS
    for child in e.children():
        effects |= _effects(child, known)
    known[e] = effects
    return effects


def is_pure(e: Expr) -> bool:
    """Whether the value depends on its variables alone, and nothing else happens."""
    return _effects(e, cache("analysis.effects")) == 0


def has_side_effect(e: Expr) -> bool:
    """Whether evaluating does something besides giving a value (reading memory is not doing)."""
    return bool(_effects(e, cache("analysis.effects")) & _ACTS)


def reads_memory(e: Expr) -> bool:
    """Whether the value depends on the contents of a buffer, allocation or Func."""
    return bool(_effects(e, cache("analysis.effects")) & _READS)
