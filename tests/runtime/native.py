"""Small C programs over the runtime's sources, run as processes of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bayplan.runtime import read_sources

SANITIZED = "-fsanitize=thread"


def build_native(main: str, folder: Path, *flags: str) -> Path:
    """Builds the runtime followed by `main`; the program.

    The test is skipped where the compiler has not the sanitizer of the flags.
    """
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no compiler")
    source, program = folder / "native.c", folder / "native"
    source.write_text(read_sources() + main)
    command = [compiler, "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *flags]
    done = subprocess.run(
        [*command, str(source), "-o", str(program), "-pthread", "-lm"],
        capture_output=True,
        text=True,
    )
    if done.returncode and SANITIZED in flags and "tsan" in done.stderr:
        pytest.skip("no thread sanitizer")
    assert done.returncode == 0, done.stderr[-3000:]
    return program


def run_native(main: str, folder: Path, *flags: str, timeout: float = 120) -> str:
    """Builds and runs a program; what it prints."""
    program = str(build_native(main, folder, *flags))
    # Older thread sanitizers know few layouts of the address space.
    fixed = shutil.which("setarch") if SANITIZED in flags else None
    run = [fixed, "-R", program] if fixed else [program]
    done = subprocess.run(run, capture_output=True, text=True, timeout=timeout)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not start here")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
