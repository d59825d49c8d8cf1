"""Runs a final statement on real bytes with one owner a byte, as the oracle of storage plans.

Each execution of an Allocate is a life of its own. A byte belongs to the life that wrote it last;
who reads a byte that another has gets no value (see `interpret_values`), and the fault is reported
where that value decides something. Accesses beyond the bytes of an allocation are faults, and so
are accesses after its Free, arenas that are too small, and bytes that two tasks of a parallel loop
both touch though each thinks they are its own. Tasks run in any order, in any slot.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from typing import Any

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import ForKind
from bayplan.ir.types import Type
from bayplan.storage.check_numbers import size_in_bytes
from tests.storage.interpret_values import Faulty, Lanes, Undefined, Unsupported, Values, format_of

_NOBODY = 0
# Of every buffer, for programs that ask whether it is aligned.
_ADDRESS = 1 << 20


class Memory:
    """One backing allocation: its bytes, whose each is, and which task touched it last."""

    __slots__ = ("data", "owners", "reasons", "tasks")

    def __init__(self, size: int) -> None:
        self.data = bytearray(b"\xcd" * size)
        self.owners = [_NOBODY] * size
        self.tasks = [(0, 0)] * size
        # Why what was stored at an address has no value.
        self.reasons: dict[int, tuple[int, str]] = {}


class Life:
    """One execution of an Allocate, or a buffer of the call.

    Attributes:
        task: (parallel loop's execution, slot) it was allocated in; None outside.
        known: whether bytes that it did not write have a value too (inputs).
    """

    __slots__ = ("freed", "known", "memory", "name", "number", "offset", "output", "size", "task")

    def __init__(self, name: str, number: int, memory: Memory, offset: int, size: int) -> None:
        self.name = name
        self.number = number
        self.memory = memory
        self.offset = offset
        self.size = size
        self.task: tuple[int, int] | None = None
        self.freed = False
        self.known = False
        self.output = False


class Interpreter:
    """The state of one run.

    Attributes:
        lives: every life there was, by number - 1.
        stores: how many elements were stored.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        buffers: Mapping[str, bytes | int],
        *,
        workers: int = 2,
        seed: int = 0,
        limit: int = 10**9,
        donated: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            values: sizes and parameters by name.
            buffers: contents of inputs; bytes of outputs.
            donated: by output the input that is the same buffer.
            workers: the most tasks of a parallel loop that run at once.
            seed: of the order of tasks.
            limit: elements stored before the run gives up.
        """
        self.names: dict[str, Lanes] = {name: [value] for name, value in values.items()}
        self.values = Values(self.names, self._load, self._call)
        self.open: dict[str, Life] = {}
        self.lives: list[Life] = []
        self.workers = workers
        self.random = random.Random(seed)
        self.limit = limit
        self.stores = 0
        self.loops = 0
        self.task: tuple[int, int] | None = None
        self.offsets: dict[int, list[int]] = {}
        for name, content in buffers.items():
            size = content if isinstance(content, int) else len(content)
            life = self._begin(name, Memory(size), 0, size)
            life.known, life.output = not isinstance(content, int), isinstance(content, int)
            if not isinstance(content, int):
                life.memory.data[:] = content
        self.donated = dict(donated or {})
        for output, source in self.donated.items():
            self.open[output].memory = self.open[source].memory

    def _begin(self, name: str, memory: Memory, offset: int, size: int) -> Life:
        life = Life(name, len(self.lives) + 1, memory, offset, size)
        life.task = self.task
        self.lives.append(life)
        self.open[name] = life
        return life

    def content(self, name: str) -> bytes:
        """The bytes of a buffer of the call."""
        life = self.open[name]
        left = {self.lives[o - 1] for o in life.memory.owners if o not in (_NOBODY, life.number)}
        if life.output and left:
            names = ", ".join(sorted([other.name for other in left]))
            raise Faulty(f"elements of {names} are left in {name}")
        return bytes(life.memory.data)

    # Memory

    def _place(self, name: str, index: Any, size: int) -> tuple[Life, int]:
        life = self.open.get(name)
        if life is None:
            raise Faulty(f"{name} has no storage here")
        if life.freed:
            raise Faulty(f"{name} is used after the end of its life")
        if type(index) is Undefined:
            raise Faulty(f"an index of {name} has no value: {index.why}")
        at = index * size
        if not 0 <= at <= life.size - size:
            raise Faulty(f"{name} has no element {index}: it has {life.size} bytes")
        return life, life.offset + at

    def _load(self, e: E.Load, indices: Lanes, active: Lanes) -> Lanes:
        size, form = e.type.bytes(), format_of(e.type)
        result: Lanes = []
        for index, wanted in zip(indices, active, strict=True):
            if type(wanted) is Undefined:
                raise Faulty(f"whether {e.name} is read has no value: {wanted.why}")
            if not wanted:
                result.append(Undefined("it was not loaded"))
                continue
            if type(index) is Undefined:
                # In the emitted code it is some number; where that is not clamped, bounds are
                # wrong, which is not asked here.
                result.append(index)
                continue
            life, at = self._place(e.name, index, size)
            self._visit(life, at, size, None)
            owners = life.memory.owners[at : at + size]
            own = {life.number, _NOBODY} if life.known else {life.number}
            if own.issuperset(owners):
                result.append(struct.unpack_from(form, life.memory.data, at)[0])
            else:
                result.append(Undefined(self._why(life, index, at, owners)))
        return result

    def _why(self, life: Life, index: int, at: int, owners: list[int]) -> str:
        number, reason = life.memory.reasons.get(at, (0, ""))
        if number == life.number:
            return reason
        other = next(o for o in owners if o != life.number)
        if other == _NOBODY or other < life.number:
            return f"element {index} of {life.name} is read before it is written"
        return f"element {index} of {life.name} was destroyed by {self.lives[other - 1].name}"

    def _visit(self, life: Life, at: int, size: int, stored: bytes | None) -> None:
        """Tasks that run at once must not meet in bytes that each has for itself.

        Args:
            stored: what is written; None: the bytes are read.
        """
        task = life.task
        if task is None:
            return
        tasks = life.memory.tasks
        for k in range(at, at + size):
            epoch, slot = tasks[k]
            if epoch == task[0] and slot != task[1]:
                raise Faulty(f"two workers have byte {k} of the arena of {life.name}")
            tasks[k] = task

    def _store(self, s: S.Store) -> None:
        if isinstance(s.value, E.Call) and s.value.name == "undef":
            return
        self.values.memo = {}
        indices, lanes = self.values.of(s.index), self.values.of(s.value)
        active = self.values.of(s.predicate) if s.predicate is not None else [1] * len(lanes)
        size, form = s.value.type.bytes(), format_of(s.value.type)
        for index, value, wanted in zip(indices, lanes, active, strict=True):
            if type(wanted) is Undefined:
                raise Faulty(f"whether {s.name} is stored has no value: {wanted.why}")
            if not wanted:
                continue
            life, at = self._place(s.name, index, size)
            if life.known:
                raise Faulty(f"the input {s.name} is written")
            defined = type(value) is not Undefined
            data = struct.pack(form, value) if defined else b"\xcd" * size
            self._visit(life, at, size, data)
            owner = life.number
            if not defined:
                if life.output:
                    raise Faulty(f"element {index} of {s.name} gets no value: {value.why}")
                owner = _NOBODY
                life.memory.reasons[at] = life.number, value.why
            else:
                life.memory.data[at : at + size] = data
            life.memory.owners[at : at + size] = [owner] * size
            self.stores += 1
        if self.stores > self.limit:
            raise Unsupported("too long")

    # Calls about storage and buffers

    def _call(self, e: E.Call) -> Lanes | None:
        name = e.name
        if name in ("buffer_is_bounds_query", "buffer_host_is_null"):
            return [0]
        if name in ("buffers_overlap", "buffers_coincide"):
            output, source = [a.value for a in e.args if isinstance(a, E.StringImm)]
            return [int(self.donated.get(output) == source)]
        if name == "buffer_host_address":
            return [_ADDRESS]
        if name == "largest_over":
            return [self._largest_over(e)]
        if name == "size_in_bytes":
            args = [self.values.of(a)[0] for a in e.args]
            return [size_in_bytes(args[0], args[1], args[2:])]
        if name == "parallel_slots":
            return [max(0, min(self.values.of(e.args[0])[0], self.workers))]
        if name == "worker_slot":
            if self.task is None:
                raise Faulty("worker_slot() outside of a parallel loop")
            return [self.task[1]]
        if name == "place_storage":
            offsets, total = e.target.place([self.values.of(a)[0] for a in e.args])
            self.offsets[id(e.target)] = offsets
            return [total]
        if name == "placed_offset":
            return [self.offsets[id(e.target)][self.values.of(e.args[0])[0]]]
        if name == "prefetch":
            return [0]
        return None

    def _largest_over(self, e: E.Call) -> int:
        loop, low, extent, value = e.args
        assert isinstance(loop, E.StringImm)
        first, count = self.values.of(low)[0], self.values.of(extent)[0]
        memo, hidden = self.values.memo, self.names.get(loop.value)
        largest = 0
        for i in range(first, first + count):
            self.names[loop.value] = [i]
            largest = max(largest, self._number(value)) if i > first else self._number(value)
        self.values.memo = memo
        if hidden is not None:
            self.names[loop.value] = hidden
        elif count > 0:
            del self.names[loop.value]
        return largest

    # Statements

    def run(self, s: Any) -> None:
        """Runs a statement."""
        cls = type(s)
        if cls is S.Block:
            for part in s.stmts:
                self.run(part)
        elif cls is S.Store:
            self._store(s)
        elif cls is S.LetStmt:
            self._with(s.name, self.values.fresh(s.value), s.body)
        elif cls is S.For:
            self._loop(s)
        elif cls is S.IfThenElse:
            if self._decide(s.condition):
                self.run(s.then_case)
            elif s.else_case is not None:
                self.run(s.else_case)
        elif cls is S.Allocate:
            self._allocate(s)
        elif cls is S.Free:
            self.open[s.name].freed = True
        elif cls is S.AssertStmt:
            if not self._decide(s.condition):
                raise s.site.error(tuple([self.values.fresh(a)[0] for a in s.args]))
        elif cls in (S.ProducerConsumer, S.Atomic, S.Prefetch):
            self.run(s.body)
        elif cls is S.Evaluate:
            self.values.fresh(s.value)
        else:
            raise Unsupported(cls.__name__)

    def _decide(self, condition: E.Expr) -> bool:
        value = self.values.fresh(condition)[0]
        if type(value) is Undefined:
            raise Faulty(f"a branch depends on what has no value: {value.why}")
        return bool(value)

    def _number(self, e: E.Expr) -> int:
        value = self.values.fresh(e)[0]
        if type(value) is Undefined:
            raise Faulty(f"a size or a bound has no value: {value.why}")
        return int(value)

    def _with(self, name: str, value: Lanes, body: S.Stmt) -> None:
        saved = self.names.get(name)
        self.names[name] = value
        self.run(body)
        if saved is None:
            del self.names[name]
        else:
            self.names[name] = saved

    def _loop(self, s: S.For) -> None:
        low, extent = self._number(s.min), self._number(s.extent)
        order = list(range(low, low + max(0, extent)))
        if s.kind is ForKind.Serial:
            for i in order:
                self._with(s.name, [i], s.body)
            return
        if s.kind is not ForKind.Parallel:
            raise Unsupported(s.kind.value)
        self.loops += 1
        epoch, saved = self.loops, self.task
        self.random.shuffle(order)
        slots = max(1, min(extent, self.workers))
        for i in order:
            self.task = (epoch, self.random.randrange(slots))
            self._with(s.name, [i], s.body)
        self.task = saved

    def _allocate(self, s: S.Allocate) -> None:
        hidden = self.open.get(s.name)
        life = self._new_life(s)
        self.run(s.body)
        life.freed = True
        if hidden is None:
            del self.open[s.name]
        else:
            self.open[s.name] = hidden

    def _new_life(self, s: S.Allocate) -> Life:
        size = 0
        if self._number(s.condition):
            extents = [self._number(e) for e in s.extents]
            size = size_in_bytes(s.type.bytes(), s.padding, extents)
        if s.address is None:
            return self._begin(s.name, Memory(size), 0, size)
        return self._begin_alias(s, size)

    def _begin_alias(self, s: S.Allocate, size: int) -> Life:
        assert s.address is not None
        *choice, base, _ = s.address.args
        assert isinstance(base, E.Variable)
        if choice and self._decide(choice[0]):
            return self._begin_in_output(s, choice[1], size)
        arena = self.open.get(base.name)
        if arena is None or arena.freed:
            raise Faulty(f"{s.name} lies in {base.name}, which is not there")
        offset = self._number(s.address.args[-1])
        if size and not 0 <= offset <= arena.size - size:
            raise Faulty(
                f"{s.name} has the bytes [{offset}, {offset + size}) of {base.name}, which has "
                f"{arena.size}"
            )
        if size and offset % _alignment(s.type, s.alignment):
            raise Faulty(f"{s.name} is not aligned at {offset}")
        return self._begin(s.name, arena.memory, arena.offset + offset, size)


    def _begin_in_output(self, s: S.Allocate, named: Any, size: int) -> Life:
        output = self.open[named.name]
        if size > output.size:
            raise Faulty(f"{s.name} has {size} bytes of {named.name}, which has {output.size}")
        return self._begin(s.name, output.memory, output.offset, size)


def _alignment(t: Type, wanted: int) -> int:
    return max(wanted, t.bytes())
