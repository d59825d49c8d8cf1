"""A small program in a file, and the command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import bayplan as hl

x, y = hl.vars("x y")
image = hl.ImageParam(hl.UInt(8), 2, "image")
gain = hl.Param(hl.Int(32), "gain")
offset = hl.Param(hl.Int(32), "offset", 1)

near = hl.Func("near")
near[x, y] = hl.i32(image[x, y]) + image[x + 1, y]
near.compute_root()
bright = hl.Func("bright")
bright[x, y] = hl.u8_sat(near[x, y] * gain + offset)


def build(hl):
    return bright
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bright.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``python -m bayplan ...`` in an empty folder, without a terminal."""

    def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "elsewhere"
        folder.mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "bayplan", *map(str, words)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run
