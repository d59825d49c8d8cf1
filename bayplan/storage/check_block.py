"""One block of a kernel in one call, step by step: which thread touches which bytes.

Part of the checker of races.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.ranges import range_of
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Call, Expr, Load
from bayplan.ir.memory import ForKind
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    Atomic,
    Block,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
    Store,
)
from bayplan.ir.walk import iterate
from bayplan.storage.check_lanes import Lanes, Value
from bayplan.storage.check_numbers import Numbers, size_in_bytes
from bayplan.storage.check_rows import rows_are_apart
from bayplan.storage.check_touches import (
    GLOBAL,
    MANY,
    SHARED,
    Group,
    Place,
    Step,
    fence_of,
    place_of,
)
from bayplan.storage.check_walk import Scope

THREADS: Final = (ForKind.GPUThread, ForKind.GPULane)

_MOST_THREADS: Final = 2048
_MOST_WORK: Final = 150_000
"""Elements looked at in one block; what is not looked at then is not refused."""

_FIRST_ITERATIONS: Final = 4
_LAST_ITERATIONS: Final = 3
_FIRST_INNER: Final = 16


class BlockRun:
    """One block of one call.

    Args:
        taken: whether branches that depend on data are taken.

    Attributes:
        guessed: whether there was such a branch.
    """

    def __init__(
        self,
        body: Stmt,
        scope: Scope | None,
        around: Mapping[str, Place],
        numbers: Numbers,
        ids: dict[str, int],
        taken: bool,
    ) -> None:
        self.body = body
        self.scope = scope
        self.numbers = numbers
        self.ids = ids
        self.taken = taken
        self.guessed = False
        self.lanes = Lanes(self._outside)
        self.lets: dict[str, Expr] = {}
        self.places = dict(around)
        self.begins: dict[Place, tuple[int, int] | None] = {}
        self.buffers: dict[str, Place] = {}
        # Memories in which steps that do not wait for each other may meet; None: to be found.
        self.suspects: set[str] | None = None
        self._found: set[str] = set()
        # Of each kind of memory, what was touched since the last barrier that covers it.
        self.open: dict[int, list[Group]] = {SHARED: [], GLOBAL: []}
        self.groups: dict[tuple[Place, bool, str], Group] = {}
        self.step = Step(body)
        self.active: list[bool] = []
        self.threads = 1
        self.extents: dict[str, int] = {}
        self.numbers_of: dict[str, list[int]] = {}
        self.update = ""
        self.work = 0
        self._touches: dict[Node, list[Any]] = {}
        self._suspect_nodes: dict[Node, bool] = {}
        self.written = frozenset([s.name for s in iterate(body) if isinstance(s, Store)])

    def _outside(self, e: Expr) -> int:
        return self.numbers.value(e, self.scope, self.ids)

    def whole(self) -> None:
        """The body of the kernel."""
        for s in iterate(self.body):
            if isinstance(s, For) and s.kind in THREADS:
                extent = self.lanes.of(s.extent)
                if not isinstance(extent, int):
                    return
                self.extents[s.name] = max(self.extents.get(s.name, 0), extent)
        for extent in self.extents.values():
            self.threads *= max(0, extent)
        if 0 < self.threads <= _MOST_THREADS:
            rest = self.threads
            for name, extent in self.extents.items():
                rest //= extent
                self.numbers_of[name] = [i // rest % extent for i in range(self.threads)]
            self._walk(self.body)
            self.suspects = self._found
            if self.suspects:
                self.open = {SHARED: [], GLOBAL: []}
                self._walk(self.body)

    # What all threads do alike

    def _walk(self, s: Any) -> None:
        fence = fence_of(s)
        if fence:
            for kind in self.open:
                if fence & kind:
                    self.open[kind] = []
        elif isinstance(s, LetStmt):
            self._reads(s, s.value)
            value = self.lanes.of(s.value)
            self.lets[s.name] = s.value
            # A value from memory is the same for all threads; any number will do.
            hidden = self.lanes.bind(s.name, 0 if value is None else value)
            self._walk(s.body)
            self.lanes.bind(s.name, hidden)
        elif isinstance(s, For) and s.kind not in THREADS:
            self._loop(s)
        elif isinstance(s, IfThenElse):
            self._branch(s)
        elif isinstance(s, Allocate):
            hidden_place = self.places.get(s.name)
            self.places[s.name] = place_of(s, self.places, self.scope)
            self._walk(s.body)
            if hidden_place is None:
                del self.places[s.name]
            else:
                self.places[s.name] = hidden_place
        elif isinstance(s, Store) or (isinstance(s, For) and s.kind in THREADS):
            self._begin(s)
            if self.suspects is None:
                self._look_at(s)
            else:
                self._inside(s)
            self._end()
        elif isinstance(s, Block) or not any(isinstance(c, Stmt) for c in s.children()):
            self._reads(s, *[c for c in s.children() if isinstance(c, Expr)])
            for child in s.children():
                if isinstance(child, Stmt):
                    self._walk(child)
        else:
            outer, self.update = self.update, s.name if isinstance(s, Atomic) else self.update
            for child in s.children():
                if isinstance(child, Stmt):
                    self._walk(child)
            self.update = outer

    def _loop(self, s: For) -> None:
        self._reads(s, s.min, s.extent)
        low, extent = self.lanes.of(s.min), self.lanes.of(s.extent)
        if not isinstance(low, int):
            low = 0
        if not isinstance(extent, int):
            self.guessed = True
            extent = 2 if self.taken else 0
        first = min(extent, _FIRST_ITERATIONS)
        for i in range(low, low + first):
            self._iteration(s, i)
        if extent > first:
            # Iterations in between are left out, so what they left open is not known.
            self.open = {kind: [] for kind in self.open}
            for i in range(low + max(first, extent - _LAST_ITERATIONS), low + extent):
                self._iteration(s, i)

    def _iteration(self, s: For, i: int) -> None:
        hidden = self.lanes.bind(s.name, i)
        self._walk(s.body)
        self.lanes.bind(s.name, hidden)

    def _branch(self, s: IfThenElse) -> None:
        self._reads(s, s.condition)
        condition = self.lanes.of(s.condition)
        if not isinstance(condition, int):
            self.guessed = True
            condition = int(self.taken)
        if condition:
            self._walk(s.then_case)
        elif s.else_case is not None:
            self._walk(s.else_case)

    def _reads(self, node: Node, *values: Expr) -> None:
        """All threads read alike."""
        if any(isinstance(n, Load) for n in iterate(*values)):
            self._begin(node)
            for value in values:
                self._loads(value, "", "")
            self._end()

    # A stretch

    def _begin(self, node: Node) -> None:
        self.step = Step(node)
        self.groups = {}
        self.active = [True] * self.threads

    def _end(self) -> None:
        for group in self.groups.values():
            kind = group.place.memory().kind
            for other in self.open[kind]:
                if self.suspects is None:
                    self._suspect(other, group)
                else:
                    self._compare(other, group)
            self.open[kind].append(group)

    def _look_at(self, s: Stmt) -> None:
        """Notes what a stretch touches, but not which elements."""
        own = {n.name for n in iterate(s) if isinstance(n, Allocate) and n.address is None}
        for node in self._touching(s):
            if node.name not in own:
                self._group(node.name, isinstance(node, Store), "")

    def _suspect(self, a: Group, b: Group) -> None:
        """Two steps, or temporaries of one step, may meet in a memory."""
        memory = a.place.memory()
        if not (a.writes or b.writes) or memory is not b.place.memory():
            return
        if a.step is b.step and a.place is b.place:
            return
        first, second = self._bytes_of(a.place), self._bytes_of(b.place)
        if first is not None and second is not None:
            if first[0] >= second[1] or second[0] >= first[1]:
                return
        self._found.add(memory.name)

    def _group(self, name: str, writes: bool, update: str) -> Group | None:
        """What the step touches of a temporary in that way; None: nothing of interest."""
        if name not in self.written and name not in self.places:
            return None
        place = self.places.get(f"{name}.device") or self.places.get(name)
        if place is None:
            place = self.buffers.setdefault(name, Place(name, GLOBAL, None, None, None))
        memory = place.memory()
        if not memory.kind or (self.suspects is not None and memory.name not in self.suspects):
            return None
        key = (place, writes, update)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(place, self.step, writes, update)
        return group

    def _inside(self, s: Any) -> None:
        if self.work > _MOST_WORK or not self._is_suspect(s):
            return
        if isinstance(s, Store):
            self._store(s)
        elif isinstance(s, LetStmt):
            self._loads(s.value, "", "")
            self.lets[s.name] = s.value
            hidden = self.lanes.bind(s.name, self.lanes.of(s.value))
            self._inside(s.body)
            self.lanes.bind(s.name, hidden)
        elif isinstance(s, For):
            self._loads(s.min, "", "")
            self._loads(s.extent, "", "")
            if s.kind in THREADS:
                hidden = self.lanes.bind(s.name, self.numbers_of[s.name])
                self._inside(s.body)
                self.lanes.bind(s.name, hidden)
            else:
                self._inner_loop(s)
        elif isinstance(s, IfThenElse):
            self._loads(s.condition, "", "")
            condition = self.lanes.of(s.condition)
            self._masked(condition, True, s.then_case)
            if s.else_case is not None:
                self._masked(condition, False, s.else_case)
        elif isinstance(s, Allocate) and s.address is None:
            # Memory of the thread.
            hidden_place = self.places.get(s.name)
            self.places[s.name] = Place(s.name, 0, s, None, None)
            self._inside(s.body)
            if hidden_place is None:
                del self.places[s.name]
            else:
                self.places[s.name] = hidden_place
        else:
            outer, self.update = self.update, s.name if isinstance(s, Atomic) else self.update
            for child in s.children():
                if isinstance(child, Expr):
                    self._loads(child, "", "")
                else:
                    self._inside(child)
            self.update = outer

    def _is_suspect(self, s: Node) -> bool:
        """Whether anything in it touches what steps may meet in."""
        found = self._suspect_nodes.get(s)
        if found is None:
            names = {n.name for n in self._touching(s)}
            places = [self.places.get(f"{n}.device") or self.places.get(n) for n in names]
            found = bool(self.suspects and names & self.suspects) or any(
                place is not None and place.memory().name in (self.suspects or ())
                for place in places
            )
            self._suspect_nodes[s] = found
        return found

    def _touching(self, s: Node) -> list[Any]:
        """The loads and stores in it."""
        found = self._touches.get(s)
        if found is None:
            found = self._touches[s] = [n for n in iterate(s) if isinstance(n, Load | Store)]
        return found

    def _masked(self, condition: Value, wanted: bool, body: Stmt) -> None:
        saved = self.active
        self.active = self._active_where(condition, wanted)
        if True in self.active:
            self._inside(body)
        self.active = saved

    def _inner_loop(self, s: For) -> None:
        low, extent = self.lanes.of(s.min), self.lanes.of(s.extent)
        known = extent if isinstance(extent, list) else [extent]
        most = max([2 if x is None else int(x) for x in known], default=0)
        saved = self.active
        for i in range(most):
            if _FIRST_INNER <= i < most - _LAST_ITERATIONS:
                continue
            if isinstance(extent, list):
                self.active = [
                    a and (x is None or i < x) for a, x in zip(saved, extent, strict=True)
                ]
            if isinstance(low, list):
                at: Value = [None if x is None else x + i for x in low]
            else:
                at = None if low is None else low + i
            hidden = self.lanes.bind(s.name, at)
            self._inside(s.body)
            self.lanes.bind(s.name, hidden)
            if self.work > _MOST_WORK:
                break
        self.active = saved

    def _store(self, s: Store) -> None:
        update = f"{self.update} {type(s.value).__name__}" if self.update else ""
        self._loads(s.value, s.name, update)
        self._loads(s.index, "", "")
        if s.predicate is not None:
            self._loads(s.predicate, "", "")
        self._touch(s, s.value.type.bytes(), True, update)

    def _loads(self, e: Expr, updated: str, update: str) -> None:
        self._read(e, updated, update, set())

    def _read(self, e: Any, updated: str, update: str, seen: set[Node]) -> None:
        """Notes the loads in an expression, of a branch only in threads that take it."""
        if e in seen or not self._touching(e):
            return
        seen.add(e)
        if isinstance(e, Load):
            part = update if e.name == updated else ""
            self._touch(e, e.type.bytes(), False, part)
        if isinstance(e, Call) and e.name == "if_then_else" and e.args[0].type.lane_count == 1:
            self._read(e.args[0], updated, update, seen)
            saved = self.active
            for wanted, branch in zip((True, False), e.args[1:], strict=False):
                self.active = self._active_where(self.lanes.of(e.args[0]), wanted)
                self._read(branch, updated, update, set())
                self.active = saved
            return
        for child in e.children():
            self._read(child, updated, update, seen)

    def _active_where(self, condition: Value, wanted: bool) -> list[bool]:
        """The active threads in which a condition holds or, where `wanted` is False, does not."""
        found = condition if isinstance(condition, list) else [condition] * self.threads
        return [
            a and (c is None or bool(c) == wanted) for a, c in zip(self.active, found, strict=True)
        ]

    def _touch(self, node: Load | Store, bytes: int, writes: bool, update: str) -> None:
        index = node.index
        group = self._group(node.name, writes, update)
        if group is None or self.suspects is None:
            return
        extent = self._bytes_of(group.place)
        if extent is None:
            return
        begin, end = extent
        apart: bool | None = None
        for lane in range(index.type.lane_count):
            value = self.lanes.of(index, lane)
            found = value if isinstance(value, list) else [value] * self.threads
            self.work += self.threads
            active = self._active_in(node.predicate, lane)
            for thread, (wanted, i) in enumerate(zip(active, found, strict=True)):
                if not wanted:
                    continue
                if i is None:
                    if apart is None:
                        apart = rows_are_apart(index, self.lanes, self.lets)
                    if apart:
                        break
                    low, high = self._possible(index, bytes)
                    first = begin if low is None else begin + low
                    last = end if high is None else begin + high
                    group.add_range(first, last, thread)
                else:
                    at = begin + i * bytes
                    for byte in range(at, at + bytes):
                        group.add(byte, thread)

    def _active_in(self, predicate: Expr | None, lane: int) -> list[bool]:
        """Threads that touch what this lane of a load or store does, as far as it is known."""
        if predicate is None:
            return self.active
        several = predicate.type.lane_count > 1
        return self._active_where(self.lanes.of(predicate, lane if several else 0), True)

    def _possible(self, index: Expr, bytes: int) -> tuple[int | None, int | None]:
        """The bytes that elements can be, whatever the data."""
        low, high = range_of(index, Facts.none())
        return (
            None if low is None else low * bytes,
            None if high is None else high * bytes + bytes,
        )

    def _bytes_of(self, place: Place) -> tuple[int, int] | None:
        """The bytes of an allocation in its memory; None: not known."""
        if place not in self.begins:
            self.begins[place] = self._find_bytes(place)
        return self.begins[place]

    def _find_bytes(self, place: Place) -> tuple[int, int] | None:
        node = place.node
        if node is None:
            return 0, 1 << 62
        outer = (0, 1 << 62) if place.base is None else self._bytes_of(place.base)
        if outer is None:
            return None
        values = [self.lanes.of(e) for e in node.extents]
        offset = self.lanes.of(node.address.args[-1]) if node.address is not None else 0
        if not isinstance(offset, int) or any(not isinstance(v, int) for v in values):
            return None
        size = size_in_bytes(node.type.bytes(), node.padding, values)  # type: ignore[arg-type]
        return outer[0] + offset, outer[0] + offset + size

    # Comparing

    def _compare(self, a: Group, b: Group) -> None:
        if not (a.writes or b.writes) or a.place.memory() is not b.place.memory():
            return
        if a.update and a.update == b.update:
            return
        if a.step is b.step and a.place is b.place:
            return
        small, large = (a, b) if len(a.touched) <= len(b.touched) else (b, a)
        for byte, thread in small.touched.items():
            other = large.touched.get(byte)
            if other is not None and (other == MANY or other != thread):
                self._refuse(a, b, f"byte {byte}")
        for x, y in ((a, b), (b, a)):
            for (begin, end), thread in x.anywhere.items():
                for byte, other in y.touched.items():
                    if begin <= byte < end and (other == MANY or other != thread):
                        self._refuse(a, b, f"byte {byte}, as the data may be")
        for (begin, end), thread in a.anywhere.items():
            for (low, high), other in b.anywhere.items():
                if begin < high and low < end and (other == MANY or other != thread):
                    self._refuse(a, b, "the same bytes, as the data may be")

    def _refuse(self, a: Group, b: Group, where: str) -> None:
        did = "writes" if a.writes else "reads"
        does = "writes" if b.writes else "reads"
        memory = a.place.memory().name
        raise PlanError(
            f"two threads of a block meet in {where} of {memory} and do not wait for each other: "
            f"one {did} {a.place.name} ({a.step.describe()}), another {does} {b.place.name} "
            f"({b.step.describe()})"
        )
