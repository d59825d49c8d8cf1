"""CUDA text of whole programs compiles for old and new GPUs, with no warning."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import bayplan as hl
from apps import blur
from apps.kernels import NAMES as KERNELS
from bench import gpu_programs
from tests.lower.kernel_programs import PROGRAMS as FORMS
from tests.targets.cuda_compilers import (
    ARCHITECTURES,
    NVCC,
    compile_by_nvcc,
    compile_by_nvrtc,
    load_nvrtc,
)

needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc")
needs_nvrtc = pytest.mark.skipif(load_nvrtc() is None, reason="no wheel of NVRTC")

APPS: list[tuple[str, dict[str, Any]]] = [
    *[("blur", {"gpu": which}) for which in blur.GPU_SCHEDULES],
    *[(name, {"gpu": True}) for name in ("unsharp", "harris", "camera_pipe", "iir_blur")],
    *[(f"kernels.{name}", {}) for name in KERNELS],
    ("kernels.matrix_product", {"dtype": "int32"}),
    ("kernels.cell_mass", {"degree": 5}),
]


def _build_app(name: str, arguments: dict[str, Any]) -> hl.Func:
    func: hl.Func = importlib.import_module(f"apps.{name}").build(hl, **arguments).output
    return func


def _list_programs() -> dict[str, Callable[[], hl.Func]]:
    found: dict[str, Callable[[], hl.Func]] = {}
    for name, arguments in APPS:
        title = "_".join([name, *[str(v) for v in arguments.values() if v is not True]])
        found[title] = partial(_build_app, name, arguments)
    for shape, _ in gpu_programs.SHAPES:
        found[shape.__name__] = lambda shape=shape: shape()[0]  # type: ignore[misc]
    return found | {f"form_{name}": build for name, (build, _) in FORMS.items()}


PROGRAMS = _list_programs()
# nvcc takes a second each time.
QUICK = ("camera_pipe", "kernels.histogram", "iir_blur")


@cache
def text_of(name: str) -> str:
    """The CUDA text of a program."""
    return str(hl.Pipeline(PROGRAMS[name]()).device_source(hl.Target("host-cuda")))


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n.startswith("form") else n for n in PROGRAMS],
)
def test_nvrtc(name: str, architecture: str) -> None:
    assert compile_by_nvrtc(text_of(name), architecture) == ""


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS]
)
def test_nvcc(name: str, architecture: str, tmp_path: Path) -> None:
    assert compile_by_nvcc(text_of(name), tmp_path, architecture) == ""


@pytest.mark.parametrize("compiler", ["nvcc", "nvrtc"])
def test_a_warning_is_an_error(compiler: str, tmp_path: Path) -> None:
    """The test of the test: a value that is set and never used."""
    text = text_of("kernels.histogram") + "\n__device__ void idle() { int never_used = 3; }\n"
    if compiler == "nvcc":
        if NVCC is None:
            pytest.skip("no nvcc")
        said = compile_by_nvcc(text, tmp_path, "sm_90")
    else:
        if load_nvrtc() is None:
            pytest.skip("no wheel of NVRTC")
        said = compile_by_nvrtc(text, "sm_90")
    assert "never_used" in said
