"""Programs that are built once for Bayplan and once for Halide: how they are listed and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Build = Callable[[Any], Any]

PROGRAMS: dict[str, tuple[Build, list[int]]] = {}
"""Name -> the function that builds the output Func, and the sizes it is realized at."""

_RANDOM = np.random.default_rng(0)
A8 = _RANDOM.integers(0, 255, (13, 17), dtype=np.uint8)
A32 = _RANDOM.integers(-1000, 1000, (13, 17)).astype(np.int32)
F = _RANDOM.random((13, 17)).astype(np.float32)


def prog(size: list[int]) -> Callable[[Build], Build]:
    """Lists a function that builds a program."""

    def listed(build: Build) -> Build:
        PROGRAMS[build.__name__] = (build, size)
        return build

    return listed


def V(hl: Any) -> Any:
    """The Vars that programs use."""
    return hl.vars("x y xo yo xi yi u v")


def im(hl: Any, values: np.ndarray = A8) -> Any:
    """A Buffer of the values."""
    return hl.Buffer(values)


def run(hl: Any, name: str) -> list[np.ndarray]:
    """The outputs of a program."""
    build, size = PROGRAMS[name]
    result = build(hl).realize(size)
    return [np.asarray(b) for b in (result if isinstance(result, tuple | list) else [result])]
