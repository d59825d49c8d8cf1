"""B53: without a device all else works, and what is missing is told with all that was looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import bayplan as hl
x = hl.Var("x")
f = hl.Func("f")
f[x] = x + 1
assert f.realize([4])[3] == 4
print("cpu works")
g = hl.Func("g")
g[x] = x + 1
target = hl.get_host_target().with_feature(hl.TargetFeature.OpenCL)
try:
    xi = hl.Var("xi")
    g.gpu_tile(x, xi, 4)
    g.realize([4], target)
except hl.BayplanError as error:
    print("refused:", type(error).__name__, error)
    cause = error.__cause__
    assert cause is None or cause.__cause__ is None
"""


def _run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _check_message(text: str, folder: Path) -> None:
    """Loader and version, folders, variables with their values, what was found, two hints."""
    assert "loader" in text and "libOpenCL" in text
    assert f"folder {folder} (OCL_ICD_VENDORS)" in text
    assert f"OCL_ICD_VENDORS={folder}" in text and "BAYPLAN_OPENCL_LIBRARY is not set" in text
    assert "pip install 'bayplan[opencl]'" in text and "vendor's OpenCL driver" in text
    if "(OpenCL ICD Loader" in text:
        assert "found: 0 platforms, 0 devices" in text
        assert "OpenCL ICD Loader 2." in text


def test_b53_an_empty_folder_of_drivers(tmp_path: Path) -> None:
    done = _run(tmp_path, "-c", PROGRAM, OCL_ICD_VENDORS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "cpu works" in done.stdout
    assert "refused: NoDevice BP-D001" in done.stdout
    assert "Traceback" not in done.stderr
    assert "there is no file *.icd" in done.stdout
    _check_message(done.stdout, tmp_path)


def test_b53_a_broken_driver_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "libbroken.so"
    broken.write_text("this is no library")
    (tmp_path / "broken.icd").write_text(f"{broken}\n")
    (tmp_path / "gone.icd").write_text("libgone-driver.so\n")
    (tmp_path / "empty.icd").write_text("")
    done = _run(tmp_path, "-c", PROGRAM, OCL_ICD_VENDORS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    _check_message(done.stdout, tmp_path)
    lines = done.stdout.splitlines()
    (line,) = [one for one in lines if "broken.icd" in one]
    # The words of the loader of libraries.
    assert str(broken) in line and ("invalid ELF header" in line or "too short" in line)
    (line,) = [one for one in lines if "gone.icd" in one]
    assert "libgone-driver.so: cannot open shared object file" in line
    assert "empty.icd names no driver" in done.stdout


@pytest.mark.parametrize("asking", ["variable", "option", "target"])
def test_b53_doctor_says_the_same(asking: str, tmp_path: Path) -> None:
    variables = {"OCL_ICD_VENDORS": str(tmp_path)}
    arguments = ["-m", "bayplan", "doctor"]
    if asking == "option":
        arguments += ["--target", "host-opencl"]
    elif asking == "target":
        variables["HL_JIT_TARGET"] = "host-opencl"
    done = _run(tmp_path, *arguments, **variables)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "broken   OpenCL" in done.stdout and "Traceback" not in done.stderr
    assert "asked for is missing: OpenCL" in done.stdout
    _check_message(done.stdout, tmp_path)


def test_b53_a_loader_that_is_none(tmp_path: Path) -> None:
    missing = tmp_path / "libnone.so"
    done = _run(tmp_path, "-c", PROGRAM, BAYPLAN_OPENCL_LIBRARY=str(missing))
    assert done.returncode == 0, done.stderr
    assert f"loader {missing}: {missing}: cannot open shared object file" in done.stdout
    done = _run(tmp_path, "-m", "bayplan", "doctor", BAYPLAN_OPENCL_LIBRARY=str(missing))
    assert done.returncode == 1 and str(missing) in done.stdout
