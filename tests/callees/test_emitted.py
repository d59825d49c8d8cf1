"""The C text of programs that call others: no warning, nothing undeclared, nothing undefined."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import bayplan as hl
from tests.callees.conftest import SOURCE

COMPILERS = [c for c in ("gcc", "clang", "g++", "clang++") if shutil.which(c)]
FLAGS = ["-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,--no-undefined"]


def _language(compiler: str) -> list[str]:
    """The emitted C is C++ too."""
    return ["-x", "c++", "-std=c++17"] if "++" in compiler else ["-x", "c", "-std=c11"]


def _pipeline() -> hl.Func:
    x, y, yo = hl.Var("x"), hl.Var("y"), hl.Var("yo")
    g, f, two, h = hl.Func("g"), hl.Func("f"), hl.Func("two"), hl.Func("h")
    image = hl.ImageParam(hl.Int(32), 2, "image")
    k = hl.Param(hl.Int(32), "k", 1)
    g[x, y] = image[x, y] + y
    f.define_extern("ex_stencil", [g, k], hl.Int(32), [x, y])
    two.define_extern("ex_two", [f, image], [hl.Int(32), hl.Float(64)], [x, y])
    h[x, y] = two[x, y][0] + hl.i32(two[x, y][1]) + f[x, y]
    h.split(y, yo, y, 4).parallel(yo).vectorize(x, 4)
    g.compute_root()
    f.compute_at(h, yo)
    two.compute_at(h, y)
    return h


@pytest.mark.parametrize("compiler", COMPILERS)
def test_ahead_of_time(compiler: str, tmp_path: Path) -> None:
    h = _pipeline()
    path = tmp_path / "h.c"
    target = hl.get_host_target().with_feature(hl.TargetFeature.UserContext)
    h.compile_to_c(str(path), h.infer_arguments(), "h_ahead", target)
    assert "extern int32_t ex_stencil(bp_buffer *, int32_t, bp_buffer *);" in path.read_text()
    functions = tmp_path / "functions.o"
    plain = {"g++": "gcc", "clang++": "clang"}.get(compiler, compiler)
    subprocess.run([plain, "-fPIC", "-c", str(SOURCE), "-o", str(functions)], check=True)
    files = [*_language(compiler), str(path), "-x", "none", str(functions)]
    command = [compiler, "-O1", *FLAGS, *files, "-lm", "-lpthread", "-lc"]
    done = subprocess.run([*command, "-o", str(tmp_path / "h.so")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


MAIN = r"""
#include "top.h"
#include <stdio.h>
#include <stdlib.h>

static int requests, live;
static uint64_t bytes_now, bytes_most;

static void *take(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name) {
    (void)ctx;
    (void)name;
    requests++;
    live++;
    bytes_now += bytes;
    if (bytes_now > bytes_most) bytes_most = bytes_now;
    uint64_t *block = aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment);
    if (!block) return NULL;
    block[0] = bytes;
    return (char *)block + alignment;
}

static void give(bp_context *ctx, void *block, const char *name) {
    (void)ctx;
    (void)name;
    live--;
    bytes_now -= *(uint64_t *)((char *)block - 64);
}

static int32_t run(bp_context *ctx, bp_task task, int32_t min, int32_t extent, int32_t slots,
                   void *closure) {
    for (int32_t i = 0; i < extent; i++) {
        const int32_t status = task(ctx, min + i, min + i + 1, i % slots, closure);
        if (status < 0) return status;
    }
    return 0;
}

static int32_t in[64 * 64], out[32 * 32], again[32 * 32];
static bp_dim in_dim[2] = {{0, 64, 1, 0}, {0, 64, 64, 0}};
static bp_dim out_dim[2] = {{0, 32, 1, 0}, {0, 32, 32, 0}};

static void check(const char *name, int status, int64_t bytes) {
    printf("%s %d %d %d %lld %lld\n", name, status, requests, live, (long long)bytes,
           (long long)bytes_most);
    requests = 0;
    bytes_most = 0;
}

int main(void) {
    static bp_context ctx;
    ctx.alloc = take;
    ctx.release = give;
    ctx.parallel_for = run;
    ctx.workers = 3;
    for (int i = 0; i < 64 * 64; i++) in[i] = i * 7 % 1001;
    bp_buffer from = {.host = (uint8_t *)in, .type = {BP_INT, 32, 1}, .dimensions = 2,
                      .dim = in_dim};
    bp_buffer to = {.host = (uint8_t *)out, .type = {BP_INT, 32, 1}, .dimensions = 2,
                    .dim = out_dim};
    int64_t bytes = top_workspace_bytes(&ctx, &from, &to);
    check("top", top(&ctx, &from, &to), bytes);
    long long sum = 0;
    for (int i = 0; i < 32 * 32; i++) sum += out[i] * (i % 13 + 1);
    printf("sum %lld\n", sum);
    for (int i = 0; i < 32 * 32; i++) again[i] = out[i];
    void *workspace = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    check("given", top_with_workspace(&ctx, &from, &to, workspace, (uint64_t)bytes), 0);
    for (int i = 0; i < 32 * 32; i++)
        if (again[i] != out[i]) return 1;
    check("small", top_with_workspace(&ctx, &from, &to, workspace, (uint64_t)bytes - 1), 0);
    bytes = middle_workspace_bytes(&ctx, &from, &to);
    check("middle", middle(&ctx, &from, &to), bytes);
    bytes = inner_workspace_bytes(&ctx, &from, 2, &to);
    check("inner", inner(&ctx, &from, 2, &to), bytes);
    free(workspace);
    return 0;
}
"""


def _three() -> hl.Func:
    """top calls middle twice, once in a parallel loop; middle calls inner."""
    x, y, yo = hl.Var("x"), hl.Var("y"), hl.Var("yo")
    image, deep = hl.ImageParam(hl.Int(32), 2, "image"), hl.ImageParam(hl.Int(32), 2, "deep")
    k = hl.Param(hl.Int(32), "k", 2)
    t, inner = hl.Func("t"), hl.Func("inner")
    t[x, y] = deep[x, y] + k * deep[x + 1, y]
    inner[x, y] = t[x, y] + t[x, y + 1]
    t.compute_root()
    a, middle = hl.Func("a"), hl.Func("middle")
    a.define_extern("inner", {"deep": image, "k": 3}, callee=inner)
    middle[x, y] = a[x, y] - a[x + 1, y]
    a.compute_root()
    source = hl.ImageParam(hl.Int(32), 2, "source")
    one, two, top = hl.Func("one"), hl.Func("two"), hl.Func("top")
    one.define_extern("middle", [source], callee=middle)
    two.define_extern("middle", [one], callee=middle)
    top[x, y] = two[x, y] + one[x, y + 1]
    one.compute_root()
    top.split(y, yo, y, 4).parallel(yo).vectorize(x, 4)
    two.compute_at(top, y)
    return top


@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_callee_alone_and_in_its_callers_plan(compiler: str, tmp_path: Path) -> None:
    top = _three()
    target = hl.get_host_target().with_feature(hl.TargetFeature.UserContext)
    arguments = top.infer_arguments()
    top.compile_to_c(str(tmp_path / "top.c"), arguments, "top", target)
    top.compile_to_header(str(tmp_path / "top.h"), arguments, "top", target)
    (tmp_path / "main.c").write_text(MAIN)
    program = tmp_path / "main"
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    sanitize = ["-fsanitize=address,undefined"] if compiler in ("gcc", "g++") else []
    plain = {"g++": "gcc", "clang++": "clang"}.get(compiler, compiler)
    main = [plain, *flags, *sanitize, "-std=c11", "-c", str(tmp_path / "main.c")]
    subprocess.run([*main, "-o", str(tmp_path / "main.o")], check=True)
    files = [*_language(compiler), str(tmp_path / "top.c"), "-x", "none", str(tmp_path / "main.o")]
    done = subprocess.run(
        [compiler, *flags, *sanitize, *files, "-o", str(program), "-lm"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=60,
                         env={"ASAN_OPTIONS": "detect_leaks=0"})  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in ran.stdout.splitlines()}
    for name in ("top", "middle", "inner"):
        status, requests, live, asked, most = rows[name]
        # One request of just the bytes that were told before, callees and workers included.
        assert (status, requests, live) == (0, 1, 0)
        assert asked == most > 0
    assert rows["given"][:3] == [0, 0, 0]
    assert rows["small"][:2] == [-4, 0]
    assert rows["sum"] == [_expected_sum()]


def _expected_sum() -> int:
    import numpy as np

    image = (np.arange(64 * 64) * 7 % 1001).reshape(64, 64)

    def middle(p: np.ndarray) -> np.ndarray:
        t = p[:, :-1] + 3 * p[:, 1:]
        a = t[:-1] + t[1:]
        found: np.ndarray = a[:, :-1] - a[:, 1:]
        return found

    one = middle(image)
    two = middle(one)
    top = two[:32, :32] + one[1:33, :32]
    return int((top.ravel() * (np.arange(32 * 32) % 13 + 1)).sum())


def test_a_pipeline_and_its_function_of_one_name(functions: Any, tmp_path: Path) -> None:
    f = hl.Func("f")
    f.define_extern("ex_source", [], hl.Int(32), 2)
    # A linker could not tell them apart; a table of addresses can.
    with pytest.raises(hl.DefinitionError, match="calls a C function of the same name"):
        f.compile_to_c(str(tmp_path / "f.c"), [], "ex_source")
    g = hl.Func("ex_source")
    g.define_extern("ex_source", [], hl.Int(32), 2)
    assert g.realize([3, 2])[2, 1] == 201
