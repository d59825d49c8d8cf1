"""Puts the temporaries of a kernel's blocks into one shared and one global allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan import settings
from bayplan.analysis.purity import is_pure, reads_memory
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import AllocationTooLarge, DeviceLimitError, ErrorSite
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Block,
    For,
    Free,
    IfThenElse,
    LetStmt,
    Stmt,
)
from bayplan.ir.types import INT32, INT64, UInt
from bayplan.ir.walk import StmtRewriter, free_variables, iterate
from bayplan.lower.arena_aliases import check_of_size, needed_bytes, point_into
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_storage
from bayplan.lower.rename_kernel import rename_kernel
from bayplan.storage.block_arenas import (
    BLOCK_ALIGNMENT,
    BlockTemporary,
    constant_bytes,
    find_block_temporaries,
    fit_shared,
    plan_block,
)
from bayplan.storage.kernels import Kernel, around_blocks, is_kernel
from bayplan.storage.plan import Arena, KernelPlan, KindChoice, PlannedTemporary
from bayplan.storage.requests import align_up

SHARED_BUDGET_BYTES: Final = 48 * 1024
"""Shared memory of a block that temporaries of kind Auto may make it need; all devices have it."""

_OF_BLOCK: Final = (MemoryType.GPUShared, MemoryType.Heap)


def plan_kernels(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which temporaries of kernels are aliases; `lowering.kernels` has the tables.

    A block's shared memory is one allocation under the loops over blocks; a single temporary in it
    keeps its own name. What lives in global memory is a part of one allocation around the launch,
    which has a slice for each block. Before the launch it is checked that the device has as much
    shared memory as it asks for.

    Order: after free_early; before plan_storage, which shares out what the launches need.
    """
    plan = _PlanKernels(lowering)
    return plan.bind(plan(stmt))


_Sizes = list[tuple[str, Expr] | AssertStmt]


class _PlanKernels(StmtRewriter):
    """Walks the host's statements; sizes move outward, to where plan_storage can use them."""

    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        # Lets and checks that are to stand around what was just rewritten.
        self.sizes: _Sizes = []

    def bind(self, stmt: Stmt) -> Stmt:
        """The statement within the sizes that are waiting."""
        for item in reversed(self.sizes):
            if isinstance(item, AssertStmt):
                stmt = build.block([item, stmt])
            else:
                stmt = LetStmt(item[0], item[1], stmt)
        self.sizes = []
        return stmt

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        body = self(node.body)
        if node.name in _names_of(self.sizes):
            body = self.bind(body)  # it hides another one
        elif any(node.name in names_in(item) for item in self.sizes):
            if is_pure(node.value) and not reads_memory(node.value):
                self.sizes.insert(0, (node.name, node.value))
                return body  # type: ignore[no-any-return]
            body = self.bind(body)
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        then = self.bind(self(node.then_case))
        other = None if node.else_case is None else self.bind(self(node.else_case))
        return IfThenElse(node.condition, then, other)

    def rewrite_Block(self, node: Block) -> Stmt:
        parts: list[Stmt] = []
        waiting: _Sizes = []
        checked = False
        for part in node.stmts:
            part = self(part)
            if checked or not _names_of(self.sizes).isdisjoint(_names_of(waiting)):
                # What is checked before may be what sizes rely on.
                part = self.bind(part)
            waiting += self.sizes
            self.sizes = []
            checked = checked or type(part) in (AssertStmt, IfThenElse)
            parts.append(part)
        self.sizes = waiting
        return build.block(parts)

    def rewrite_For(self, node: For) -> Stmt:
        if not is_kernel(node):
            body = self.bind(self(node.body))
            return node.with_children([node.min, node.extent, body])
        planned = _OneKernel(rename_kernel(node, self.lowering), self.lowering)
        self.lowering.kernels.append(planned.plan)
        result = planned.run()
        self.sizes = planned.before
        return result if planned.plan.device is not None else self.bind(result)


class _OneKernel:
    def __init__(self, node: For, lowering: Lowering) -> None:
        self.lowering = lowering
        self.kernel = kernel = Kernel(node)
        self.plan = KernelPlan(
            kernel.title,
            tuple([loop.extent for loop in reversed(kernel.loops)]),
            tuple([loop.extent for loop in reversed(kernel.threads)]),
        )
        self.temporaries = find_block_temporaries(node)
        # What is bound and checked before the launch, and what right before it.
        self.before: _Sizes = []
        self.check: AssertStmt | None = None
        self.offsets: dict[str, Expr] = {}
        self.bytes: dict[str, Expr] = {}

    def run(self) -> Stmt:
        title = self.kernel.title
        self._move_what_does_not_fit()
        shared = [t for t in self.temporaries if t.kind is MemoryType.GPUShared]
        device = [t for t in self.temporaries if t.kind is MemoryType.GPUGlobal]
        if shared:
            alone = shared[0].name if len(shared) == 1 else ""
            self.plan.shared = self._arena(alone or f"{title}.shared_alloc", shared)
            self._check_limit(shared, self.plan.shared)
        if device:
            self.plan.device = self._arena(f"{title}.block_alloc", device)
        body = _Aliases(self)(self.kernel.body)
        body = self._in_blocks(body, shared)
        return self._around(around_blocks(self.kernel, body))

    def _move_what_does_not_fit(self) -> None:
        def is_free(name: str) -> bool:
            choice = self.lowering.kinds.get(name)
            return choice is None or choice.asked is not MemoryType.GPUShared

        for moved, needed in fit_shared(self.temporaries, SHARED_BUDGET_BYTES, is_free):
            why = (
                f"the kernel {self.kernel.title} would need {needed} bytes of a block's shared "
                f"memory, over the limit of {SHARED_BUDGET_BYTES}"
            )
            asked = self.lowering.kinds[moved.name].asked
            self.lowering.kinds[moved.name] = KindChoice(asked, why)
            self.lowering.warnings.append(f"{moved.name}: asked {asked.name}, got Heap: {why}")

    # Arenas.

    def _arena(self, wanted: str, temporaries: Sequence[BlockTemporary]) -> Arena:
        name = wanted
        if wanted != temporaries[0].name:
            name = self.lowering.unique_name(wanted)
        arena = plan_block(name, temporaries, bool(settings.value("STORAGE_PLAN")))
        arena.kernel = self.kernel.title
        for member in arena.temporaries:
            self.plan.members[member.name] = member
        self._measure(arena)
        return arena

    def _measure(self, arena: Arena) -> None:
        """Finds the bytes of an arena and the offsets in it, bound before the launch."""
        members = arena.temporaries
        if arena.placement is None:
            assert arena.offsets is not None and arena.bytes is not None
            self.bytes[arena.name] = build.const(INT64, arena.bytes)
            for member, offset in zip(members, arena.offsets, strict=True):
                self.offsets[member.name] = build.const(INT64, offset)
            return
        sizes = [self._size(member) for member in members]
        if len(members) == 1:
            self.bytes[arena.name] = sizes[0]
            self.offsets[members[0].name] = build.const(INT64, 0)
            return
        target = arena.placement
        placed = Call(INT64, "place_storage", tuple(sizes), CallKind.INTRINSIC, target)
        total = self._let(f"{arena.name}.bytes", placed)
        site = ErrorSite(
            AllocationTooLarge,
            f"the temporaries of the kernel {self.kernel.title} together need more than "
            "2^63 - 1 bytes",
            self.lowering.where(self.lowering.outputs[0]) if self.lowering.outputs else None,
        )
        self.before.append(AssertStmt(build.ge(total, 0), site, ()))
        self.bytes[arena.name] = total
        for i, member in enumerate(members):
            place = Call(INT64, "placed_offset", (build.int32(i),), CallKind.INTRINSIC, target)
            self.offsets[member.name] = self._let(f"{member.name}.offset", place)

    def _size(self, member: PlannedTemporary) -> Expr:
        known = constant_bytes(member.type, member.extents, member.padding)
        if known is not None:
            size = build.const(INT64, known)
            return build.select(member.condition, size, build.const(INT64, 0))
        size = self._let(f"{member.name}.bytes", needed_bytes(member))
        self.before.append(check_of_size(member, size, self.lowering))
        return size

    def _let(self, wanted: str, value: Expr) -> Expr:
        if build.constant_value(value) is not None or type(value) is Variable:
            return value
        name = self.lowering.unique_name(wanted)
        self.before.append((name, value))
        return Variable(value.type, name)

    def _check_limit(self, shared: Sequence[BlockTemporary], arena: Arena) -> None:
        """The launch needs no more shared memory than the device's blocks have."""
        total = self.bytes[arena.name]
        limit = Call(INT64, "device_shared_limit", (), CallKind.INTRINSIC)
        parts, told = [], [total, limit]
        for t in shared:
            known = constant_bytes(t.node.type, t.node.extents, t.node.padding)
            if known is not None:
                parts.append(f"{t.name} {known}")
                continue
            told.append(self._known_size(t.name))
            parts.append(f"{t.name} {{{len(told) - 1}}}")
        func = func_of_storage(shared[0].name, self.lowering)
        site = ErrorSite(
            DeviceLimitError,
            f"the kernel {self.kernel.title} needs {{0}} bytes of a block's shared memory, but "
            f"the device has {{1}}; it holds {', '.join(parts)}",
            self.lowering.where(func),
            hint="store_in(hl.MemoryType.Heap) puts a temporary into global memory",
        )
        self.check = AssertStmt(build.le(total, limit), site, tuple(told))

    def _known_size(self, name: str) -> Expr:
        """The size of a member as it was bound; of a single one it is the arena's."""
        for item in self.before:
            if not isinstance(item, AssertStmt) and item[0].startswith(f"{name}.bytes"):
                return Variable(INT64, item[0])
        return self.bytes[name]

    # The statement.

    def _in_blocks(self, body: Stmt, shared: Sequence[BlockTemporary]) -> Stmt:
        """What each block does, within its memory."""
        device = self.plan.device
        if device is not None:
            begin = build.mul(self.kernel.block(), self._slice())
            body = Allocate(
                device.name, UInt(8), MemoryType.GPUGlobal, (self.bytes[device.name],),
                _any_needed(device), 0, body, BLOCK_ALIGNMENT, point_into(self.slab_name, begin),
            )
        arena = self.plan.shared
        if arena is None:
            return body
        if arena.name == arena.temporaries[0].name:
            node = shared[0].node
            first, *others = node.extents or (build.const(INT32, 1),)
            if arena.placement is not None:
                # What is not needed takes no bytes of the launch.
                first = build.select(node.condition, first, 0)
            return Allocate(
                node.name, node.type, MemoryType.GPUShared, (first, *others), node.condition,
                node.padding, body, arena.alignment,
            )
        return Allocate(
            arena.name, UInt(8), MemoryType.GPUShared, (self.bytes[arena.name],),
            _any_needed(arena), 0, body, arena.alignment,
        )

    @property
    def slab_name(self) -> str:
        """The name of the global memory of all blocks."""
        return f"{self.kernel.title}.global_alloc"

    def _slice(self) -> Expr:
        """The bytes from the slice of one block to that of the next."""
        assert self.plan.device is not None
        size = self.bytes[self.plan.device.name]
        known = build.constant_value(size)
        if known is not None:
            return build.const(INT64, align_up(int(known), BLOCK_ALIGNMENT))
        unit = BLOCK_ALIGNMENT
        return build.mul(build.div(size + (unit - 1), unit), unit)

    def _around(self, launch: Stmt) -> Stmt:
        arena = self.plan.device
        result = launch if self.check is None else build.block([self.check, launch])
        if arena is not None:
            size = simplify(build.mul(self.kernel.blocks(), self._slice()))
            needed = _any_needed(arena)
            result = Allocate(
                self.slab_name, UInt(8), MemoryType.GPUGlobal, (size,), needed, 0, result,
                BLOCK_ALIGNMENT,
            )
            self.plan.slab = PlannedTemporary(
                self.slab_name, UInt(8), (size,), 0, needed, MemoryType.GPUGlobal, (0, 0), (),
            )
        return result


def _names_of(sizes: _Sizes) -> set[str]:
    """The names that sizes bind."""
    return {item[0] for item in sizes if not isinstance(item, AssertStmt)}


def names_in(item: tuple[str, Expr] | AssertStmt) -> frozenset[str]:
    """The variables that a size, or a check of it, uses."""
    if not isinstance(item, AssertStmt):
        return free_variables(item[1])
    return free_variables(item.condition).union(*[free_variables(a) for a in item.args])


def _any_needed(arena: Arena) -> Expr:
    if arena.placement is not None:
        return build.true()  # its bytes are 0 then
    needed: Expr = build.false()
    for member in arena.temporaries:
        needed = build.logical_or(needed, member.condition)
    return needed


class _Aliases(StmtRewriter):
    """Makes the allocations in a kernel aliases where they stand."""

    def __init__(self, planned: _OneKernel) -> None:
        super().__init__()
        self.planned = planned
        self.members = planned.plan.members
        self.of_block = {
            node.name
            for node in iterate(planned.kernel.body)
            if isinstance(node, Allocate) and node.memory_type in _OF_BLOCK
        }

    def rewrite_Free(self, node: Free) -> Stmt:
        # Memory is a block's until it ends.
        return build.nothing() if node.name in self.of_block else node

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        member = self.members.get(node.name)
        body = self(node.body)
        if member is None:
            return body if node.memory_type in _OF_BLOCK else node.with_body(body)
        if member.arena == member.name:
            return body  # type: ignore[no-any-return]
        place = point_into(member.arena, self.planned.offsets[node.name])
        return Allocate(
            node.name, node.type, member.kind, node.extents, node.condition, node.padding, body,
            member_alignment(self.planned.plan, member), place,
        )


def member_alignment(plan: KernelPlan, member: PlannedTemporary) -> int:
    """Bytes that the address of an alias is a multiple of."""
    arena = plan.shared if member.kind is MemoryType.GPUShared else plan.device
    assert arena is not None
    return arena.alignment_of(member.group)
