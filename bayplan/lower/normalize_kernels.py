"""Gives every kernel one form: a grid of blocks, and in each block stretches over its threads.

The loops over blocks become one nest that begins at 0, as do the loops over threads of each
stretch, all with the same extents, which the host knows before the launch; the user's loop
variables become lets. Where a loop has fewer iterations than the grid, its body is guarded.
Everything between the stretches is uniform: the same for all threads of the block.
"""

from __future__ import annotations

from typing import Any

from bayplan.analysis.simplify import simplify
from bayplan.ir.build import add, constant_value, div, int32, lt, maximum, mul
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import free_variables, iterate, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.kernel_grid import (
    AXES,
    MOST_LANES,
    MOST_THREADS,
    Grid,
    ThreadNesting,
    is_over_blocks,
    is_over_threads,
)
from bayplan.lower.names import (
    func_of_loop,
    line_of_loop,
    loop_variable,
    stage_of_loop,
)
from bayplan.lower.rewrite_kernels import rewrite_kernels
from bayplan.lower.scoped import strip_likely
from bayplan.lower.split_at_threads import SplitAtThreads
from bayplan.storage.places import Place
from bayplan.storage.sizes import SizesOutside


def normalize_kernels(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with its kernels in the form that the passes behind it rely on.

    Order: after unroll_loops and vectorize_loops, which leave only loops that are run; before
    partition_loops, which would cut the body of a kernel into copies.

    Raises:
        ScheduleError: The size of a grid is not known on the host, or threads of a block would
            run different loops around stretches.
    """
    return rewrite_kernels(stmt, lambda node: _OneKernel(node, lowering).result())


_Level = For | LetStmt | IfThenElse | ProducerConsumer


class _OneKernel:
    """Takes apart the loops over blocks of one kernel and finds the size of its grid."""

    def __init__(self, outermost: For, lowering: Lowering) -> None:
        self._lowering = lowering
        self._nesting = ThreadNesting()
        self._sizes = SizesOutside(set())
        self._levels, self._body = self._take_apart(outermost)
        self._loops: list[For] = [s for s in self._levels if type(s) is For]
        func, stage = (
            func_of_loop(outermost.name, lowering),
            stage_of_loop(outermost.name, lowering),
        )
        self._title = lowering.unique_name(f"{func}.s{stage}.kernel")
        # Names of what the host has to know, with the values; along z, y, x.
        self._lets: list[tuple[str, Expr]] = []

    def result(self) -> Stmt:
        """The kernel, within lets of the size of its grid."""
        place: Place | None = None
        exact: list[bool] = []
        blocks: list[Expr] = []
        for s in self._levels:
            if type(s) is For:
                extent, is_exact = self._on_host(s.extent, place, s, "blocks")
                exact.append(is_exact)
                blocks.append(self._named(f"blocks_{AXES[len(self._loops) - len(exact)]}", extent))
            if isinstance(s, For | LetStmt):
                place = Place(place, s)
        threads = self._threads(place)
        grid = Grid(self._title, blocks[::-1], threads)
        body = SplitAtThreads(grid, self._nesting, self._lowering).run(self._body)
        axis = 0
        for s in reversed(self._levels):
            if type(s) is not For:
                body = s.with_children([*s.children()[:-1], body])
                continue
            body = LetStmt(s.name, add(grid.block(axis), s.min), body)
            if not exact[len(exact) - 1 - axis]:
                body = IfThenElse(lt(grid.block(axis), s.extent), body)
            axis += 1
        result = grid.over_blocks(body)
        for name, value in reversed(self._lets):
            result = LetStmt(name, value, result)
        return result

    def _take_apart(self, outermost: For) -> tuple[list[_Level], Stmt]:
        """What is around the body of a block, outermost first, and the body."""
        levels: list[_Level] = []
        s: Any = outermost
        while any(is_over_blocks(n) for n in iterate(s)):
            is_level = isinstance(s, For | LetStmt | IfThenElse | ProducerConsumer)
            is_level = is_level and (type(s) is not For or s.kind is ForKind.GPUBlock)
            if not is_level or (type(s) is IfThenElse and s.else_case is not None):
                raise ScheduleError(
                    f"the loop over blocks {loop_variable(outermost.name, self._lowering)} of "
                    f"{func_of_loop(outermost.name, self._lowering)} has another loop over blocks "
                    "inside, with more between them",
                    line_of_loop(outermost.name, self._lowering),
                    hint="loops over blocks must be directly inside one another",
                )
            levels.append(s)
            s = s.then_case if type(s) is IfThenElse else s.body
        return levels, s

    def _named(self, what: str, value: Expr) -> Expr:
        """The value, under a name of its own where it is more than a constant or variable."""
        if constant_value(value) is not None or type(value) is Variable:
            return value
        name = f"{self._title}.{what}"
        self._lets.append((name, value))
        return Variable(value.type, name)

    def _on_host(self, e: Expr, place: Place | None, loop: For, what: str) -> tuple[Expr, bool]:
        """The value, or the largest one, before the kernel runs; and whether it is always that."""
        e = simplify(strip_likely(e))
        around, exact = place, True
        expanded = e
        while around is not None:
            node = around.node
            if node is not None and node.name in free_variables(expanded):
                if type(node) is LetStmt:
                    expanded = substitute({node.name: strip_likely(node.value)}, expanded)
                else:
                    exact = False
            around = around.outer
        expanded = simplify(expanded)
        found = self._sizes.bound(expanded, place)
        if found is None:
            raise ScheduleError(
                f"the number of {what} of the loop over {loop_variable(loop.name, self._lowering)} "
                f"of {func_of_loop(loop.name, self._lowering)} is not known before the kernel "
                f"runs: it is {expanded}",
                line_of_loop(loop.name, self._lowering),
            )
        return simplify(found), exact

    def _threads(self, place: Place | None) -> list[Expr]:
        """The number of threads of a block along each axis."""
        finder = _FindThreads(self._nesting, self._on_host, self._lowering)
        finder.visit(self._body, place)
        threads: list[Expr] = []
        for axis in range(max(self._nesting.depth(self._body), 1)):
            most = self._most_threads(finder.extents.get(axis, []))
            if axis == 0 and finder.has_lanes:
                most = self._whole_warps(most)
            threads.append(most)
        self._check_count(threads)
        return [self._named(f"threads_{AXES[i]}", e) for i, e in enumerate(threads)]

    def _check_count(self, threads: list[Expr]) -> None:
        count = 1
        for extent in threads:
            value = constant_value(extent)
            count *= 1 if value is None else int(value)
        if count > MOST_THREADS:
            text = " * ".join([str(extent) for extent in threads])
            loop = self._loops[-1].name
            raise ScheduleError(
                f"a block of the kernel over {loop_variable(loop, self._lowering)} of "
                f"{func_of_loop(loop, self._lowering)} would have {text} = {count} threads; no "
                f"device runs more than {MOST_THREADS}",
                line_of_loop(loop, self._lowering),
                hint="split the loops over threads by smaller factors",
            )

    def _most_threads(self, extents: list[Expr]) -> Expr:
        """As many as the loop with the most iterations has, one at least."""
        most: Expr = int32(1)
        for extent in extents:
            most = maximum(most, extent)
        return simplify(most)

    def _whole_warps(self, most: Expr) -> Expr:
        """Lanes of a block with several warps: each warp is one line along x."""
        value = constant_value(most)
        if self._nesting.depth(self._body) == 1 and (value is None or value <= MOST_LANES):
            return most
        if value is None:
            return mul(div(add(most, MOST_LANES - 1), MOST_LANES), MOST_LANES)
        return int32(-int(-value // MOST_LANES) * MOST_LANES)


class _FindThreads:
    """Finds how many iterations loops over threads have."""

    def __init__(self, nesting: ThreadNesting, on_host: Any, lowering: Lowering) -> None:
        self._nesting = nesting
        self._lowering = lowering
        self._on_host = on_host
        self.extents: dict[int, list[Expr]] = {}
        self.has_lanes = False

    def visit(self, s: Any, place: Place | None) -> None:
        """Look into a statement that stands at a place."""
        if not self._nesting.depth(s):
            return
        if is_over_threads(s):
            extent, _ = self._on_host(s.extent, place, s, "threads")
            self.extents.setdefault(self._nesting.axis(s), []).append(extent)
            if s.kind is ForKind.GPULane:
                self.has_lanes = True
                self._check_lanes(s, extent)
        if isinstance(s, For | LetStmt):
            place = Place(place, s)
        for child in s.children():
            if isinstance(child, Stmt):
                self.visit(child, place)

    def _check_lanes(self, s: For, extent: Expr) -> None:
        value = constant_value(extent)
        if value is None or value > MOST_LANES:
            raise ScheduleError(
                f"the loop over lanes {loop_variable(s.name, self._lowering)} of "
                f"{func_of_loop(s.name, self._lowering)} has {extent} iterations; a warp has at "
                f"most {MOST_LANES} lanes, and their number must be a constant",
                line_of_loop(s.name, self._lowering),
                hint=f"split the loop by {MOST_LANES}, or use gpu_threads()",
            )
