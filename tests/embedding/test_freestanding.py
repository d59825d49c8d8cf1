"""Programs without a C library: only the hooks of the context, and what compilers demand."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import bayplan as hl
from tests.embedding.programs import make_blur, make_fixed, run

# A compiler may turn loops into calls of these, freestanding or not.
FROM_COMPILERS = {"memcpy", "memset", "memmove", "memcmp"}
FREESTANDING = ["-ffreestanding", "-nostdlib", "-fno-stack-protector", "-Wall", "-Wextra",
                "-Werror"]  # fmt: skip

needs_x86_linux = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux",
    reason="the program leaves by a system call of x86-64 Linux",
)


def make_busy() -> tuple[hl.Func, list[Any]]:
    """Everything that calls a hook: heap, a parallel loop, a print; vectors and a gather too."""
    x, y = hl.Var("x"), hl.Var("y")
    image, scale = hl.ImageParam(hl.Int(32), 2, "in"), hl.Param(hl.Int(32), "scale")
    table = hl.Buffer(hl.Int(32), [4], "table")
    for i in range(4):
        table[i] = i * i
    sums, busy = hl.Func("sums"), hl.Func("busy")
    r = hl.RDom([(0, 3)])
    sums[x, y] = hl.sum(image[x + r, y]) * scale
    value = sums[x, y] + sums[x, y + 1] + table[sums[x, y] & 3]
    busy[x, y] = hl.print_when((x == 0) & (y == 0), value, "first")
    sums.compute_root().parallel(y).vectorize(x, 8, hl.TailStrategy.GuardWithIf)
    busy.parallel(y)
    return busy, [image, scale]


def undefined_symbols(path: Path) -> set[str]:
    """What an object file wants from others."""
    return {line.split()[-1] for line in run(["nm", "-u", path]).splitlines()}


def object_of(folder: Path, func: hl.Func, arguments: Any, name: str, *flags: str) -> Path:
    source = folder / f"{name}.c"
    func.compile_to_c(str(source), arguments, name)
    made = folder / f"{name}.o"
    run(["gcc", "-std=c11", "-O2", *FREESTANDING, *flags, "-c", source, "-o", made])
    return made


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_an_object_wants_the_context_and_nothing_else(tmp_path: Path, level: str) -> None:
    for name, (func, arguments) in {"blur": make_blur(), "busy": make_busy()}.items():
        wanted = undefined_symbols(object_of(tmp_path, func, arguments, name, level))
        assert "bp_default_context" in wanted
        assert wanted - FROM_COMPILERS == {"bp_default_context"}


def test_with_a_context_of_the_caller_it_wants_nothing(tmp_path: Path) -> None:
    blur, arguments = make_busy()
    target = hl.Target("x86-64-noos-user_context")
    blur.compile_to_object(str(tmp_path / "busy.o"), arguments, "busy", target)
    assert undefined_symbols(tmp_path / "busy.o") <= FROM_COMPILERS


def test_maths_comes_from_libm_under_its_own_names(tmp_path: Path) -> None:
    x = hl.Var("x")
    image, f = hl.ImageParam(hl.Float(64), 1, "in"), hl.Func("f")
    f[x] = hl.sin(image[x]) + hl.pow(image[x], 1.5)
    wanted = undefined_symbols(object_of(tmp_path, f, [image], "waves"))
    assert wanted - FROM_COMPILERS == {"bp_default_context", "sin", "pow"}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("standard", ["c99", "gnu99", "c11", "gnu17"])
def test_standards_of_c(tmp_path: Path, compiler: str, standard: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    busy, arguments = make_busy()
    busy.compile_to_c(str(tmp_path / "busy.c"), arguments, "busy")
    command = [compiler, f"-std={standard}", "-O1", *FREESTANDING, "-c", tmp_path / "busy.c"]
    run([*command, "-o", tmp_path / "busy.o"])


_START = """
#include "fixed.h"
#include "busy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No C library: what the compiler may demand, and the way out. */
void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
void *memset(void *to, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = (char)value;
    return to;
}
static void leave(long code) {
    __asm__ volatile("syscall" : : "a"(231L), "D"(code) : "rcx", "r11", "memory");
    __builtin_unreachable();
}

/* A bump allocator over a static array, a worker, a counter of printed lines. */
static unsigned char memory[1 << 16] __attribute__((aligned(64)));
static uint64_t top;
static int32_t lines;
static void *bump(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name) {
    (void)ctx, (void)name;
    uint64_t begin = (top + alignment - 1) / alignment * alignment;
    if (bytes > sizeof memory - begin) return NULL;
    top = begin + bytes;
    return memory + begin;
}
static void forget(bp_context *ctx, void *block, const char *name) {
    (void)ctx, (void)block, (void)name;
}
static int32_t alone(bp_context *ctx, bp_task task, int32_t min, int32_t extent, int32_t slots,
                     void *closure) {
    (void)slots;
    return task(ctx, min, min + extent, 0, closure);
}
static void count_lines(bp_context *ctx, const bp_arg *args, int32_t count) {
    (void)ctx, (void)args, (void)count;
    lines++;
}

fixed_WORKSPACE(workspace);
fixed_WORKSPACE_FITS(workspace);

static void start(void) {
    bp_context ctx = {.alloc = bump, .release = forget, .parallel_for = alone,
                      .print = count_lines};
    static float row[64];
    bp_dim row_dim = {0, 64, 1, 0};
    bp_buffer out = {.host = (uint8_t *)row, .type = {BP_FLOAT, 32, 1}, .dimensions = 1,
                     .dim = &row_dim};
    /* In the memory of the hook. */
    if (fixed(&ctx, &out) != 0 || row[63] != 65.0f || top == 0) leave(1);
    /* In a static array, without any hook. */
    ctx.alloc = NULL;
    ctx.release = NULL;
    row[63] = 0;
    if (fixed_workspace_bytes(&ctx, &out) != fixed_WORKSPACE_BYTES) leave(2);
    if (fixed_with_workspace(&ctx, &out, workspace, sizeof workspace) != 0) leave(3);
    if (row[63] != 65.0f) leave(4);
    ctx.alloc = bump;
    ctx.release = forget;
    static int32_t in[8 * 5], result[6 * 4];
    for (int32_t i = 0; i < 40; i++) in[i] = i;
    bp_dim in_dim[2] = {{0, 8, 1, 0}, {0, 5, 8, 0}}, result_dim[2] = {{0, 6, 1, 0}, {0, 4, 6, 0}};
    bp_buffer a = {.host = (uint8_t *)in, .type = {BP_INT, 32, 1}, .dimensions = 2, .dim = in_dim};
    bp_buffer b = {.host = (uint8_t *)result, .type = {BP_INT, 32, 1}, .dimensions = 2,
                   .dim = result_dim};
    if (busy(&ctx, &a, 1, &b) != 0) leave(5);
    /* sums(5, 3) = 29 + 30 + 31 + 3 - 3 = 90, sums(5, 4) = 114, table[90 & 3] = 4 */
    if (result[23] != 90 + 114 + 4 || lines != 1) leave(6);
    leave(42);
}

__asm__(".globl _start\\n_start:\\n    andq $-16, %rsp\\n    call start_here\\n");
__attribute__((used)) void start_here(void) { start(); }

#ifdef __cplusplus
}
#endif
"""


@needs_x86_linux
@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_program_without_a_c_library(tmp_path: Path, compiler: str, language: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    target = hl.Target("x86-64-noos-sse41-user_context")
    fixed = make_fixed()
    busy, arguments = make_busy()
    for name, func, given in (("fixed", fixed, None), ("busy", busy, arguments)):
        func.compile_to_c(str(tmp_path / f"{name}.c"), given, name, target)
        func.compile_to_header(str(tmp_path / f"{name}.h"), given, name, target)
    (tmp_path / "start.c").write_text(_START)
    flags = ["-O1", *FREESTANDING, f"-I{tmp_path}"]
    standard = ["-std=c11"] if language == "c" else ["-std=c++20", "-fno-exceptions", "-fno-rtti",
                                                      "-Wno-missing-field-initializers"]
    run([compiler, "-x", language, *standard, *flags, "-c", tmp_path / "start.c",
         "-o", tmp_path / "start.o"])  # fmt: skip
    program = tmp_path / "start"
    sources = [tmp_path / f"{name}.c" for name in ("fixed", "busy")]
    # The emitted files in the language of the program around them.
    run([compiler, "-x", language, *standard, *flags, "-static", "-nostartfiles", *sources,
         "-x", "none", tmp_path / "start.o", "-o", program])  # fmt: skip
    assert subprocess.run([program], timeout=60).returncode == 42
