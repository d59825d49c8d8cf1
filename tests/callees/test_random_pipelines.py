"""Random programs cut into callees, which may call others, against the same in one piece."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


class _Builder:
    """Makes a program from a seed, in one piece or with calls."""

    def __init__(self, seed: int, calls: bool, kernels: bool = False) -> None:
        self.rng = random.Random(seed)
        self.calls = calls
        # Which stages are kernels, drawn apart so that the program stays the same.
        self.kernels = random.Random(seed) if kernels else None
        self.x, self.y = hl.Var("x"), hl.Var("y")

    def chain(self, source: Any) -> hl.Func:
        """Some stages after another."""
        rng, x, y = self.rng, self.x, self.y
        for _ in range(rng.randint(1, 3)):
            f = hl.Func("stage")
            dx, dy, factor = rng.randint(-2, 2), rng.randint(-2, 2), rng.randint(1, 4)
            if rng.random() < 0.2:
                r = hl.RDom([(0, rng.randint(1, 3))])
                f[x, y] = source[x, y]
                f[x, y] += source[x + r.x, y + dy] * factor
                f.update(0).unscheduled()
            else:
                f[x, y] = source[x, y] * factor - source[x + dx, y + dy]
            choice = rng.random()
            if self.calls and choice < 0.8:
                f.compute_root()
                if self.kernels is not None and self.kernels.random() < 0.6:
                    self.tile(f)
                elif 0.5 < choice < 0.7:
                    f.parallel(y)
            source = f
        return source  # type: ignore[no-any-return]

    def tile(self, f: hl.Func) -> None:
        """Makes a kernel of each definition."""
        xi, yi = hl.vars("xi yi")
        tail = hl.TailStrategy.GuardWithIf
        f.gpu_tile(self.x, self.y, xi, yi, 8, 4, tail)
        if f.num_update_definitions():
            f.update(0).gpu_tile(self.x, self.y, xi, yi, 4, 4, tail)

    def part(self, source: Any, depth: int) -> hl.Func:
        """A chain, perhaps followed by another part; a callee where there are calls."""
        inner = hl.ImageParam(hl.Int(32), 2, "inner") if self.calls else source
        out = self.chain(inner)
        if depth and self.rng.random() < 0.6:
            if self.calls:
                out.compute_root()
            out = self.part(out, depth - 1)
        if not self.calls:
            return out
        f = hl.Func("called")
        f.define_extern(out, [source])
        return f

    def program(self) -> hl.Func:
        """The whole."""
        x, y, xo, yo = self.x, self.y, hl.Var("xo"), hl.Var("yo")
        source, h = hl.Func("source"), hl.Func("h")
        source[x, y] = x * 3 + y * 5 + x * y
        a = self.part(source, 2)
        b = self.part(a, 1)
        h[x, y] = b[x, y] + a[x + 1, y]
        where = self.rng.randint(0, 3)
        if self.calls:
            source.compute_root()
            a.compute_root()
            if where == 0:
                b.compute_root()
            elif where == 1:
                b.compute_at(h, y)
            elif where == 2:
                h.split(y, yo, y, 4).parallel(yo)
                b.compute_at(h, yo)
            else:
                h.tile(x, y, xo, yo, x, y, 5, 3).parallel(yo)
                b.compute_at(h, xo)
        return h


@pytest.mark.parametrize("seed", range(8))
def test_cut_into_callees(seed: int) -> None:
    expected = np.array(_Builder(seed, False).program().realize([17, 13]))
    program = _Builder(seed, True).program()
    np.testing.assert_array_equal(np.array(program.realize([17, 13])), expected)
    counts = driver.context().counts
    assert counts.allocations == 1
    assert program.storage([17, 13]).required_bytes == counts.peak_bytes


@pytest.mark.parametrize("seed", range(12))
def test_cut_into_callees_with_kernels(seed: int) -> None:
    expected = np.array(_Builder(seed, False).program().realize([17, 13]))
    program = _Builder(seed, True, kernels=True).program()
    found = program.realize([17, 13], hl.Target("host-cuda-emulated"))
    np.testing.assert_array_equal(np.array(found), expected)
