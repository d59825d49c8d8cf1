"""Workers, memory and messages of the runtime, called from small C programs."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import pytest

from bayplan.build.loading import LoadedProgram, load_program, load_runtime
from bayplan.targets.header import read_header

PROGRAM = (
    read_header()
    + r"""
#define EXPORT __attribute__((visibility("default")))
static int32_t count(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *closure) {
    (void)ctx, (void)slot;
    for (int32_t i = begin; i < end; i++)
        __atomic_add_fetch((int32_t *)closure + i, 1, __ATOMIC_RELAXED);
    return 0;
}
static int32_t nest(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *closure) {
    (void)slot;
    for (int32_t i = begin; i < end; i++) {
        int32_t status = ctx->parallel_for(ctx, count, 0, 64, 64, (int32_t *)closure + 64 * i);
        if (status < 0) return status;
    }
    return 0;
}
static int32_t fail(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *closure) {
    (void)ctx, (void)slot, (void)closure;
    for (int32_t i = begin; i < end; i++)
        if (i == 17) return -7;
    return 0;
}
/* Two tasks in one slot at once, or a slot out of range, is an error. */
typedef struct slots {
    int32_t limit, busy[64], bad, inside, most;
} slots;
static int32_t hold(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *closure) {
    slots *s = closure;
    (void)ctx;
    for (int32_t i = begin; i < end; i++) {
        if (slot < 0 || slot >= s->limit ||
            __atomic_add_fetch(&s->busy[slot], 1, __ATOMIC_SEQ_CST) != 1)
            s->bad = 1;
        int32_t inside = __atomic_add_fetch(&s->inside, 1, __ATOMIC_SEQ_CST);
        if (inside > s->most) s->most = inside;
        for (volatile int32_t k = 0; k < 2000; k++) {
        }
        __atomic_sub_fetch(&s->inside, 1, __ATOMIC_SEQ_CST);
        __atomic_sub_fetch(&s->busy[slot], 1, __ATOMIC_SEQ_CST);
    }
    return 0;
}
static int32_t hold_inside(bp_context *ctx, int32_t begin, int32_t end, int32_t slot,
                           void *closure) {
    slots *outer = closure;
    for (int32_t i = begin; i < end; i++) {
        slots inner = {.limit = 3};
        if (slot < 0 || slot >= outer->limit ||
            __atomic_add_fetch(&outer->busy[slot], 1, __ATOMIC_SEQ_CST) != 1)
            outer->bad = 1;
        ctx->parallel_for(ctx, hold, -8, 16, 3, &inner);
        __atomic_sub_fetch(&outer->busy[slot], 1, __ATOMIC_SEQ_CST);
        if (inner.bad || inner.most > 3) outer->bad = 1;
    }
    return 0;
}
/* args: slots, extent, nested; bad or too many at once: -1 */
EXPORT int32_t slots_argv(bp_context *ctx, void **args) {
    slots s = {.limit = *(int32_t *)args[0]};
    bp_task task = *(int32_t *)args[2] ? hold_inside : hold;
    int32_t status = ctx->parallel_for(ctx, task, 5, *(int32_t *)args[1], s.limit, &s);
    return s.bad || s.most > s.limit ? -1 : status;
}
EXPORT int32_t workers_argv(bp_context *ctx, void **args) {
    *(int32_t *)args[0] = ctx->workers;
    return 0;
}
/* args: counters, kind, times */
EXPORT int32_t loops_argv(bp_context *ctx, void **args) {
    static const bp_task tasks[] = {count, nest, fail};
    int32_t status = 0;
    for (int32_t i = 0; i < *(int32_t *)args[2] && status == 0; i++)
        status = ctx->parallel_for(ctx, tasks[*(int32_t *)args[1]], 0, 64, 64, args[0]);
    return status;
}
/* args: rounds, bytes */
EXPORT int32_t memory_argv(bp_context *ctx, void **args) {
    for (int32_t i = 0; i < *(int32_t *)args[0]; i++) {
        const uint64_t bytes = *(uint64_t *)args[1] + (uint64_t)i;
        char *a = ctx->alloc(ctx, bytes, 64, "a");
        if (!a) return BP_OUT_OF_MEMORY;
        a[0] = 1, a[bytes - 1] = 1;
        char *b = ctx->alloc(ctx, 100, 64, "b");
        if (b) b[99] = 1;
        ctx->release(ctx, a, "a");
        if (!b) return BP_OUT_OF_MEMORY;
        ctx->release(ctx, b, "b");
    }
    return 0;
}
EXPORT int32_t talk_argv(bp_context *ctx, void **args) {
    (void)args;
    bp_arg line[6] = {{BP_ARG_STRING, {.s = "x ="}}, {BP_ARG_INT, {.i = -3}},
                      {BP_ARG_UINT, {.u = 4000000000u}}, {BP_ARG_FLOAT, {.d = 1.5}},
                      {BP_ARG_DOUBLE, {.d = 0.25}}, {BP_ARG_STRING, {.s = ""}}};
    ctx->print(ctx, line, 5);
    static const bp_site site = {"BP-B002", "{0} is {1}, {{so}}", "user.py", 12, -1};
    ctx->error.site = &site;
    ctx->error.index = 3;
    ctx->error.count = 2;
    ctx->error.args[0] = line[0];
    ctx->error.args[1] = line[1];
    return -1;
}
"""
)


def program(name: str) -> LoadedProgram:
    """One of the entry points above."""
    return load_program(PROGRAM, name)


def pointers(*values: Any) -> Any:
    """The argument array of a call; it keeps the values alive."""
    array = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    array.values = values
    return array


def run_loops(kind: int, times: int, counters: Any) -> int:
    context = load_runtime().new_context()
    args = pointers(counters, ctypes.c_int32(kind), ctypes.c_int32(times))
    return context.call(program("loops").entry, args)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_iteration_runs_once(threads: int) -> None:
    runtime = load_runtime()
    before = runtime.set_num_threads(threads)
    try:
        counters = (ctypes.c_int32 * 64)()
        assert run_loops(0, 200, counters) == 0
        assert list(counters) == [200] * 64
        nested = (ctypes.c_int32 * 4096)()
        assert run_loops(1, 5, nested) == 0
        assert list(nested) == [5] * 4096
        assert runtime.busy_workers() == 0
    finally:
        runtime.set_num_threads(before)


def test_the_first_error_ends_the_loop() -> None:
    assert run_loops(2, 3, (ctypes.c_int32 * 64)()) == -7


@pytest.mark.parametrize("nested", [0, 1])
@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_each_running_task_has_a_slot_of_its_own(slots: int, nested: int) -> None:
    runtime = load_runtime()
    before = runtime.set_num_threads(5)
    try:
        context = runtime.new_context()
        entry = program("slots").entry
        for extent in (1, 2, 100):
            args = pointers(ctypes.c_int32(slots), ctypes.c_int32(extent), ctypes.c_int32(nested))
            assert context.call(entry, args) == 0
    finally:
        runtime.set_num_threads(before)


def test_a_call_knows_how_many_workers_it_has() -> None:
    runtime = load_runtime()
    before = runtime.set_num_threads(3)
    try:
        context = runtime.new_context()
        for threads in (3, 1, 4):
            runtime.set_num_threads(threads)
            workers = ctypes.c_int32(0)
            assert context.call(program("workers").entry, pointers(workers)) == 0
            assert workers.value == threads
    finally:
        runtime.set_num_threads(before)


def test_loops_in_several_threads_at_once() -> None:
    results = []

    def work() -> None:
        counters = (ctypes.c_int32 * 4096)()
        status = run_loops(1, 20, counters)
        results.append((status, set(counters)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [(0, {20})] * 4


def test_a_forked_child_starts_its_own_workers() -> None:
    runtime = load_runtime()
    before = runtime.set_num_threads(3)
    try:
        assert run_loops(0, 1, (ctypes.c_int32 * 64)()) == 0
        child = os.fork()
        if child == 0:
            counters = (ctypes.c_int32 * 4096)()
            good = run_loops(1, 3, counters) == 0 and set(counters) == {3}
            os._exit(0 if good else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
    finally:
        runtime.set_num_threads(before)


def test_memory_is_kept_for_the_next_call() -> None:
    runtime = load_runtime()
    runtime.trim()
    context = runtime.new_context()
    entry = program("memory").entry
    args = pointers(ctypes.c_int32(1), ctypes.c_uint64(5_000_000))
    assert context.call(entry, args) == 0
    first = context.counts
    assert (first.allocations, first.releases, first.live_bytes) == (2, 2, 0)
    assert first.peak_bytes == 5_000_100 and first.system_calls == 2
    assert context.call(entry, args) == 0
    assert context.counts.system_calls == 0
    # At most an eighth is padding.
    assert 5_000_100 <= runtime.kept_bytes() <= 5_000_100 * 9 // 8 + 128
    runtime.trim()
    assert runtime.kept_bytes() == 0


def test_sizes_of_all_kinds() -> None:
    runtime = load_runtime()
    context = runtime.new_context()
    for size in (1, 63, 64, 65, 500, 511, 512, 513, 4095, 1 << 18, (1 << 18) + 1, 5 << 20):
        args = pointers(ctypes.c_int32(3), ctypes.c_uint64(size))
        assert context.call(program("memory").entry, args) == 0
        assert context.counts.live_bytes == 0
    runtime.trim()


def test_the_checking_allocator_counts_and_fails() -> None:
    context = load_runtime().new_context()
    entry = program("memory").entry
    args = pointers(ctypes.c_int32(2), ctypes.c_uint64(56))
    for flush_right in (False, True):
        context.check_allocations(flush_right=flush_right)
        assert context.call(entry, args) == 0
        assert context.check_counts() == (4, 0, 0)
    for k in range(1, 5):
        context.check_allocations(fail_at=k)
        assert context.call(entry, args) == -2
        assert context.check_counts()[1:] == (0, 0)
        assert context.counts.live_bytes == 0


def test_events_are_logged() -> None:
    context = load_runtime().new_context()
    context.log_events()
    args = pointers(ctypes.c_int32(1), ctypes.c_uint64(1000))
    context.call(program("memory").entry, args)
    events = [(e.kind, e.name, e.size_bytes, e.thread) for e in context.events()]
    assert events == [("alloc", "a", 1000, 0), ("alloc", "b", 100, 0),
                      ("free", "a", 1000, 0), ("free", "b", 100, 0)]


def test_prints_and_errors() -> None:
    context = load_runtime().new_context()
    lines: list[str] = []
    context.set_write(lines.append)
    assert context.call(program("talk").entry, None) == -1
    assert lines == ["x = -3 4000000000 1.500000 2.500000e-01\n"]
    assert context.failure() == (3, ("x =", -3))
    assert context.failure_text() == "x = is -3, {so} (user.py:12)"
