"""Programs built ahead of time in many threads, and under the sanitizers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.embedding.programs import LINK, run

_THREADS = """
#include "busy.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, CALLS = 40 };
static int32_t in[42 * 33];
static int32_t results[THREADS][40 * 32];

static void forget(bp_context *ctx, const bp_arg *args, int32_t count) {
    (void)ctx, (void)args, (void)count;
}

static void *work(void *given) {
    const long number = (long)given;
    bp_dim in_dim[2] = {{0, 42, 1, 0}, {0, 33, 42, 0}};
    bp_dim dim[2] = {{0, 40, 1, 0}, {0, 32, 40, 0}};
    bp_buffer a = {.host = (uint8_t *)in, .type = {BP_INT, 32, 1}, .dimensions = 2, .dim = in_dim};
    bp_buffer b = {.host = (uint8_t *)results[number], .type = {BP_INT, 32, 1}, .dimensions = 2,
                   .dim = dim};
    bp_default_context()->print = forget;
    for (int i = 0; i < CALLS; i++) {
        /* Every third call fails; its message is that of its own thread. */
        in_dim[1].extent = i % 3 == 2 ? 10 + (int)number : 33;
        const int status = busy(&a, 1 + (int)number, &b);
        if (i % 3 == 2) {
            const bp_error *e = &bp_default_context()->error;
            if (status != BP_ERROR || e->args[1].as.i != 9 + number) return "wrong error";
        } else if (status != 0) {
            return "failed";
        }
    }
    return NULL;
}

int main(void) {
    for (int i = 0; i < 42 * 33; i++) in[i] = i % 7;
    bp_rt_set_num_threads(3);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < THREADS; i++) {
        void *said;
        pthread_join(threads[i], &said);
        if (said) return printf("%s\\n", (char *)said);
    }
    for (int t = 0; t < THREADS; t++)
        for (int y = 0; y < 32; y++)
            for (int x = 0; x < 40; x++) {
                int sums[2];
                for (int k = 0; k < 2; k++) {
                    const int32_t *row = &in[42 * (y + k) + x];
                    sums[k] = (row[0] + row[1] + row[2]) * (1 + t);
                }
                const int table = (sums[0] & 3) * (sums[0] & 3);
                if (results[t][40 * y + x] != sums[0] + sums[1] + table) return 2;
            }
    printf("right\\n");
    return 0;
}
"""


@pytest.mark.sanitize
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_threads_have_contexts_of_their_own(tmp_path: Path, sanitizers: str) -> None:
    """From the sources, as a cross compiler would be given them."""
    program = tmp_path / "program.py"
    program.write_text("from tests.embedding.test_freestanding import make_busy\n"
                       "output = make_busy()[0]\n")  # fmt: skip
    run([sys.executable, "-m", "bayplan", "compile", f"{program}:output", "--emit", "c,h,runtime",
         "--name", "busy", "-o", tmp_path / "busy.c"], cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin",
             "HOME": str(tmp_path)})  # fmt: skip
    (tmp_path / "main.c").write_text(_THREADS)
    flags = ["-std=gnu11", "-O1", "-g", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    sources = [tmp_path / name for name in ("main.c", "busy.c", "busy.runtime.c")]
    run(["gcc", *flags, *sources, "-o", tmp_path / "main", *LINK])
    assert run([tmp_path / "main"]) == "right\n"
