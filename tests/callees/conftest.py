"""A small C library that both the wheel and Bayplan call."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "functions.c"


@pytest.fixture(scope="session")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library, where every loaded program finds its functions."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("functions") / "libfunctions.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(path), str(SOURCE)], check=True)
    return ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


def count(functions: ctypes.CDLL, name: str) -> int:
    """The counter of that name, which then begins again."""
    counter = ctypes.c_int32.in_dll(functions, name)
    value = counter.value
    counter.value = 0
    return value
