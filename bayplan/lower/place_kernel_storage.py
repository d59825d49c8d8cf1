"""Decides where temporaries of kernels live: in registers, in shared or in global memory."""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.bounds import bounds_of_expr_in_scope
from bayplan.analysis.purity import reads_memory
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Broadcast, Expr, Load, Ramp, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import (
    Allocate,
    Atomic,
    For,
    Free,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.types import INT32
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_storage
from bayplan.lower.rewrite_kernels import rewrite_kernels
from bayplan.storage.formula import names_of_size
from bayplan.storage.kernels import Kernel, around_blocks, is_stretch
from bayplan.storage.lives import Life
from bayplan.storage.places import Place
from bayplan.storage.plan import KindChoice
from bayplan.storage.sizes import SizesOutside

MOST_REGISTER_BYTES: Final = 4096
"""The largest array of one thread that kind Auto gives it."""

_OF_THREAD: Final = (MemoryType.Register, MemoryType.Stack)
_NOT_ON_DEVICES: Final = {
    MemoryType.GPUTexture: "the target has no textures",
    MemoryType.LockedCache: "the target has no locked cache",
    MemoryType.VTCM: "the target has no VTCM",
    MemoryType.Static: "only constant tables are static",
}


def place_kernel_storage(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which no allocation of a kernel is of kind Auto any more.

    Inside threads Auto is Register where the size is a small constant. Else, and where Heap or
    GPUShared is asked for, it becomes a temporary of the block with room for all of its threads,
    whose elements take turns, so that neighbouring threads touch neighbouring elements. A
    temporary of the block is GPUShared or Heap. Sizes are the largest over all blocks and loops
    of the kernel, found on the host; allocations stay where they are, as their lives begin there.
    Names are unique in a kernel.

    Order: after vectorize_loops and normalize_kernels; before hoist_invariants, which could move
    lets that sizes use.

    Raises:
        ScheduleError: A size depends on data.
    """
    return rewrite_kernels(stmt, lambda node: _InKernel(Kernel(node), lowering).run())


class _InKernel:
    def __init__(self, kernel: Kernel, lowering: Lowering) -> None:
        self.kernel = kernel
        self.lowering = lowering
        self.sizes = SizesOutside(set())
        self.names: set[str] = set()
        # What is bound around, for messages.
        self.lets: list[tuple[str, Expr]] = []
        # Sizes bound before the launch, and their names.
        self.before: list[tuple[str, Expr]] = []
        self.named: dict[Expr, Variable] = {}
        # Of the stretch: temporaries of its threads that become the block's.
        self.striped: list[Allocate] = []
        self.in_stretch = False

    def run(self) -> Stmt:
        place: Place | None = None
        for loop in self.kernel.loops:
            place = Place(place, loop)
        for let in self.kernel.lets:
            place = Place(place, let)
        result = around_blocks(self.kernel, self._walk(self.kernel.body, place))
        for name, value in reversed(self.before):
            result = LetStmt(name, value, result)
        return result

    def _walk(self, s: Stmt, place: Place | None) -> Stmt:
        cls = type(s)
        if cls is Allocate:
            return self._allocate(s, place)  # type: ignore[arg-type]
        if cls is LetStmt:
            self.lets.append((s.name, s.value))  # type: ignore[attr-defined]
            return self._inside(s, Place(place, s))  # type: ignore[arg-type]
        if cls is For:
            if is_stretch(s) and not self.in_stretch:
                return self._stretch(s, place)  # type: ignore[arg-type]
            return self._inside(s, Place(place, s))  # type: ignore[arg-type]
        if cls is IfThenElse:
            return self._branch(s, place)  # type: ignore[arg-type]
        children = [self._walk(c, place) if isinstance(c, Stmt) else c for c in s.children()]
        return s.with_children(children)  # type: ignore[return-value]

    def _inside(self, s: LetStmt | For, place: Place) -> Stmt:
        children = [*s.children()[:-1], self._walk(s.body, place)]
        return s.with_children(children)

    def _branch(self, s: IfThenElse, place: Place | None) -> Stmt:
        then = self._walk(s.then_case, Place(place, None, s.condition))
        other = s.else_case
        if other is not None:
            other = self._walk(other, Place(place, None, build.logical_not(s.condition)))
        return IfThenElse(s.condition, then, other)

    def _stretch(self, s: For, place: Place | None) -> Stmt:
        self.in_stretch = True
        result = self._inside(s, Place(place, s))
        self.in_stretch = False
        for node in reversed(self.striped):
            result = node.with_body(result)
        self.striped = []
        return result

    # Allocations.

    def _allocate(self, s: Allocate, place: Place | None) -> Stmt:
        asked = s.memory_type
        choice = self.lowering.kinds.setdefault(s.name, KindChoice(asked))
        name = s.name
        if name in self.names:
            name = self.lowering.unique_name(name)
            while name in self.names:
                name = self.lowering.unique_name(s.name)
            self.lowering.kinds[name] = choice
        self.names.add(name)
        body = s.body if name == s.name else _Rename(s.name, name)(s.body)
        node = Allocate(name, s.type, asked, s.extents, s.condition, s.padding, body, s.alignment)
        if self.in_stretch:
            return self._in_threads(node, place)
        kind = asked
        if kind is MemoryType.Register:
            # What lanes of a warp share (see `lower_warp_shuffles`): each has its own elements.
            return node.with_body(self._walk(body, place))
        if kind in _NOT_ON_DEVICES:
            kind = self._moved(node, MemoryType.GPUShared, _NOT_ON_DEVICES[kind])
        elif kind is MemoryType.Auto:
            kind = MemoryType.GPUShared
        extents, condition = self._outside(node, place)
        return Allocate(
            name, s.type, kind, extents, condition, s.padding, self._walk(body, place), s.alignment
        )

    def _in_threads(self, s: Allocate, place: Place | None) -> Stmt:
        asked = s.memory_type
        size = _constant_bytes(s)
        kind = asked
        if kind in _NOT_ON_DEVICES:
            kind = MemoryType.Auto
        if kind is MemoryType.Auto:
            fits = size is not None and size <= MOST_REGISTER_BYTES
            kind = MemoryType.Register if fits else MemoryType.Heap
            if asked is not MemoryType.Auto:
                self._moved(s, kind, _NOT_ON_DEVICES[asked])
        elif kind in _OF_THREAD and size is None:
            names = names_of_size(s.extents, self.lets)
            kind = self._moved(s, MemoryType.Heap, f"no upper bound for {', '.join(names)}")
        if kind in _OF_THREAD:
            node = Allocate(
                s.name, s.type, kind, s.extents, s.condition, s.padding, s.body, s.alignment
            )
            return node.with_body(self._walk(s.body, place))
        extents, condition = self._outside(s, place)
        threads = self.kernel.thread_count()
        padding = 0
        if s.padding:
            # Elements behind the last one of a thread stand behind those of all threads.
            extents, padding = (simplify(_product(extents) + s.padding),), 0
        counts = tuple([loop.extent for loop in reversed(self.kernel.threads)])
        body = _Stripe(s.name, threads, self.kernel.thread())(self._walk(s.body, place))
        self.striped.append(
            Allocate(
                s.name, s.type, kind, (*extents, *counts), condition, padding, s.body, s.alignment
            )
        )
        return body  # type: ignore[no-any-return]

    def _outside(self, s: Allocate, place: Place | None) -> tuple[tuple[Expr, ...], Expr]:
        """Extents and condition for the host, which allocates before the launch."""
        life = Life(s, place)
        found = self.sizes.exact_extents_of(life)
        if found is None:
            found = _bound_data(s, self.sizes, place)
        if found is None:
            func = func_of_storage(s.name, self.lowering)
            raise ScheduleError(
                f"the size of {func} in the kernel {self.kernel.title} depends on data, but memory "
                "is given to a kernel before it runs",
                self.lowering.where(func),
            )
        extents = tuple([self._let(f"{s.name}.most.{i}", e) for i, e in enumerate(found)])
        return extents, self._let(f"{s.name}.needed", self.sizes.condition_of(life))

    def _let(self, wanted: str, value: Expr) -> Expr:
        """The value under a name bound before the launch, where it is no mere name or number."""
        value = simplify(value)
        if build.constant_value(value) is not None or type(value) is Variable:
            return value
        found = self.named.get(value)
        if found is None:
            name = self.lowering.unique_name(wanted)
            self.before.append((name, value))
            found = self.named[value] = Variable(value.type, name)
        return found

    def _moved(self, s: Allocate, kind: MemoryType, why: str) -> MemoryType:
        self.lowering.kinds[s.name] = KindChoice(s.memory_type, why)
        note = f"{s.name}: asked {s.memory_type.name}, got {kind.name}: {why}"
        if note not in self.lowering.warnings:
            self.lowering.warnings.append(note)
        return kind


def _bound_data(
    s: Allocate, sizes: SizesOutside, place: Place | None
) -> tuple[Expr, ...] | None:
    """Extents that hold for any data, where such are known."""
    extents: list[Expr] = []
    for extent in s.extents:
        e: Expr | None = extent
        if reads_memory(extent):
            e = bounds_of_expr_in_scope(extent, {}).max
        e = None if e is None else sizes.bound(e, place)
        if e is None or reads_memory(e):
            return None
        extents.append(e)
    return tuple(extents)


def _constant_bytes(s: Allocate) -> int | None:
    elements = 1
    for extent in s.extents:
        value = build.constant_value(extent)
        if value is None:
            return None
        elements *= max(int(value), 0)
    return (elements + s.padding) * s.type.bytes()


def _product(extents: tuple[Expr, ...]) -> Expr:
    result: Expr = build.int32(1)
    for extent in extents:
        result = build.mul(result, extent)
    return result


class _Rename(Rewriter):
    """Gives an allocation another name, where it is not hidden by one of the same name."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__()
        self.old = old
        self.new = new

    def rewrite_Load(self, node: Load) -> Expr:
        children: list[Any] = [self(c) for c in node.children()]
        if node.name != self.old:
            return node.with_children(children)  # type: ignore[return-value]
        predicate = children[1] if len(children) > 1 else None
        return Load(node.type, self.new, children[0], predicate, node.source, node.alignment)

    def rewrite_Store(self, node: Store) -> Stmt:
        children: list[Any] = [self(c) for c in node.children()]
        if node.name != self.old:
            return node.with_children(children)
        predicate = children[2] if len(children) > 2 else None
        return Store(
            self.new, children[0], children[1], predicate, node.source, node.alignment
        )

    def rewrite_Free(self, node: Free) -> Stmt:
        return Free(self.new) if node.name == self.old else node

    def rewrite_Atomic(self, node: Atomic) -> Stmt:
        return Atomic(node.name, self(node.body))

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        # The mark names the Func.
        return node.with_children([self(node.body)])

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        if node.name == self.old:
            children = [*[self(c) for c in node.children()[:-1]], node.body]
            return node.with_children(children)
        return self.rebuild(node)  # type: ignore[no-any-return]


class _Stripe(Rewriter):
    """Elements of one thread's temporary among those of all threads of the block."""

    def __init__(self, name: str, threads: Expr, thread: Expr) -> None:
        super().__init__()
        self.name = name
        self.threads = threads
        self.thread = thread

    def _index(self, index: Expr) -> Expr:
        lanes = index.type.lane_count
        if type(index) is Ramp and index.base.type is INT32:
            base = index.base * self.threads + self.thread
            return Ramp(base, index.stride * self.threads, lanes)
        if lanes == 1:
            return index * self.threads + self.thread
        return index * Broadcast(self.threads, lanes) + Broadcast(self.thread, lanes)

    def rewrite_Load(self, node: Load) -> Expr:
        children: list[Any] = [self(c) for c in node.children()]
        if node.name != self.name:
            return node.with_children(children)  # type: ignore[return-value]
        predicate = children[1] if len(children) > 1 else None
        return Load(node.type, node.name, self._index(children[0]), predicate, node.source)

    def rewrite_Store(self, node: Store) -> Stmt:
        children: list[Any] = [self(c) for c in node.children()]
        if node.name != self.name:
            return node.with_children(children)
        predicate = children[2] if len(children) > 2 else None
        return Store(node.name, children[0], self._index(children[1]), predicate, node.source)
