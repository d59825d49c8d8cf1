"""Emitted programs compiled as C++ and run in this process in the place of C."""

from __future__ import annotations

import ctypes
import shutil

import pytest

from bayplan.build import loading
from bayplan.build.compile_library import compile_library
from bayplan.build.compilers import Compiler
from bayplan.build.flags import choose_flags
from bayplan.targets.c_names import sanitise

COMPILERS = ("g++", "clang++")
STRICT = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]


def need(compiler: str) -> str:
    """The path of a C++ compiler; the test is skipped where there is none."""
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"there is no {compiler}")
    return path


def load_as_cpp(monkeypatch: pytest.MonkeyPatch, compiler: str) -> list[str]:
    """From here on programs that are run are compiled as C++; warnings are errors.

    Returns:
        The texts that were compiled, as they come.
    """
    found = Compiler((need(compiler),), "gcc" if compiler == "g++" else "clang", "the test")
    flags = [f for f in choose_flags(found) if not f.startswith("-std=")] + [*STRICT, "-x", "c++"]
    seen: list[str] = []

    def load(source: str, name: str) -> loading.LoadedProgram:
        symbol = sanitise(name)
        path = compile_library(source, symbol, compiler=found, flags=flags)
        seen.append(source)
        return loading.LoadedProgram(symbol, path, ctypes.CDLL(str(path)))

    monkeypatch.setattr(loading, "load_program", load)
    return seen
