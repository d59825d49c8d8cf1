"""How many bytes a call takes, found by walking the final statement with the call's sizes.

The walk runs no algorithm: it evaluates the sizes of allocations, and goes through the iterations
of a loop only where what is allocated inside depends on the loop's variable. So the answer is
exact, and the same as what a counting allocator sees, as long as no size depends on data; where
one does, both branches of a condition are taken and the result says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bayplan.analysis.evaluate import Number, Unknown, evaluate
from bayplan.ir.exprs import Call, Expr
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
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
)
from bayplan.ir.walk import free_variables
from bayplan.storage.kernels import is_kernel
from bayplan.storage.read_plan import is_element

HEAP = frozenset([MemoryType.Heap])
ON_STACK = frozenset([MemoryType.Stack, MemoryType.Register])
ON_DEVICE = frozenset([MemoryType.GPUGlobal])
_BUFFERS: Final = ("read_buffer", "written_buffer")


def size_bytes(node: Allocate, values: Mapping[str, Number]) -> int:
    """Bytes of one allocation, its variables given; 0 where its condition does not hold.

    Raises:
        Unknown: the size depends on something not given.
    """
    if not evaluate(node.condition, values):
        return 0
    elements = 1
    for extent in node.extents:
        elements *= max(int(evaluate(extent, values)), 0)
    return (elements + node.padding) * node.type.bytes() * node.type.lanes() if elements else 0


class Measured:
    """What `measure` found.

    Attributes:
        peak_bytes: the largest sum of bytes held at one moment.
        sizes: by Allocate node, the largest size it takes, and the extents it takes it with.
        counts: by Allocate node, how many times it is made (None where it is not known).
        exact: whether nothing depended on data, nor on which tasks hold memory at one moment.
    """

    __slots__ = ("counts", "exact", "peak_bytes", "sizes")

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.sizes: dict[Allocate, tuple[int, tuple[int, ...]]] = {}
        self.counts: dict[Allocate, int] = {}
        self.exact = True


class Meter:
    """Walks with the values of variables; `held` is the sum held by the enclosing statements."""

    def __init__(
        self, kinds: frozenset[MemoryType], workers: int, without: str | None
    ) -> None:
        self.kinds = kinds
        self.without = without
        self.workers = workers
        self.result = Measured()
        self.values: dict[str, Number] = {}
        self.given: frozenset[str] = frozenset()
        self.relevant: dict[Node, bool] = {}
        self.needed: dict[For, bool] = {}
        self.live: dict[str, list[int]] = {}
        self.held = 0
        self.peak = 0

    def is_relevant(self, s: Stmt) -> bool:
        found = self.relevant.get(s)
        if found is None:
            found = isinstance(s, Allocate | Free) or self._calls_pipeline(s) or any(
                self.is_relevant(c) for c in s.children() if isinstance(c, Stmt)
            )
            self.relevant[s] = found
        return found

    def _calls_pipeline(self, s: Stmt) -> bool:
        """Whether it calls another pipeline, whose temporaries on a device are its own."""
        if MemoryType.GPUGlobal not in self.kinds or not isinstance(s, Evaluate):
            return False
        call = s.value
        return type(call) is Call and call.name == "call_extern" and call.target.lowered is not None

    def walk(self, s: Stmt, times: int) -> None:
        if not self.is_relevant(s):
            # Only the call's end inside the prologue matters, and that ends before all temporaries.
            return
        if isinstance(s, Block):
            for part in s.stmts:
                self.walk(part, times)
        elif isinstance(s, LetStmt):
            self._walk_let(s, times)
        elif isinstance(s, IfThenElse):
            self._walk_branches(s, times)
        elif isinstance(s, For):
            self._walk_loop(s, times)
        elif isinstance(s, Allocate):
            self._walk_allocation(s, times)
        elif isinstance(s, Free):
            self._release(s.name)
        elif isinstance(s, ProducerConsumer | Atomic | Prefetch):
            self.walk(s.body, times)
        elif isinstance(s, Evaluate):
            self._walk_call(s)

    def _walk_call(self, s: Evaluate) -> None:
        """A pipeline holds what it has on the device while it runs, on top of the caller's."""
        call: Any = s.value
        given: list[Any] = []
        try:
            for argument in call.args[: len(call.target.parameters)]:
                if type(argument) is Call and argument.name in _BUFFERS:
                    fields = [int(evaluate(field, self.values)) for field in argument.args[1:]]
                    given.append(list(zip(*[iter(fields)] * 3, strict=True)))
                else:
                    given.append(evaluate(argument, self.values))
            size, exact = call.target.lowered.device_bytes(given, self.workers)
        except Unknown:
            self.result.exact = False
            return
        self.result.exact = self.result.exact and exact
        self.peak = max(self.peak, self.held + size)

    def _walk_let(self, s: LetStmt, times: int) -> None:
        missing = s.name not in self.values
        before = self.values.get(s.name)
        try:
            self.values[s.name] = evaluate(s.value, self.values)
        except Unknown:
            # Elements of inputs are given by the names of lets.
            if s.name not in self.given or not is_element(s.value):
                self.values.pop(s.name, None)
        self.walk(s.body, times)
        if missing:
            self.values.pop(s.name, None)
        else:
            assert before is not None
            self.values[s.name] = before

    def _walk_branches(self, s: IfThenElse, times: int) -> None:
        cases = [s.then_case] if s.else_case is None else [s.then_case, s.else_case]
        try:
            taken = evaluate(s.condition, self.values)
            cases = [s.then_case] if taken else cases[1:]
        except Unknown:
            self.result.exact = False
        for case in cases:
            self.walk(case, times)

    def _depends(self, s: For) -> bool:
        """Whether an allocation inside may differ between iterations of the loop."""
        found = self.needed.get(s)
        if found is None:
            found = self._sizes_use(s.body, s.name)
            self.needed[s] = found
        return found

    def _sizes_use(self, body: Stmt, name: str) -> bool:
        names = {name}
        stack: list[Stmt] = [body]
        # Lets pass the dependence on; a name is never bound twice with different meanings.
        while stack:
            s = stack.pop()
            if not self.is_relevant(s):
                continue
            if isinstance(s, LetStmt) and not names.isdisjoint(free_variables(s.value)):
                names.add(s.name)
            tested: list[Expr] = []
            if isinstance(s, Allocate):
                tested = [*s.extents, s.condition]
            elif isinstance(s, Evaluate):
                tested = [s.value]
            elif isinstance(s, IfThenElse):
                tested = [s.condition]
            elif isinstance(s, For):
                tested = [s.min, s.extent]
            if any(not names.isdisjoint(free_variables(e)) for e in tested):
                return True
            stack.extend([c for c in s.children() if isinstance(c, Stmt)])
        return False

    def _walk_loop(self, s: For, times: int) -> None:
        if is_kernel(s):
            self.walk_kernel(s, times)
            return
        try:
            low = int(evaluate(s.min, self.values))
            extent = int(evaluate(s.extent, self.values))
        except Unknown:
            self.result.exact = False
            self.walk(s.body, times)
            return
        if extent <= 0:
            return
        at_once = min(self.workers, extent) if s.kind is ForKind.Parallel else 1
        outer_peak, outer_held = self.peak, self.held
        inner_peaks: list[int] = []
        iterations = range(low, low + extent) if self._depends(s) else range(low, low + 1)
        for i in iterations:
            self.values[s.name] = i
            self.peak = self.held = 0
            self.walk(s.body, times if len(iterations) > 1 else times * extent)
            inner_peaks.append(self.peak)
        self.values.pop(s.name, None)
        if len(iterations) == 1:
            inner = inner_peaks[0] * at_once
        else:
            inner = sum(sorted(inner_peaks, reverse=True)[:at_once])
        if at_once > 1 and inner:
            # Whether all hold their memory at one moment is a matter of luck.
            self.result.exact = False
        self.held = outer_held
        self.peak = max(outer_peak, outer_held + inner)

    def walk_kernel(self, s: For, times: int) -> None:
        """What is in a kernel is the device's."""

    def _walk_allocation(self, s: Allocate, times: int) -> None:
        size = 0
        if s.memory_type in self.kinds and s.address is None and s.name != self.without:
            size = self._note(s, times)
        self.live.setdefault(s.name, []).append(size)
        self.held += size
        self.peak = max(self.peak, self.held)
        depth = len(self.live[s.name])
        self.walk(s.body, times)
        if len(self.live[s.name]) == depth:
            # No Free was met: the end of the scope is the end of the life.
            self.held -= self.live[s.name].pop()

    def _note(self, s: Allocate, times: int) -> int:
        try:
            size = size_bytes(s, self.values)
            extents = tuple([int(evaluate(e, self.values)) for e in s.extents])
        except Unknown:
            self.result.exact = False
            size, extents = 0, ()
        best = self.result.sizes.get(s)
        if best is None or size > best[0]:
            self.result.sizes[s] = (size, extents)
        self.result.counts[s] = self.result.counts.get(s, 0) + (times if size else 0)
        return size

    def _release(self, name: str) -> None:
        if self.live.get(name):
            self.held -= self.live[name].pop()


def measure(
    stmt: Stmt,
    values: Mapping[str, Number],
    kinds: frozenset[MemoryType] = HEAP,
    workers: int = 1,
    without: str | None = None,
) -> Measured:
    """Finds the bytes that the allocations of the given kinds take in one call.

    Aliases take no bytes: their arena does.

    Args:
        stmt: the final statement of a program.
        values: the fields of the call's buffers (NAME.min.0, ...) and its scalars, by name.
        kinds: which allocations count.
        workers: iterations of a parallel loop that run at once.
        without: name of an allocation that does not count.
    """
    meter = Meter(kinds, workers, without)
    meter.values = dict(values)
    meter.given = frozenset(values)
    meter.walk(stmt, 1)
    meter.result.peak_bytes = meter.peak
    return meter.result
