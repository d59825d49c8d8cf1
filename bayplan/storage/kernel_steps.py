"""A kernel as the parts that barriers can stand between, and what each part reads and writes.

A *stretch* is a nest of loops over the threads of a block; no thread waits in it. Between the
stretches stands code that every thread runs alike: lets, loops, branches.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.facts import Facts
from bayplan.ir.exprs import (
    Add,
    And,
    Broadcast,
    Expr,
    Load,
    Max,
    Min,
    Mul,
    Or,
    Ramp,
    Sub,
    Variable,
)
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    Atomic,
    Block,
    For,
    Free,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.types import INT32
from bayplan.storage.kernel_names import EVERY_THREAD, Names
from bayplan.storage.memory_places import Memories, MemoryPlace
from bayplan.storage.polynomials import (
    Polynomial,
    constant,
    polynomial_of,
    product,
    times,
    total,
)

_THREADS: Final = (ForKind.GPUThread, ForKind.GPULane)
_UNORDERED: Final = (Add, Sub, Mul, Min, Max, And, Or)


class Access:
    """One Load or Store of a step, of all the threads that come there.

    Attributes:
        begin: bytes from the begin of the memory; None: anywhere in the place.
        bytes: how many from there on.
        atomic: Func and operation of the atomic update it belongs to, where the order of such
            updates is of no account; "" for other accesses.
        facts, uppers: see `Names`.
    """

    __slots__ = ("atomic", "begin", "bytes", "facts", "place", "uppers", "writes")

    def __init__(
        self, place: MemoryPlace, begin: Polynomial | None, bytes: int, writes: bool, atomic: str,
        facts: Facts, uppers: dict[str, list[Polynomial]],
    ) -> None:  # fmt: skip
        self.place = place
        self.begin = begin
        self.bytes = bytes
        self.writes = writes
        self.atomic = atomic
        self.facts = facts
        self.uppers = uppers


class Step:
    """What happens between two places for a barrier.

    Attributes:
        number: in the order of the program.
        loops: numbers of the loops of the kernel around it, outermost first.
        accesses: what it touches, in kinds of memory that threads share.
    """

    __slots__ = ("accesses", "loops", "number")

    def __init__(self, number: int, loops: tuple[int, ...], accesses: list[Access]) -> None:
        self.number = number
        self.loops = loops
        self.accesses = accesses


class Part:
    """A statement of a kernel outside of stretches, or a stretch.

    Attributes:
        number: a barrier may stand before the part of this number.
        step: what it does itself, before its inner parts.
        inner: the statements in it, in order.
        loop: the variable of a loop; None for others.
        runs: whether a loop runs at least once.
    """

    __slots__ = ("inner", "loop", "number", "runs", "step", "stmt")

    def __init__(self, number: int, stmt: Stmt) -> None:
        self.number = number
        self.stmt = stmt
        self.step: Step | None = None
        self.inner: list[Part] = []
        self.loop: Variable | None = None
        self.runs = False


class KernelSteps:
    """Walks the body of a kernel, which is what the innermost loop over blocks holds.

    Attributes:
        names: the scope around the kernel.
        dims: by name of a thread's number how many there are; the most where loops differ.
        loops: by number the variable of a loop.
        steps: all steps in order.
        top: the part that is the whole.
    """

    def __init__(self, body: Stmt, names: Names, memories: Memories) -> None:
        self.names = names
        self.memories = memories
        self.dims: dict[str, list[Expr]] = {}
        self.loops: dict[int, Variable] = {}
        self.steps: list[Step] = []
        self._parts = 0
        self._around: tuple[int, ...] = ()
        self._accesses: list[Access] = []
        self._atomic = ""
        self._depth = 0
        self.top = self._part(body)

    def _part(self, s: Any) -> Part:
        part = Part(self._parts, s)
        self._parts += 1
        if (isinstance(s, For) and s.kind in _THREADS) or isinstance(s, Store):
            self._stretch(part, s)
        elif isinstance(s, LetStmt):
            self._read(part, s.value)
            saved = self.names.scope()
            self.names.let(s.name, s.value, len(self._around))
            part.inner = [self._part(s.body)]
            self.names.leave(saved)
        elif isinstance(s, For):
            self._loop(part, s)
        elif isinstance(s, IfThenElse):
            self._branch(part, s)
        elif isinstance(s, Allocate):
            self._read(part, *s.extents, s.condition)
            hidden = self.memories.enter(s, self.names, s.memory_type is MemoryType.Register)
            part.inner = [self._part(s.body)]
            self.memories.leave(s, hidden)
        elif isinstance(s, Atomic):
            outer, self._atomic = self._atomic, s.name
            part.inner = [self._part(s.body)]
            self._atomic = outer
        elif isinstance(s, Block | ProducerConsumer):
            part.inner = [self._part(child) for child in s.children()]
        else:
            self._read(part, *[e for e in s.children() if isinstance(e, Expr)])
            part.inner = [self._part(c) for c in s.children() if isinstance(c, Stmt)]
        return part

    def _add_step(self, part: Part) -> None:
        if self._accesses:
            part.step = Step(len(self.steps), self._around, self._accesses)
            self.steps.append(part.step)
            self._accesses = []

    def _read(self, part: Part, *values: Expr) -> None:
        """What every thread reads alike, before the part's inner parts."""
        for value in values:
            self._loads(value)
        self._add_step(part)

    def _loop(self, part: Part, s: For) -> None:
        self._read(part, s.min, s.extent)
        saved = self.names.scope()
        depth = len(self._around) + 1
        low, _high = _range(self.names.written_out(s.extent), self.names)
        part.runs = low is not None and low > 0
        part.loop = self.names.loop(s.name, s.min, s.extent, depth)
        self.loops[part.number] = part.loop
        outer = self._around
        self._around = (*outer, part.number)
        part.inner = [self._part(s.body)]
        self._around = outer
        self.names.leave(saved)

    def _branch(self, part: Part, s: IfThenElse) -> None:
        from bayplan.ir.build import logical_not

        self._read(part, s.condition)
        cases = [(s.condition, s.then_case), (logical_not(s.condition), s.else_case)]
        for condition, case in cases:
            if case is not None:
                saved = self.names.scope()
                self.names.assume(condition)
                part.inner.append(self._part(case))
                self.names.leave(saved)

    def _stretch(self, part: Part, s: Stmt) -> None:
        self._inside(s)
        self._add_step(part)

    def _inside(self, s: Any) -> None:
        """Collects what a stretch touches."""
        saved = self.names.scope()
        if isinstance(s, Store):
            self._store(s)
        elif isinstance(s, LetStmt):
            self._loads(s.value)
            self.names.let(s.name, s.value, EVERY_THREAD)
            self._inside(s.body)
        elif isinstance(s, For):
            self._loads(s.min)
            self._loads(s.extent)
            if s.kind in _THREADS:
                self.names.thread(s.name, s.min, s.extent)
                known = self.dims.setdefault(s.name, [])
                extent = self.names.written_out(s.extent)
                if extent not in known:
                    known.append(extent)
            else:
                self.names.loop(s.name, s.min, s.extent, EVERY_THREAD)
            self._inside(s.body)
        elif isinstance(s, IfThenElse):
            self._both(s)
        elif isinstance(s, Allocate):
            for e in (*s.extents, s.condition):
                self._loads(e)
            hidden = self.memories.enter(s, self.names, True)
            self._inside(s.body)
            self.memories.leave(s, hidden)
        elif isinstance(s, Atomic):
            outer, self._atomic = self._atomic, s.name
            self._inside(s.body)
            self._atomic = outer
        elif not isinstance(s, Free):
            for child in s.children():
                if isinstance(child, Expr):
                    self._loads(child)
                else:
                    self._inside(child)
        self.names.leave(saved)

    def _both(self, s: IfThenElse) -> None:
        from bayplan.ir.build import logical_not

        self._loads(s.condition)
        outer = self.names.scope()
        self.names.assume(s.condition)
        self._inside(s.then_case)
        self.names.leave(outer)
        if s.else_case is not None:
            self.names.scope()
            self.names.assume(logical_not(s.condition))
            self._inside(s.else_case)
            self.names.leave(outer)

    def _store(self, s: Store) -> None:
        atomic = f"{self._atomic} {_operation(s)}" if self._atomic and _operation(s) else ""
        self._loads(s.value, s.name, atomic)
        self._loads(s.index)
        if s.predicate is not None:
            self._loads(s.predicate)
            if s.predicate.type.lane_count == 1:
                self.names.assume(s.predicate)
        self._touch(s.name, s.index, s.value.type.bytes(), True, atomic)

    def _loads(self, e: Expr, updated: str = "", atomic: str = "") -> None:
        """The reads of an expression; those of `updated` belong to the update `atomic`."""
        seen: set[Node] = set()
        stack: list[Any] = [self.names.written_out(e)]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Load):
                update = atomic if node.name == updated else ""
                self._touch(node.name, node.index, node.type.bytes(), False, update)
            elif isinstance(node, Variable) and node.type.kind == "handle":
                self._touch(node.name, None, 1, False, "")
            stack.extend(node.children())

    def _touch(self, name: str, index: Expr | None, bytes: int, writes: bool, atomic: str) -> None:
        place = self.memories.find(name)
        if not place.kind:
            return
        begin = None
        facts = self.names.facts
        lanes: dict[str, int] = {}
        if index is not None and place.offset is not None:
            elements = _elements(self.names.written_out(index), lanes, "lane")
            if elements is not None:
                begin = total(place.offset, times(elements, bytes))
        uppers = self.names.uppers
        for lane, count in lanes.items():
            self.names.depths[lane] = EVERY_THREAD
            facts = facts.child().bound_variable(lane, 0, count - 1)
            uppers = {**uppers, lane: [constant(count - 1)]}
        self._accesses.append(Access(place, begin, bytes, writes, atomic, facts, uppers))


def _operation(s: Store) -> str:
    """The operation of an update whose order is of no account, "" for others."""
    value: Any = s.value
    if type(value) not in _UNORDERED:
        return ""
    sides = [value.a] if type(value) is Sub else [value.a, value.b]
    own = [x for x in sides if isinstance(x, Load) and x.name == s.name and x.index is s.index]
    if len(own) != 1:
        return ""
    return Add.__name__ if type(value) is Sub else type(value).__name__


def _range(e: Expr, names: Names) -> tuple[int | None, int | None]:
    from bayplan.analysis.ranges import range_of

    return range_of(e, names.facts)


def _elements(index: Any, lanes: dict[str, int], name: str) -> Polynomial | None:
    """The index of any lane; lanes are variables too, whose numbers come back in `lanes`."""
    if index.type.lane_count == 1:
        return polynomial_of(index)
    if isinstance(index, Broadcast):
        return _elements(index.value, lanes, name + ".0")
    if isinstance(index, Ramp):
        base = _elements(index.base, lanes, name + ".0")
        stride = _elements(index.stride, lanes, name + ".0")
        if base is None or stride is None:
            return None
        lane = f"{name}.{index.lanes}"
        lanes[lane] = index.lanes
        return total(base, product(stride, {(Variable(INT32, lane),): 1}))
    if isinstance(index, Add | Sub | Mul):
        a, b = _elements(index.a, lanes, name), _elements(index.b, lanes, name)
        if a is None or b is None:
            return None
        if isinstance(index, Mul):
            return product(a, b)
        return total(a, b, 1 if isinstance(index, Add) else -1)
    return None
