"""The grid of a kernel: the names of its loops over blocks and threads, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan.ir.build import int32, var
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, Stmt

AXES: Final = "xyz"
MOST_LANES: Final = 32
"""The threads of a warp, which run in step."""
MOST_THREADS: Final = 1024
"""The threads of a block on any device."""


class Grid:
    """The blocks of a kernel and the threads of each.

    Attributes:
        title: the kernel's unique name, "blur_y.s0.kernel".
        blocks: how many blocks there are along x, y, z; as many as the loops have dimensions.
        threads: the same for the threads of a block, at least one dimension.
    """

    __slots__ = ("blocks", "threads", "title")

    def __init__(self, title: str, blocks: Sequence[Expr], threads: Sequence[Expr]) -> None:
        self.title = title
        self.blocks = tuple(blocks)
        self.threads = tuple(threads)

    def block(self, axis: int) -> Expr:
        """The number of the block along an axis."""
        return var(f"{self.title}.block_id_{AXES[axis]}")

    def thread(self, axis: int) -> Expr:
        """The number of the thread in its block along an axis."""
        return var(f"{self.title}.thread_id_{AXES[axis]}")

    def over_blocks(self, body: Stmt) -> Stmt:
        """The loops over the blocks around what one block does."""
        return _nest(f"{self.title}.block_id_", self.blocks, ForKind.GPUBlock, body)

    def over_threads(self, body: Stmt) -> Stmt:
        """The loops over the threads of a block, of a stretch without barriers."""
        return _nest(f"{self.title}.thread_id_", self.threads, ForKind.GPUThread, body)


def _nest(stem: str, extents: Sequence[Expr], kind: ForKind, body: Stmt) -> Stmt:
    for axis, extent in enumerate(extents):
        body = For(stem + AXES[axis], int32(0), extent, kind, Partition.Never, body)
    return body


class ThreadNesting:
    """How deep loops over threads are nested in statements."""

    def __init__(self) -> None:
        self._depths: dict[Node, int] = {}

    def depth(self, s: Node) -> int:
        """The most loops over threads or lanes inside one another in a statement."""
        found = self._depths.get(s)
        if found is None:
            found = max([self.depth(c) for c in s.children() if isinstance(c, Stmt)], default=0)
            if is_over_threads(s):
                found += 1
            self._depths[s] = found
        return found

    def axis(self, loop: For) -> int:
        """The axis of a loop over threads: x for lanes and the innermost, then y, z."""
        return 0 if loop.kind is ForKind.GPULane else self.depth(loop.body)


def is_over_threads(s: Node) -> bool:
    """Whether a statement is a loop over threads or lanes."""
    return type(s) is For and s.kind in (ForKind.GPUThread, ForKind.GPULane)


def is_over_blocks(s: Node) -> bool:
    """Whether a statement is a loop over blocks."""
    return type(s) is For and s.kind is ForKind.GPUBlock
