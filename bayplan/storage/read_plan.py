"""A storage plan with the numbers of a call: sizes, offsets and bytes of each arena."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bayplan.analysis.evaluate import Number, Unknown, evaluate
from bayplan.ir.errors import AllocationTooLarge
from bayplan.ir.exprs import Expr, Load
from bayplan.ir.walk import free_variables, iterate
from bayplan.storage.plan import Arena, PlannedTemporary, StoragePlan
from bayplan.storage.requests import align_up

WORKERS: Final = "workers()"
"""Among the values of a call: the most tasks of a parallel loop that run at once."""


class ArenaNumbers:
    """One arena in a call.

    Attributes:
        arena: which.
        sizes: bytes of each member.
        offsets: of each member.
        bytes: of the arena.
        floor_bytes: the largest sum of sizes alive at one step, those of workers at their floor.
    """

    __slots__ = ("arena", "bytes", "floor_bytes", "offsets", "sizes")

    def __init__(
        self, arena: Arena, sizes: list[int], offsets: list[int], bytes: int, floor_bytes: int
    ) -> None:
        self.arena = arena
        self.sizes = sizes
        self.offsets = offsets
        self.bytes = bytes
        self.floor_bytes = floor_bytes


def read_arenas(
    arenas: Sequence[Arena], values: Mapping[str, Number], workers: int
) -> dict[str, ArenaNumbers]:
    """The numbers of each arena by name, the same as those of the program's own prologue.

    Args:
        arenas: those inside others first.
        values: fields of the call's buffers and its scalars, by name.
        workers: the most tasks of a parallel loop that run at once.

    Raises:
        Unknown: a size depends on something that is not among the values.
        AllocationTooLarge: the bytes do not fit 63 bits; the call would end with that too.
    """
    found: dict[str, ArenaNumbers] = {}
    values = {**values, WORKERS: workers}
    for arena in arenas:
        members = arena.temporaries
        sizes = [size_for(m, values, workers, found) for m in members]
        if arena.placement is not None:
            shared = [max([sizes[m.member] for m in group]) for group in arena.groups]
            try:
                places, total = arena.placement.place(shared)
            except OverflowError as error:
                largest = max(range(len(members)), key=sizes.__getitem__)
                raise AllocationTooLarge(
                    f"{members[largest].name} needs {sizes[largest]} bytes; {error}"
                ) from None
        else:
            assert arena.offsets is not None and arena.bytes is not None
            # Constant sizes have constant places, also of those that are not needed this time.
            places, total = list(arena.offsets), arena.bytes if any(sizes) else 0
        offsets = [places[m.group] for m in members]
        floors = [
            count_slots(m, values, workers) * found[m.slots_of].floor_bytes if m.slots_of else size
            for m, size in zip(members, sizes, strict=True)
        ]
        numbers = ArenaNumbers(arena, sizes, offsets, total, measure_floor(members, floors))
        found[arena.name] = numbers
    return found


def bind_lets(
    lets: Iterable[tuple[str, Expr]], values: Mapping[str, Number]
) -> dict[str, Number]:
    """The values and those of the lets; what depends on more is left out.

    Elements of inputs are given by the names of their lets.
    """
    found = dict(values)
    for name, value in lets:
        try:
            found[name] = evaluate(value, found)
        except Unknown:
            if name not in values or not is_element(value):
                found.pop(name, None)
    return found


def is_element(value: Expr) -> bool:
    """Whether the value of a let is read from memory: an element of an input, read ahead."""
    return any(type(node) is Load for node in iterate(value))


def size_for(
    member: PlannedTemporary,
    values: Mapping[str, Number],
    workers: int,
    known: Mapping[str, ArenaNumbers],
) -> int:
    """The bytes of the arena that a member takes; 0 where it is not needed, or in an output."""
    if not evaluate(member.condition, values) or is_in_output(member, values):
        return 0
    if member.slots_of:
        slots = count_slots(member, values, workers)
        one = known[member.slots_of]
        return slots * align_up(one.bytes, one.arena.alignment)
    return size_in_call(member, values)


def is_in_output(member: PlannedTemporary, values: Mapping[str, Number]) -> bool:
    """Whether a temporary has the bytes of an output in a call."""
    return bool(member.output) and bool(evaluate(member.in_output, values))


def find_in_outputs(
    temporaries: Iterable[PlannedTemporary], values: Mapping[str, Number]
) -> frozenset[PlannedTemporary]:
    """The temporaries that have the bytes of an output in a call, as far as that is known."""
    found = []
    for temporary in temporaries:
        try:
            if is_in_output(temporary, values):
                found.append(temporary)
        except Unknown:
            continue
    return frozenset(found)


def size_in_call(member: PlannedTemporary, values: Mapping[str, Number]) -> int:
    """The bytes of a temporary, wherever they are; 0 where it is not needed."""
    if not evaluate(member.condition, values):
        return 0
    elements = 1
    for extent in member.extents:
        elements *= max(int(evaluate(extent, values)), 0)
    return (elements + member.padding) * member.type.bytes() if elements else 0


def count_slots(slab: PlannedTemporary, values: Mapping[str, Number], workers: int) -> int:
    """How many workers' arenas the slab of a parallel loop has room for."""
    if not evaluate(slab.condition, values):
        return 0
    return max(0, min(int(evaluate(slab.extents[0], values)), workers))


def measure_floor(members: Sequence[PlannedTemporary], sizes: Sequence[int]) -> int:
    """The largest sum of sizes alive at one step; bytes taken over in place count once."""
    changes: dict[int, int] = {}
    for begin, end, size in merge_groups(members, sizes):
        if begin < end:
            changes[begin] = changes.get(begin, 0) + size
            changes[end] = changes.get(end, 0) - size
    best = alive = 0
    for step in sorted(changes):
        alive += changes[step]
        best = max(best, alive)
    return best


def merge_groups(
    members: Sequence[PlannedTemporary], sizes: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Begin, end and size of each set of members that have the same bytes, one after the other."""
    groups: dict[int, tuple[int, int, int]] = {}
    for member, size in zip(members, sizes, strict=True):
        begin, end = member.life
        found = groups.get(member.group)
        if found is not None:
            begin, end, size = min(begin, found[0]), max(end, found[1]), max(size, found[2])
        groups[member.group] = (begin, end, size)
    return list(groups.values())


def names_in_sizes(plan: StoragePlan) -> set[str]:
    """The names of the call that sizes of temporaries in arenas depend on."""
    values = dict(plan.lets)
    waiting = [e for a in plan.arenas for t in a.temporaries for e in (*t.extents, t.condition)]
    found: set[str] = set()
    while waiting:
        for name in free_variables(waiting.pop()) - found:
            found.add(name)
            if name in values:
                waiting.append(values[name])
    return found
