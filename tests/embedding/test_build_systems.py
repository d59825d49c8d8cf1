"""The example project, built with CMake and with make, as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.embedding.programs import run

ROOT = Path(__file__).resolve().parent.parent.parent
C_PRINTS = "sharpen -0.25 1.25\nfixed 3.00 in 264 bytes\n"
CXX_PRINTS = "sharpen -0.25 1.25\n"


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example whose folder's name needs quoting."""
    folder = tmp_path / "my project"
    shutil.copytree(ROOT / "examples" / "embed", folder)
    return folder


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("CC", "CXX", "CFLAGS", "MAKEFLAGS", "HL_TARGET"):
        monkeypatch.delenv(name, raising=False)


def advance(path: Path, old: str, new: str) -> None:
    """Edits a file so that build systems notice."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    later = time.time() + 2
    os.utime(path, (later, later))


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake(project: Path, tmp_path: Path, generator: str) -> None:
    need("cmake", "g++", "ninja" if generator == "Ninja" else "make")
    build = tmp_path / "build"
    run(["cmake", "-G", generator, "-S", project, "-B", build,
         f"-DPython3_EXECUTABLE={sys.executable}"])  # fmt: skip
    run(["cmake", "--build", build])
    assert run([build / "in_c"]) == C_PRINTS
    assert run([build / "in_cxx"]) == CXX_PRINTS

    # Nothing changed: nothing is built.
    assert "Bayplan:" not in run(["cmake", "--build", build])

    # A module that the pipeline imports changed: the library and who links it are made anew.
    advance(project / "kernel.py", "0.25, 0.5, 0.25", "0.125, 0.75, 0.125")
    printed = run(["cmake", "--build", build])
    assert "Bayplan: sharpen" in printed and "Bayplan: fixed" not in printed
    assert run([build / "in_c"]) == C_PRINTS.replace("-0.25 1.25", "-0.12 1.12")
    assert run([build / "in_cxx"]) == "sharpen -0.12 1.12\n"


def test_cmake_tells_what_is_missing(project: Path, tmp_path: Path) -> None:
    need("cmake", "g++", "make")
    advance(project / "CMakeLists.txt", "SOURCE sharpen.py ARGUMENTS", "ARGUMENTS")
    words = ["cmake", "-S", str(project), "-B", str(tmp_path / "build")]
    words.append(f"-DPython3_EXECUTABLE={sys.executable}")
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode != 0
    assert "bayplan_add_library(sharpen): SOURCE <file.py> is missing" in done.stderr


def test_make_and_pkg_config(project: Path) -> None:
    need("make", "pkg-config", "g++")
    printed = run(["make", "-C", project, "run", f"PYTHON={sys.executable}"])
    assert C_PRINTS.splitlines()[0] in printed and C_PRINTS.splitlines()[1] in printed
    again = run(["make", "-C", project, "run", f"PYTHON={sys.executable}"])
    assert "bayplan compile" not in again
    advance(project / "kernel.py", "0.25, 0.5, 0.25", "0.125, 0.75, 0.125")
    third = run(["make", "-C", project, "run", f"PYTHON={sys.executable}"])
    assert third.count("bayplan compile") == 1 and "sharpen -0.12 1.12" in third


def test_config() -> None:
    def ask(what: str) -> str:
        return run([sys.executable, "-m", "bayplan", "config", f"--{what}"]).strip()

    assert (Path(ask("cmakedir")) / "BayplanConfig.cmake").is_file()
    assert (Path(ask("pkgconfigdir")) / "bayplan.pc").is_file()
    assert (Path(ask("includedir")) / "bayplan.h").is_file()
    assert ask("cflags") == f"-I{ask('includedir')}"
    assert ask("libs") == "-lm -pthread"


def test_versions_agree() -> None:
    import bayplan

    folder = ROOT / "bayplan" / "cmake"
    version = bayplan.__version__
    text = (folder / "BayplanConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{version}")' in text
    assert f"Version: {version}\n" in (folder / "bayplan.pc").read_text()
