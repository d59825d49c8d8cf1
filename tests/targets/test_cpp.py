"""The emitted C is C++ too: it compiles without warnings, and computes the same values."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apps
import bayplan as hl
from apps import fem, harness
from tests.apps.formulas import blur as blur_formula
from tests.embedding.programs import run
from tests.embedding.test_freestanding import FREESTANDING, FROM_COMPILERS, make_busy
from tests.targets.cpp import COMPILERS, STRICT, load_as_cpp, need

QUICK = ("blur", "element_mass")
TARGETS = ("-msse4.1", "-mavx2", "-march=skylake-avx512")
every_compiler = pytest.mark.parametrize("compiler", COMPILERS)


def application(name: str) -> Any:
    """The output of an application, of images or of finite elements."""
    if name in fem.NAMES:
        return importlib.import_module(f"apps.fem.{name}").build(hl).output
    return harness.load(name, hl).output


def compile_text(compiler: str, text: Path, *flags: str) -> None:
    run([need(compiler), *STRICT, "-O1", *flags, "-x", "c++", "-c", text, "-o", f"{text}.o"])


@every_compiler
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
    for name in (*apps.NAMES, *fem.NAMES)
])  # fmt: skip
def test_applications_compile(name: str, compiler: str, tmp_path: Path) -> None:
    output = application(name)
    output.compile_to_c(str(tmp_path / "app.c"), output.infer_arguments(), name)
    for flags in ([], ["-march=native"]):
        compile_text(compiler, tmp_path / "app.c", *flags)


@every_compiler
@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20"])
def test_accesses_under_a_mask_for_several_machines(
    standard: str, compiler: str, tmp_path: Path
) -> None:
    busy, arguments = make_busy()
    busy.compile_to_c(str(tmp_path / "busy.c"), arguments, "busy")
    for flag in TARGETS:
        compile_text(compiler, tmp_path / "busy.c", f"-std={standard}", flag)


@every_compiler
def test_an_application_runs(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = load_as_cpp(monkeypatch, compiler)
    app = harness.load("blur", hl)
    mins, extents = app.boxes()[-1]
    arrays = harness.make_inputs(app, mins, extents)
    got = harness.run(hl, app, arrays, mins, extents)
    assert harness.check_close(app, got, blur_formula(arrays, mins, extents)) is None
    assert len(seen) == 1


KINDS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"]


def of_type(kind: str, parallel: bool) -> tuple[Any, np.ndarray]:
    """A program of vectors of a type, and what it gives: stages on the heap, masks, a table."""
    t = {"i": hl.Int, "u": hl.UInt, "f": hl.Float}[kind[0]](int(kind[1:]))
    dtype = np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
    x, y = hl.vars("x y")
    a, b, out = hl.Func("a"), hl.Func("b"), hl.Func("out")
    a[x, y] = hl.cast(t, (x * 3 + y * 5) % 50)
    b[x, y] = hl.select(a[x, y] > hl.cast(t, 20), a[x, y] + a[x + 1, y], a[x, y + 1])
    out[x, y] = hl.max(b[x, y], hl.cast(t, 7)) + hl.cast(t, x % 3)
    a.compute_root().vectorize(x, 8, hl.TailStrategy.GuardWithIf)
    b.compute_at(out, y).vectorize(x, 4)
    out.vectorize(x, 16, hl.TailStrategy.GuardWithIf)
    if parallel:
        out.parallel(y)
    gx, gy = np.meshgrid(np.arange(38), np.arange(10))
    pa = ((gx * 3 + gy * 5) % 50).astype(dtype)
    pb = np.where(pa[:9, :37] > 20, pa[:9, :37] + pa[:9, 1:], pa[1:, :37])
    want = np.maximum(pb, 7) + (gx[:9, :37] % 3).astype(dtype)
    return out, want.astype(dtype)


@every_compiler
@pytest.mark.parametrize("kind", [
    pytest.param(k, marks=[] if k in ("u8", "f32") else [pytest.mark.slow]) for k in KINDS
])  # fmt: skip
def test_types_run(kind: str, compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = load_as_cpp(monkeypatch, compiler)
    for parallel in (False, True):
        out, want = of_type(kind, parallel)
        np.testing.assert_array_equal(np.array(out.realize([37, 9])), want)
    assert len(seen) == 2


@every_compiler
def test_a_temporary_in_the_output_runs(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = load_as_cpp(monkeypatch, compiler)
    x = hl.Var("x")
    a, out = hl.Func("a"), hl.Func("out")
    a[x] = x * 3
    out[x] = a[x] + 1
    a.compute_root()
    np.testing.assert_array_equal(np.array(out.realize([100])), np.arange(100) * 3 + 1)
    assert out.storage([100])["a"].arena == out.name() and len(seen) == 1


@every_compiler
@pytest.mark.parametrize("feature", ["asan", "profile"])
def test_builds_that_watch_lives_compile(feature: str, compiler: str, tmp_path: Path) -> None:
    out, _ = of_type("i32", True)
    target = hl.Target(f"host-user_context-{feature}")
    out.compile_to_c(str(tmp_path / "out.c"), [], "out", target)
    text = (tmp_path / "out.c").read_text()
    assert "bp_life " in text if feature == "asan" else "bp_mark(ctx, 1" in text
    compile_text(compiler, tmp_path / "out.c")


@every_compiler
def test_an_object_wants_what_it_wants_in_c(compiler: str, tmp_path: Path) -> None:
    busy, arguments = make_busy()
    target = hl.Target("x86-64-noos-user_context")
    busy.compile_to_c(str(tmp_path / "busy.c"), arguments, "busy", target)
    compile_text(compiler, tmp_path / "busy.c", *FREESTANDING)
    lines = run(["nm", "-u", tmp_path / "busy.c.o"]).splitlines()
    assert {line.split()[-1] for line in lines} <= FROM_COMPILERS
    names = subprocess.run(
        ["nm", "--defined-only", str(tmp_path / "busy.c.o")],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    # C linkage: a caller in C finds them.
    assert {"busy", "busy_workspace_bytes", "busy_with_workspace"} <= set(names)
