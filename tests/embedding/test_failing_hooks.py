"""An allocator hook that fails its k-th call, for every k: a result, no leak, a right next call."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayplan as hl
from tests.embedding.programs import build_and_run

_CALLER = """
#include "chain.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int requests, fail_at, live, wrong, printed;
static char failed_name[200];
static uint64_t failed_bytes;
static void *counting_alloc(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name) {
    (void)ctx;
    if (__atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED) == fail_at) {
        strncpy(failed_name, name, sizeof failed_name - 1);
        failed_bytes = bytes;
        return NULL;
    }
    void *block = NULL;
    if (posix_memalign(&block, alignment < 8 ? 8 : alignment, bytes)) abort();
    memset(block, 0xCD, bytes);
    __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return block;
}
static void counting_release(bp_context *ctx, void *block, const char *name) {
    (void)ctx;
    if (!block || !name) wrong = 1;
    __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    free(block);
}
static void count_line(bp_context *ctx, const bp_arg *args, int32_t count) {
    (void)ctx, (void)args, (void)count;
    __atomic_add_fetch(&printed, 1, __ATOMIC_RELAXED);
}

int main(void) {
    enum { WIDTH = 40, HEIGHT = 16 };
    static int32_t in[HEIGHT], first[WIDTH * HEIGHT], out[WIDTH * HEIGHT];
    for (int i = 0; i < HEIGHT; i++) in[i] = 5 * i;
    bp_dim in_dim[1] = {{0, HEIGHT, 1, 0}};
    bp_dim out_dim[2] = {{0, WIDTH, 1, 0}, {0, HEIGHT, WIDTH, 0}};
    bp_buffer a = {.host = (uint8_t *)in, .type = {BP_INT, 32, 1}, .dimensions = 1, .dim = in_dim};
    bp_buffer b = {.host = (uint8_t *)first, .type = {BP_INT, 32, 1}, .dimensions = 2,
                   .dim = out_dim};
    bp_context *ctx = bp_default_context();
    ctx->alloc = counting_alloc;
    ctx->release = counting_release;
    ctx->print = count_line;
    bp_rt_set_num_threads(1);
    if (chain(&a, &b) != 0 || live != 0) return 1;
    const int needed = requests;
    bp_rt_set_num_threads(THREADS);
    b.host = (uint8_t *)out;
    for (int k = 1; k <= needed; k++) {
        requests = 0;
        fail_at = k;
        memset(failed_name, 0, sizeof failed_name);
        const int status = chain(&a, &b);
        if (status != BP_OUT_OF_MEMORY || live != 0 || wrong) return 2;
        char text[400];
        if (!bp_format_error(ctx, text, sizeof text)) return 3;
        const bp_error *e = &ctx->error;
        if (strcmp(e->site->code, "BP-M002") || !strstr(e->site->message, failed_name)) return 4;
        if (e->args[0].as.u != failed_bytes) return 5;
        fail_at = 0;
        memset(out, 0, sizeof out);
        if (chain(&a, &b) != 0 || live != 0 || memcmp(first, out, sizeof out)) return 6;
        if (bp_format_error(ctx, text, sizeof text)) return 7;
    }
    printf("%d %d\\n", needed, printed > 0);
    return 0;
}
"""


def make_chain(parallel: bool, prints: bool) -> tuple[hl.Func, hl.ImageParam]:
    """Temporaries of the call and of its workers, of several sizes."""
    x, y = hl.Var("x"), hl.Var("y")
    counts = hl.ImageParam(hl.Int(32), 1, "counts")
    first, second, third, out = (hl.Func(n) for n in ("first", "second", "third", "out"))
    first[x, y] = x + y
    second[x, y] = first[x, y] + first[x + 1, y]
    third[x, y] = second[x, y] * 2 + first[x, y]
    # How far it is needed depends on what `counts` holds.
    total = third[x, y] + third[hl.clamp(counts[y], 0, 100), y]
    out[x, y] = hl.print_when(x == y, total, "diagonal") if prints else total
    first.compute_root()
    second.compute_root()
    third.compute_at(out, y).store_in(hl.MemoryType.Heap)
    if parallel:
        out.parallel(y)
    return out, counts


@pytest.mark.parametrize("prints", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_each_request_fails_once(tmp_path: Path, threads: int, prints: bool) -> None:
    out, counts = make_chain(threads > 1, prints)
    out.compile_to_static_library(str(tmp_path / "chain"), [counts], "chain")
    flags = ["-std=gnu11", f"-DTHREADS={threads}"]
    printed = build_and_run(tmp_path, _CALLER, [tmp_path / "chain.a"], flags=flags)
    needed, lines = printed.split()
    # Everything is in one arena: a call asks once.
    assert int(needed) == 1
    assert lines == str(int(prints))
