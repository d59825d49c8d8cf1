"""The stack that a call takes is bounded, and stated as it is."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

import bayplan as hl
from bayplan.build.stack_use import StackUse, find_mentions, measure_stack, read_stack_use
from bayplan.driver.ahead import compile_ahead
from tests.embedding.programs import build_and_run, make_blur, run
from tests.embedding.test_freestanding import make_busy

# What a frame has beside its arrays: spilled values, vectors among them, and alignment.
OVERHEAD = 4096


def make_stacked(elements: int) -> tuple[hl.Func, list[Any]]:
    """A row of `elements` float32 on the stack for each row of the output."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Float(32), 2, "in")
    row, out = hl.Func("row"), hl.Func("out")
    row[x, y] = image[x, y] * 2.0
    out[x, y] = row[x, y] + row[elements - 1 - x, y]
    out.output_buffer().dim(0).set_bounds(0, elements)
    row.compute_at(out, y).store_in(hl.MemoryType.Stack).vectorize(x, 8)
    return out, [image]


def build(folder: Path, func: hl.Func, arguments: Any, name: str) -> int:
    outputs = {
        hl.OutputFileType.static_library: folder / f"{name}.a",
        hl.OutputFileType.c_header: folder / f"{name}.h",
        hl.OutputFileType.c_source: folder / f"{name}.c",
    }
    ahead = compile_ahead(func._functions(), outputs, arguments, name)
    stated = ahead.stack_bytes()
    if stated is None:
        pytest.skip("the compiler does not say what a function takes of the stack")
    assert f"#define {name}_STACK_BYTES {stated}\n" in (folder / f"{name}.h").read_text()
    return stated


def test_arrays_and_what_goes_with_them(tmp_path: Path) -> None:
    for elements in (64, 4096):
        func, arguments = make_stacked(elements)
        stated = build(tmp_path, func, arguments, f"rows{elements}")
        assert 4 * elements <= stated <= 4 * elements + OVERHEAD


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_gcc_finds_no_frame_of_unknown_size(tmp_path: Path, level: str) -> None:
    programs = {"blur": make_blur(), "busy": make_busy(), "rows": make_stacked(1024)}
    for name, (func, arguments) in programs.items():
        func.compile_to_c(str(tmp_path / f"{name}.c"), arguments, name)
        flags = ["-std=c11", level, "-fno-stack-protector", "-fstack-usage"]
        run(["gcc", *flags, "-c", f"{name}.c", "-o", f"{name}.o"], cwd=tmp_path)
        uses = read_stack_use((tmp_path / f"{name}.su").read_text())
        assert {use.function for use in uses} >= {name, f"{name}_with_workspace"}
        assert all(use.is_bounded for use in uses)
        arrays = 4096 if name == "rows" else 0
        assert sum(use.size_bytes for use in uses) <= arrays + OVERHEAD


_PAINTED = """
#define _GNU_SOURCE
#include "rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { BYTES = 1 << 17 };
static unsigned char stack[BYTES] __attribute__((aligned(64)));
static float in[4][2048], out[4][2048];
static bp_dim dim[2] = {{0, 2048, 1, 0}, {0, 4, 2048, 0}};
static bp_buffer a = {.host = (uint8_t *)in, .type = {BP_FLOAT, 32, 1}, .dimensions = 2,
                      .dim = dim};
static bp_buffer b = {.host = (uint8_t *)out, .type = {BP_FLOAT, 32, 1}, .dimensions = 2,
                      .dim = dim};
static bp_context ctx;
static int status;
static ucontext_t here, there;
static uintptr_t top;

static void call(void) {
    unsigned char mark;
    top = (uintptr_t)&mark;
    void *args[] = {&a, &b};
    status = rows_argv(&ctx, args);
}

int main(void) {
    in[3][5] = 3.0f;
    memset(stack, 0xA5, sizeof stack);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = sizeof stack;
    there.uc_link = &here;
    makecontext(&there, call, 0);
    swapcontext(&here, &there);
    size_t untouched = 0;
    while (stack[untouched] == 0xA5) untouched++;
    const long used = (long)(top - (uintptr_t)stack) - (long)untouched;
    printf("%d %ld %d %d\\n", status, used, rows_STACK_BYTES, (int)out[3][5]);
    return 0;
}
"""


@pytest.mark.skipif(platform.system() != "Linux", reason="swapcontext of Linux")
def test_a_call_takes_no_more_than_is_stated(tmp_path: Path) -> None:
    func, arguments = make_stacked(2048)
    outputs = {
        hl.OutputFileType.static_library: tmp_path / "rows.a",
        hl.OutputFileType.c_header: tmp_path / "rows.h",
    }
    target = hl.Target("host-user_context-no_runtime")
    compile_ahead(func._functions(), outputs, arguments, "rows", target)
    flags = ["-std=gnu11", "-O1", "-fno-stack-protector"]
    printed = build_and_run(tmp_path, _PAINTED, [tmp_path / "rows.a"], flags=flags)
    status, used, stated, value = [int(word) for word in printed.split()]
    assert (status, value) == (0, 6)
    # Without the frame of the caller, whose part below `mark` counts as used.
    assert 8192 <= used <= stated + 128
    assert stated <= 8192 + OVERHEAD


def test_tasks_one_after_another_count_once(tmp_path: Path) -> None:
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Float(32), 2, "in")
    previous: Any = image
    func = hl.Func()
    for i in range(3):
        row, func = hl.Func(f"row{i}"), hl.Func(f"out{i}")
        row[x, y] = previous[x, y] * 2.0
        func[x, y] = row[x, y] + row[1023 - x, y]
        func.bound(x, 0, 1024).compute_root().parallel(y)
        row.compute_at(func, y).store_in(hl.MemoryType.Stack)
        previous = func
    func.output_buffer().dim(0).set_bounds(0, 1024)
    stated = build(tmp_path, func, [image], "threefold")
    assert 4096 <= stated <= 4096 + OVERHEAD


def test_frames_along_calls() -> None:
    source = """
static int32_t inner(bp_context *ctx) {
    return 0;
}

static inline __attribute__((always_inline)) int32_t gone(bp_context *ctx) {
    return inner(ctx);
}

static int32_t entry_y_task(bp_context *ctx, int32_t begin) {
    /* entry(ctx) is what calls it. */
    ctx->print(ctx, "entry(", 1);
    return gone(ctx);
}

BP_EXPORT int32_t entry(bp_context *ctx) {
    return ctx->parallel_for(ctx, entry_y_task, 0, 9, 2, NULL) + inner(ctx);
}
"""
    mentions = find_mentions(source)
    assert mentions == {"inner": [], "gone": ["inner"], "entry_y_task": ["gone"],
                        "entry": ["entry_y_task", "inner"]}  # fmt: skip
    uses = [StackUse("inner", 100, True), StackUse("entry_y_task.constprop.0", 30, True),
            StackUse("entry_y_task", 20, True), StackUse("entry", 8, True)]  # fmt: skip
    assert measure_stack(source, ["entry"], uses) == 100 + 30 + 20 + 8 + 4 * 16
    uses.append(StackUse("inner", 1, False))
    assert measure_stack(source, ["entry"], uses) is None
    assert measure_stack(source, ["entry"], []) is None
