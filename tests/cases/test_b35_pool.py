"""The pool of memory: bytes in the wrong pieces, its limit, threads with a trim among them."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bayplan as hl
from bayplan.build.loading import load_program, load_runtime
from bayplan.targets.header import read_header
from tests.runtime.native import SANITIZED, run_native

LIMIT = 1 << 20

PROGRAM = (
    read_header()
    + r"""
#define EXPORT __attribute__((visibility("default")))
EXPORT int32_t take_argv(bp_context *ctx, void **args) {
    void *block = ctx->alloc(ctx, *(uint64_t *)args[0], 64, "block");
    *(void **)args[1] = block;
    return block ? 0 : BP_OUT_OF_MEMORY;
}
EXPORT int32_t give_argv(bp_context *ctx, void **args) {
    ctx->release(ctx, *(void **)args[0], "block");
    return 0;
}
"""
)


class Pool:
    """The pool of this process, seen through the hooks that programs take memory by."""

    def __init__(self) -> None:
        self.context = load_runtime().new_context()
        self.take_entry = load_program(PROGRAM, "take").entry
        self.give_entry = load_program(PROGRAM, "give").entry

    def call(self, entry: int, *values: Any) -> int:
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        return self.context.call(entry, pointers)

    def take(self, size: int) -> ctypes.c_void_p | None:
        block = ctypes.c_void_p()
        return block if self.call(self.take_entry, ctypes.c_uint64(size), block) == 0 else None

    def give(self, block: ctypes.c_void_p | None) -> None:
        assert block is not None
        assert self.call(self.give_entry, block) == 0


@pytest.fixture
def pool() -> Iterator[Pool]:
    hl.memory.trim()
    assert hl.memory.statistics().held_bytes == 0
    before = hl.memory.set_limit(LIMIT)
    try:
        yield Pool()
    finally:
        hl.memory.set_limit(before)
        hl.memory.trim()


def test_a_larger_block_after_a_smaller_one(pool: Pool) -> None:
    pool.give(pool.take(524288))
    assert hl.memory.statistics().kept_bytes == 524288
    block = pool.take(786432)
    now = hl.memory.statistics()
    assert (now.used_bytes, now.held_bytes) == (786432, 786432)
    assert pool.take(524288) is None
    refusal = pool.context.refusal()
    assert refusal is not None
    assert (refusal.asked, refusal.used, refusal.held) == (524288, 786432, 786432)
    assert refusal.limit == LIMIT
    for number in (524288, 786432, LIMIT):
        assert str(number) in str(refusal)
    # It still works.
    small = pool.take(1 << 18)
    assert small is not None and pool.context.refusal() is None
    pool.give(small)
    pool.give(block)
    assert hl.memory.statistics().used_bytes == 0


def test_one_large_block_after_many_small_ones(pool: Pool) -> None:
    for block in [pool.take(8 << 10) for _ in range(64)]:
        pool.give(block)
    assert hl.memory.statistics().kept_bytes == 64 * (8 << 10)
    block = pool.take(1 << 20)
    assert block is not None
    assert hl.memory.statistics().held_bytes == 1 << 20
    pool.give(block)


def test_padding_does_not_count_against_the_limit(pool: Pool) -> None:
    hl.memory.set_limit(1_000_000)
    block = pool.take(1_000_000)  # its size class would be larger than the limit
    assert block is not None
    assert hl.memory.statistics().held_bytes <= 1_000_000
    pool.give(block)
    hl.memory.set_limit(LIMIT)
    again = pool.take(1_000_000)
    now = hl.memory.statistics()
    assert 0 <= now.padded_bytes <= now.asked_bytes // 8
    pool.give(again)


def test_a_lower_limit_gives_kept_blocks_back_at_once(pool: Pool) -> None:
    used = pool.take(100 << 10)
    for block in [pool.take(64 << 10) for _ in range(8)]:
        pool.give(block)
    hl.memory.set_limit(200 << 10)
    now = hl.memory.statistics()
    assert now.held_bytes <= 200 << 10 and now.kept_bytes == 64 << 10
    hl.memory.set_limit(50 << 10)
    now = hl.memory.statistics()
    assert now.kept_bytes == 0 and now.asked_bytes == 100 << 10
    assert pool.take(1) is None
    pool.give(used)
    block = pool.take(1)
    assert block is not None
    pool.give(block)


def test_the_oldest_blocks_go_first(pool: Pool) -> None:
    old, new = pool.take(256 << 10), pool.take(320 << 10)
    pool.give(old)
    pool.give(new)
    block = pool.take(640 << 10)  # room for it and the newer one
    assert hl.memory.statistics().kept_bytes == 320 << 10
    pool.give(block)
    calls = hl.memory.statistics().system_calls
    pool.give(pool.take(320 << 10))
    assert hl.memory.statistics().system_calls == calls


def test_requests_are_counted(pool: Pool) -> None:
    before = hl.memory.statistics()
    for _ in range(3):
        pool.give(pool.take(1000))
    assert pool.take(2 * LIMIT) is None
    now = hl.memory.statistics()
    assert now.requests - before.requests == 4
    assert now.refusals - before.refusals == 1
    assert now.system_calls - before.system_calls == 1


def test_a_program_beyond_the_limit_ends_with_the_numbers(pool: Pool) -> None:
    x = hl.Var("x")
    wide, narrow = hl.Func("wide"), hl.Func("narrow")
    wide[x] = hl.sqrt(hl.cast(hl.Float(32), x))
    narrow[x] = wide[x] + wide[x + 1]
    wide.compute_root().store_in(hl.MemoryType.Heap)
    with pytest.raises(hl.OutOfMemory) as raised:
        narrow.realize([1 << 19])
    text = str(raised.value)
    assert "wide" in text and str(4 * ((1 << 19) + 1)) in text
    assert f"the limit is {LIMIT}" in text and "0 were used" in text
    assert narrow.realize([100])[99] == pytest.approx(99**0.5 + 10)
    with pytest.raises(ValueError):
        hl.memory.set_limit(0)


def test_the_setting_limits_the_pool() -> None:
    import os
    import sys

    code = "import bayplan as hl; print(hl.memory.statistics().limit_bytes)"
    env = {**os.environ, "BAYPLAN_MEMORY_LIMIT": "123456"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout == "123456\n", done.stderr


THREADS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 2000, LIVE = 8 };
static int32_t finished;

/* Takes and gives at random; each block is full of its own number while it lives. */
static void *work(void *number) {
    uint32_t seed = (uint32_t)(uintptr_t)number * 2654435761u + 1;
    unsigned char *blocks[LIVE] = {0};
    uint64_t sizes[LIVE];
    int64_t calls = 0;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int k = seed >> 8 & (LIVE - 1);
        const unsigned char mark = (unsigned char)((uintptr_t)number * LIVE + k);
        if (blocks[k]) {
            for (uint64_t j = 0; j < sizes[k]; j += 64)
                if (blocks[k][j] != mark) abort();
            if (blocks[k][sizes[k] - 1] != mark) abort();
            bp_pool_give(blocks[k]);
            blocks[k] = NULL;
        } else {
            sizes[k] = 1024 + (seed >> 12) % (63 * 1024 + 1);
            blocks[k] = bp_pool_take(sizes[k], 64, &calls, NULL);
            if (!blocks[k]) abort();
            memset(blocks[k], mark, sizes[k]);
        }
    }
    for (int k = 0; k < LIVE; k++)
        if (blocks[k]) bp_pool_give(blocks[k]);
    __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *trim(void *none) {
    while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < THREADS) bp_rt_trim();
    return none;
}

int main(void) {
    pthread_t threads[THREADS], trimmer;
    pthread_create(&trimmer, NULL, trim, NULL);
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_join(trimmer, NULL);
    bp_memory now;
    bp_rt_memory_statistics(&now);
    printf("%d %d\n", (int)now.asked, (int)now.used);
    return 0;
}
"""


@pytest.mark.parametrize("flags", [[], [SANITIZED]], ids=["plain", "sanitized"])
def test_threads_share_the_pool(flags: list[str], tmp_path: Path) -> None:
    assert run_native(THREADS, tmp_path, *flags) == "0 0\n"
