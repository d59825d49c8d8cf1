"""Workers, slots and memory of loops inside loops, in several threads, also sanitized."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.native import SANITIZED, run_native

MAIN = r"""
#include <stdio.h>
#include <stdlib.h>

/* One sum a slot: two tasks in one slot at once would lose a part of it. */
typedef struct slots {
    int32_t limit, sums[64];
} slots;

static int32_t leaf(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *closure) {
    slots *s = closure;
    (void)ctx;
    if (slot < 0 || slot >= s->limit) abort();
    for (int32_t i = begin; i < end; i++) s->sums[slot] += i;
    return 0;
}

static int32_t inner(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *closure) {
    slots *outer = closure;
    for (int32_t i = begin; i < end; i++) {
        slots s = {.limit = 2};
        ctx->parallel_for(ctx, leaf, 0, 40, 2, &s);
        if (s.sums[0] + s.sums[1] != 780) abort();
        outer->sums[slot] += 780;
        char *block = ctx->alloc(ctx, 5000, 64, "block");
        if (!block) return BP_OUT_OF_MEMORY;
        block[0] = block[4999] = 1;
        ctx->release(ctx, block, "block");
    }
    return 0;
}

static int32_t entry(bp_context *ctx, void **args) {
    (void)args;
    for (int round = 0; round < 50; round++) {
        slots s = {.limit = 3};
        ctx->parallel_for(ctx, inner, 0, 20, 3, &s);
        if (s.sums[0] + s.sums[1] + s.sums[2] != 780 * 20) abort();
    }
    return 0;
}

static void *call(void *number) {
    bp_rt_context *ctx = bp_rt_context_new();
    if (!ctx || bp_rt_call(ctx, entry, NULL, 0) || ctx->counts.live_bytes) abort();
    bp_rt_context_free(ctx);
    return number;
}

int main(void) {
    bp_rt_set_num_threads(4);
    pthread_t threads[3];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, call, NULL);
        bp_rt_set_num_threads(2 + round);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    }
    puts("good");
    return 0;
}
"""


@pytest.mark.parametrize("flags", [[], [SANITIZED]], ids=["plain", "sanitized"])
def test_loops_inside_loops_in_several_threads(flags: list[str], tmp_path: Path) -> None:
    assert run_native(MAIN, tmp_path, *flags) == "good\n"
