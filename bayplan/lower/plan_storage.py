"""Puts temporaries on the heap into arenas: one a call, and in it one for each worker of a loop."""

from __future__ import annotations

from bayplan import settings
from bayplan.ir import build
from bayplan.ir.errors import AllocationTooLarge, ErrorSite
from bayplan.ir.exprs import Call, CallKind, Const, Expr, Variable
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Block,
    For,
    Free,
    LetStmt,
    ProducerConsumer,
    Stmt,
)
from bayplan.ir.types import INT32, INT64, Handle, UInt
from bayplan.ir.walk import StmtRewriter, iterate
from bayplan.language.function import Function
from bayplan.language.target import MOST_ALIGNMENT
from bayplan.lower.arena_aliases import arenas_by_loop, check_of_size, needed_bytes, point_into
from bayplan.lower.context import Lowering
from bayplan.lower.guard_temporaries import is_sanitized
from bayplan.lower.place_device_memory import has_device
from bayplan.lower.stored_once import is_stored_once
from bayplan.storage.find_in_output import Output
from bayplan.storage.kernels import ON_DEVICE
from bayplan.storage.lives import Life, Lives, find_lives
from bayplan.storage.make_plan import Planned, make_plan, plan_device
from bayplan.storage.plan import Arena, PlannedTemporary


def plan_storage(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which heap temporaries are aliases of arenas; `lowering.plan` is the table.

    A temporary whose size is known where the call's arena is taken is found there; out of all
    serial loops, so nothing is allocated in one. Others stay where they are. Temporaries in the
    memory of a device have an arena of the same make.

    Order: after free_early, which marks the ends of lives; nothing after it may move or drop an
    allocation.
    """
    lives = find_lives(stmt)
    holders = _Holders(MemoryType.Heap)
    outside = _lets_outside(stmt, holders)
    target = lowering.target
    alignment = MOST_ALIGNMENT if target is None else target.storage_alignment
    title, share = lowering.outputs[0], bool(settings.value("STORAGE_PLAN"))
    both = {life.name for life in lives.lives}
    both = {name for name in both if name + ON_DEVICE in both}
    planned = make_plan(
        lives, outside, title, lowering.unique_name, alignment,
        # With guards each temporary has bytes of its own while it lives.
        lambda name: (
            not is_sanitized(target) and name not in both and is_stored_once(name, lowering)
        ),
        outputs=_find_outputs(lowering),
        in_output=lambda name: name not in both and _may_leave_heap(name, lowering), share=share,
        kernels=lowering.kernels,
    )
    lowering.plan = planned.plan
    stmt = _plan_device(stmt, lives, planned, lowering, share)
    if planned.plan.call_arena is None:
        return stmt
    return _Rewrite(planned, lives.lives, holders, lowering, alignment).run(stmt)


def _plan_device(
    stmt: Stmt, lives: Lives, known: Planned, lowering: Lowering, share: bool
) -> Stmt:
    """The statement in which temporaries of the call in device memory share one allocation."""
    plan, title = known.plan, lowering.outputs[0]
    kernels = [a for k in lowering.kernels for a in (k.shared, k.device) if a is not None]
    plan.kernels, plan.device_arenas = tuple(lowering.kernels), tuple(kernels)
    if not any(life.kind is MemoryType.GPUGlobal for life in lives.lives):
        return stmt
    holders = _Holders(MemoryType.GPUGlobal)
    outside = _lets_outside(stmt, holders)
    alignment = MOST_ALIGNMENT
    found = plan_device(
        lives, known, outside, title, lowering.unique_name, alignment, share=share
    )
    if found.plan.call_arena is None:
        return stmt
    plan.device_arena = found.plan.call_arena
    plan.device_arenas = (*found.plan.arenas, *kernels)
    names = {name for name, _ in plan.lets}
    plan.lets += tuple([let for let in found.plan.lets if let[0] not in names])
    return _Rewrite(found, lives.lives, holders, lowering, alignment).run(stmt)


def _find_outputs(lowering: Lowering) -> list[Output]:
    """The outputs in whose bytes temporaries may live.

    None with guards, and none where buffers may be newer on a device. None in a pipeline that
    others call, whose workspace is then known without the strides of its output.
    """
    if is_sanitized(lowering.target) or lowering.regions is not None:
        return []
    if has_device(lowering) or lowering.kernels:
        # Copies from and to a device touch the output's bytes too.
        return []
    if any(_leaves_elements(function) for function in lowering.env.values()):
        # The output would keep the temporary's elements where it is not stored.
        return []
    found = []
    for name in lowering.outputs:
        function = lowering.env[name]
        if function.init is None:
            continue
        once = is_stored_once(name, lowering)
        for buffer in function.output_buffers:
            inputs = [p.name for p in buffer.aliases]
            dimensions = function.dimensions()
            any_stride = dimensions > 0 and type(buffer.constraints[0].stride) is not Const
            found.append(Output(buffer.name, buffer.type, dimensions, inputs, once, any_stride))
    return found


def _may_leave_heap(name: str, lowering: Lowering) -> bool:
    """Whether the schedule does not say `store_in(MemoryType.Heap)`, which is honoured."""
    choice = lowering.kinds.get(name)
    return choice is None or choice.asked is not MemoryType.Heap


def _leaves_elements(function: Function) -> bool:
    """Whether the user left a value undefined, which is not stored."""
    return function.init is not None and any(
        type(n) is Call and n.name == "undef"
        for definition in function.stages()
        for n in iterate(*definition.values)
    )


class _Holders:
    """Which statements have an allocation in them, and which one of a kind, with its own bytes."""

    def __init__(self, kind: MemoryType) -> None:
        self.kind = kind
        self._known: dict[Node, tuple[bool, bool]] = {}

    def any(self, s: Node) -> bool:
        """Whether there is an allocation."""
        return self._find(s)[0]

    def own(self, s: Node) -> bool:
        """Whether there is one of the kind."""
        return self._find(s)[1]

    def _find(self, s: Node) -> tuple[bool, bool]:
        found = self._known.get(s)
        if found is None:
            some = type(s) is Allocate
            own = self.is_own(s)
            for child in s.children():
                if isinstance(child, Stmt):
                    inner = self._find(child)
                    some, own = some or inner[0], own or inner[1]
            found = self._known[s] = (some, own)
        return found

    def is_own(self, s: Node) -> bool:
        """Whether it is such an allocation itself."""
        return type(s) is Allocate and s.memory_type is self.kind and s.address is None


class _DropFree(StmtRewriter):
    """Takes the mark away that ends the life of an allocation."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def rewrite_Free(self, node: Free) -> Stmt:
        return build.nothing() if node.name == self.name else node


_SURROUNDING = (LetStmt, ProducerConsumer)


def _step_in(s: Stmt, holds: _Holders) -> int | None:
    """Which child all such allocations are in, where the arena may as well be taken in it."""
    cls = type(s)
    if cls in _SURROUNDING or (cls is Allocate and not holds.is_own(s)):
        return len(s.children()) - 1
    if cls is Block:
        inside = [i for i, part in enumerate(s.stmts) if holds.own(part)]  # type: ignore[attr-defined]
        return inside[0] if len(inside) == 1 else None
    return None


def _lets_outside(stmt: Stmt, holds: _Holders) -> list[LetStmt]:
    """The lets around the place where the call's arena is taken, outermost first."""
    outside = []
    position = _step_in(stmt, holds) if holds.own(stmt) else None
    while position is not None:
        if type(stmt) is LetStmt:
            outside.append(stmt)
        stmt = stmt.children()[position]  # type: ignore[assignment]
        position = _step_in(stmt, holds)
    return outside


class _Rewrite:
    """Walks in the order in which lives were found, so that each Allocate meets its own."""

    def __init__(
        self,
        planned: Planned,
        lives: list[Life],
        holds: _Holders,
        lowering: Lowering,
        alignment: int,
    ) -> None:
        self.planned = planned
        # By name and kind, in program order: other allocations have come in between since.
        self.lives: dict[tuple[str, MemoryType], list[Life]] = {}
        for life in reversed(lives):
            self.lives.setdefault((life.name, life.kind), []).append(life)
        self.holds = holds
        self.lowering = lowering
        self.alignment = alignment
        self.bytes: dict[str, Expr] = {}  # of each arena
        self.offsets: dict[int, Expr] = {}  # of each temporary, by id
        self.named: dict[Expr, Expr] = {}
        self.lets: list[tuple[str, Expr] | AssertStmt] = []
        self.worker_arenas = arenas_by_loop(planned.worker_arenas.items())

    def run(self, stmt: Stmt) -> Stmt:
        position = _step_in(stmt, self.holds)
        if position is None:
            return self._take_arena(stmt)
        if type(stmt) is Allocate:
            self._life_of(stmt)
        children = list(stmt.children())
        for i, child in enumerate(children):
            if i == position:
                children[i] = self.run(child)  # type: ignore[arg-type]
            elif isinstance(child, Stmt):
                children[i] = self.walk(child)
        return stmt.with_children(children)  # type: ignore[return-value]

    def _life_of(self, s: Allocate) -> Life | None:
        """The life of the allocation that the walk comes to; None for an arena."""
        lives = self.lives.get((s.name, s.memory_type))
        return lives.pop() if lives else None

    # The prologue.

    def _take_arena(self, stmt: Stmt) -> Stmt:
        call = self.planned.plan.arenas[0]
        for arena in self.planned.plan.arenas[::-1]:
            self._measure(arena)
        single = len(call.temporaries) == 1 and call.name == call.temporaries[0].name
        body = self.walk(stmt)
        result: Stmt
        if single:
            only = call.temporaries[0]
            result = Allocate(
                only.name, only.type, self.holds.kind, only.extents, only.condition, only.padding,
                body, self.alignment,
            )
            return result
        condition: Expr = build.true()
        if call.offsets is not None:
            condition = build.false()
            for member in call.temporaries:
                condition = build.logical_or(condition, member.condition)
        result = Allocate(
            call.name, UInt(8), self.holds.kind, (self.bytes[call.name],), condition, 0, body,
            self.alignment,
        )
        for item in reversed(self.lets):
            if isinstance(item, AssertStmt):
                result = build.block([item, result])
            else:
                result = LetStmt(item[0], item[1], result)
        return result

    def _let(self, wanted: str, value: Expr) -> Expr:
        """The value under a name of its own, bound before the call's arena is taken."""
        if build.constant_value(value) is not None or type(value) is Variable:
            return value
        found = self.named.get(value)
        if found is None:
            name = self.lowering.unique_name(wanted)
            self.lets.append((name, value))
            found = self.named[value] = Variable(value.type, name)
        return found

    def _measure(self, arena: Arena) -> None:
        """Binds sizes and offsets of an arena's members, and its bytes."""
        members = arena.temporaries
        if arena.placement is None:
            assert arena.offsets is not None and arena.bytes is not None
            for member in members:
                self.offsets[id(member)] = build.const(INT64, arena.offsets[member.group])
            self.bytes[arena.name] = build.const(INT64, arena.bytes)
            return
        if len(members) == 1 and arena.name == members[0].name:
            # Allocated as itself, with checks of its own.
            return
        sizes = [self._group_size(group) for group in arena.groups]
        if len(sizes) == 1:
            self.bytes[arena.name] = sizes[0]
            for member in members:
                self.offsets[id(member)] = build.const(INT64, 0)
            return
        target = arena.placement
        placed = Call(INT64, "place_storage", tuple(sizes), CallKind.INTRINSIC, target)
        total = self._let(f"{arena.name}.bytes", placed)
        site = ErrorSite(
            AllocationTooLarge,
            f"the temporaries of {self.lowering.outputs[0]} together need more than 2^63 - 1 bytes",
            self.lowering.where(self.lowering.outputs[0]),
        )
        self.lets.append(AssertStmt(build.ge(total, 0), site, ()))
        self.bytes[arena.name] = total
        for i, group in enumerate(arena.groups):
            place = Call(INT64, "placed_offset", (build.int32(i),), CallKind.INTRINSIC, target)
            offset = self._let(f"{group[0].name}.offset", place)
            for member in group:
                self.offsets[id(member)] = offset

    def _group_size(self, group: tuple[PlannedTemporary, ...]) -> Expr:
        size = self._size_in_arena(group[0])
        for member in group[1:]:
            size = build.maximum(size, self._size_in_arena(member))
        if len(group) == 1 and not group[0].output:
            return size
        return self._let(f"{group[0].name}.{'shared' if len(group) > 1 else 'own'}.bytes", size)

    def _size_in_arena(self, member: PlannedTemporary) -> Expr:
        size = self._size(member)
        if not member.output:
            return size
        return build.select(self._in_output(member), build.const(INT64, 0), size)

    def _in_output(self, member: PlannedTemporary) -> Expr:
        """Whether the member has the bytes of an output."""
        return self._let(f"{member.name}.in_output", member.in_output)

    def _size(self, member: PlannedTemporary) -> Expr:
        if member.slots_of:
            return self._slab_size(member)
        value = needed_bytes(member)
        if value in self.named:
            return self.named[value]
        size = self._let(f"{member.name}.bytes", value)
        if any(extent.type is INT64 for extent in member.extents):
            # The slices of a kernel's blocks: each of them is indexed by itself.
            return size
        self.lets.append(check_of_size(member, size, self.lowering))
        return size

    def _slab_size(self, slab: PlannedTemporary) -> Expr:
        part = self._part_bytes(slab.slots_of)
        slots = Call(INT32, "parallel_slots", slab.extents, CallKind.INTRINSIC)
        needed = build.mul(build.cast(INT64, slots), part)
        zero = build.const(INT64, 0)
        return self._let(f"{slab.name}.bytes", build.select(slab.condition, needed, zero))

    def _part_bytes(self, arena: str) -> Expr:
        """The bytes from the arena of one worker to that of the next."""
        unit = self.alignment
        return build.mul(build.div(self.bytes[arena] + (unit - 1), unit), unit)

    # The statement.

    def walk(self, s: Stmt) -> Stmt:
        """The statement with aliases for allocations that have a place in an arena."""
        cls = type(s)
        if cls is Allocate:
            return self._allocate(s)  # type: ignore[arg-type]
        if not self.holds.any(s):
            return s
        if cls is For:
            return self._loop(s)  # type: ignore[arg-type]
        children = [self.walk(c) if isinstance(c, Stmt) else c for c in s.children()]
        return s.with_children(children)  # type: ignore[return-value]

    def _allocate(self, s: Allocate) -> Stmt:
        life = self._life_of(s)
        member = None if life is None else self.planned.members.get(life)
        body = self.walk(s.body)
        if member is None:
            return s.with_body(body)
        if member.arena == member.name:
            # It is taken outside of the loops around, so its life does not end in one.
            return _DropFree(s.name)(body)
        address = point_into(member.arena, self.offsets[id(member)])
        if member.output:
            choice = (self._in_output(member), Variable(Handle(), member.output), *address.args)
            address = Call(Handle(), "output_or_offset_pointer", choice, CallKind.INTRINSIC)
        return Allocate(
            s.name, s.type, s.memory_type, s.extents, s.condition, s.padding, body,
            self.alignment, address,
        )

    def _loop(self, s: For) -> Stmt:
        arena: Arena | None = None
        if s.kind is ForKind.Parallel and self.worker_arenas.get(id(s)):
            arena = self.worker_arenas[id(s)].pop(0)
        body = self.walk(s.body)
        if arena is not None:
            slab = self.planned.slabs[arena.name]
            slot = build.cast(INT64, Call(INT32, "worker_slot", (), CallKind.INTRINSIC))
            offset = build.add(
                self.offsets[id(slab)], build.mul(slot, self._part_bytes(arena.name))
            )
            body = Allocate(
                arena.name, UInt(8), MemoryType.Heap, (self.bytes[arena.name],), build.true(), 0,
                body, self.alignment, point_into(slab.arena, offset),
            )
        return s if body is s.body else s.with_children([s.min, s.extent, body])
