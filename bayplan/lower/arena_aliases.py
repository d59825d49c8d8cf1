"""What the passes that put temporaries into arenas, on the heap or the stack, have in common."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.types import Handle
from bayplan.storage.places import Place
from bayplan.storage.plan import Arena


def point_into(arena: str, offset: Expr) -> Call:
    """The address of an alias: so many bytes behind the begin of the arena."""
    base = Variable(Handle(), arena)
    return Call(Handle(), "offset_pointer", (base, offset), CallKind.INTRINSIC)


def arenas_by_loop(arenas: Iterable[tuple[Place, Arena]]) -> dict[int, list[Arena]]:
    """The arenas of workers by the id of their loop, in the order in which a walk meets them.

    Equal loops in several places are one node, so one loop may have several.
    """
    found: dict[int, list[Arena]] = {}
    for place, arena in sorted(arenas, key=lambda pair: pair[0].begin):
        found.setdefault(id(place.node), []).append(arena)
    return found
