"""How often a call launches each kernel, and with how many blocks and threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bayplan.analysis.evaluate import Number, Unknown, evaluate
from bayplan.ir.build import int32
from bayplan.ir.exprs import Expr
from bayplan.ir.stmts import For, LetStmt, Stmt
from bayplan.storage.kernels import Kernel, is_kernel
from bayplan.storage.measure import Meter

_AXES: Final = "xyz"
Grid = tuple[int, ...]


class Launches:
    """The launches of one kernel in a call.

    Attributes:
        node: its outermost loop over blocks.
        lets: names and values that are bound around it, outermost first.
        blocks, threads: the extents in x, y, z as expressions.
        count: how many launches there are that have blocks.
        most_blocks, most_threads: the numbers in x, y, z of the largest of them.
        exact: False where the numbers are bounds, or not known at all.
    """

    __slots__ = (
        "blocks", "count", "exact", "lets", "most_blocks", "most_threads", "node", "threads",
    )

    def __init__(self, node: For, lets: tuple[tuple[str, Expr], ...]) -> None:
        kernel = Kernel(node)
        self.node = node
        self.lets = lets
        self.blocks = _by_axis(kernel.loops)
        self.threads = _by_axis(kernel.threads)
        self.count = 0
        self.most_blocks: Grid = (0, 0, 0)
        self.most_threads: Grid = (0, 0, 0)
        self.exact = True

    def add(self, blocks: Grid, threads: Grid, times: int) -> None:
        """Counts launches; a grid without blocks launches nothing."""
        if not all(blocks) or not all(threads):
            return
        self.count += times
        self.most_blocks = max(self.most_blocks, blocks, key=_size)
        self.most_threads = max(self.most_threads, threads, key=_size)


def _by_axis(loops: tuple[For, ...]) -> tuple[Expr, ...]:
    """The extents of loops over blocks, or over threads, in x, y, z."""
    extents = {loop.name[-1]: loop.extent for loop in loops}
    return tuple([extents.get(axis, int32(1)) for axis in _AXES])


def _size(grid: Grid) -> int:
    return grid[0] * grid[1] * grid[2]


class _Counter(Meter):
    """Walks the host's statements as it is done for memory, and looks at kernels instead."""

    def __init__(self, found: dict[str, Launches]) -> None:
        super().__init__(frozenset(), 1, None)
        self.found = found

    def is_relevant(self, s: Stmt) -> bool:
        """Whether there are loops of a kernel in it, whose extents are its grid."""
        known = self.relevant.get(s)
        if known is None:
            known = (isinstance(s, For) and s.kind.is_gpu) or any(
                self.is_relevant(c) for c in s.children() if isinstance(c, Stmt)
            )
            self.relevant[s] = known
        return known

    def walk_kernel(self, s: For, times: int) -> None:
        """Counts its launches here."""
        kernel = self.found[Kernel(s).title]
        kernel.exact = kernel.exact and self.result.exact
        try:
            blocks = self._numbers(kernel.blocks)
            threads = self._numbers(kernel.threads)
        except Unknown:
            kernel.exact = False
            return
        kernel.add(blocks, threads, times)

    def _numbers(self, extents: tuple[Expr, ...]) -> Grid:
        return tuple([max(int(evaluate(e, self.values)), 0) for e in extents])


def find_launches(stmt: Stmt, values: Mapping[str, Number]) -> dict[str, Launches]:
    """By title of each kernel, in program order, how a call launches it.

    Args:
        stmt: a statement with kernels in their final form.
        values: the call's sizes and scalars by name.
    """
    found: dict[str, Launches] = {}
    _collect(stmt, (), found, set())
    if found:
        counter = _Counter(found)
        counter.values = dict(values)
        counter.given = frozenset(values)
        counter.walk(stmt, 1)
    return found


def _collect(
    s: Stmt, lets: tuple[tuple[str, Expr], ...], found: dict[str, Launches], seen: set[Stmt]
) -> None:
    if s in seen:
        return
    seen.add(s)
    if is_kernel(s):
        assert type(s) is For
        found[Kernel(s).title] = Launches(s, lets)
        return
    if type(s) is LetStmt:
        lets = (*lets, (s.name, s.value))
    for child in s.children():
        if isinstance(child, Stmt):
            _collect(child, lets, found, seen)
