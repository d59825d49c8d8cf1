"""Workspaces of C callers: any address, any size, nothing outside is touched."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import bayplan as hl
from tests.embedding.programs import build_and_run, make_blur, make_fixed, run

_OFFSETS = """
#include "fixed.h"
#include <stdio.h>
#include <string.h>

enum { GIVEN_MOST = fixed_WORKSPACE_BYTES + fixed_WORKSPACE_ALIGN, MARGIN = 128 };
static unsigned char memory[GIVEN_MOST + 2 * MARGIN + fixed_WORKSPACE_ALIGN]
    __attribute__((aligned(fixed_WORKSPACE_ALIGN)));
static float row[WIDTH];

static int call(bp_buffer *out, size_t begin, size_t given) {
    memset(memory, 0xA5, sizeof memory);
    row[WIDTH - 1] = 0;
    const int status = fixed_with_workspace(out, memory + begin, given);
    for (size_t i = 0; i < sizeof memory; i++)
        if ((i < begin || i >= begin + given) && memory[i] != 0xA5) return 100;
    return status ? status : row[WIDTH - 1] != LAST;
}

int main(void) {
    bp_dim dim = {0, WIDTH, 1, 0};
    bp_buffer out = {.host = (uint8_t *)row, .type = {BP_FLOAT, 32, 1}, .dimensions = 1,
                     .dim = &dim};
    const int align = fixed_WORKSPACE_ALIGN, bytes = fixed_WORKSPACE_BYTES;
    if (fixed_workspace_bytes(&out) != bytes) return 1;
    for (int offset = 0; offset < align; offset++) {
        const int more = (align - offset) % align;
        const int exact = call(&out, MARGIN + offset, bytes);
        if (exact != (more ? BP_WORKSPACE_TOO_SMALL : 0)) return 2;
        if (more) {
            const bp_error *e = &bp_default_context()->error;
            if (strcmp(e->site->code, "BP-M004") || e->args[0].as.u != (uint64_t)(bytes + more))
                return 3;
        }
        if (call(&out, MARGIN + offset, bytes + more) != 0) return 4;
        if (call(&out, MARGIN + offset, bytes + more - 1) != BP_WORKSPACE_TOO_SMALL) return 5;
        if (call(&out, MARGIN + offset, bytes + align - 1) != 0) return 6;
    }
    if (fixed_with_workspace(&out, NULL, 0) != BP_WORKSPACE_TOO_SMALL) return 7;
    printf("%d %d\\n", bytes, align);
    return 0;
}
"""


@pytest.mark.parametrize(
    ("stages", "width", "target", "says"),
    [
        # One temporary of 64 bytes, vectors of 16.
        (2, 16, "x86-64-linux", "64 16"),
        (3, 64, "x86-64-linux", "512 16"),
        (3, 64, "host", None),
    ],
)
def test_every_offset_of_the_base(
    tmp_path: Path, stages: int, width: int, target: str, says: str | None
) -> None:
    chosen = hl.Target(target)
    host = hl.get_host_target()
    if (chosen.arch, chosen.os) != (host.arch, host.os):
        pytest.skip(f"this is no {target}")
    fixed = make_fixed(stages, width)
    fixed.compile_to_static_library(str(tmp_path / "fixed"), None, "fixed", chosen)
    # Each stage reads the one before reversed.
    last = stages - 1 + (width - 1 if stages % 2 else 0)
    flags = ["-std=gnu11", f"-DWIDTH={width}", f"-DLAST={last}.0f"]
    printed = build_and_run(tmp_path, _OFFSETS, [tmp_path / "fixed.a"], flags=flags)
    assert says is None or printed == f"{says}\n"


def test_an_array_that_is_too_small_stops_the_compiler(tmp_path: Path) -> None:
    import subprocess

    make_fixed().compile_to_header(str(tmp_path / "fixed.h"), None, "fixed")
    for cxx, size in ((False, 512), (False, 511), (True, 512), (True, 511)):
        source = tmp_path / ("small.cpp" if cxx else "small.c")
        text = f'#include "fixed.h"\nunsigned char w[{size}];\nfixed_WORKSPACE_FITS(w);\n'
        source.write_text(text)
        command = ["g++", "-std=c++17"] if cxx else ["gcc", "-std=c11"]
        done = subprocess.run(
            [*command, "-Wall", "-Wextra", "-Werror", "-c", source, "-o", tmp_path / "small.o"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode == 0) == (size == 512), done.stderr
        if size == 511:
            assert "fixed needs 512 bytes" in done.stderr


def test_bytes_that_depend_on_the_call_are_no_constant(tmp_path: Path) -> None:
    blur, arguments = make_blur()
    blur.compile_to_header(str(tmp_path / "blur.h"), arguments, "blur")
    header = (tmp_path / "blur.h").read_text()
    assert re.search(r"#define blur_WORKSPACE_ALIGN (16|32|64)\n", header)
    assert "#define blur_WORKSPACE_ALIGNED(w) " in header
    assert "WORKSPACE_BYTES" not in header
    assert "int64_t blur_workspace_bytes(bp_buffer_argument in_buffer" in header


def test_no_temporaries_no_bytes(tmp_path: Path) -> None:
    make_fixed(1).compile_to_header(str(tmp_path / "fixed.h"), None, "fixed")
    assert "#define fixed_WORKSPACE_BYTES 0\n" in (tmp_path / "fixed.h").read_text()


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang", "clang++"])
def test_headers_are_c_and_cxx_of_many_standards(tmp_path: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    blur, arguments = make_blur()
    blur.compile_to_header(str(tmp_path / "blur.h"), arguments, "blur")
    make_fixed().compile_to_header(str(tmp_path / "fixed.h"), None, "fixed")
    target = hl.Target("host-user_context")
    blur.compile_to_header(str(tmp_path / "given.h"), arguments, "given", target)
    text = "".join([f'#include "{name}.h"\n' for name in ("blur", "fixed", "given", "blur")])
    cxx = compiler.endswith("++")
    source = tmp_path / ("all.cpp" if cxx else "all.c")
    source.write_text(f"{text}void *both[] = {{(void *)blur_argv, (void *)given_argv}};\n")
    for standard in ("c++11", "c++14", "c++20") if cxx else ("c99", "c11", "gnu17"):
        strict = ["-Wall", "-Wextra", "-Werror"]
        run([compiler, f"-std={standard}", *strict, "-c", source, "-o", tmp_path / "all.o"])
