"""The lives of temporaries, found on the final statement.

A step is a position in program order. The walk numbers one step for each stretch of leaf
statements that write the same thing in the same loop body; an allocation or a loop begins a new
stretch. The life of a temporary is the half-open interval from its first access to just after its
last. What is allocated outside a loop and accessed in it lives for the whole loop, because an
iteration may need what an earlier one left.

In a kernel a loop over threads is one step with all that is in it: its threads run at any speed,
and a barrier can stand only before and behind it.
"""

from __future__ import annotations

from typing import Final

from bayplan.ir.build import logical_not
from bayplan.ir.exprs import Call, Expr, Load, StringImm, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Atomic,
    Block,
    Evaluate,
    For,
    Free,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.types import Type
from bayplan.ir.walk import iterate
from bayplan.storage.kernels import (
    ON_DEVICE,
    fence_of_barrier,
    is_kernel,
    is_stretch,
    title_of,
)
from bayplan.storage.places import Place, loops_around, parallel_loop_of

_COPIES: Final = frozenset(["device_copy_in", "device_copy_out", "device_written", "host_written"])


class Life:
    """One allocation of the final statement and when its bytes are in use.

    Attributes:
        name: name of the temporary; a name can occur more than once (specialisations, peeled
            loops), each a Life of its own.
        node: its Allocate.
        begin, end: the half-open interval of steps; begin == end where it is never accessed.
        place: what is around the allocation.
    """

    __slots__ = ("begin", "end", "name", "node", "place")

    def __init__(self, node: Allocate, place: Place | None) -> None:
        self.name = node.name
        self.node = node
        self.begin = -1
        self.end = -1
        self.place = place

    @property
    def loops(self) -> tuple[str, ...]:
        """Names of the loops around the allocation, outermost first."""
        return loops_around(self.place)

    @property
    def in_parallel(self) -> bool:
        """Whether a loop around is parallel, so that each worker may hold one."""
        return parallel_loop_of(self.place) is not None

    @property
    def kind(self) -> MemoryType:
        """Where it lives."""
        return self.node.memory_type

    @property
    def type(self) -> Type:
        """Its element type."""
        return self.node.type

    def _touch(self, begin: int, end: int) -> None:
        self.begin = begin if self.begin < 0 else min(self.begin, begin)
        self.end = max(self.end, end)


class Lives:
    """What `find_lives` found.

    Attributes:
        lives: one entry an allocation, in program order.
        steps: what happens at each step, in a few words.
        leaves: by step, the statements and expressions in it that read or write memory.
        places: by step, what is around each of these leaves.
        kernels: by title, the half-open interval of steps of each kernel.
        barriers: in program order the step that each barrier stands before, its fence, and the
            names of the loops around it.
    """

    __slots__ = ("barriers", "kernels", "leaves", "lives", "places", "steps")

    def __init__(
        self,
        lives: list[Life],
        steps: list[str],
        leaves: dict[int, list[Node]],
        places: dict[int, list[Place | None]],
    ) -> None:
        self.lives = lives
        self.steps = steps
        self.leaves = leaves
        self.places = places
        self.kernels: dict[str, tuple[int, int]] = {}
        self.barriers: list[tuple[int, int, tuple[str, ...]]] = []


class _Finder:
    """Walks the statement in program order, numbering steps."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.steps: list[str] = []
        self.leaves: dict[int, list[Node]] = {}
        self.places: dict[int, list[Place | None]] = {}
        self.open: dict[str, Life] = {}
        self.place: Place | None = None
        self.loops: list[str] = []
        # What the current stretch writes, and in which loop body; None begins a new step.
        self.stretch: str | None = None
        self.accessed: list[tuple[str, int]] = []
        self.in_threads = False
        self.in_kernel = False
        self.kernels: dict[str, tuple[int, int]] = {}
        self.barriers: list[tuple[int, int, tuple[str, ...]]] = []

    def walk(self, s: Stmt) -> None:
        if isinstance(s, Block):
            for part in s.stmts:
                self.walk(part)
        elif isinstance(s, LetStmt):
            self._read(s.value)
            self._within(Place(self.place, s), s.body)
        elif isinstance(s, For):
            self._walk_loop(s)
        elif isinstance(s, Allocate):
            self._walk_allocation(s)
        elif isinstance(s, Free):
            self.stretch = None
        elif isinstance(s, IfThenElse):
            self._read(s.condition)
            self._within(Place(self.place, None, s.condition), s.then_case)
            if s.else_case is not None:
                self._within(Place(self.place, None, logical_not(s.condition)), s.else_case)
        elif isinstance(s, ProducerConsumer | Atomic | Prefetch):
            self.walk(s.body)
        else:
            self._walk_leaf(s)

    def _within(self, place: Place, s: Stmt) -> None:
        self.place = place
        self.walk(s)
        self.place = place.outer

    def _walk_leaf(self, s: Stmt) -> None:
        writes = s.name if isinstance(s, Store) else None
        if isinstance(s, AssertStmt | Evaluate) and not _loads(s):
            fence = fence_of_barrier(s)
            if fence:
                self.barriers.append((len(self.steps), fence, tuple(self.loops)))
            return
        if self.stretch is None or writes != self.stretch:
            self._new_step(f"write {writes}" if writes else "evaluate")
            self.stretch = writes
        self._keep(s)
        for name in _loads(s):
            self._access(name)
        if writes is not None:
            self._access(writes)

    def _new_step(self, what: str) -> None:
        if self.in_threads:
            return
        inside = f" in {self.loops[-1]}" if self.loops else ""
        self.steps.append(what + inside)

    def _keep(self, leaf: Node) -> None:
        step = len(self.steps) - 1
        self.leaves.setdefault(step, []).append(leaf)
        self.places.setdefault(step, []).append(self.place)

    def _read(self, e: Expr) -> None:
        """A let or condition that reads a temporary belongs to a step of its own."""
        names = _loads(e)
        if names:
            self.stretch = None
            self._new_step(f"read {', '.join(names)}")
            self._keep(e)
            for name in names:
                self._access(name)

    def _access(self, name: str) -> None:
        if self.in_kernel and name + ON_DEVICE in self.open:
            name += ON_DEVICE
        step = len(self.steps) - 1
        self.accessed.append((name, step))
        life = self.open.get(name)
        if life is not None:
            life._touch(step, step + 1)
            if life.node.address is not None:
                # Who uses an alias uses what it points into.
                for part in life.node.address.args:
                    if type(part) is Variable and part.name in self.open:
                        self._access(part.name)

    def _walk_loop(self, s: For) -> None:
        self._read(s.min)
        self._read(s.extent)
        self.stretch = None
        if is_stretch(s) and not self.in_threads:
            self._walk_threads(s)
            return
        outside, self.in_kernel = self.in_kernel, self.in_kernel or is_kernel(s)
        outer = dict(self.open)
        first_access, first_step = len(self.accessed), len(self.steps)
        place = Place(self.place, s)
        self.loops.append(s.name)
        self._within(place, s.body)
        self.loops.pop()
        self.in_kernel = outside
        self.stretch = None
        place.begin, place.end = first_step, len(self.steps)
        if is_kernel(s) and not outside:
            self.kernels[title_of(s.name)] = (first_step, len(self.steps))
        for name in {name for name, _ in self.accessed[first_access:]}:
            life = outer.get(name)
            if life is not None:
                life._touch(first_step, len(self.steps))

    def _walk_threads(self, s: For) -> None:
        """A loop over threads: one step."""
        written = dict.fromkeys([n.name for n in iterate(s) if isinstance(n, Store)])
        self._new_step(f"write {', '.join(written)}" if written else "evaluate")
        self.in_threads = True
        self._walk_loop(s)
        self.in_threads = False
        self.stretch = None

    def _walk_allocation(self, s: Allocate) -> None:
        life = Life(s, self.place)
        self.lives.append(life)
        shadowed = self.open.get(s.name)
        self.open[s.name] = life
        self.stretch = None
        self.walk(s.body)
        self.stretch = None
        if life.begin < 0:
            life.begin = life.end = len(self.steps)
        if shadowed is None:
            self.open.pop(s.name, None)
        else:
            self.open[s.name] = shadowed


def _loads(node: Node) -> list[str]:
    names: list[str] = []
    for n in iterate(node):
        if isinstance(n, Load):
            names.append(n.name)
        elif isinstance(n, Call) and n.name in _COPIES:
            assert type(n.args[0]) is StringImm
            names += [n.args[0].value, n.args[0].value + ON_DEVICE]
    return list(dict.fromkeys(names))


def find_lives(stmt: Stmt) -> Lives:
    """Numbers the steps of a final statement and finds the life of each allocation."""
    finder = _Finder()
    finder.walk(stmt)
    found = Lives(finder.lives, finder.steps, finder.leaves, finder.places)
    found.kernels, found.barriers = finder.kernels, finder.barriers
    return found
