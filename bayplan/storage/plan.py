"""The storage plan: one table that says where every temporary lives.

Code generation, the checker, reports, messages and pictures read this table and nothing else.
Sizes are expressions over the call's sizes and parameters, so the table is made once a program;
`storage.report` evaluates it for a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.ir.build import false
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import MemoryType
from bayplan.ir.types import Type

if TYPE_CHECKING:
    from bayplan.storage.placement import Placement

class KindChoice:
    """The kind that a schedule asked for, and why another one was given ("": it was not)."""

    __slots__ = ("asked", "why")

    def __init__(self, asked: MemoryType, why: str = "") -> None:
        self.asked = asked
        self.why = why


class PlannedTemporary:
    """One temporary of a program.

    Attributes:
        name: of its storage; specialisations and peeled loops can give several of one name.
        type, extents, padding, condition: of its allocation, in terms of what is known where its
            arena is taken; they are bounds over the loops it was moved out of.
        kind: where it lives.
        life: half-open interval of steps.
        loops: names of the loops around the place it was allocated in, outermost first.
        arena: name of the arena its bytes are in; "" for one with memory of its own.
        member: its number in the arena, -1 for one with memory of its own.
        group: the number of the bytes it has in the arena: members of one group follow each other
            in place.
        slots_of: for the slab of a parallel loop the name of the workers' arena in it.
        is_slab: whether it is the device memory of all blocks of a kernel.
        output: name of the output in whose bytes it lives where `in_output` holds in the call; it
            takes none of the arena then. "" for none.
    """

    __slots__ = (
        "name", "type", "extents", "padding", "condition", "kind", "life", "loops", "arena",
        "member", "group", "slots_of", "is_slab", "output", "in_output",
    )

    def __init__(
        self,
        name: str,
        type: Type,
        extents: tuple[Expr, ...],
        padding: int,
        condition: Expr,
        kind: MemoryType,
        life: tuple[int, int],
        loops: tuple[str, ...],
    ) -> None:
        self.name = name
        self.type = type
        self.extents = extents
        self.padding = padding
        self.condition = condition
        self.kind = kind
        self.life = life
        self.loops = loops
        self.arena = ""
        self.member = -1
        self.group = -1
        self.slots_of = ""
        self.is_slab = False
        self.output = ""
        self.in_output: Expr = false()


class Arena:
    """A backing allocation that several temporaries share.

    Attributes:
        name: of its allocation.
        alignment: bytes that it is aligned to; so are its members, where `alignments` is None.
        alignments: bytes that each group is aligned to.
        kind: of memory: Heap, Stack, GPUShared or GPUGlobal.
        scope: "call", or the name of the parallel loop each of whose workers has one; of a kernel
            "block": each block that runs has one (GPUShared), or each of the launch (GPUGlobal).
        kernel: the title of the kernel that it is for, "" for none.
        temporaries: its members in order; a member is a slab where `slots_of` is set.
        groups: the members that have the same bytes, one after the other; most have one member.
        placement: how groups are placed where their sizes are found at the call.
        offsets: of the groups where all sizes are constants, else None.
        bytes: of the arena where all sizes are constants.
    """

    __slots__ = (
        "name", "scope", "temporaries", "groups", "placement", "offsets", "bytes",
        "alignment", "alignments", "kind", "kernel",
    )

    def __init__(
        self,
        name: str,
        scope: str,
        temporaries: tuple[PlannedTemporary, ...],
        alignment: int,
    ) -> None:
        self.name = name
        self.scope = scope
        self.temporaries = temporaries
        self.alignment = alignment
        self.groups: tuple[tuple[PlannedTemporary, ...], ...] = ()
        self.placement: Placement | None = None
        self.offsets: tuple[int, ...] | None = None
        self.bytes: int | None = None
        self.alignments: tuple[int, ...] | None = None
        self.kind = MemoryType.Heap
        self.kernel = ""

    def alignment_of(self, group: int) -> int:
        """Bytes that the offset of a group is a multiple of."""
        return self.alignment if self.alignments is None else self.alignments[group]


class KernelPlan:
    """The storage of one kernel.

    Attributes:
        title: what its loops are named after.
        blocks, threads: extents in x, y, z, as the host knows them before the launch.
        shared: the arena in a block's shared memory, None for none; a single temporary in it has
            the arena's name and no alias.
        device: the arena that each block has in device memory, None for none.
        slab: the temporary that holds those of all blocks.
        members: by name of the allocation the temporary, for both arenas; names are unique in a
            kernel.
        steps: the half-open interval of the program's steps that are the kernel's.
    """

    __slots__ = ("blocks", "device", "members", "shared", "slab", "steps", "threads", "title")

    def __init__(
        self, title: str, blocks: tuple[Expr, ...], threads: tuple[Expr, ...]
    ) -> None:
        self.title = title
        self.blocks = blocks
        self.threads = threads
        self.shared: Arena | None = None
        self.device: Arena | None = None
        self.slab: PlannedTemporary | None = None
        self.members: dict[str, PlannedTemporary] = {}
        self.steps = (0, 0)


class StoragePlan:
    """Where every temporary of a program lives.

    Attributes:
        arenas: the call's first, then those of workers.
        temporaries: all, in program order.
        call_arena: name of the allocation that a call takes its bytes with, None where it needs
            none; a single temporary is allocated as itself.
        unplanned: names of heap temporaries whose size depends on data: allocated where they are.
        steps: what happens at each step, in a few words.
        lets: names and values, outermost first, that sizes may speak of: those in scope where the
            call's arena is taken.
        stack_arenas: arrays that temporaries on the stack share, one a scope at most.
        device_arenas: the call's in device memory, if any, and those of kernels.
        device_arena: name of the allocation that a call takes its device memory with, None where
            it needs none.
        kernels: one a kernel, in program order.
    """

    __slots__ = (
        "arenas", "temporaries", "call_arena", "unplanned", "steps", "lets", "stack_arenas",
        "device_arenas", "device_arena", "kernels",
    )

    def __init__(
        self,
        arenas: tuple[Arena, ...],
        temporaries: tuple[PlannedTemporary, ...],
        call_arena: str | None,
        unplanned: tuple[str, ...],
        steps: tuple[str, ...],
        lets: tuple[tuple[str, Expr], ...],
    ) -> None:
        self.arenas = arenas
        self.temporaries = temporaries
        self.call_arena = call_arena
        self.unplanned = unplanned
        self.steps = steps
        self.lets = lets
        self.stack_arenas: tuple[Arena, ...] = ()
        self.device_arenas: tuple[Arena, ...] = ()
        self.device_arena: str | None = None
        self.kernels: tuple[KernelPlan, ...] = ()

    @property
    def alignment(self) -> int:
        """Bytes that the call's arena is aligned to."""
        return self.arenas[0].alignment if self.arenas else 1

    def parts_of(self, arena: str) -> str:
        """What an arena is for, as a message says it: " (of f, g, h)"."""
        arenas = {a.name: a for a in self.arenas}
        found = arenas.get(arena)
        if found is None or found.temporaries[0].name == arena:
            return ""
        names: list[str] = []
        left = list(found.temporaries)
        while left:
            member = left.pop(0)
            if member.slots_of:
                # The parts of workers are what is in them.
                left = [*arenas[member.slots_of].temporaries, *left]
            elif member.name not in names:
                names.append(member.name)
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        return f" (of {', '.join(names[:6])}{more})"
