"""The pool of memory over forks, calls and threads, and what callers see of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


def make_chain(stages: int = 3) -> tuple[hl.ImageParam, hl.Func]:
    """A chain of stages with heap temporaries: input, result."""
    x = hl.Var("x")
    image = hl.ImageParam(hl.Float(32), 1, "image")
    funcs: list[Any] = [image]
    for i in range(stages):
        f = hl.Func(f"stage{i}")
        f[x] = funcs[-1][x] + funcs[-1][x + 1]
        if i + 1 < stages:
            f.compute_root().store_in(hl.MemoryType.Heap)
        funcs.append(f)
    return image, funcs[-1]


def expected(image: Any, stages: int = 3) -> Any:
    for _ in range(stages):
        image = image[:-1] + image[1:]
    return image


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    hl.memory.trim()
    yield
    hl.memory.trim()


def run_in_child(work: Callable[[], bool]) -> None:
    """Forks; the child does `work`, which says whether all is well."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = work()
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_begins_with_an_empty_pool() -> None:
    image, chain = make_chain()
    run = chain.compile_to_callable([image])
    data = np.arange(200_003, dtype=np.float32)
    out = np.zeros(200_000, np.float32)
    run(data, out)
    before = hl.memory.statistics()
    assert before.kept_bytes > 1_000_000

    def work() -> bool:
        now = hl.memory.statistics()
        empty = (now.held_bytes, now.requests, now.system_calls, now.asked_bytes) == (0, 0, 0, 0)
        again = np.zeros(200_000, np.float32)
        run(data, again)
        first = hl.memory.last_call().system_calls
        run(data, again)
        second = hl.memory.last_call().system_calls
        return empty and first == 1 and second == 0 and bool((again == out).all())

    run_in_child(work)
    # Nothing of it is seen in the parent, whose blocks are still there.
    assert hl.memory.statistics().kept_bytes == before.kept_bytes
    run(data, out)
    assert hl.memory.last_call().system_calls == 0


def test_a_child_of_a_child_and_small_blocks() -> None:
    image, chain = make_chain()
    run = chain.compile_to_callable([image])
    data, out = np.arange(103, dtype=np.float32), np.zeros(100, np.float32)
    run(data, out)

    def grandchild() -> bool:
        run(data, out)
        return hl.memory.last_call().system_calls == 1 and hl.memory.trim() > 0

    def child() -> bool:
        run_in_child(grandchild)
        run(data, out)
        run_in_child(grandchild)
        return bool((out == expected(data)).all())

    run_in_child(child)


def test_a_fork_while_other_threads_call() -> None:
    image, chain = make_chain()
    run = chain.compile_to_callable([image])
    data = np.arange(5003, dtype=np.float32)
    stop = threading.Event()

    def work() -> None:
        out = np.zeros(5000, np.float32)
        while not stop.is_set():
            run(data, out)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()

    def child() -> bool:
        out = np.zeros(5000, np.float32)
        run(data, out)
        now = hl.memory.statistics()
        return bool((out == expected(data)).all()) and now.used_bytes == 0 and now.requests == 1

    try:
        for _ in range(10):
            run_in_child(child)
    finally:
        stop.set()
        for t in threads:
            t.join()


def test_threads_call_one_callable_at_once() -> None:
    image, chain = make_chain(5)
    chain.parallel(hl.Var("x"))
    run = chain.compile_to_callable([image])
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            size = int(rng.integers(1, 3000))
            data = rng.integers(0, 100, size + 5).astype(np.float32)
            out = np.zeros(size, np.float32)
            if seed % 2:
                run(data, out)
            else:
                run(data, out, workspace=np.empty(run.required_bytes(data, out), np.uint8))
            counts = hl.memory.last_call()
            if not (out == expected(data, 5)).all() or counts.live_bytes:
                wrong.append((seed, size))
            if seed == 0:
                hl.memory.trim()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert hl.memory.statistics().used_bytes == 0


def test_a_call_within_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """What prints can run Python, which can call again, and that can fail."""
    image, chain = make_chain()
    run = chain.compile_to_callable([image])
    data, inside = np.arange(103, dtype=np.float32), np.zeros(100, np.float32)
    x = hl.Var("x")
    wide, loud = hl.Func("wide"), hl.Func("loud")
    wide[x] = hl.cast(hl.Int(32), x)
    loud[x] = hl.print_when(x == 5, wide[x] + wide[x + 1], "at", x)
    wide.compute_root().store_in(hl.MemoryType.Heap)
    seen: list[str] = []

    class Output:
        def write(self, text: str) -> None:
            seen.append(text)
            run(data, inside)
            try:
                run(data[:50], inside)
            except hl.BoundsError:
                seen.append("refused")

        def flush(self) -> None:
            pass

    monkeypatch.setattr(sys, "stdout", Output())
    got = loud.realize([10])
    monkeypatch.undo()
    counts = hl.memory.last_call()
    assert np.asarray(got).tolist() == [2 * k + 1 for k in range(10)]
    assert seen == ["11 at 5\n", "refused"] and (inside == expected(data)).all()
    assert (counts.allocations, counts.live_bytes) == (1, 0)


def test_the_text_of_the_statistics() -> None:
    text = repr(hl.memory.statistics())
    assert "asked 0 B" in text and "held 0 B" in text and "no limit" in text
    before = hl.memory.set_limit(5000)
    try:
        assert hl.memory.statistics().limit_bytes == 5000
        assert "limit 5000" in repr(hl.memory.statistics())
    finally:
        hl.memory.set_limit(before)


def test_sizes_that_drift_do_not_fill_the_pool() -> None:
    """The oldest blocks make room, so that what is called now keeps its memory."""
    runtime = driver.runtime()
    image, chain = make_chain()
    run = chain.compile_to_callable([image])
    hl.memory.set_limit(4 << 20)
    try:
        for size in range(1000, 200_000, 7001):
            data, out = np.ones(size + 3, np.float32), np.zeros(size, np.float32)
            run(data, out)
            run(data, out)
            assert hl.memory.last_call().system_calls == 0
            assert hl.memory.statistics().held_bytes <= 4 << 20
    finally:
        hl.memory.set_limit(None)
    assert runtime.kept_bytes() > 0


_ADDRESS_SPACE = """
import resource, sys
import numpy as np
import bayplan as hl

x, y = hl.vars("x y")
n = hl.Param(hl.Int(32), "n")
wide, out = hl.Func("wide"), hl.Func("out")
wide[x, y] = hl.cast(hl.Float(64), x + y)
out[x] = wide[x, 0] + wide[x, n - 1]
wide.compute_root().store_in(hl.MemoryType.Heap)
if {parallel}:
    wide.parallel(y)
run = out.compile_to_callable([n])
result = np.zeros(1000)
if {warm}:
    run(10, result)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (96 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    run(100_000, result)  # 800 MB
    print("no error")
except hl.OutOfMemory as error:
    print(error.code, error.numbers[0])
run(10, result)
print(result[:2].tolist(), hl.memory.statistics().used_bytes)
"""


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_an_address_space_that_is_too_small_is_an_error(warm: bool, parallel: bool) -> None:
    code = _ADDRESS_SPACE.format(warm=warm, parallel=parallel)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "BP-M002 800000000\n[9.0, 11.0] 0\n"
