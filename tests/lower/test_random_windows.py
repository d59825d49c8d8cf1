"""Random chains of stencils under random levels: sliding and folding change no value.

The input may only be read where the plain program reads it, and nothing may be read before it is
written: both show faults that values alone would hide.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import bayplan
from bayplan.ir.errors import BayplanError
from tests.lower.run_lowered import run

RATES = {
    "y": lambda y: y,
    "half": lambda y: y / 2,
    "double": lambda y: 2 * y,
    "down": lambda y: 20 - y,
}


class Plan:
    """A random program: what each Func reads, and at which levels it is stored and computed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.count = rng.randint(2, 4)
        self.reads = [self._reads(rng, i) for i in range(self.count)]
        self.split = rng.choice([0, 0, 1, 2, 3])
        self.updates = [rng.random() < 0.2 for _ in range(self.count)]
        self.levels = [self._level(rng) for _ in range(self.count - 1)]
        self.extents = [5, 8] if self.split == 3 else rng.choice([[4, 8], [3, 12], [5, 6]])

    @staticmethod
    def _reads(rng: random.Random, at: int) -> list[Any]:
        """Sources (0 is the input) with taps, the rate along y, and whether x is halved."""
        found = []
        for source in range(at + 1):
            if source == at or rng.random() < 0.35:
                taps = [
                    (rng.choice([0, 0, 1, -1, 2]), rng.choice([0, 0, 1, -1, 2, -2, 3]))
                    for _ in range(rng.randint(1, 3))
                ]
                rate = rng.choice(list(RATES)) if rng.random() < 0.3 else "y"
                found.append((source, taps, rate, rng.random() < 0.3))
        return found

    @staticmethod
    def _level(rng: random.Random) -> tuple[str, int, int, bool]:
        kind = rng.choice(["root", "slide", "slide", "slide", "same"])
        store, compute = sorted([rng.randint(0, 3), rng.randint(0, 3)])
        return kind, store, compute, rng.random() < 0.3

    def build(self, hl: Any, scheduled: bool) -> Any:
        source = hl.ImageParam(hl.Int(32), 2, "input")
        x, y, yo, yi = hl.vars("x y yo yi")
        r = hl.RDom([(0, 2)], "r")
        funcs = [source]
        for i, reads in enumerate(self.reads):
            f, total = hl.Func(f"f{i}"), None
            for at, taps, rate, halved in reads:
                row, column = RATES[rate](y), x / 2 if halved else x
                for dx, dy in taps:
                    term = funcs[at][column + dx, row + dy] * (1 + at)
                    total = term if total is None else total + term
            f[x, y] = total + i
            if self.updates[i]:
                f[x, y] += funcs[i][x + r.x, y]
            funcs.append(f)
        output = funcs[-1]
        if not scheduled:
            for f in funcs[1:-1]:
                f.compute_root()
            return output
        tails = [None, "ShiftInwards", "GuardWithIf", "RoundUp"]
        if self.split:
            tail = getattr(hl.TailStrategy, str(tails[self.split]))
            output.split(y, yo, yi, self.split + 1, tail)
        at_levels = [None, yo if self.split else None, yi if self.split else y, x]
        for f, (kind, store, compute, vector) in zip(funcs[1:], self.levels):
            place = at_levels[compute]
            if kind == "root" or place is None:
                f.compute_root()
                continue
            outer = at_levels[store] if kind == "slide" else place
            f.compute_at(output, place)
            if outer is None:
                f.store_root()
            else:
                f.store_at(output, outer)
            if vector:
                f.vectorize(x, 2, hl.TailStrategy.GuardWithIf)
        return output


@pytest.mark.parametrize("seed", [*range(40), 115, 135, 181, 207, 268, 344, 392])
def test_values_and_reads_agree(seed: int) -> None:
    plan = Plan(seed)
    plain = run(plan.build, plan.extents, scheduled=False)
    try:
        found = run(plan.build, plan.extents, allowed=plain.read, scheduled=True)
    except BayplanError as error:
        assert isinstance(error, bayplan.ScheduleError), error
        return
    assert found.output == plain.output
