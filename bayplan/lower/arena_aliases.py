"""What the passes that put temporaries into arenas, on the heap or the stack, have in common."""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.ir import build
from bayplan.ir.errors import AllocationTooLarge, ErrorSite
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.stmts import AssertStmt
from bayplan.ir.types import INT64, Handle
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_storage
from bayplan.storage.places import Place
from bayplan.storage.plan import Arena, PlannedTemporary

_INT32_MAX = 2**31 - 1


def point_into(arena: str, offset: Expr) -> Call:
    """The address of an alias: so many bytes behind the begin of the arena."""
    base = Variable(Handle(), arena)
    return Call(Handle(), "offset_pointer", (base, offset), CallKind.INTRINSIC)


def needed_bytes(member: PlannedTemporary) -> Expr:
    """The bytes of a temporary, 0 in calls that do not need it; negative for too many."""
    args = (build.int32(member.type.bytes()), build.int32(member.padding), *member.extents)
    needed = Call(INT64, "size_in_bytes", args, CallKind.INTRINSIC)
    return build.select(member.condition, needed, build.const(INT64, 0))


def check_of_size(member: PlannedTemporary, size_bytes: Expr, lowering: Lowering) -> AssertStmt:
    """That 32-bit indices reach all elements of a temporary, those of its padding included."""
    element_bytes = member.type.bytes()
    limit = build.const(INT64, (_INT32_MAX - member.padding) * element_bytes)
    site = ErrorSite(
        AllocationTooLarge,
        f"{member.name} needs {{0}} bytes ({{1}} elements); 32-bit indices reach {{2}} elements",
        lowering.where(func_of_storage(member.name, lowering)),
    )
    told = (size_bytes, build.div(size_bytes, element_bytes), build.int32(_INT32_MAX))
    return AssertStmt(build.le(size_bytes, limit), site, told)


def arenas_by_loop(arenas: Iterable[tuple[Place, Arena]]) -> dict[int, list[Arena]]:
    """The arenas of workers by the id of their loop, in the order in which a walk meets them.

    Equal loops in several places are one node, so one loop may have several.
    """
    found: dict[int, list[Arena]] = {}
    for place, arena in sorted(arenas, key=lambda pair: pair[0].begin):
        found.setdefault(id(place.node), []).append(arena)
    return found
