"""The storage report: what each temporary of a call is, where it lives, when, and with whom.

Frozen data, made once from the storage plan and the sizes of a call; views, the command line and
users read it. Its pictures are drawn by `bayplan.view`, imported when one is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.analysis.evaluate import Number, Unknown, evaluate
from bayplan.ir.memory import MemoryType
from bayplan.ir.source import SourceLine
from bayplan.ir.stmts import Stmt
from bayplan.storage.formula import write_formulas
from bayplan.storage.kernels import title_of
from bayplan.storage.measure import HEAP, ON_DEVICE, ON_STACK, measure
from bayplan.storage.plan import Arena as PlannedArena
from bayplan.storage.plan import KindChoice, PlannedTemporary, StoragePlan
from bayplan.storage.read_plan import (
    WORKERS,
    ArenaNumbers,
    bind_lets,
    count_slots,
    find_in_outputs,
    read_arenas,
    size_in_call,
)
from bayplan.storage.records import Arena, Kernel, StorageReport, Temporary
from bayplan.storage.report_kernels import make_kernels
from bayplan.storage.requests import align_up

_WITH_ADDRESS = (MemoryType.Heap, MemoryType.GPUShared, MemoryType.GPUGlobal)
_NO_BOUND = "no upper bound for "


def make_report(
    pipeline: str,
    plan: StoragePlan,
    stmt: Stmt,
    values: Mapping[str, Number],
    origins: Mapping[str, tuple[str, SourceLine | None]],
    kinds: Mapping[str, KindChoice],
    workers: int = 1,
    readable: Stmt | None = None,
    functions: Mapping[str, str] | None = None,
) -> StorageReport:
    """Makes the report of one call.

    Args:
        pipeline: name of the pipeline.
        plan: where its temporaries live.
        stmt: its final statement.
        values: the call's sizes and scalars by name.
        origins: by name of a temporary, its Func and the user's line.
        kinds: by name of a temporary, the kind that was asked for.
        workers: threads of a parallel loop.
        readable: the statement with the barriers of its kernels, as users are shown it; None: it
            has no kernels.
        functions: by title of a kernel, its name in the device source.
    """
    maker = _Maker(plan, stmt, values, origins, kinds, workers)
    return maker.run(pipeline, readable, functions or {})


class _Maker:
    def __init__(
        self,
        plan: StoragePlan,
        stmt: Stmt,
        values: Mapping[str, Number],
        origins: Mapping[str, tuple[str, SourceLine | None]],
        kinds: Mapping[str, KindChoice],
        workers: int,
    ) -> None:
        self.plan = plan
        self.values = values = bind_lets(plan.lets, values)
        self.origins = origins
        self.kinds = kinds
        self.workers = workers
        self.exact = True
        # What the plan does not place is measured on the statement.
        self.heap = measure(stmt, values, HEAP, workers, plan.call_arena)
        self.stack = measure(stmt, values, ON_STACK, 1)
        self.in_outputs = find_in_outputs(plan.temporaries, values)
        self.formulas = write_formulas(plan, self.in_outputs)
        self.formula_of = {
            id(t): (text, names)
            for t, text, names in zip(
                plan.temporaries, self.formulas.sizes, self.formulas.names, strict=True
            )
        }
        self.numbers: dict[str, ArenaNumbers] = {}
        try:
            self.numbers = read_arenas(plan.arenas[::-1], values, workers)
        except Unknown:
            self.exact = False
        self.own_on_device = measure(stmt, values, ON_DEVICE, workers, plan.device_arena)
        self.on_device = self._read_each(plan.device_arenas)
        # Arrays on the stack are no arenas of the report; what shares them is found here.
        stack = read_arenas(plan.stack_arenas, values, workers)
        self.placed = {**self.numbers, **stack, **self.on_device}
        self.slabs = {t.slots_of: t for a in plan.arenas for t in a.temporaries if t.slots_of}

    def _read_each(self, arenas: Sequence[PlannedArena]) -> dict[str, ArenaNumbers]:
        """The numbers of arenas none of which is in another one."""
        found = {}
        for arena in arenas:
            try:
                found.update(read_arenas([arena], self.values, self.workers))
            except Unknown:
                self.exact = False
        return found

    def run(
        self, pipeline: str, readable: Stmt | None, functions: Mapping[str, str]
    ) -> StorageReport:
        temporaries = tuple([self._temporary(t) for t in self.plan.temporaries])
        arenas = [
            self._arena(a.name, a.scope)
            for a in self.plan.arenas
            if a.name in self.numbers and not self.in_outputs.issuperset(a.temporaries)
        ]
        arenas.sort(key=lambda arena: arena.life_begin)  # an arena stays before those in it
        call = self.numbers.get(self.plan.call_arena or "")
        call_bytes = call.bytes if call is not None else 0
        peak = call_bytes + self.heap.peak_bytes
        if self.stack.peak_bytes:
            arenas.append(
                Arena(
                    name="stack", kind="stack", kernel="", scope="thread",
                    bytes=self.stack.peak_bytes, floor_bytes=self.stack.peak_bytes, copies=1,
                    arena="", offset=0, alignment=1, life_begin=0,
                    life_end=len(self.plan.steps),
                )
            )
        arenas += [self._device_arena(a) for a in self.on_device.values()]
        device = self.on_device.get(self.plan.device_arena or "")
        on_device, least = (0, 0) if device is None else (device.bytes, device.floor_bytes)
        floor = (call.floor_bytes if call is not None else 0) + self.heap.peak_bytes
        own = self.heap.counts
        kernels: tuple[Kernel, ...] = ()
        if readable is not None and self.plan.kernels:
            kernels = make_kernels(
                self.plan.kernels, readable, self.values, temporaries, self.on_device,
                self.origins, functions,
            )
        return StorageReport(
            pipeline=pipeline,
            temporaries=temporaries,
            arenas=tuple(arenas),
            kernels=kernels,
            allocations=(1 if call_bytes else 0) + sum(own.values()),
            peak_bytes=peak,
            floor_bytes=min(floor, peak),
            sum_bytes=sum([t.bytes * t.copies for t in temporaries if t.kind == "heap"]),
            device_bytes=on_device + self.own_on_device.peak_bytes,
            device_floor_bytes=least + self.own_on_device.peak_bytes,
            stack_bytes=self.stack.peak_bytes,
            formula=self.formulas.peak,
            floor_formula=self.formulas.floor,
            terms=self.formulas.terms,
            workers=self.workers,
            steps=self.plan.steps,
            exact=self.exact and self.heap.exact and self.stack.exact and self.own_on_device.exact,
        )

    def _copies(self, arena: str) -> int:
        """How many of an arena there are at once."""
        copies = 1
        slab = self.slabs.get(arena)
        while slab is not None:
            copies *= count_slots(slab, self.values, self.workers)
            slab = self.slabs.get(slab.arena)
        return copies

    def _arena(self, name: str, scope: str) -> Arena:
        numbers = self.numbers[name]
        slab = self.slabs.get(name)
        around, offset, life = "", 0, (0, len(self.plan.steps))
        if slab is not None:
            around, offset = slab.arena, self.numbers[slab.arena].offsets[slab.member]
            life = slab.life
        return Arena(
            name=name, kind="heap", kernel="", scope=scope, bytes=numbers.bytes,
            floor_bytes=numbers.floor_bytes,
            copies=self._copies(name), arena=around, offset=offset,
            alignment=numbers.arena.alignment, life_begin=life[0], life_end=life[1],
        )

    def _device_arena(self, numbers: ArenaNumbers) -> Arena:
        arena = numbers.arena
        life = (0, len(self.plan.steps))
        around, copies, offset = "", 1, 0
        if arena.kernel:
            lives = [t.life for t in arena.temporaries]
            life = min([begin for begin, _ in lives]), max([end for _, end in lives])
            plan = next(k for k in self.plan.kernels if k.title == arena.kernel)
            if arena is plan.device and plan.slab is not None:
                slab = self.placed.get(plan.slab.arena)
                if slab is not None:
                    around, offset = plan.slab.arena, slab.offsets[plan.slab.member]
                    slice_bytes = align_up(numbers.bytes, arena.alignment)
                    copies = slab.sizes[plan.slab.member] // max(slice_bytes, 1)
        return Arena(
            name=arena.name, kind=arena.kind.value, kernel=arena.kernel, scope=arena.scope,
            bytes=numbers.bytes, floor_bytes=numbers.floor_bytes, copies=copies, arena=around,
            offset=offset, alignment=arena.alignment, life_begin=life[0], life_end=life[1],
        )

    def _temporary(self, t: PlannedTemporary) -> Temporary:
        func, where = self.origins.get(t.name, (t.name, None))
        choice = self.kinds.get(t.name) or KindChoice(t.kind)
        formula, names = self.formula_of[id(t)]
        why = choice.why
        if why.startswith(_NO_BOUND) and names:
            # Said before the sizes were known in the user's words.
            why = _NO_BOUND + ", ".join(names)
        numbers = self.placed.get(t.arena)
        extents = self._extents(t)
        copies, offset = 1, None
        shares: tuple[str, ...] = ()
        replaced = ""
        arena = (t.arena or t.name) if t.kind in _WITH_ADDRESS else "stack"
        kernel = "".join(dict.fromkeys([title_of(loop) for loop in t.loops]))
        if t in self.in_outputs:
            arena, offset, size = t.output, 0, size_in_call(t, self.values)
            others = [o for o in self.in_outputs if o.output == t.output and o is not t]
            others.sort(key=lambda other: other.life)
            before = [o.name for o in others if o.group == t.group and o.life < t.life]
            replaced = before[-1] if before else ""
            shares = (t.output, *[other.name for other in others])
        elif numbers is not None:
            replaced = _find_replaced(t, numbers)
            size, offset = numbers.sizes[t.member], numbers.offsets[t.member]
            shares = self._find_shares(t)
            copies = self._copies(t.arena)
        elif kernel:
            size, arena = size_in_call(t, self.values), "thread"
        else:
            size, known = self._measured(t)
            extents = known or extents
            offset = 0 if t.kind in _WITH_ADDRESS else None
        return Temporary(
            name=t.name,
            func=func,
            kind=t.kind.value,
            asked=choice.asked.value,
            why=why,
            element_type=str(t.type),
            extents=extents,
            bytes=size,
            formula=formula,
            copies=copies,
            life_begin=t.life[0],
            life_end=t.life[1],
            loops=t.loops,
            source=where,
            arena=arena,
            offset=offset,
            shares=shares,
            in_place_of=replaced,
            kernel=kernel,
            per_worker=t.arena in self.slabs,
        )

    def _find_shares(self, t: PlannedTemporary) -> tuple[str, ...]:
        """Names of the temporaries some of whose bytes are also this one's."""
        found: dict[str, None] = {}
        inside: PlannedTemporary | None = t
        while inside is not None:
            # What shares with the arenas of workers may share with all that is in them.
            for other in _find_overlaps(inside, self.placed[inside.arena]):
                found.update(dict.fromkeys(self._names_in(other)))
            inside = self.slabs.get(inside.arena)
        return tuple(found)

    def _names_in(self, t: PlannedTemporary) -> list[str]:
        if not t.slots_of:
            return [t.name]
        names: list[str] = []
        for member in self.numbers[t.slots_of].arena.temporaries:
            names += self._names_in(member)
        return names

    def _measured(self, t: PlannedTemporary) -> tuple[int, tuple[int, ...]]:
        """Bytes and extents of a temporary on the stack or with memory of its own."""
        measured = self.heap if t.kind is MemoryType.Heap else self.stack
        if t.kind is MemoryType.GPUGlobal:
            measured = self.own_on_device
        found = [v for node, v in measured.sizes.items() if node.name == t.name]
        return max(found, default=(0, ()))

    def _extents(self, t: PlannedTemporary) -> tuple[int, ...]:
        try:
            values = {**self.values, WORKERS: self.workers}
            return tuple([max(int(evaluate(e, values)), 0) for e in t.extents])
        except Unknown:
            return ()


def _find_replaced(t: PlannedTemporary, numbers: ArenaNumbers) -> str:
    """Name of the member that t follows in place; "" for none."""
    before = [
        other
        for other in numbers.arena.temporaries
        if other.group == t.group and other.life[0] < t.life[0] and numbers.sizes[other.member]
    ]
    return max(before, key=lambda m: m.life[0]).name if before else ""


def _find_overlaps(t: PlannedTemporary, numbers: ArenaNumbers) -> list[PlannedTemporary]:
    """The members of an arena some of whose bytes are also those of t."""
    begin = numbers.offsets[t.member]
    end = begin + numbers.sizes[t.member]
    return [
        other
        for other, offset, size in zip(
            numbers.arena.temporaries, numbers.offsets, numbers.sizes, strict=True
        )
        if other is not t and max(begin, offset) < min(end, offset + size)
    ]
