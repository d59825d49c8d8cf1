"""Programs with kernels built ahead of time: callers in C, and compilers of C and of C++."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import bayplan as hl
from bayplan.build.compilers import find_compiler
from bayplan.runtime.devices import find_opencl_loaders
from tests.devices.programs import EMULATED, OPENCL, Blur

FOLDER = Path(__file__).parent


def _build(target: hl.Target, folder: Path) -> Path:
    """The program that calls the blur, linked with its library alone."""
    blur = Blur()
    blur.blur_y.compile_to_static_library(str(folder / "blur"), [blur.input], "blur", target)
    program = folder / "main"
    command = [*find_compiler().command, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    # Emulated kernels are C++.
    libraries = ["-lm", "-lpthread", "-ldl", *(["-lstdc++"] if target.is_emulated else [])]
    done = subprocess.run(
        [*command, str(FOLDER / "main.c"), str(folder / "blur.a"), *libraries, "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


def _run(program: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_emulated_kernels(tmp_path: Path) -> None:
    done = _run(_build(EMULATED, tmp_path))
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr


@pytest.mark.skipif(not hl.host_supports_target_device(OPENCL), reason="no OpenCL device")
def test_opencl_kernels(tmp_path: Path) -> None:
    program = _build(OPENCL, tmp_path)
    loaders = find_opencl_loaders()
    variables = {"BAYPLAN_OPENCL_LIBRARY": str(loaders[0])} if loaders else {}
    done = _run(program, **variables)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stdout + done.stderr
    # One build runs where there is no device: with an error that says what was looked for.
    nowhere = str(tmp_path / "nowhere.so")
    done = _run(program, BAYPLAN_OPENCL_LIBRARY=nowhere)
    assert done.returncode == 2 and nowhere in done.stdout and "hint:" in done.stdout


@pytest.mark.parametrize("target", ["host-opencl", "host-cuda", "host-cuda-emulated"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
def test_emitted_text_compiles_without_warnings(
    target: str, compiler: str, tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    x, xi = hl.Var("x"), hl.Var("xi")
    a, b, c, d = [hl.Func(n) for n in "abcd"]
    source = hl.ImageParam(hl.UInt(8), 1, "source")
    n = hl.Param(hl.Int(32), "n", 3)
    a[x] = hl.i32(source[x]) * n
    b[x] = a[x] + a[x + n]
    c[x] = b[x] - a[x]
    d[x] = c[x] + b[x + 1] + a[x]
    a.compute_root()
    b.compute_root().gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    c.compute_root()
    d.gpu_tile(x, xi, 8, hl.TailStrategy.GuardWithIf)
    path = tmp_path / "d.c"
    d.compile_to_c(str(path), [source, n], "d", hl.Target(target))
    standard = ["-x", "c++", "-std=c++11"] if compiler.endswith("++") else ["-std=c11"]
    done = subprocess.run(
        [compiler, *standard, "-O1", "-Wall", "-Wextra", "-Werror", "-c", str(path), "-o",
         str(tmp_path / "d.o")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]


def test_the_text_of_kernels() -> None:
    blur = Blur()
    for target, word in ((OPENCL, "__kernel"), (EMULATED, "__global__")):
        text = hl.Pipeline(blur.blur_y).device_source(target)
        assert text == blur.blur_y.device_source(target)
        assert text.count(word) >= 2 and "blur_x" in text and "blur_y" in text
    f, x = hl.Func("f"), hl.Var("x")
    f[x] = x
    assert f.device_source(OPENCL) == ""
