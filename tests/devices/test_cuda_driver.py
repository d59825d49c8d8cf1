"""What the CUDA driver and NVRTC are asked, by stand-ins that note it; no GPU is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bayplan.build.compile_kernels import find_nvcc
from bayplan.build.compilers import find_compiler

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent

PROGRAM = """
import sys
import bayplan as hl
from bayplan.runtime import devices
# No NVRTC but the stand-in: not that of a wheel.
devices.find_nvrtc = list
from tests.devices.programs import Blur, tile
target = hl.Target("host-cuda")
try:
    if sys.argv[1] == "blur":
        blur = Blur()
        for _ in range(2):
            blur.blur_y.realize(blur.sizes, target)
    elif sys.argv[1] == "parts":
        import numpy as np
        array = np.arange(3000, dtype=np.int16).reshape(3, 20, 50)
        whole = array.copy()
        part = hl.Buffer(whole[:, 4:15, 7:29])
        part.copy_to_device(target)
        whole[:, 4:15, 7:29] = -1
        part.set_device_dirty()
        part.copy_to_host()
        assert (whole == array).all()
    else:
        for _ in range(2):
            tile(int(sys.argv[1])).realize([256, 256], target)
    print("ran")
except hl.BayplanError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda")
    path = folder / "libnvrtc.so"
    command = [*find_compiler().command, "-std=gnu11", "-shared", "-fPIC", "-Wall", "-Werror"]
    subprocess.run([*command, str(FOLDER / "fake_cuda.c"), "-o", str(path)], check=True)
    return path


def _run(library: Path, folder: Path, what: str, fault: str = "") -> tuple[str, list[str]]:
    """What a process prints, and what the driver noted."""
    log = folder / "log"
    log.write_text("")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "BAYPLAN_CUDA_LIBRARY": str(library),
            "LD_LIBRARY_PATH": str(library.parent) if library.name == "libnvrtc.so" else "",
            "FAKE_CUDA_LOG": str(log),
            "FAKE_CUDA": fault,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, log.read_text().splitlines()


def test_two_kernels(library: Path, tmp_path: Path) -> None:
    said, log = _run(library, tmp_path, "blur")
    assert said == "ran\n"
    assert log == [
        "compile --gpu-architecture=compute_90 --std=c++17",
        "load nvrtc",
        *["launch blur_x_s0_kernel 5x7x1 8x4x1 shared 0",
          "launch blur_y_s0_kernel 5x6x1 8x4x1 shared 0"] * 2,
    ]  # fmt: skip


def test_parts_of_arrays_are_copied_by_rows(library: Path, tmp_path: Path) -> None:
    said, log = _run(library, tmp_path, "parts")
    assert said == "ran\n" and log == ["copy of rows"] * 6


def test_memory_that_a_kernel_declares_is_not_given_again(library: Path, tmp_path: Path) -> None:
    said, log = _run(library, tmp_path, "64")
    assert said == "ran\n"
    assert [line for line in log if "shared" in line and "shared 0" not in line] == []
    assert not any(line.startswith("attribute") for line in log)


def test_more_shared_memory_is_asked_for_before_the_launch(library: Path, tmp_path: Path) -> None:
    said, log = _run(library, tmp_path, "128")
    assert said == "ran\n"
    starts = [line for line in log if line.startswith(("attribute", "launch"))]
    assert starts[0] == "attribute 8=65536" and starts[1].endswith("shared 65536")


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("init", "NoDevice", ["CUDA_ERROR_FAKE", "cuInit"]),
        ("compile", "DeviceError", ["NVRTC", "compute_90", "kernels(7): error: no such thing"]),
        ("load", "DeviceError", ["ptxas says no", "cuModuleLoadDataEx"]),
        ("launch", "DeviceError", ["CUDA_ERROR_ILLEGAL_ADDRESS", "blur_x", "illegal memory"]),
        ("alloc", "OutOfDeviceMemory", ["blur_x", "Fake GPU", "bytes"]),
    ],
)
def test_faults(
    fault: str, kind: str, words: list[str], library: Path, tmp_path: Path
) -> None:
    said, _ = _run(library, tmp_path, "blur", fault)
    assert said.startswith(f"{kind} ")
    for word in words:
        assert word in said


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_nvcc_makes_what_nvrtc_would(library: Path, tmp_path: Path) -> None:
    alone = tmp_path / "libalone.so"
    shutil.copyfile(library, alone)
    said, log = _run(alone, tmp_path, "blur")
    if "load nvrtc" in log:
        pytest.skip("the system has an NVRTC of its own")
    assert said == "ran\n"
    assert log[0] == "load other" and len(log) == 5
