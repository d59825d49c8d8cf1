"""Pipelines that the tests build ahead of time, and how C programs around them are run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bayplan as hl

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
STRICT_CXX = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic"]
LINK = ["-lm", "-pthread"]


def make_blur(name: str = "blur") -> tuple[hl.Func, list[Any]]:
    """A two-stage blur of uint16 with a parameter: in, shift -> blur."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.UInt(16), 2, "in")
    shift = hl.Param(hl.Int(32), "shift")
    rows, blur = hl.Func(f"{name}_rows"), hl.Func(name)
    rows[x, y] = image[x, y] + image[x + 1, y] + image[x + 2, y]
    blur[x, y] = (rows[x, y] + rows[x, y + 1] + rows[x, y + 2]) >> hl.cast(hl.UInt(16), shift)
    rows.compute_root()
    return blur, [image, shift]


def make_fixed(stages: int = 3, width: int = 64) -> hl.Func:
    """A chain of stages on the heap whose sizes are constants: no input, `width` outputs.

    fixed(x) = x + (stages - 1) for an odd number of stages.
    """
    x = hl.Var("x")
    previous: hl.Func | None = None
    for i in range(stages):
        f = hl.Func("fixed" if i == stages - 1 else f"stage{i}")
        # Reversed, so that no stage can take over the bytes of the one before.
        f[x] = hl.cast(hl.Float(32), x) if previous is None else previous[width - 1 - x] + 1.0
        if i < stages - 1:
            f.compute_root().store_in(hl.MemoryType.Heap)
            f.bound(x, 0, width)
        previous = f
    assert previous is not None
    previous.output_buffer().dim(0).set_bounds(0, width)
    return previous


def run(command: Sequence[Any], **named: Any) -> str:
    """What a command prints; fails with what it wrote to stderr."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, **named)
    said = f"{done.stderr[-4000:]}\n{done.stdout[-2000:]}"
    assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{said}"
    return done.stdout


def build_and_run(
    folder: Path,
    text: str,
    libraries: Sequence[Path],
    *,
    compiler: str = "gcc",
    flags: Sequence[str] = (),
) -> str:
    """Compiles a main program, links it with the libraries, runs it; what it prints."""
    cxx = compiler in ("g++", "clang++")
    source = folder / ("main.cpp" if cxx else "main.c")
    source.write_text(text)
    program = folder / "main"
    strict = STRICT_CXX if cxx else STRICT
    run([compiler, *strict, *flags, f"-I{folder}", source, "-o", program, *libraries, *LINK])
    return run([program])
