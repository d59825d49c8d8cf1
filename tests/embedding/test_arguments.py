"""Scalars of every type, several outputs, Tuples, and workspaces of parallel programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayplan as hl
from tests.embedding.programs import build_and_run, run
from tests.embedding.test_failing_hooks import make_chain

_SCALARS = {
    "i8": (hl.Int(8), "int8_t", -128), "u8": (hl.UInt(8), "uint8_t", 255),
    "i16": (hl.Int(16), "int16_t", -32768), "u16": (hl.UInt(16), "uint16_t", 65535),
    "i32": (hl.Int(32), "int32_t", -7), "u32": (hl.UInt(32), "uint32_t", 4000000000),
    "i64": (hl.Int(64), "int64_t", -(2**62)), "u64": (hl.UInt(64), "uint64_t", 2**53),
    "f32": (hl.Float(32), "float", 0.25), "f64": (hl.Float(64), "double", -0.125),
    "flag": (hl.Bool(), "bool", 1),
}  # fmt: skip


def test_scalars_of_every_type(tmp_path: Path) -> None:
    x = hl.Var("x")
    params = {name: hl.Param(t, name) for name, (t, _, _) in _SCALARS.items()}
    f = hl.Func("scalars")
    values = [hl.cast(hl.Float(64), p) for p in params.values()]
    f[x] = hl.mux(x, values)
    f.compile_to_static_library(str(tmp_path / "scalars"), list(params.values()), "scalars")
    lines = [f"    {c_type} {n} = {v}{'u' if v > 2**31 else ''};"
             for n, (_, c_type, v) in _SCALARS.items()]  # fmt: skip
    caller = f"""
#include "scalars.h"
#include <stdio.h>
int main(void) {{
    double out[{len(params)}];
    bp_dim dim = {{0, {len(params)}, 1, 0}};
    bp_buffer b = {{.host = (uint8_t *)out, .type = {{BP_FLOAT, 64, 1}}, .dimensions = 1,
                   .dim = &dim}};
{chr(10).join(lines)}
    void *args[] = {{{", ".join([f"&{name}" for name in params])}, &b}};
    for (int way = 0; way < 2; way++) {{
        for (int i = 0; i < {len(params)}; i++) out[i] = -1;
        if (way ? scalars_argv(args) : scalars({", ".join(params)}, &b)) return 1;
        for (int i = 0; i < {len(params)}; i++) printf("%.17g ", out[i]);
    }}
    return 0;
}}
"""
    printed = build_and_run(tmp_path, caller, [tmp_path / "scalars.a"])
    wanted = [float(v) for _, _, v in _SCALARS.values()]
    assert [float(word) for word in printed.split()] == wanted + wanted


def test_several_outputs_and_tuples(tmp_path: Path) -> None:
    x = hl.Var("x")
    image = hl.ImageParam(hl.UInt(8), 1, "image")
    both, last = hl.Func("both"), hl.Func("last")
    both[x] = (image[x] + hl.u8(1), hl.cast(hl.Int(16), image[x]) * 300)
    last[x] = hl.cast(hl.Float(32), both[x][1]) / 2.0
    both.compute_root()
    pipeline = hl.Pipeline([last, both])
    pipeline.compile_to_static_library(str(tmp_path / "many"), [image], "many")
    caller = """
#include "many.h"
#include <stdio.h>
int main(void) {
    uint8_t in[4] = {1, 2, 3, 255}, first[4];
    int16_t second[4];
    float third[4];
    bp_dim dim = {0, 4, 1, 0};
    bp_buffer image = {.host = in, .type = {BP_UINT, 8, 1}, .dimensions = 1, .dim = &dim};
    bp_buffer a = {.host = first, .type = {BP_UINT, 8, 1}, .dimensions = 1, .dim = &dim};
    bp_buffer b = {.host = (uint8_t *)second, .type = {BP_INT, 16, 1}, .dimensions = 1,
                   .dim = &dim};
    bp_buffer c = {.host = (uint8_t *)third, .type = {BP_FLOAT, 32, 1}, .dimensions = 1,
                   .dim = &dim};
    if (many(&image, &c, &a, &b) != 0) return 1;
    printf("%d %d %d %.1f\\n", first[0], first[3], second[1], third[2]);
    return 0;
}
"""
    printed = build_and_run(tmp_path, caller, [tmp_path / "many.a"])
    assert printed == "2 0 600 450.0\n"


_PARALLEL = """
#include "chain.h"
#include <stdio.h>
#include <string.h>

enum { WIDTH = 40, HEIGHT = 16, ROOM = 1 << 16 };
static unsigned char memory[ROOM] __attribute__((aligned(chain_WORKSPACE_ALIGN)));
static void *refuse(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name) {
    (void)ctx, (void)bytes, (void)alignment, (void)name;
    return NULL;
}

int main(void) {
    static int32_t in[HEIGHT], first[WIDTH * HEIGHT], out[WIDTH * HEIGHT];
    for (int i = 0; i < HEIGHT; i++) in[i] = 5 * i;
    bp_dim in_dim[1] = {{0, HEIGHT, 1, 0}};
    bp_dim dim[2] = {{0, WIDTH, 1, 0}, {0, HEIGHT, WIDTH, 0}};
    bp_buffer a = {.host = (uint8_t *)in, .type = {BP_INT, 32, 1}, .dimensions = 1, .dim = in_dim};
    bp_buffer b = {.host = (uint8_t *)first, .type = {BP_INT, 32, 1}, .dimensions = 2, .dim = dim};
    if (chain(&a, &b) != 0) return 1;
    b.host = (uint8_t *)out;
    bp_default_context()->alloc = refuse;
    for (int threads = 1; threads <= 5; threads++) {
        bp_rt_set_num_threads(threads);
        const int64_t bytes = chain_workspace_bytes(&a, &b);
        if (bytes <= 0 || bytes > ROOM - 64) return 2;
        for (int i = 0; i < 20; i++) {
            memset(memory, 0xA5, sizeof memory);
            memset(out, 0, sizeof out);
            if (chain_with_workspace(&a, &b, memory, (uint64_t)bytes) != 0) return 3;
            if (memcmp(first, out, sizeof out)) return 4;
            for (int64_t k = bytes; k < ROOM; k++)
                if (memory[k] != 0xA5) return 5;
        }
        if (chain_with_workspace(&a, &b, memory, (uint64_t)bytes - 1) != BP_WORKSPACE_TOO_SMALL)
            return 6;
        printf("%d ", (int)bytes);
    }
    return 0;
}
"""


def test_a_workspace_for_each_number_of_threads(tmp_path: Path) -> None:
    out, counts = make_chain(parallel=True, prints=False)
    out.compile_to_static_library(str(tmp_path / "chain"), [counts], "chain")
    printed = build_and_run(tmp_path, _PARALLEL, [tmp_path / "chain.a"], flags=["-std=gnu11"])
    sizes = [int(word) for word in printed.split()]
    # One arena more for each worker.
    steps = {b - a for a, b in zip(sizes, sizes[1:])}
    assert len(steps) == 1 and steps.pop() > 0


@pytest.mark.parametrize("target", ["x86-64-noos-user_context", "host-no_runtime"])
def test_libraries_without_the_runtime(tmp_path: Path, target: str) -> None:
    out, counts = make_chain(parallel=True, prints=False)
    path = str(tmp_path / "chain")
    out.compile_to_static_library(path, [counts], "chain", hl.Target(target))
    assert run(["ar", "t", tmp_path / "chain.a"]) == "chain.o\n"
