"""Random programs whose stages share a warp, for the interpreter of lanes."""

from __future__ import annotations

import random
from typing import Any

import bayplan as hl

_TYPES = [hl.Int(32), hl.UInt(8), hl.Int(16), hl.UInt(32), hl.Int(64), hl.Float(32)]
_TAILS = [hl.TailStrategy.RoundUp] * 3 + [hl.TailStrategy.GuardWithIf, hl.TailStrategy.ShiftInwards]
_KINDS = [hl.MemoryType.Auto] * 9 + [hl.MemoryType.Register] * 2 + [
    hl.MemoryType.Stack, hl.MemoryType.Heap, hl.MemoryType.GPUShared,
]


class RandomLanes:
    """One program: `output` and its `extents`; `text` says what it is.

    Args:
        seed: of the choices.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random
        self.x, self.y = hl.Var("x"), hl.Var("y")
        self.type = pick.choice(_TYPES)
        self.lanes = pick.choice([4, 8, 16, 24, 32, 32, 32])
        self.per_lane = pick.choice([1, 1, 1, 2, 4])
        self.said: list[str] = [f"{self.type}, {self.lanes} lanes of {self.per_lane}"]
        self.is_plain = True
        self.stages = [self._first()]
        for k in range(pick.randint(1, 3)):
            self.stages.append(self._stage(k + 1))
        self.output = self.stages[-1]
        part = self.lanes * self.per_lane
        self.extents = [part * pick.choice([1, 2] if part > 32 else [1, 2, 3]), pick.choice([2, 4])]
        self._schedule()
        self.text = "; ".join(self.said)

    def _first(self) -> Any:
        f = hl.Func("f0")
        f[self.x, self.y] = hl.cast(self.type, self.x * 3 + self.y * 7)
        return f

    def _tap(self, f: Any) -> Any:
        """One use of the stage before."""
        pick, x, y = self.random, self.x, self.y
        which = pick.randrange(25)
        self.is_plain = self.is_plain and which > 4
        if which == 0:
            at = hl.clamp(x + pick.randint(-2, 2), pick.randint(0, 3), 35)
        elif which == 1:
            at = x // 2
        elif which == 2:
            at = 2 * x + pick.randint(0, 1)
        elif which == 3:
            at = x + y % 3
        elif which == 4:
            at = x - x % 4
        else:
            at = x + pick.randint(-3, 3)
        row = y + pick.choice([0, 0, 0, 1, -1])
        self.said.append(f"{f.name()}[{at}, {row}]")
        return f[at, row]

    def _stage(self, k: int) -> Any:
        pick, before = self.random, self.stages[-1]
        f = hl.Func(f"f{k}")
        value = self._tap(before)
        for _ in range(pick.randint(0, 2)):
            value = value + self._tap(before)
        f[self.x, self.y] = hl.cast(self.type, value)
        if pick.random() < 0.25:
            r = hl.RDom([(0, 3)], "r")
            if pick.random() < 0.5:
                r.where((self.x + r.x) % 3 != 1)
            f[self.x, self.y] += before[self.x + r.x, self.y]
            self.said.append(f"f{k} adds f{k - 1}[x + r]")
        return f

    def _schedule(self) -> None:
        pick, x, y, out = self.random, self.x, self.y, self.output
        xi, u, yi = hl.Var("xi"), hl.Var("u"), hl.Var("yi")
        tail = pick.choice(_TAILS[2:4])
        rows = pick.choice(["blocks", "threads", "serial", "unroll"])
        self.said.append(f"rows are {rows}, tail {tail.name}")
        for stage in range(1 + out.num_update_definitions()):
            part = out.update(stage - 1) if stage else out
            part.split(x, x, xi, self.lanes * self.per_lane, tail)
            order: list[Any] = [xi]
            if self.per_lane > 1:
                part.split(xi, xi, u, self.per_lane)
                order = [u, xi]
            if rows == "blocks":
                part.reorder(*order, x, y).gpu_blocks(x, y)
            else:
                part.split(y, y, yi, 2, tail).reorder(*order, yi, x, y).gpu_blocks(x, y)
                if rows == "threads":
                    part.gpu_threads(yi)
                elif rows == "unroll":
                    part.unroll(yi)
            if self.per_lane > 1:
                part.unroll(u)
            part.gpu_lanes(xi)
        if out.num_update_definitions():
            # Stages of the output are kernels of their own.
            return
        place = pick.choice([x] if rows == "blocks" else [x, yi, yi, yi])
        for f in self.stages[:-1]:
            self._producer(f, place)

    def _producer(self, f: Any, place: Any) -> None:
        pick, x, out = self.random, self.x, self.output
        f.compute_at(out, place)
        kind = pick.choice(_KINDS)
        if kind is not hl.MemoryType.Auto:
            f.store_in(kind)
        how = pick.choice(["lanes", "split", "split", "split", "split", "none"])
        tail = pick.choice(_TAILS)
        unroll = self.is_plain and pick.random() < 0.8
        self.said.append(f"{f.name()} at {place.name()} in {kind.name}: {how}, {tail.name}")
        xo, xi, u = hl.Var("xo"), hl.Var("xi"), hl.Var("u")
        if how == "none":
            return
        for stage in range(1 + f.num_update_definitions()):
            part = f.update(stage - 1) if stage else f
            shifts = tail is hl.TailStrategy.ShiftInwards
            part_tail = hl.TailStrategy.GuardWithIf if stage and shifts else tail
            part.split(x, xo, xi, self.lanes * self.per_lane, part_tail)
            if self.per_lane > 1:
                part.split(xi, xi, u, self.per_lane).unroll(u)
            if unroll:
                part.unroll(xo)
            part.gpu_lanes(xi)
