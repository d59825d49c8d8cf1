"""Makes the storage plan of a statement: arenas, their members, and where these lie in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bayplan.analysis.evaluate import SAMPLES, Number, Unknown
from bayplan.ir.build import constant_value, int32
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import For, LetStmt
from bayplan.ir.types import UInt
from bayplan.ir.walk import free_variables
from bayplan.storage.find_in_output import Output, find_in_output
from bayplan.storage.find_in_place import find_in_place
from bayplan.storage.list_temporaries import list_temporaries
from bayplan.storage.lives import Life, Lives
from bayplan.storage.placement import keep_placement
from bayplan.storage.places import Place, loops_around
from bayplan.storage.plan import Arena, KernelPlan, PlannedTemporary, StoragePlan
from bayplan.storage.plan_offsets import plan_offsets
from bayplan.storage.read_plan import (
    ArenaNumbers,
    bind_lets,
    read_arenas,
    size_for,
    size_in_call,
)
from bayplan.storage.requests import Request
from bayplan.storage.scopes import Scope, find_scopes
from bayplan.storage.sizes import SizesOutside

_INT32_MAX = 2**31 - 1
# Sizes of the call that plans are made for: an image, a batch of small cells, a long vector.
_HINTS = ((1024, 8), (64, 32), (100_000, 4))
_HINT_WORKERS = 4
_HINT_SAMPLES = 16


class Planned:
    """What `make_plan` gives besides the table.

    Attributes:
        plan: the table.
        members: by life the temporary it became.
        worker_arenas: by the place of a parallel loop the arena of its workers.
        slabs: by the name of a worker's arena the temporary that holds those of all workers.
        temporaries: by life all temporaries, also those that are not planned here.
    """

    __slots__ = ("members", "plan", "slabs", "temporaries", "worker_arenas")

    def __init__(self, plan: StoragePlan) -> None:
        self.plan = plan
        self.members: dict[Life, PlannedTemporary] = {}
        self.worker_arenas: dict[Place, Arena] = {}
        self.slabs: dict[str, PlannedTemporary] = {}
        self.temporaries: dict[Life, PlannedTemporary] = {}


def make_plan(
    lives: Lives,
    outside: Sequence[LetStmt],
    title: str,
    unique_name: Callable[[str], str],
    alignment: int,
    stored_once: Callable[[str], bool],
    *,
    outputs: Sequence[Output] = (),
    in_output: Callable[[str], bool] = lambda name: True,
    share: bool = True,
    kernels: Sequence[KernelPlan] = (),
) -> Planned:
    """The plan of the heap temporaries of a statement.

    Args:
        lives: of all its allocations.
        outside: the lets that surround the place where the call's arena is taken, outermost first.
        title: what the call's arena is named after.
        unique_name: gives a name like the wanted one that nothing has.
        alignment: bytes that members are aligned to.
        stored_once: whether a temporary has each element stored at most once.
        outputs: buffers of the call in which temporaries may live until they are stored.
        in_output: whether the temporary of that name may.
        share: False leaves each temporary with memory of its own.
        kernels: the plans of kernels, whose temporaries get lives in the whole.
    """
    maker = _Maker(lives, outside, title, unique_name, alignment, stored_once)
    maker.outputs, maker.in_output = outputs, in_output
    return maker.run(share, list_temporaries(lives, kernels, maker.sizes))


def plan_device(
    lives: Lives,
    known: Planned,
    outside: Sequence[LetStmt],
    title: str,
    unique_name: Callable[[str], str],
    alignment: int,
    *,
    share: bool = True,
) -> Planned:
    """The plan of the temporaries of the call in device memory, completed by those of kernels.

    The arguments are those of `make_plan`; `known` is what that gave.
    """
    maker = _Maker(lives, outside, title, unique_name, alignment, lambda name: False)
    maker.kind, maker.ending = MemoryType.GPUGlobal, "device_alloc"
    return maker.run(share, known.temporaries)


class _Maker:
    def __init__(
        self,
        lives: Lives,
        outside: Sequence[LetStmt],
        title: str,
        unique_name: Callable[[str], str],
        alignment: int,
        stored_once: Callable[[str], bool],
    ) -> None:
        self.kind = MemoryType.Heap
        self.ending = "arena"
        self.outputs: Sequence[Output] = ()
        self.in_output: Callable[[str], bool] = lambda name: True
        self.lives = lives
        self.sizes = SizesOutside({id(let) for let in outside})
        self.lets = tuple([(let.name, let.value) for let in outside])
        self.title = title
        self.unique_name = unique_name
        self.alignment = alignment
        self.stored_once = stored_once
        self.arenas: list[Arena] = []
        self.unplanned: list[str] = []
        self.result = Planned(StoragePlan((), (), None, (), (), ()))

    def run(self, share: bool, temporaries: dict[Life, PlannedTemporary]) -> Planned:
        self.result.temporaries = temporaries
        planned = []
        for life, temporary in temporaries.items():
            if life.kind is not self.kind or life.node.address is not None:
                continue
            if life.begin == life.end:
                continue
            extents = self.sizes.extents_of(life) if share else None
            if self.kind is MemoryType.GPUGlobal and life.in_parallel:
                # Launches of several workers wait for one another anyway.
                extents = None
            if extents is None:
                self.unplanned.append(life.name)
                continue
            temporary.extents = extents
            temporary.condition = self.sizes.condition_of(life)
            self.result.members[life] = temporary
            planned.append(life)
        call = self._arena(find_scopes(planned))
        self.result.plan = StoragePlan(
            tuple(self.arenas[::-1]),
            tuple([t for t in temporaries.values() if not t.is_slab]),
            None if call is None else call.name,
            tuple(dict.fromkeys(self.unplanned)),
            tuple(self.lives.steps),
            self.lets,
        )
        return self.result

    def _arena(self, scope: Scope) -> Arena | None:
        """The arena of a scope, made after those inside; None where nothing is in it."""
        members = [self.result.members[life] for life in scope.lives]
        for inner in scope.inner:
            arena = self._arena(inner)
            if arena is not None:
                assert inner.loop is not None
                self.result.worker_arenas[inner.loop] = arena
                members.append(self._slab(inner.loop, arena))
        if not members:
            return None
        groups = self._group(scope, members)
        if scope.loop is None:
            self._use_outputs(scope, groups)
            single = len(members) == 1 and not members[0].slots_of and not members[0].output
            wanted = f"{self.title}.{self.ending}"
            name = members[0].name if single else self.unique_name(wanted)
            arena = Arena(name, "call", tuple(members), self.alignment)
        else:
            assert type(scope.loop.node) is For
            loop = scope.loop.node.name
            arena = Arena(self.unique_name(f"{loop}.arena"), loop, tuple(members), self.alignment)
        for i, member in enumerate(members):
            member.arena, member.member = arena.name, i
        arena.kind = self.kind
        arena.groups = groups
        for i, group in enumerate(arena.groups):
            for member in group:
                member.group = i
        self._place(arena)
        self.arenas.append(arena)
        return arena

    def _slab(self, loop: Place, arena: Arena) -> PlannedTemporary:
        """The temporary that holds the arenas of all workers of a loop, for all of its steps."""
        node = loop.node
        assert type(node) is For
        extent = self.sizes.bound(node.extent, loop.outer)
        slab = PlannedTemporary(
            self.unique_name(f"{node.name}.workers"),
            UInt(8),
            (int32(_INT32_MAX) if extent is None else extent,),
            0,
            self.sizes.condition_at(loop),
            MemoryType.Heap,
            (loop.begin, loop.end),
            loops_around(loop.outer),
        )
        slab.slots_of = arena.name
        self.result.slabs[arena.name] = slab
        return slab

    def _group(
        self, scope: Scope, members: list[PlannedTemporary]
    ) -> tuple[tuple[PlannedTemporary, ...], ...]:
        """The members, those that follow each other in place together."""
        pairs = find_in_place(self.lives, scope.lives, self.stored_once)
        groups: dict[PlannedTemporary, list[PlannedTemporary]] = {}
        old_of = {self.result.members[n]: self.result.members[o] for n, o in pairs.items()}
        for member in members:
            # One that is stored further out comes before what it is computed from.
            first = member
            while first in old_of:
                first = old_of[first]
            groups.setdefault(first, []).append(member)
        return tuple([tuple(sorted(g, key=lambda m: m.life)) for g in groups.values()])

    def _use_outputs(
        self, scope: Scope, groups: tuple[tuple[PlannedTemporary, ...], ...]
    ) -> None:
        """Notes which members may live in outputs."""
        if all(_constant_bytes(m) is not None for group in groups for m in group):
            # Programs that always take the same bytes are worth more: callers may reserve them.
            return
        lives = {self.result.members[life]: life for life in scope.lives}
        chains = [[lives[m] for m in group] for group in groups if group[0] in lives]
        extents = {life: member.extents for member, life in lives.items()}
        found = find_in_output(
            self.lives, chains, extents, self.outputs, self.lets, self.stored_once, self.in_output
        )
        for life, place in found.items():
            member = self.result.members[life]
            member.output, member.in_output = place.output, place.condition

    def _place(self, arena: Arena) -> None:
        """Decides where the groups lie: numbers where all sizes are constants, else an order."""
        lives = [life_of(group) for group in arena.groups]
        constant = [[_constant_bytes(m) for m in group] for group in arena.groups]
        sizes = [[c for c in group if c is not None] for group in constant]
        if all(len(known) == len(group) for known, group in zip(sizes, arena.groups, strict=True)):
            requests = [
                Request(group[0].name, max(known), begin, end, self.alignment)
                for group, known, (begin, end) in zip(arena.groups, sizes, lives, strict=True)
            ]
            found = plan_offsets(requests)
            arena.offsets, arena.bytes = tuple(found.offsets), found.peak_bytes
            return
        alignments = [self.alignment] * len(lives)
        arena.placement = keep_placement(lives, alignments, self._likely_sizes(arena))

    def _likely_sizes(self, arena: Arena) -> list[list[int]]:
        """Sizes of the groups in calls that are likely."""
        names: set[str] = set()
        for member in (*arena.temporaries, *[m for a in self.arenas for m in a.temporaries]):
            for e in (*member.extents, member.condition, member.in_output):
                names |= free_variables(e)
        for _, value in self.lets:
            names |= free_variables(value)
        found: list[list[int]] = []
        for hint in _HINTS:
            values = bind_lets(self.lets, {**_sample(names, *hint), SAMPLES: _HINT_SAMPLES})
            try:
                known = read_arenas(self.arenas, values, _HINT_WORKERS)
                for size in (size_for, _size_in_arena):
                    sizes = [
                        max([size(m, values, _HINT_WORKERS, known) for m in group])
                        for group in arena.groups
                    ]
                    if sizes not in found:
                        found.append(sizes)
            except (Unknown, OverflowError):
                continue
        return found


def life_of(group: tuple[PlannedTemporary, ...]) -> tuple[int, int]:
    """The steps in which the bytes of a group are in use."""
    return min([m.life[0] for m in group]), max([m.life[1] for m in group])


def _sample(names: set[str], extent: int, other: int) -> dict[str, Number]:
    """Likely values of the sizes and parameters of a call."""
    values: dict[str, Number] = {}
    for name in names:
        if ".min." in name:
            values[name] = 0
        elif ".extent." in name:
            values[name] = extent
        elif ".stride." in name:
            values[name] = extent ** int(name[-1]) if name[-1].isdigit() else extent
        else:
            values[name] = other
    return values


def _size_in_arena(
    member: PlannedTemporary,
    values: Mapping[str, Number],
    workers: int,
    known: Mapping[str, ArenaNumbers],
) -> int:
    """The bytes of a member that cannot live in an output."""
    if member.output:
        return size_in_call(member, values)
    return size_for(member, values, workers, known)


def _constant_bytes(member: PlannedTemporary) -> int | None:
    """The bytes of a member whose extents are constants within what indices reach."""
    if member.slots_of:
        return None
    elements = 1
    for extent in member.extents:
        value = constant_value(extent)
        if value is None:
            return None
        elements *= max(int(value), 0)
    if elements > _INT32_MAX - member.padding:
        return None
    return (elements + member.padding) * member.type.bytes() if elements else 0
