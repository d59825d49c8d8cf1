"""Plans the memory of one block of a kernel: which temporaries, how long, and where each lies.

The steps of a block are the stretches of code between which a barrier can stand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bayplan.ir import build
from bayplan.ir.exprs import Expr, Load, Ramp
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Allocate, Stmt, Store
from bayplan.ir.types import Type
from bayplan.ir.walk import iterate
from bayplan.storage.lives import find_lives
from bayplan.storage.placement import keep_placement
from bayplan.storage.plan import Arena, PlannedTemporary
from bayplan.storage.plan_offsets import plan_offsets
from bayplan.storage.requests import Request

BLOCK_ALIGNMENT: Final = 16
"""Bytes that the memory of a block is aligned to: as many as a thread reads at once."""

_INT32_MAX: Final = 2**31 - 1
# Sizes of temporaries that plans are made for, where only the call knows them.
_HINT_ELEMENTS: Final = (256, 64, 33)


class BlockTemporary:
    """A temporary of the blocks of a kernel.

    Attributes:
        name: unique in the kernel.
        node: its allocation.
        kind: GPUShared or GPUGlobal.
        begin, end: the half-open interval of steps in which its bytes are in use.
        loops: names of the loops around its allocation.
        alignment: bytes that its elements, and vectors of them, are aligned to.
    """

    __slots__ = ("alignment", "begin", "end", "kind", "loops", "name", "node")

    def __init__(
        self, node: Allocate, life: tuple[int, int], loops: tuple[str, ...], alignment: int
    ) -> None:
        self.name = node.name
        self.node = node
        shared = node.memory_type is MemoryType.GPUShared
        self.kind = MemoryType.GPUShared if shared else MemoryType.GPUGlobal
        self.begin, self.end = life
        self.loops = loops
        self.alignment = alignment

    def constant_bytes(self) -> int | None:
        """The bytes of it, None where they are known only at the call."""
        return constant_bytes(self.node.type, self.node.extents, self.node.padding)


def find_block_temporaries(kernel: Stmt) -> list[BlockTemporary]:
    """The temporaries of a kernel's blocks that are used at all, in program order."""
    wide = _find_wide(kernel)
    found = []
    for life in find_lives(kernel).lives:
        if life.kind in (MemoryType.GPUShared, MemoryType.Heap) and life.begin < life.end:
            alignment = BLOCK_ALIGNMENT if life.name in wide else 1
            alignment = max(alignment, life.type.bytes())
            steps = (life.begin, life.end)
            found.append(BlockTemporary(life.node, steps, life.loops, alignment))
    return found


def _find_wide(kernel: Stmt) -> set[str]:
    """What is read or written in vectors of neighbouring elements."""
    found: set[str] = set()
    for node in iterate(kernel):
        if isinstance(node, Load | Store) and type(node.index) is Ramp:
            if build.is_one(node.index.stride):
                found.add(node.name)
    return found


def constant_bytes(t: Type, extents: Iterable[Expr], padding: int) -> int | None:
    """The bytes of an allocation whose extents are constants within what indices reach."""
    elements = 1
    for extent in extents:
        value = build.constant_value(extent)
        if value is None:
            return None
        elements *= max(int(value), 0)
    if elements > _INT32_MAX - padding:
        return None
    return (elements + padding) * t.bytes() if elements else 0


def _requests(temporaries: Sequence[BlockTemporary], sizes: Sequence[int]) -> list[Request]:
    return [
        Request(t.name, size, t.begin, t.end, t.alignment)
        for t, size in zip(temporaries, sizes, strict=True)
    ]


def fit_shared(
    temporaries: Sequence[BlockTemporary], limit: int, may_move: Callable[[str], bool]
) -> list[tuple[BlockTemporary, int]]:
    """Moves temporaries to global memory until the rest fits into a block's shared memory.

    Those whose sizes only the call knows are not counted.

    Returns:
        Those that were moved, each with the bytes that would have been needed.
    """
    moved: list[tuple[BlockTemporary, int]] = []
    while True:
        shared = [t for t in temporaries if t.kind is MemoryType.GPUShared]
        sizes = {t: size for t in shared if (size := t.constant_bytes()) is not None}
        needed = _peak(sizes)
        free = sorted([t for t in sizes if may_move(t.name) and sizes[t]], key=sizes.__getitem__)
        if needed <= limit or not free:
            return moved
        chosen = free[-1]
        for t in free:
            rest = {other: size for other, size in sizes.items() if other is not t}
            if _peak(rest) <= limit:
                chosen = t
                break
        chosen.kind = MemoryType.GPUGlobal
        moved.append((chosen, needed))


def _peak(sizes: dict[BlockTemporary, int]) -> int:
    if not sizes:
        return 0
    return plan_offsets(_requests(list(sizes), list(sizes.values()))).peak_bytes


def plan_block(name: str, temporaries: Sequence[BlockTemporary], share: bool = True) -> Arena:
    """The arena of temporaries of one kind.

    Args:
        name: of its allocation.
        temporaries: its members.
        share: False gives each bytes of its own.
    """
    kind = temporaries[0].kind
    members = []
    for i, t in enumerate(temporaries):
        node = t.node
        member = PlannedTemporary(
            t.name, node.type, node.extents, node.padding, node.condition, kind,
            (t.begin, t.end), t.loops,
        )
        member.arena, member.member, member.group = name, i, i
        members.append(member)
    alignments = [t.alignment for t in temporaries]
    arena = Arena(name, "block", tuple(members), max(BLOCK_ALIGNMENT, *alignments))
    arena.groups = tuple([(m,) for m in members])
    arena.kind = kind
    arena.alignments = tuple(alignments)
    lives = [(t.begin, t.end) for t in temporaries]
    if not share:
        lives = [(0, 1)] * len(members)
    sizes = [t.constant_bytes() for t in temporaries]
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        requests = [
            Request(t.name, size, begin, end, t.alignment)
            for t, size, (begin, end) in zip(temporaries, known, lives, strict=True)
        ]
        found = plan_offsets(requests)
        arena.offsets, arena.bytes = tuple(found.offsets), found.peak_bytes
        return arena
    hints = [
        [elements * t.node.type.bytes() if size is None else size
         for t, size in zip(temporaries, sizes, strict=True)]
        for elements in _HINT_ELEMENTS
    ]  # fmt: skip
    arena.placement = keep_placement(lives, alignments, hints)
    return arena
