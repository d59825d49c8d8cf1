"""The pool of device memory: a block never comes to another queue before its readers are done."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bayplan import runtime
from bayplan.build.compilers import find_compiler

FOLDER = Path(runtime.__file__).parent

_ADDRESS = ctypes.c_void_p
_HOOKS = {
    "alloc": ctypes.CFUNCTYPE(_ADDRESS, _ADDRESS, ctypes.c_uint64),
    "release": ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS),
    "is_done": ctypes.CFUNCTYPE(ctypes.c_int32, _ADDRESS, _ADDRESS),
    "wait_in_queue": ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS, _ADDRESS),
    "wait_on_host": ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS),
    "drop_event": ctypes.CFUNCTYPE(None, _ADDRESS, _ADDRESS),
}


class _Device(ctypes.Structure):
    _fields_ = [("user", _ADDRESS), *_HOOKS.items()]


class _Memory(ctypes.Structure):
    _fields_ = [
        ("used", ctypes.c_uint64),
        ("kept", ctypes.c_uint64),
        ("events", ctypes.c_int64),
        ("allocations", ctypes.c_int64),
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("pool") / "device_pool.so"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    source = str(FOLDER / "device_pool.c")
    subprocess.run([*find_compiler().command, *flags, source, "-o", str(path)], check=True)
    loaded = ctypes.CDLL(str(path))
    loaded.bp_device_pool_new.restype = _ADDRESS
    loaded.bp_device_pool_new.argtypes = [ctypes.POINTER(_Device), ctypes.c_uint64]
    loaded.bp_device_pool_free.argtypes = [_ADDRESS]
    loaded.bp_device_take.restype = _ADDRESS
    loaded.bp_device_take.argtypes = [_ADDRESS, _ADDRESS, ctypes.c_uint64]
    loaded.bp_device_address.restype = _ADDRESS
    loaded.bp_device_address.argtypes = [_ADDRESS]
    loaded.bp_device_use.argtypes = [_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS]
    loaded.bp_device_give.argtypes = [_ADDRESS, _ADDRESS]
    loaded.bp_device_trim.restype = ctypes.c_uint64
    loaded.bp_device_trim.argtypes = [_ADDRESS]
    loaded.bp_device_statistics.argtypes = [_ADDRESS, ctypes.POINTER(_Memory)]
    return loaded


class FakeDevice:
    """Queues that run when they are told to, and memory that is counted."""

    def __init__(self, library: Any, limit: int = 0, bytes_there_are: int = 1 << 40) -> None:
        self.library = library
        self.memory: dict[int, list[int]] = {}
        self.free_bytes = bytes_there_are
        self.sizes: dict[int, int] = {}
        self.queues: dict[int, list[tuple[int, Callable[[], None]]]] = {}
        self.done: set[int] = set()
        self.where: dict[int, int] = {}  # event -> queue
        self.references = 0
        self.waits = 0
        self.next = 1
        self.hooks = [kind(getattr(self, f"_{name}")) for name, kind in _HOOKS.items()]
        self.device = _Device(None, *self.hooks)
        self.pool = library.bp_device_pool_new(ctypes.byref(self.device), limit)

    def _number(self) -> int:
        self.next += 1
        return self.next

    # What the pool calls.

    def _alloc(self, _user: Any, size: int) -> int | None:
        if size > self.free_bytes:
            return None
        self.free_bytes -= size
        address = self._number() << 20
        self.memory[address] = [0] * (size // 4)
        self.sizes[address] = size
        return address

    def _release(self, _user: Any, address: int) -> None:
        self.free_bytes += self.sizes.pop(address)
        del self.memory[address]

    def _is_done(self, _user: Any, event: int) -> int:
        return int(event in self.done)

    def _wait_in_queue(self, _user: Any, queue: int, event: int) -> None:
        self.waits += 1
        self.queues[queue].append((self._number(), lambda: self.reach(event)))

    def _wait_on_host(self, _user: Any, event: int) -> None:
        self.reach(event)

    def _drop_event(self, _user: Any, event: int) -> None:
        self.references -= 1

    # What the host does.

    def new_queue(self) -> int:
        queue = self._number()
        self.queues[queue] = []
        return queue

    def enqueue(self, queue: int, block: int, work: Callable[[list[int]], None]) -> None:
        """A command that works on a block, and the event behind it."""
        cells = self.memory[self.address(block)]
        event = self._number()
        self.queues[queue].append((event, lambda: work(cells)))
        self.where[event] = queue
        self.references += 1
        self.library.bp_device_use(self.pool, block, queue, event)

    def run(self, queue: int, count: int | None = None) -> None:
        """Runs the next commands of the queue."""
        commands = self.queues[queue]
        for _ in range(len(commands) if count is None else min(count, len(commands))):
            event, work = commands[0]
            work()
            del commands[0]
            self.done.add(event)

    def reach(self, event: int) -> None:
        """Lets the event's queue run until it is over."""
        while event not in self.done:
            self.run(self.where[event], 1)

    def take(self, queue: int, size: int) -> int:
        block = self.library.bp_device_take(self.pool, queue, size)
        assert block
        return int(block)

    def address(self, block: int) -> int:
        return int(self.library.bp_device_address(block))

    def give(self, block: int) -> None:
        self.library.bp_device_give(self.pool, block)

    def statistics(self) -> _Memory:
        out = _Memory()
        self.library.bp_device_statistics(self.pool, ctypes.byref(out))
        return out

    def close(self) -> None:
        self.library.bp_device_pool_free(self.pool)
        assert not self.memory and self.references == 0


@pytest.fixture
def make(library: Any) -> Iterator[Callable[..., FakeDevice]]:
    made: list[FakeDevice] = []

    def new(**options: int) -> FakeDevice:
        made.append(FakeDevice(library, **options))
        return made[-1]

    yield new
    for device in made:
        device.close()


def fill(value: int) -> Callable[[list[int]], None]:
    def work(cells: list[int]) -> None:
        cells[:] = [value] * len(cells)

    return work


@pytest.mark.parametrize("limit", [0, 4096])
def test_another_queue_comes_after_the_late_reader(
    make: Callable[..., FakeDevice], limit: int
) -> None:
    device = make(limit=limit)
    first, second = device.new_queue(), device.new_queue()
    out: list[int] = []
    a = device.take(first, 4096)
    address = device.address(a)
    device.enqueue(first, a, fill(7))
    device.run(first)
    device.enqueue(first, a, out.extend)  # late
    device.give(a)
    b = device.take(second, 4096)
    device.enqueue(second, b, fill(-1))
    if limit:
        assert device.address(b) == address and device.waits == 1
    else:
        assert device.address(b) != address and device.waits == 0
    device.run(second)
    device.run(first)
    assert out == [7] * 1024
    assert device.memory[device.address(b)] == [-1] * 1024
    device.give(b)


def test_the_same_queue_has_the_block_at_once(make: Callable[..., FakeDevice]) -> None:
    device = make()
    queue, other = device.new_queue(), device.new_queue()
    a = device.take(queue, 4096)
    address = device.address(a)
    device.enqueue(queue, a, fill(1))
    device.give(a)
    b = device.take(queue, 4096)
    assert device.address(b) == address and device.waits == 0
    device.enqueue(queue, b, fill(2))
    device.give(b)
    # Once its commands are over any queue may have it.
    device.run(queue)
    c = device.take(other, 4096)
    assert device.address(c) == address and device.waits == 0
    device.give(c)
    assert device.statistics().allocations == 1


def test_events_are_forgotten(make: Callable[..., FakeDevice]) -> None:
    device = make()
    queues = [device.new_queue() for _ in range(3)]
    a = device.take(queues[0], 4096)
    most = 0
    for i in range(10_000):
        device.enqueue(queues[i % 3], a, fill(i))
        most = max(most, device.references)
        if i % 100 == 0:
            for queue in queues:
                device.run(queue)
    assert most <= 16 and device.statistics().events == 3
    device.give(a)


def test_a_block_that_was_not_used_keeps_its_order(make: Callable[..., FakeDevice]) -> None:
    """The second queue waits but runs nothing; the third must wait for the first all the same."""
    device = make(limit=4096)
    first, second, third = (device.new_queue() for _ in range(3))
    out: list[int] = []
    a = device.take(first, 4096)
    device.enqueue(first, a, fill(7))
    device.enqueue(first, a, out.extend)
    device.give(a)
    device.give(device.take(second, 4096))
    c = device.take(third, 4096)
    device.enqueue(third, c, fill(-1))
    for queue in (third, second, first):
        device.run(queue)
    assert out == [7] * 1024
    device.give(c)


def test_kept_pieces_of_other_sizes_go_back(make: Callable[..., FakeDevice]) -> None:
    device = make(limit=1 << 20)
    queue = device.new_queue()
    blocks = [device.take(queue, 8192) for _ in range(64)]
    for block in blocks:
        device.enqueue(queue, block, fill(1))
        device.give(block)
    assert device.statistics().kept == 64 * 8192
    large = device.take(queue, 1 << 20)
    now = device.statistics()
    assert (now.used, now.kept) == (1 << 20, 0)
    assert device.library.bp_device_take(device.pool, queue, 1) is None
    device.give(large)
    assert device.library.bp_device_take(device.pool, queue, 2 << 20) is None
    assert device.library.bp_device_trim(device.pool) == 1 << 20
    assert not device.memory


def test_a_device_without_memory(make: Callable[..., FakeDevice]) -> None:
    device = make(bytes_there_are=10_000)
    queue, other = device.new_queue(), device.new_queue()
    a = device.take(queue, 8000)
    assert device.library.bp_device_take(device.pool, other, 8000) is None
    device.enqueue(queue, a, fill(3))
    device.give(a)
    b = device.take(other, 8000)  # the same, after a wait
    assert device.waits == 1
    device.give(b)
    device.give(device.take(other, 9000))  # the smaller one went back


def test_random_orders(make: Callable[..., FakeDevice]) -> None:
    """Whatever the order in which queues run, each command finds what its owner wrote."""
    for seed in range(40):
        rng = random.Random(seed)
        device = make(limit=rng.choice([0, 256, 512]))
        queues = [device.new_queue() for _ in range(3)]
        live: list[tuple[int, int, int]] = []
        wrong: list[int] = []

        def check(value: int, wrong: list[int] = wrong) -> Callable[[list[int]], None]:
            return lambda cells: wrong.extend(c for c in cells if c != value)

        for step in range(300):
            action = rng.random()
            if action < 0.4:
                queue, size = rng.choice(queues), rng.choice([64, 128])
                block = device.library.bp_device_take(device.pool, queue, size)
                if block:
                    device.enqueue(queue, block, fill(step))
                    live.append((block, queue, step))
            elif action < 0.6 and live:
                block, queue, value = rng.choice(live)
                device.enqueue(queue, block, check(value))
            elif action < 0.8 and live:
                block, queue, value = live.pop(rng.randrange(len(live)))
                device.enqueue(queue, block, check(value))
                device.give(block)
            else:
                device.run(rng.choice(queues), rng.randrange(1, 5))
            used = device.statistics()
            assert used.events == device.references
        for block, _, _ in live:
            device.give(block)
        for queue in rng.sample(queues, 3):
            device.run(queue)
        assert not wrong
