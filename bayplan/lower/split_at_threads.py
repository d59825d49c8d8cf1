"""Cuts what a block does into stretches that a barrier can separate.

A stretch is a nest of loops over all threads of the block. Where a loop over threads holds several
inner ones with other code between them, it is cut: the outer loop is repeated around each part, and
what is defined in it is computed again there. Temporaries between the parts get an extent for the
threads of the outer loop, serial loops between them are run by all threads in step.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from bayplan.analysis.purity import has_side_effect, reads_memory
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import (
    add,
    block,
    broadcast,
    cast,
    constant_value,
    eq,
    int32,
    is_nothing,
    is_zero,
    logical_not,
    lt,
    mul,
    true,
    var,
)
from bayplan.ir.errors import InternalError, ScheduleError
from bayplan.ir.exprs import Expr, Load
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import (
    Allocate,
    Block,
    For,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.walk import Rewriter, free_variables, iterate, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.kernel_grid import Grid, ThreadNesting, is_over_threads
from bayplan.lower.names import func_of_loop, func_of_storage, line_of_loop, loop_variable
from bayplan.storage.places import Place
from bayplan.storage.sizes import SizesOutside

Around = tuple[For | LetStmt | Expr, ...]
"""Loops over threads, and the lets and conditions in them, around a place; outermost first."""


class SplitAtThreads:
    """Rewrites what a block does; see the module."""

    def __init__(self, grid: Grid, nesting: ThreadNesting, lowering: Lowering) -> None:
        self._grid = grid
        self._nesting = nesting
        self._lowering = lowering

    def run(self, s: Any, around: Around = ()) -> Stmt:
        """The statement as uniform code and stretches.

        Args:
            s: what is done inside of `around`.
            around: empty where all threads of the block are at the same place.
        """
        if is_nothing(s):
            return s  # type: ignore[no-any-return]
        if not self._nesting.depth(s):
            return self._stretch(s, around)
        cls = type(s)
        if cls is ProducerConsumer:
            return ProducerConsumer(s.name, s.is_producer, self.run(s.body, around))
        if cls is Block:
            return self._sequence(s, around)
        if cls is LetStmt:
            return self._let(s, around)
        if cls is IfThenElse:
            return self._branch(s, around)
        if cls is Allocate:
            return self._allocate(s, around)
        if cls is For:
            return self.run(s.body, (*around, s)) if is_over_threads(s) else self._loop(s, around)
        raise InternalError(f"a {cls.__name__} around loops over threads: {s}")

    def _sequence(self, s: Block, around: Around) -> Stmt:
        """Statements without loops over threads that follow each other are one stretch."""
        parts: list[Stmt] = []
        run: list[Stmt] = []
        for inner in s.stmts:
            if not self._nesting.depth(inner):
                run.append(inner)
                continue
            parts.append(self.run(block(run), around))
            run = []
            parts.append(self.run(inner, around))
        parts.append(self.run(block(run), around))
        return block(parts)

    def _let(self, s: LetStmt, around: Around) -> Stmt:
        if not around:
            return LetStmt(s.name, s.value, self.run(s.body))
        self._check_repeated(s.value, s.body, around)
        return self.run(s.body, (*around, s))

    def _branch(self, s: IfThenElse, around: Around) -> Stmt:
        """A condition that threads may answer differently guards each stretch."""
        if not around:
            else_case = None if s.else_case is None else self.run(s.else_case)
            return IfThenElse(s.condition, self.run(s.then_case), else_case)
        self._check_repeated(s.condition, s, around)
        parts = [self.run(s.then_case, (*around, s.condition))]
        if s.else_case is not None:
            parts.append(self.run(s.else_case, (*around, logical_not(s.condition))))
        return block(parts)

    def _check_repeated(self, e: Expr, body: Stmt, around: Around) -> None:
        """Refuses what would have another value when it is computed again."""
        read = {n.name for n in iterate(e) if type(n) is Load}
        stored = {n.name for n in iterate(body) if type(n) is Store} if read else set()
        if has_side_effect(e) or not read.isdisjoint(stored):
            raise ScheduleError(
                f"loops over threads inside the loop over {self._loop_text(around)} depend on "
                f"{e}, which changes while they run",
                self._line(around),
                hint="make the inner loops over threads serial",
            )

    def _loop(self, s: For, around: Around) -> Stmt:
        """A loop between loops over threads; all threads run it in step."""
        if not around:
            return For(s.name, s.min, s.extent, s.kind, s.partition, self.run(s.body))
        low, extent = _through_lets(s.min, around), _through_lets(s.extent, around)
        names = self._names(around)
        if free_variables(low).isdisjoint(names) and free_variables(extent).isdisjoint(names):
            body = self.run(s.body, around)
            return For(s.name, low, extent, s.kind, s.partition, body)
        most = self._most(extent, around)
        if most is None:
            raise ScheduleError(
                f"the loop over {loop_variable(s.name, self._lowering)} of "
                f"{func_of_loop(s.name, self._lowering)} runs {extent} times, differently in each "
                "thread and without a bound, and has loops over threads inside",
                line_of_loop(s.name, self._lowering),
                hint="make the loops inside of it serial",
            )
        step = self._lowering.unique_name(f"{s.name}.step")
        inner: list[Any] = [LetStmt(s.name, add(s.min, var(step)), s.body)]
        if most is not extent:
            inner.insert(0, lt(var(step), s.extent))
        body = self.run(s.body, (*around, *inner))
        return For(step, int32(0), most, s.kind, s.partition, body)

    def _allocate(self, s: Allocate, around: Around) -> Stmt:
        """A temporary between stretches has room for all threads of the loops around.

        But for registers, of which each thread has its own (see `lower_warp_shuffles`).
        """
        if s.memory_type is MemoryType.Register:
            return s.with_body(self.run(s.body, around))
        if not around:
            return s.with_body(self.run(s.body))
        extents: list[Expr] = []
        for extent in s.extents:
            most = self._most(extent, around)
            if most is None:
                raise self._no_size(s, extent)
            extents.append(most)
        size: Expr = int32(1)
        for extent in extents:
            size = mul(size, extent)
        shift: Expr = int32(0)
        width = simplify(size)
        for axis, loop in self._loops_by_axis(around):
            most = self._most(loop.extent, around)
            assert most is not None
            shift = add(shift, mul(self._grid.thread(axis), width))
            width = simplify(mul(width, most))
            extents.append(most)
        body = _Shifted(s.name, simplify(shift), simplify(size))(s.body)
        return Allocate(
            s.name, s.type, s.memory_type, tuple(extents), true(), s.padding,
            self.run(body, around), s.alignment,
        )  # fmt: skip

    def _no_size(self, s: Allocate, extent: Expr) -> ScheduleError:
        func = func_of_storage(s.name, self._lowering)
        return ScheduleError(
            f"{func} is stored inside a loop over threads and used by other threads, and its "
            f"extent {extent} there has no bound",
            self._lowering.where(func),
        )

    def _most(self, e: Expr, around: Around) -> Expr | None:
        """The largest value over the threads around, in terms of what the whole block knows."""
        expanded = _through_lets(e, around)
        if free_variables(expanded).isdisjoint(self._names(around)):
            return None if reads_memory(expanded) else expanded
        place: Place | None = None
        for part in around:
            if isinstance(part, For | LetStmt):
                place = Place(place, part)
        return SizesOutside(set()).bound(expanded, place)

    def _loops_by_axis(self, around: Around) -> list[tuple[int, For]]:
        loops = [part for part in around if type(part) is For]
        return [(self._nesting.axis(loop), loop) for loop in reversed(loops)]

    def _stretch(self, s: Stmt, around: Around) -> Stmt:
        """The statement as what each thread does, in loops over all threads of the block."""
        grid = self._grid
        axes = dict(self._loops_by_axis(around))
        for part in reversed(around):
            if isinstance(part, Expr):
                s = IfThenElse(part, s)
            elif isinstance(part, LetStmt):
                s = LetStmt(part.name, part.value, s)
            else:
                axis = self._nesting.axis(part)
                s = LetStmt(part.name, add(grid.thread(axis), part.min), s)
                if part.extent is not grid.threads[axis]:
                    s = IfThenElse(lt(grid.thread(axis), part.extent), s)
        for axis, extent in enumerate(grid.threads):
            if axis not in axes and constant_value(extent) != 1:
                s = IfThenElse(eq(grid.thread(axis), int32(0)), s)
        return grid.over_threads(s)

    def _names(self, around: Around) -> set[str]:
        """What threads of the block have different values of."""
        names = {part.name for part in around if isinstance(part, For | LetStmt)}
        return names.union(*[free_variables(self._grid.thread(axis)) for axis in range(3)])

    def _loop_text(self, around: Around) -> str:
        return loop_variable(_outer_loop(around), self._lowering)

    def _line(self, around: Around) -> Any:
        return line_of_loop(_outer_loop(around), self._lowering)


def _outer_loop(around: Around) -> str:
    first = around[0]
    assert type(first) is For
    return first.name


def _through_lets(e: Expr, around: Around) -> Expr:
    """The expression with the values of the lets around put in."""
    for part in reversed(around):
        if type(part) is LetStmt and part.name in free_variables(e):
            e = substitute({part.name: part.value}, e)
    return simplify(e)


class _Shifted(Rewriter):
    """Moves all accesses of a temporary by so many elements."""

    def __init__(self, name: str, shift: Expr, size: Expr) -> None:
        super().__init__()
        self._name = name
        self._shift = shift
        value = constant_value(size)
        self._size = 1 if value is None else int(value)

    def _index(self, index: Expr) -> Expr:
        if is_zero(self._shift):
            return index
        shift = cast(index.type.element_of(), self._shift)
        return add(index, broadcast(shift, index.type.lane_count))

    def _alignment(self, known: tuple[int, int]) -> tuple[int, int]:
        modulus = gcd(known[0], self._size)
        return (modulus, known[1] % modulus) if modulus > 1 else (1, 0)

    def rewrite_Load(self, node: Load) -> Any:
        load = self.rebuild(node)
        if node.name != self._name:
            return load
        return Load(
            load.type, load.name, self._index(load.index), load.predicate, load.source,
            self._alignment(load.alignment),
        )  # fmt: skip

    def rewrite_Store(self, node: Store) -> Any:
        store = self.rebuild(node)
        if node.name != self._name:
            return store
        return Store(
            store.name, store.value, self._index(store.index), store.predicate, store.source,
            self._alignment(store.alignment),
        )  # fmt: skip
