"""The C text of programs that call others: no warning, nothing undeclared, nothing undefined."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import bayplan as hl
from tests.callees.conftest import SOURCE

COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,--no-undefined"]


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
    subprocess.run([compiler, "-fPIC", "-c", str(SOURCE), "-o", str(functions)], check=True)
    command = [compiler, "-O1", *FLAGS, str(path), str(functions), "-lm", "-lpthread", "-lc"]
    done = subprocess.run([*command, "-o", str(tmp_path / "h.so")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
