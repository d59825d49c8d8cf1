"""Whole programs as emulated CUDA under the address sanitizer: no access leaves its memory."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from bayplan.build.compilers import find_compiler, find_cxx_compiler
from bayplan.ir.errors import NoCompiler

ROOT = Path(__file__).parents[2]

_SCRIPT = """
import sys
import bayplan as hl
from bayplan.targets.kernels import DeviceUnit
from tests.apps.test_gpu_apps import PROGRAMS, _run

given, taken = sys.argv[2:]
whole = DeviceUnit.text
def text(unit):
    made = whole(unit)
    assert given in made
    return made.replace(given, taken)
if given:
    DeviceUnit.text = text
for name, arguments in PROGRAMS:
    title = " ".join([name, *[str(v) for v in arguments.values()]])
    if sys.argv[1] in ("all", title):
        _run(name, arguments, hl.Target("host-cuda-emulated"))
        print("ran", title, flush=True)
"""


@cache
def _library() -> str:
    """The run-time library of g++'s address sanitizer, which is loaded before Python."""
    try:
        kinds = {find_compiler().kind, find_cxx_compiler().kind}
    except NoCompiler as error:
        pytest.skip(str(error))
    if kinds != {"gcc"}:
        pytest.skip("the sanitizer's library is looked for beside gcc")
    done = subprocess.run(
        [*find_cxx_compiler().command, "-print-file-name=libasan.so"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    path = done.stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip("g++ has no address sanitizer")
    return path


def start(name: str, given: str = "", taken: str = "") -> subprocess.CompletedProcess[str]:
    """Runs an application, with another text in place of one in its kernels."""
    return subprocess.run(
        [sys.executable, "-c", _SCRIPT, name, given, taken],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400, check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
             "LD_PRELOAD": _library(), "BAYPLAN_CFLAGS": "-fsanitize=address",
             # Python keeps memory to its end.
             "ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["blur cache", "kernels.histogram", pytest.param("all", marks=pytest.mark.slow)]
)
def test_applications(name: str) -> None:
    done = start(name)
    assert done.returncode == 0 and "AddressSanitizer" not in done.stdout, done.stdout[-3000:]
    assert done.stdout.count("ran ") == (14 if name == "all" else 1)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("blur_y[", "blur_y[(1 << 20) + "),
        # The tile has 32 x 10 elements.
        ("blur_x[", "blur_x[280 + "),
    ],
    ids=["buffer", "shared memory"],
)
def test_an_access_astray_is_reported(given: str, taken: str) -> None:
    """The test of the test: the kernel's text reaches farther."""
    done = start("blur cache", given, taken)
    assert done.returncode != 0 and "AddressSanitizer" in done.stdout, done.stdout[-3000:]
