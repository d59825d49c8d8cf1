"""Runs kernels on real bytes, thread by thread, and finds races: the oracle of barriers.

Every thread of a block runs the whole body of the kernel by itself up to the next barrier, then
the next thread does, in an order that changes. So a barrier that is missing also shows in values.
Besides, each byte knows who wrote and who read it last. Two threads of a block must not meet in a
byte that one of them writes unless a barrier whose fence covers the memory stands in between; two
blocks never. Except that both may write the same value in the same stretch, as tails do that shift
inwards.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.walk import iterate
from tests.storage.interpret_bytes import Interpreter, Life, Memory
from tests.storage.interpret_lanes import Exchange, Lane, answer, has_exchange, is_exchange
from tests.storage.interpret_values import Faulty, Undefined, Unsupported

_THREADS = (ForKind.GPUThread, ForKind.GPULane)
_SHARED, _GLOBAL = 1, 2
_MANY = -1
# Statements and elements that are worth one element stored, for the limit of a run.
_WORK_OF_STORE = 8
ORDERS = ("forward", "reverse", "shuffled")

Waiting = Generator[S.Evaluate | Exchange, None, None]


class Race(Faulty):
    """Two threads touch a byte at once, and one writes."""


class _Touch:
    """Who touched a byte last in this kernel."""

    __slots__ = ("block", "epoch", "statement", "stretch", "thread", "update", "value")

    def __init__(
        self,
        block: int,
        epoch: int,
        thread: int,
        statement: Any,
        stretch: Any,
        update: str,
        value: int,
    ) -> None:
        self.stretch = stretch
        self.block = block
        self.epoch = epoch
        self.thread = thread
        self.statement = statement
        self.update = update
        self.value = value


class _Thread:
    def __init__(self, number: int, ids: dict[str, int]) -> None:
        self.number = number
        self.ids = ids
        self.names: dict[str, Any] = {}
        self.open: dict[str, Life] = {}
        self.visits: dict[S.Stmt, int] = {}
        self.lane = Lane(ids) if any(name.endswith("_x") for name in ids) else None
        self.steps: Waiting | None = None


class KernelInterpreter(Interpreter):
    """The state of one run of a program with kernels.

    Attributes:
        order: of the threads of a block between two barriers, one of ORDERS.
        barriers: how often a block waited.
        kernels: how many were launched.
        exchanges: how often lanes of a warp exchanged values.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        buffers: Mapping[str, bytes | int],
        *,
        order: str = "forward",
        device: bool = False,
        **options: Any,
    ) -> None:
        """
        Args:
            order: see the attribute.
            device: buffers have bytes of their own on the device, which are copied as the program
                asks for.
        """
        self.kinds: dict[Memory, int] = {}
        self._kind = _GLOBAL
        self._thread: _Thread | None = None
        self._inside = False
        self._work = 0
        self._stretch: Any = None
        self._arguments = frozenset[str]()
        self._newer: dict[str, str] = {}
        super().__init__(values, buffers, **options)
        self.order = order
        self.barriers = 0
        self.kernels = 0
        self.exchanges = 0
        self.statement: Any = None
        self._arguments = frozenset(buffers)
        self._device: dict[str, Life] | None = {} if device else None
        # Of a name whose bytes on one side are newer: which side, for others both are true.
        self._newer = dict.fromkeys(buffers, "host")
        self._update = ""
        self._block = 0
        self._epochs = {_SHARED: 0, _GLOBAL: 0}
        self._epoch = 0
        self._writes: dict[Memory, dict[int, _Touch]] = {}
        self._reads: dict[Memory, dict[int, _Touch]] = {}
        # Of the block: by allocation and how often a thread came there, the life, and its users.
        self._lives: dict[tuple[S.Stmt, int], Life] = {}
        self._users: dict[Life, int] = {}
        self._count = 0
        self._extents: dict[str, int] = {}

    def _begin(self, name: str, memory: Memory, offset: int, size: int) -> Life:
        self.kinds.setdefault(memory, self._kind)
        if name not in self._arguments:
            # Nothing of a new life is true on either side.
            self._newer.pop(name.removesuffix(".device"), None)
        return super()._begin(name, memory, offset, size)

    def _new_life(self, s: S.Allocate) -> Life:
        outer, self._kind = self._kind, self._kind_of(s)
        life = super()._new_life(s)
        self._kind = outer
        return life

    def _kind_of(self, s: S.Allocate) -> int:
        if self._inside:
            return 0
        return _SHARED if s.memory_type is MemoryType.GPUShared else _GLOBAL

    # Races

    def _count_work(self, steps: int) -> None:
        self._work += steps
        if self._work > _WORK_OF_STORE * self.limit:
            raise Unsupported("too long")

    def _visit(self, life: Life, at: int, size: int, stored: bytes | None) -> None:
        self._count_work(1)
        super()._visit(life, at, size, stored)
        thread = self._thread
        if thread is None:
            if stored is None:
                self._check_side(life, "host")
            return
        kind = self.kinds[life.memory]
        if not kind:
            return
        if stored is None:
            self._check_side(life, "device")
        writes = self._writes.setdefault(life.memory, {})
        reads = self._reads.setdefault(life.memory, {})
        epoch, number = self._epochs[kind], thread.number
        for k in range(at, at + size):
            value = _MANY if stored is None else stored[k - at]
            now = _Touch(
                self._block, epoch, number, self.statement, self._stretch, self._update, value
            )
            written = writes.get(k)
            if written is not None:
                self._meet(life, k, written, now, "wrote", stored is not None)
            read = reads.get(k)
            if stored is not None:
                if read is not None:
                    self._meet(life, k, read, now, "read", True)
                writes[k] = now
            elif read is None:
                reads[k] = now
            else:
                # Of many readers it is enough to know that there are others.
                block = now.block if now.block == read.block else _MANY
                same = now.epoch == read.epoch and now.thread != read.thread
                update = now.update if now.update == read.update else ""
                thread_or_many = _MANY if same else number
                reads[k] = _Touch(
                    block, epoch, thread_or_many, now.statement, now.stretch, update, _MANY
                )

    def _meet(
        self, life: Life, byte: int, before: _Touch, now: _Touch, did: str, writes: bool
    ) -> None:
        blocks = before.block != now.block
        threads = before.epoch == now.epoch and before.thread != now.thread
        if not (blocks or threads):
            return
        if before.update and before.update == now.update:
            return
        if did == "wrote" and writes and before.stretch is now.stretch:
            if before.value == now.value:
                return
        does = "writes" if writes else "reads"
        who = f"block {now.block}" if blocks else f"thread {now.thread}"
        other = f"block {before.block}" if blocks else f"thread {before.thread}"
        raise Race(
            f"{who} {does} byte {byte} of {life.name}, which {other} {did} without a barrier in "
            f"between: {str(now.statement).strip()}; before: {str(before.statement).strip()}"
        )

    # Bytes on two sides

    def _check_side(self, life: Life, side: str) -> None:
        """What a side reads must not have newer bytes on the other one."""
        other = "device" if side == "host" else "host"
        if self._device is not None and self._newer.get(life.name.removesuffix(".device")) == other:
            raise Faulty(f"{life.name} is read on the {side} while its bytes are on the {other}")

    def _home(self, name: str) -> tuple[Life, Life]:
        """The lives of a name on the host and on the device."""
        host = self.open[name]
        device = self.open.get(f"{name}.device")
        if device is None:
            assert self._device is not None
            device = self._device.get(name)
            if device is None:
                device = Life(name, host.number, Memory(host.size), 0, host.size)
                device.known, device.output = host.known, host.output
                self.kinds[device.memory] = _GLOBAL
                self._device[name] = device
        return host, device

    def _copy(self, source: Life, target: Life) -> None:
        a, b, n = source.offset, target.offset, source.size
        target.memory.data[b : b + n] = source.memory.data[a : a + n]
        owners = {source.number: target.number}
        target.memory.owners[b : b + n] = [
            owners.get(o, o) for o in source.memory.owners[a : a + n]
        ]

    def _device_call(self, name: str, what: str) -> None:
        if what == "host_written":
            self._newer[name] = "host"
        elif what == "device_written":
            self._newer[name] = "device"
        else:
            side = "host" if what == "device_copy_in" else "device"
            if self._newer.get(name) == side:
                host, device = self._home(name)
                pair = (host, device) if side == "host" else (device, host)
                self._copy(*pair)
                self._newer[name] = ""

    def content(self, name: str) -> bytes:
        if self._device is not None and self._newer.get(name) == "device":
            self._device_call(name, "device_copy_out")
        return super().content(name)

    def _call(self, e: E.Call) -> list[Any] | None:
        if e.name in ("device_copy_in", "device_copy_out", "device_written", "host_written"):
            assert isinstance(e.args[0], E.StringImm)
            if self._device is not None:
                self._device_call(e.args[0].value, e.name)
            return [0]
        if e.name == "device_shared_limit":
            return [1 << 20]
        if e.name == "gpu_thread_barrier":
            raise Faulty("a barrier where threads run each for itself")
        return super()._call(e)

    # Statements

    def run(self, s: Any) -> None:
        self._count_work(1)
        cls = type(s)
        if cls is S.For and s.kind is ForKind.GPUBlock and self._thread is None:
            self._launch(s)
            return
        if cls is S.Atomic:
            outer, self._update = self._update, s.name
            super().run(s)
            self._update = outer
            return
        if cls is not S.Block:
            self.statement = s
        super().run(s)

    def _loop(self, s: S.For) -> None:
        if s.kind not in _THREADS:
            super()._loop(s)
            return
        if self._thread is None:
            raise Faulty(f"the loop {s.name} over threads is in no kernel")
        self._check_extent(s)
        self._with(s.name, [self._thread.ids[s.name]], s.body)

    def _check_extent(self, s: S.For) -> None:
        assert self._thread is not None
        counted = self._extents[s.name]
        if self._number(s.min) or self._number(s.extent) != counted:
            raise Faulty(f"{s.name} does not run over the {counted} threads of the block")

    def _launch(self, s: S.For) -> None:
        loops: list[S.For] = []
        body: Any = s
        while isinstance(body, S.For) and body.kind is ForKind.GPUBlock:
            loops.append(body)
            body = body.body
        self.kernels += 1
        self._extents = {
            n.name: max(0, self._number(n.extent))
            for n in iterate(body)
            if isinstance(n, S.For) and n.kind in _THREADS
        }
        self._writes, self._reads = {}, {}
        counts = [max(0, self._number(loop.extent)) for loop in loops]
        blocks = list(_grid(counts))
        if self.order == "shuffled":
            self.random.shuffle(blocks)
        for number, block in enumerate(blocks):
            self._block = number
            ids = {loop.name: [i] for loop, i in zip(loops, block, strict=True)}
            self._run_block(body, ids)
        self._thread = None

    def _run_block(self, body: S.Stmt, ids: dict[str, Any]) -> None:
        dims = list(self._extents)
        host_names, host_open = self.names, self.open
        self._next_epoch(_SHARED | _GLOBAL)
        self._lives, self._users = {}, {}
        threads: list[_Thread] = []
        opened = dict(host_open)
        for name, life in (self._device or {}).items():
            opened[name] = life
        for name, life in host_open.items():
            if name.endswith(".device"):
                opened[name.removesuffix(".device")] = life
        for number, place in enumerate(_grid([self._extents[d] for d in dims])):
            thread = _Thread(number, dict(zip(dims, place, strict=True)))
            thread.names = {**host_names, **ids}
            thread.open = dict(opened)
            thread.steps = self._walk(body)
            threads.append(thread)
        self._count = len(threads)
        while self._turn(threads):
            self.barriers += 1
        self._thread = None
        self.names = self.values.names = host_names
        self.open = host_open

    def _turn(self, threads: list[_Thread]) -> bool:
        """Each thread runs to its next barrier; whether there is one."""
        order = list(threads)
        if self.order == "reverse":
            order.reverse()
        elif self.order == "shuffled":
            self.random.shuffle(order)
        waits: set[tuple[Any, int]] = set()
        while order:
            waiting: list[tuple[_Thread, Lane, Exchange]] = []
            for thread in order:
                found = self._resume(thread)
                if isinstance(found, Exchange):
                    assert thread.lane is not None
                    waiting.append((thread, thread.lane, found))
                    continue
                visits = -1 if found is None else thread.visits.get(found, 0)
                if found is not None:
                    thread.visits[found] = visits + 1
                waits.add((found, visits))
            self.exchanges += len(waiting)
            order = answer(waiting)
        if len(waits) > 1:
            raise Faulty("threads of a block wait at different barriers, or some do not wait")
        ((barrier, _visits),) = waits
        if barrier is None:
            return False
        assert isinstance(barrier.value, E.Call)
        fence = barrier.value.args[0]
        assert isinstance(fence, E.Const)
        self._next_epoch(int(fence.value))
        return True

    def _resume(self, thread: _Thread) -> S.Evaluate | Exchange | None:
        """A thread runs on to where it has to wait; None: to its end."""
        self._thread = thread
        self.names = self.values.names = thread.names
        self.open = thread.open
        assert thread.steps is not None
        return next(thread.steps, None)

    def _next_epoch(self, fence: int) -> None:
        self._epoch += 1
        for kind in self._epochs:
            if fence & kind:
                self._epochs[kind] = self._epoch

    def _walk(self, s: Any) -> Waiting:
        """What one thread does; it stops at barriers."""
        cls = type(s)
        if cls is S.Block:
            for part in s.stmts:
                yield from self._walk(part)
        elif cls is S.LetStmt:
            self.statement = s
            yield from self._bound(s.name, self.values.fresh(s.value), s.body)
        elif cls is S.For and s.kind in _THREADS and has_exchange(s):
            yield from self._in_step(s, s)
        elif cls is S.For and s.kind in _THREADS:
            self._inside, self._stretch = True, s
            self.run(s)
            self._inside = False
        elif cls is S.For:
            if s.kind is not ForKind.Serial:
                raise Unsupported(f"a loop over {s.kind.value} in a kernel")
            self.statement = s
            low, extent = self._number(s.min), self._number(s.extent)
            for i in range(low, low + extent):
                yield from self._bound(s.name, [i], s.body)
        elif cls is S.IfThenElse:
            self.statement = s
            if self._decide(s.condition):
                yield from self._walk(s.then_case)
            elif s.else_case is not None:
                yield from self._walk(s.else_case)
        elif cls is S.Allocate and s.memory_type is MemoryType.Register:
            yield from self._own(s, lambda: self._walk(s.body))
        elif cls is S.Allocate:
            yield from self._allocate_once(s)
        elif cls is S.Atomic or cls is S.ProducerConsumer or cls is S.Prefetch:
            outer, self._update = self._update, s.name if cls is S.Atomic else self._update
            yield from self._walk(s.body)
            self._update = outer
        elif cls is S.Evaluate and isinstance(s.value, E.Call):
            if s.value.name == "gpu_thread_barrier":
                yield s
            else:
                self.run(s)
        elif cls is S.Free and not self.kinds[self.open[s.name].memory]:
            self.run(s)
        elif cls is S.Free:
            raise Unsupported("a life that ends within a kernel")
        else:
            self.run(s)

    def _in_step(self, s: Any, stretch: S.For) -> Waiting:
        """What one lane does in a stretch; it stops where lanes exchange something."""
        cls = type(s)
        if not has_exchange(s):
            self._inside, self._stretch = True, stretch
            self.run(s)
            self._inside = False
        elif cls is S.For and s.kind in _THREADS:
            assert self._thread is not None
            self._check_extent(s)
            yield from self._bound_in_step(s.name, [self._thread.ids[s.name]], s.body, stretch)
        elif cls is S.For:
            self.statement = s
            low, extent = self._number(s.min), self._number(s.extent)
            for i in range(low, low + extent):
                yield from self._bound_in_step(s.name, [i], s.body, stretch)
        elif cls is S.LetStmt:
            value = (yield from self._exchange(s)) if is_exchange(s) else None
            if value is None:
                self.statement = s
                value = self.values.fresh(s.value)
            yield from self._bound_in_step(s.name, value, s.body, stretch)
        elif cls is S.IfThenElse:
            self.statement = s
            taken = s.then_case if self._decide(s.condition) else s.else_case
            if taken is not None:
                yield from self._in_step(taken, stretch)
        elif cls is S.Allocate:
            yield from self._own(s, lambda: self._in_step(s.body, stretch))
        else:
            for part in s.children():
                yield from self._in_step(part, stretch)

    def _exchange(self, s: S.LetStmt) -> Generator[Exchange, None, list[Any]]:
        thread = self._thread
        assert thread is not None and isinstance(s.value, E.Call)
        self.statement = s
        visit = thread.visits.get(s, 0)
        thread.visits[s] = visit + 1
        (shown,) = self.values.fresh(s.value.args[0])
        (which,) = self.values.fresh(s.value.args[1])
        exchange = Exchange(s, visit, shown, which, self._number(s.value.args[2]))
        yield exchange
        return [exchange.result]

    def _own(self, s: S.Allocate, body: Callable[[], Waiting]) -> Waiting:
        """Memory that a thread has for itself."""
        hidden = self.open.get(s.name)
        self._inside = True
        life = self._new_life(s)
        self._inside = False
        yield from body()
        life.freed = True
        if hidden is None:
            del self.open[s.name]
        else:
            self.open[s.name] = hidden

    def _bound_in_step(self, name: str, value: Any, body: S.Stmt, stretch: S.For) -> Waiting:
        saved = self.names.get(name)
        self.names[name] = value
        yield from self._in_step(body, stretch)
        if saved is None:
            del self.names[name]
        else:
            self.names[name] = saved

    def _bound(self, name: str, value: Any, body: S.Stmt) -> Waiting:
        saved = self.names.get(name)
        self.names[name] = value
        yield from self._walk(body)
        if saved is None:
            del self.names[name]
        else:
            self.names[name] = saved

    def _allocate_once(self, s: S.Allocate) -> Waiting:
        """The first thread of a block makes the allocation that all of them use."""
        thread = self._thread
        assert thread is not None
        visit = thread.visits.get(s, 0)
        thread.visits[s] = visit + 1
        hidden = self.open.get(s.name)
        life = self._lives.get((s, visit))
        if life is None:
            life = self._lives[s, visit] = self._new_life(s)
            self._users[life] = self._count
        self.open[s.name] = life
        yield from self._walk(s.body)
        self._users[life] -= 1
        # Once the last one has left it, it is gone.
        life.freed = not self._users[life]
        if hidden is None:
            del self.open[s.name]
        else:
            self.open[s.name] = hidden


def _grid(counts: list[int]) -> list[tuple[int, ...]]:
    """All places of a grid, the last coordinate fastest."""
    places: list[tuple[int, ...]] = [()]
    for count in counts:
        places = [(*p, i) for p in places for i in range(count)]
    return places


__all__ = ["ORDERS", "KernelInterpreter", "Race", "Undefined"]
