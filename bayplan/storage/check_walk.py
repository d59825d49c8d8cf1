"""Who touches which bytes when: the checker's own walk over the final program.

A position is a place in program order at which one statement touches storage. It is finer than a
step of a plan: what is apart here is apart there, so a plan that is right is never refused for it.
"""

from __future__ import annotations

from typing import Final

from bayplan.ir.build import false, logical_not
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Call, Expr, Load, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    Atomic,
    Block,
    For,
    Free,
    HoistedStorage,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.walk import iterate

_NOTHING: Final[frozenset[str]] = frozenset()
_ON_BOTH_SIDES: Final = frozenset(
    ["device_copy_in", "device_copy_out", "device_written", "host_written"]
)
_TRANSPARENT: Final = (ProducerConsumer, Atomic, Prefetch, HoistedStorage)


class Loop:
    """One loop where it stands: [begin, end) are the positions of its body."""

    __slots__ = ("begin", "end", "node")

    def __init__(self, node: For, begin: int) -> None:
        self.node = node
        self.begin = begin
        self.end = begin

    @property
    def parallel(self) -> bool:
        """Whether iterations run at once."""
        return self.node.kind is not ForKind.Serial

    @property
    def over_blocks(self) -> bool:
        """Whether iterations are blocks of a launch, all of which may run at once."""
        return self.node.kind is ForKind.GPUBlock


class Scope:
    """What one name stands for, and the scope around: a let's value, or a loop.

    Also a branch: then the name is "" and the value the condition that holds in it.
    """

    __slots__ = ("loop", "name", "outer", "value", "_table")

    def __init__(
        self, name: str, value: Expr | None, loop: For | None, outer: Scope | None
    ) -> None:
        self.name = name
        self.value = value
        self.loop = loop
        self.outer = outer
        self._table: dict[str, Scope] | None = None

    def find(self, name: str) -> Scope | None:
        """The innermost binding of the name."""
        if self._table is None:
            self._table = {}
            scope: Scope | None = self
            while scope is not None:
                self._table.setdefault(scope.name, scope)
                scope = scope.outer
        return self._table.get(name)


class Leaf:
    """What stands at one position, under which loops and names."""

    __slots__ = ("loops", "node", "scope")

    def __init__(self, node: Node, loops: tuple[Loop, ...], scope: Scope | None) -> None:
        self.node = node
        self.loops = loops
        self.scope = scope

    def describe(self) -> str:
        """A few words for messages."""
        what = f"write {self.node.name}" if type(self.node) is Store else "read"
        return what + (f" in {self.loops[-1].node.name}" if self.loops else "")


class Use:
    """One occurrence of an Allocate in the program.

    Attributes:
        arena: the occurrence whose bytes it is a part of; None: its bytes are its own.
        base: name of what its address counts from; "" where its bytes are its own.
        loops: the loops around it.
        begin, end: the positions at which its bytes must be kept; begin == end: never touched.
        reads, writes: positions.
        first_inner: the outermost loops inside it in which it is touched.
    """

    __slots__ = (
        "arena", "base", "begin", "end", "first_inner", "freed", "loops", "name", "node", "reads",
        "scope", "writes",
    )  # fmt: skip

    def __init__(self, node: Allocate, loops: tuple[Loop, ...], scope: Scope | None) -> None:
        self.name = node.name
        self.node = node
        self.loops = loops
        self.scope = scope
        self.arena: Use | None = None
        self.base = ""
        self.begin = -1
        self.end = -1
        self.freed = False
        self.reads: list[int] = []
        self.writes: list[int] = []
        self.first_inner: list[Loop] = []

    @property
    def offset(self) -> Expr | None:
        """The bytes behind the begin of the arena; None where it is no alias."""
        return None if self.node.address is None else self.node.address.args[-1]

    @property
    def output(self) -> str:
        """Name of the output in whose bytes it may live instead; "" for none."""
        address = self.node.address
        if address is None or address.name != "output_or_offset_pointer":
            return ""
        return address.args[1].name  # type: ignore[attr-defined,no-any-return]

    @property
    def in_output(self) -> Expr:
        """What holds where it lives in the output."""
        address = self.node.address
        return address.args[0] if address is not None and self.output else false()

    def kept(self) -> tuple[int, int]:
        """The positions at which no other may have its bytes, in the whole of the arena.

        An iteration may need what an earlier one left, so what is touched in a loop inside is
        kept for all of the loop. Iterations of a parallel loop between the arena and this run at
        once, so each part is kept for all of that loop.
        """
        begin, end = self.begin, self.end
        if begin < 0:
            return 0, 0
        for loop in self.first_inner:
            begin, end = min(begin, loop.begin), max(end, loop.end)
        loop_around = self.parallel_loop()
        if loop_around is not None:
            begin, end = min(begin, loop_around.begin), max(end, loop_around.end)
        return begin, end

    def parallel_loops(self) -> list[Loop]:
        """The parallel loops between the arena and this, outermost first."""
        outside = 0 if self.arena is None else len(self.arena.loops)
        return [loop for loop in self.loops[outside:] if loop.parallel]

    def parallel_loop(self) -> Loop | None:
        """The outermost of them."""
        found = self.parallel_loops() if self.base else []
        return found[0] if found else None


class Walk:
    """The occurrences of allocations and the positions of a final statement.

    Attributes:
        outside: of buffers of the call, the positions at which they are touched, and whether that
            writes.

    Raises:
        PlanError: a temporary is used where it has no storage, or after the end of its life.
    """

    def __init__(self, stmt: Stmt) -> None:
        self.uses: list[Use] = []
        self.leaves: list[Leaf] = []
        self._open: dict[str, Use] = {}
        self._loops: tuple[Loop, ...] = ()
        self._names: dict[Expr, frozenset[str]] = {}
        self._outside: dict[str, int] = {}
        self.outside: dict[str, list[tuple[int, bool]]] = {}
        self._walk(stmt, None)
        for use in self.uses:
            if use.name in self._outside:
                raise PlanError(
                    f"{use.name} is used at step {self._outside[use.name]}, outside of the scope "
                    "in which it has storage"
                )

    def _walk(self, s: Stmt, scope: Scope | None) -> None:
        while True:
            if type(s) is LetStmt:
                self._read(s.value, s, scope)
                scope = Scope(s.name, s.value, None, scope)
                s = s.body
            elif isinstance(s, _TRANSPARENT):
                s = s.body
            else:
                break
        if isinstance(s, Block):
            for part in s.stmts:
                self._walk(part, scope)
        elif isinstance(s, Store):
            self._store(s, scope)
        elif isinstance(s, For):
            self._loop(s, scope)
        elif isinstance(s, IfThenElse):
            self._read(s.condition, s, scope)
            self._walk(s.then_case, Scope("", s.condition, None, scope))
            if s.else_case is not None:
                self._walk(s.else_case, Scope("", logical_not(s.condition), None, scope))
        elif isinstance(s, Allocate):
            self._allocate(s, scope)
        elif isinstance(s, Free):
            self._free(s)
        else:
            for child in s.children():
                if isinstance(child, Expr):
                    self._read(child, s, scope)

    def _loop(self, s: For, scope: Scope | None) -> None:
        self._read(s.min, s, scope)
        self._read(s.extent, s, scope)
        loop = Loop(s, len(self.leaves))
        outer = self._loops
        self._loops = (*outer, loop)
        self._walk(s.body, Scope(s.name, None, s, scope))
        self._loops = outer
        loop.end = len(self.leaves)

    def _allocate(self, s: Allocate, scope: Scope | None) -> None:
        for extent in (*s.extents, s.condition):
            self._read(extent, s, scope)
        use = Use(s, self._loops, scope)
        if s.address is not None:
            self._resolve(use, s.address)
        self.uses.append(use)
        hidden = self._open.get(s.name)
        self._open[s.name] = use
        self._walk(s.body, scope)
        if hidden is None:
            del self._open[s.name]
        else:
            self._open[s.name] = hidden

    def _resolve(self, use: Use, address: Call) -> None:
        base = address.args[-2]
        known = address.name in ("offset_pointer", "output_or_offset_pointer")
        if not known or not isinstance(base, Variable):
            raise PlanError(f"{use.name} has the address {address}, which is no place in an arena")
        self._read(address.args[-1], use.node, use.scope)
        self._read(use.in_output, use.node, use.scope)
        use.base = base.name
        use.arena = self._open.get(base.name)
        if use.arena is None:
            raise PlanError(f"{use.name} lies in {base.name}, which is not allocated around it")
        if use.arena.freed:
            raise PlanError(f"{use.name} lies in {base.name}, which is released before it")

    def _free(self, s: Free) -> None:
        use = self._open.get(s.name)
        if use is None:
            raise PlanError(f"{s.name} is released where it has no storage")
        if len(self._loops) != len(use.loops):
            raise PlanError(
                f"{s.name} is released in each iteration of {self._loops[-1].node.name}"
            )
        use.freed = True

    def _store(self, s: Store, scope: Scope | None) -> None:
        names = self._names_in(s.value) | self._names_in(s.index)
        if s.predicate is not None:
            names = names | self._names_in(s.predicate)
        at = len(self.leaves)
        self.leaves.append(Leaf(s, self._loops, scope))
        for name in names:
            self._touch(name, at, False)
        self._touch(s.name, at, True)

    def _read(self, e: Expr, node: Node, scope: Scope | None) -> None:
        names = self._names_in(e)
        if names:
            at = len(self.leaves)
            self.leaves.append(Leaf(node, self._loops, scope))
            for name in names:
                self._touch(name, at, False)
            # A C function that computes a stage writes what it is given for that.
            for call in iterate(e):
                if isinstance(call, Call) and call.name == "written_buffer":
                    for name in self._names_in(call):
                        self._touch(name, at, True)

    def _touch(self, name: str, at: int, writes: bool) -> None:
        if any(loop.over_blocks for loop in self._loops) and f"{name}.device" in self._open:
            # A kernel has the one of both homes that is on the device.
            name = f"{name}.device"
        use = self._open.get(name)
        if use is None:
            self._outside.setdefault(name, at)
            self.outside.setdefault(name, []).append((at, writes))
            return
        (use.writes if writes else use.reads).append(at)
        touched: Use | None = use
        while touched is not None:
            if touched.freed:
                raise PlanError(
                    f"{name} is used at step {at} ({self.leaves[at].describe()}) after the end "
                    f"of the life of {touched.name}"
                )
            if touched.begin < 0:
                touched.begin = at
            touched.end = at + 1
            depth = len(touched.loops)
            if len(self._loops) > depth:
                loop = self._loops[depth]
                if not touched.first_inner or touched.first_inner[-1] is not loop:
                    touched.first_inner.append(loop)
            touched = touched.arena

    def _names_in(self, e: Expr) -> frozenset[str]:
        """The allocations and buffers that an expression reads, or takes the address of."""
        found = self._names.get(e)
        if found is None:
            found = _NOTHING
            for child in e.children():
                inner = self._names_in(child)  # type: ignore[arg-type]
                if not inner <= found:
                    found = found | inner
            if isinstance(e, Call) and e.name in _ON_BOTH_SIDES:
                name = e.args[0].value  # type: ignore[attr-defined]
                found = found | {name, f"{name}.device"}
            if isinstance(e, Load) or (isinstance(e, Variable) and e.type.kind == "handle"):
                found = found | {e.name}
            self._names[e] = found
        return found
