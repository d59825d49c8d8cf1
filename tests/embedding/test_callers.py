"""C and C++ programs that call libraries built ahead of time."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import bayplan as hl
from tests.embedding.programs import build_and_run, make_blur, run

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")

_C_CALLER = """
#include "blur.h"
#include <stdio.h>

int main(void) {
    static uint16_t in[10 * 10], out[8 * 8];
    for (int i = 0; i < 100; i++) in[i] = (uint16_t)(i % 10 + 10 * (i / 10));
    bp_dim in_dim[2] = {{0, 10, 1, 0}, {0, 10, 10, 0}}, out_dim[2] = {{0, 8, 1, 0}, {0, 8, 8, 0}};
    bp_buffer a = {.host = (uint8_t *)in, .type = {BP_UINT, 16, 1}, .dimensions = 2, .dim = in_dim};
    bp_buffer b = {.host = (uint8_t *)out, .type = {BP_UINT, 16, 1}, .dimensions = 2,
                   .dim = out_dim};
    int32_t shift = 0;
    if (blur(&a, shift, &b) != 0) return 1;
    printf("%d %d\\n", out[0], out[63]);
    out[63] = 0;
    void *args[] = {&a, &shift, &b};
    if (blur_argv(args) != 0) return 2;
    printf("%d\\n", out[63]);
    /* A failing call says why, and the next one is right. */
    in_dim[0].extent = 9;
    int status = blur(&a, shift, &b);
    char text[300];
    bp_format_error(bp_default_context(), text, sizeof text);
    printf("%d %s\\n", status, text);
    in_dim[0].extent = 10;
    out[63] = 0;
    if (blur(&a, shift, &b) != 0 || bp_format_error(bp_default_context(), text, 300)) return 3;
    printf("%d\\n", out[63]);
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_c_program_with_own_buffers(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    blur, arguments = make_blur()
    blur.compile_to_static_library(str(tmp_path / "blur"), arguments, "blur")
    printed = build_and_run(tmp_path, _C_CALLER, [tmp_path / "blur.a"], compiler=compiler)
    lines = printed.splitlines()
    # Nine elements from (x, y): 9 (x + 10 y) + 9 + 90.
    assert lines[0] == "99 792"
    assert lines[1] == "792"
    assert lines[2].startswith("-1 Input buffer in is 1 too short in dimension 0")
    assert lines[3] == "792"


_HALIDE_CALLER = """
#include "HalideBuffer.h"
#include "HalideRuntime.h"
#include "blur.h"
#include <cstdio>

int main() {
    Halide::Runtime::Buffer<uint16_t> in(10, 10), out(8, 8);
    in.for_each_element([&](int x, int y) { in(x, y) = x + 10 * y; });
    if (blur(in, 0, out) != 0) return 1;
    std::printf("%d %d\\n", out(0, 0), out(7, 7));
    // A bounds query, as Halide's callers make one.
    Halide::Runtime::Buffer<uint16_t> query(nullptr, 0, 0);
    Halide::Runtime::Buffer<uint16_t> part = out.cropped(0, 2, 4);
    if (blur(query, 0, part) != 0) return 2;
    std::printf("%d %d %d %d\\n", query.dim(0).min(), query.dim(0).extent(), query.dim(1).min(),
                query.dim(1).extent());
    // Coordinates that do not begin at 0.
    in.translate({100, 200});
    Halide::Runtime::Buffer<uint16_t> moved(8, 8);
    moved.set_min(100, 200);
    if (blur(in, 0, moved) != 0) return 3;
    std::printf("%d\\n", moved(107, 207));
    halide_buffer_t *raw = moved;
    void *args[] = {in.raw_buffer(), nullptr, raw};
    int32_t shift = 1;
    args[1] = &shift;
    if (blur_argv(args) != 0) return 4;
    std::printf("%d\\n", moved(107, 207));
    // The wrong type is refused.
    Halide::Runtime::Buffer<uint8_t> bytes(10, 10);
    std::printf("%d\\n", blur(bytes, 0, moved));
    return 0;
}
"""


@needs_gxx
def test_cxx_program_written_for_halide(tmp_path: Path) -> None:
    halide = pytest.importorskip("halide")
    include = Path(halide.__file__).parent / "include"
    blur, arguments = make_blur()
    blur.compile_to_static_library(str(tmp_path / "blur"), arguments, "blur")
    # Halide's headers are not free of warnings of their own.
    printed = build_and_run(
        tmp_path,
        _HALIDE_CALLER,
        [tmp_path / "blur.a"],
        compiler="g++",
        flags=[f"-isystem{include}"],
    )
    assert printed.split() == ["99", "792", "2", "6", "0", "10", "792", "396", "-1"]


_OWN_CXX_CALLER = """
#include "blur.h"
#include <cstdio>

int main() {
    uint16_t in[100], out[64];
    for (int i = 0; i < 100; i++) in[i] = static_cast<uint16_t>(i);
    bp_dim in_dim[2] = {{0, 10, 1, 0}, {0, 10, 10, 0}}, out_dim[2] = {{0, 8, 1, 0}, {0, 8, 8, 0}};
    bp_buffer a = {}, b = {};
    a.host = reinterpret_cast<uint8_t *>(in);
    b.host = reinterpret_cast<uint8_t *>(out);
    a.type = b.type = {BP_UINT, 16, 1};
    a.dimensions = b.dimensions = 2;
    a.dim = in_dim;
    b.dim = out_dim;
    if (blur(&a, 0, &b) != 0) return 1;
    const int64_t bytes = blur_workspace_bytes(&a, 0, &b);
    alignas(blur_WORKSPACE_ALIGN) static unsigned char workspace[1000];
    if (bytes < 160 || bytes > 1000) return 2;
    if (blur_with_workspace(&a, 0, &b, workspace, sizeof workspace) != 0) return 3;
    std::printf("%d\\n", out[63]);
    return 0;
}
"""


@needs_gxx
def test_cxx_program_with_own_buffers(tmp_path: Path) -> None:
    blur, arguments = make_blur()
    blur.compile_to_static_library(str(tmp_path / "blur"), arguments, "blur")
    printed = build_and_run(tmp_path, _OWN_CXX_CALLER, [tmp_path / "blur.a"], compiler="g++")
    assert printed == "792\n"


_TWO = """
#include "one.h"
#include "two.h"
#include <stdio.h>
#include <string.h>

static int64_t allocations;
#ifdef OWN_ALLOCATOR
#include <stdlib.h>
void *bp_rt_alloc(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name) {
    (void)ctx, (void)alignment, (void)name;
    allocations++;
    return malloc(bytes);
}
void bp_rt_release(bp_context *ctx, void *block, const char *name) {
    (void)ctx, (void)name;
    free(block);
}
#endif

int main(void) {
    static uint16_t in[100], out[2][64];
    for (int i = 0; i < 100; i++) in[i] = (uint16_t)i;
    bp_dim in_dim[2] = {{0, 10, 1, 0}, {0, 10, 10, 0}}, out_dim[2] = {{0, 8, 1, 0}, {0, 8, 8, 0}};
    bp_buffer a = {.host = (uint8_t *)in, .type = {BP_UINT, 16, 1}, .dimensions = 2, .dim = in_dim};
    bp_buffer b = {.host = (uint8_t *)out[0], .type = {BP_UINT, 16, 1}, .dimensions = 2,
                   .dim = out_dim};
    bp_buffer c = b;
    c.host = (uint8_t *)out[1];
    if (one(&a, 0, &b) != 0 || two(&a, 1, &c) != 0) return 1;
    printf("%d %d %d\\n", out[0][63], out[1][63], allocations > 0);
    return 0;
}
"""


@pytest.mark.parametrize("whole", [False, True])
def test_two_libraries_in_one_program(tmp_path: Path, whole: bool) -> None:
    for name in ("one", "two"):
        blur, arguments = make_blur(name)
        blur.compile_to_static_library(str(tmp_path / name), arguments, name)
    flags = ["-Wl,--whole-archive"] if whole else []
    libraries = [*flags, tmp_path / "one.a", tmp_path / "two.a"]
    if whole:
        libraries.append("-Wl,--no-whole-archive")
    printed = build_and_run(tmp_path, _TWO, libraries)  # type: ignore[arg-type]
    assert printed == "792 396 0\n"


def test_functions_of_the_program_take_the_place_of_the_runtime(tmp_path: Path) -> None:
    for name in ("one", "two"):
        blur, arguments = make_blur(name)
        blur.compile_to_static_library(str(tmp_path / name), arguments, name)
    printed = build_and_run(
        tmp_path, _TWO, [tmp_path / "one.a", tmp_path / "two.a"], flags=["-DOWN_ALLOCATOR"]
    )
    assert printed == "792 396 1\n"


def test_every_symbol_of_the_runtime_is_weak(tmp_path: Path) -> None:
    blur, arguments = make_blur()
    blur.compile_to_static_library(str(tmp_path / "blur"), arguments, "blur")
    symbols = [line.split() for line in run(["nm", "-g", tmp_path / "blur.a"]).splitlines()]
    strong = {s[2] for s in symbols if len(s) == 3 and s[1] in "TDBRC"}
    forms = ("", "_workspace_bytes", "_with_workspace")
    wanted = {f"blur{form}{end}" for form in forms for end in ("", "_argv")}
    assert strong == {*wanted, "blur_metadata"}


_CONTEXT_CALLER = """
#include "blur.h"
#include <stdio.h>
#include <stdlib.h>

static int live;
static void *own_alloc(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name) {
    (void)alignment;
    printf("%s %d %s\\n", (const char *)ctx->user, (int)bytes, name);
    live++;
    return malloc(bytes);
}
static void own_release(bp_context *ctx, void *block, const char *name) {
    (void)ctx, (void)name;
    live--;
    free(block);
}

int main(void) {
    static uint16_t in[100], out[64];
    bp_dim in_dim[2] = {{0, 10, 1, 0}, {0, 10, 10, 0}}, out_dim[2] = {{0, 8, 1, 0}, {0, 8, 8, 0}};
    bp_buffer a = {.host = (uint8_t *)in, .type = {BP_UINT, 16, 1}, .dimensions = 2, .dim = in_dim};
    bp_buffer b = {.host = (uint8_t *)out, .type = {BP_UINT, 16, 1}, .dimensions = 2,
                   .dim = out_dim};
    bp_context ctx = {.alloc = own_alloc, .release = own_release, .user = (void *)"mine"};
    const int status = blur(&ctx, &a, 0, &b);
    printf("%d %d\\n", status, live);
    return 0;
}
"""


def test_user_context_and_no_runtime(tmp_path: Path) -> None:
    blur, arguments = make_blur()
    target = hl.Target("host-user_context-no_runtime")
    blur.compile_to_static_library(str(tmp_path / "blur"), arguments, "blur", target)
    printed = build_and_run(tmp_path, _CONTEXT_CALLER, [tmp_path / "blur.a"])
    # 10 rows of 8 uint16.
    assert re.fullmatch(r"mine 160 blur_rows\S*\n0 0\n", printed)


def test_threads_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blur, arguments = make_blur()
    blur.compile_to_static_library(str(tmp_path / "blur"), arguments, "blur")
    caller = """
#include "blur.h"
#include <stdio.h>
int main(void) {
    const int before = bp_default_context()->workers;
    bp_rt_set_num_threads(2);
    printf("%d %d\\n", before, bp_default_context()->workers);
    return 0;
}
"""
    for name, value in (("HL_NUM_THREADS", "5"), ("BAYPLAN_NUM_THREADS", "3")):
        monkeypatch.setenv(name, value)
        assert build_and_run(tmp_path, caller, [tmp_path / "blur.a"]) == f"{value} 2\n"


_METADATA = """
#include "HalideRuntime.h"
#include "shade.h"
#include <cstdio>

int main() {
    const halide_filter_metadata_t *m = shade_metadata();
    std::printf("%d %s %d %d\\n", (int)m->version, m->name, (int)m->num_arguments,
                m->target[0] != 0);
    for (int i = 0; i < m->num_arguments; i++) {
        const halide_filter_argument_t &a = m->arguments[i];
        std::printf("%s %d %d %d %d", a.name, (int)a.kind, (int)a.dimensions, (int)a.type.code,
                    (int)a.type.bits);
        if (a.scalar_def && a.type.code == halide_type_int)
            std::printf(" def %d", (int)a.scalar_def->u.i16);
        if (a.scalar_min) std::printf(" from %d to %d", a.scalar_min->u.i16, a.scalar_max->u.i16);
        if (a.scalar_estimate) std::printf(" usual %g", a.scalar_estimate->u.f64);
        if (a.buffer_estimates)
            for (int k = 0; k < 2 * a.dimensions; k++)
                std::printf(" %d", a.buffer_estimates[k] ? (int)*a.buffer_estimates[k] : -1);
        std::printf("\\n");
    }
    return 0;
}
"""


@needs_gxx
def test_metadata_as_halide_reads_it(tmp_path: Path) -> None:
    halide = pytest.importorskip("halide")
    include = Path(halide.__file__).parent / "include"
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(8), 2, "pixels")
    image.dim(0).set_estimate(0, 640)
    image.dim(1).set_estimate(0, 480)
    level = hl.Param(hl.Int(16), "level", -5)
    level.set_range(-9, 9)
    gain, flag = hl.Param(hl.Float(64), "gain"), hl.Param(hl.Bool(), "flag")
    gain.set_estimate(2.5)
    shade = hl.Func("shade")
    value = hl.cast(hl.Float(64), image[x, y] + level) * gain
    shade[x, y] = hl.cast(hl.Float(32), hl.select(flag, value, -value))
    shade.compile_to_static_library(
        str(tmp_path / "shade"), [image, level, gain, flag], "shade"
    )
    printed = build_and_run(
        tmp_path, _METADATA, [tmp_path / "shade.a"], compiler="g++", flags=[f"-isystem{include}"]
    )
    assert printed.splitlines() == [
        "1 shade 5 1",
        "pixels 1 2 1 8 0 640 0 480",
        "level 0 0 0 16 def -5 from -9 to 9",
        "gain 0 0 2 64 usual 2.5",
        "flag 0 0 1 1",
        "shade 2 2 2 32",
    ]
