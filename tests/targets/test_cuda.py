"""CUDA C++: the text compiles without warnings; what it does is tested by the emulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.ir.node import compilation
from tests.targets.cuda_compilers import ARCHITECTURES, NVCC, compile_by_nvcc
from tests.targets.device_checks import GROUPS, gather
from tests.targets.kernel_cases import CASES, Case, counted, shared_of_launch, stencil
from tests.targets.kernels import CUDA, Program
from tests.targets.test_opencl import maths_case

needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc")


@needs_nvcc
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_structure(make: Callable[[], Case], tmp_path: Path) -> None:
    with compilation():
        text = make().program(CUDA).text
    newest = make.__name__ in ("updates_of_all_types", "stencil")
    for architecture in ARCHITECTURES if newest else ARCHITECTURES[:1]:
        assert compile_by_nvcc(text, tmp_path, architecture) == ""


@needs_nvcc
@pytest.mark.parametrize("group", GROUPS)
def test_expressions(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with compilation():
        text = gather(group, monkeypatch).program(CUDA).text
    assert compile_by_nvcc(text, tmp_path, "sm_75") == ""


@needs_nvcc
def test_maths(tmp_path: Path) -> None:
    with compilation():
        text = Program(maths_case()[0], CUDA).text
    assert compile_by_nvcc(text, tmp_path, "sm_75") == ""


def test_text() -> None:
    """What a reader looks for: names, memory of the block, barriers, one function."""
    with compilation():
        text = stencil().program(CUDA).text
        for part in (
            'extern "C" __global__ void __launch_bounds__(18) f_s0_kernel(',
            "BP_SHARED(uint8_t, shared_alloc, 512, 64);",
            "float *const blur_x = (float *)(shared_alloc + 128);",
            "blur_x[thread_id_x] = ",
            "__syncthreads();",
            "const uint8_t *__restrict__ in_memory, const int64_t in_offset",
        ):
            assert part in text.replace("\n    ", " ").replace("(\n", "("), text
        assert text.count("__syncthreads") == 1
        dynamic = shared_of_launch().program(CUDA)
        assert dynamic.kernel.dynamic and "BP_SHARED_OF_LAUNCH(float, tile);" in dynamic.text
        assert "atomicAdd(&local[" in counted().program(CUDA).text
