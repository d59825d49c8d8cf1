"""Chains of pointwise stages under several schedules keep their values, byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate
from bayplan.ir.walk import iterate
from bayplan.language.target import get_host_target
from bayplan.lower.pipeline import lower
from tests.storage.interpret_bytes import Interpreter

STAGES = 4
WIDTH, HEIGHT = 37, 13
TAILS = [hl.TailStrategy.GuardWithIf, hl.TailStrategy.RoundUp, hl.TailStrategy.ShiftInwards]


def schedule(f: hl.Func, kind: str, tail: Any) -> None:
    x, y = f.args()
    xo, xi, yo, yi = hl.vars("xo xi yo yi")
    if kind == "vectors":
        f.vectorize(x, 8, tail).parallel(y)
    elif kind == "tiles":
        f.tile(x, y, xo, yo, xi, yi, 16, 4, tail).vectorize(xi, 8).parallel(yo)
    elif kind == "fused":
        f.fuse(x, y, xo).parallel(xo)
    elif kind == "unrolled":
        f.unroll(x, 4, tail)
    elif kind == "split twice":
        f.split(x, xo, xi, 16, tail).split(xi, yo, yi, 4, tail)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("kind", ["vectors", "tiles", "fused", "unrolled", "split twice"])
def test_a_chain_of_pointwise_stages(kind: str, tail: Any) -> None:
    x, y = hl.vars("x y")
    image = hl.ImageParam(hl.Float(32), 2, "image")
    stages = [hl.Func(f"stage{k}") for k in range(STAGES)]
    before: Any = image
    for f in stages:
        f[x, y] = before[x, y] * 2.0 + 1.0
        before = f
        f.compute_root().store_in(hl.MemoryType.Heap)
        schedule(f, kind, tail)
    out = hl.Func("out")
    # The neighbour keeps the last stage from being computed into the output.
    out[x, y] = before[x, y] + before[x, y + 1]
    with compilation():
        program = lower([out._function], get_host_target(), "p")
        names = {a.kind: a.name for a in program.arguments}
        values: dict[str, int] = {}
        for name, width, height in (
            (names["output_buffer"], WIDTH, HEIGHT),
            (names["input_buffer"], WIDTH + 40, HEIGHT + 40),
        ):
            for d, (extent, stride) in enumerate(((width, 1), (height, width))):
                values |= {f"{name}.min.{d}": 0, f"{name}.extent.{d}": extent}
                values[f"{name}.stride.{d}"] = stride
        shape = (HEIGHT + 40, WIDTH + 40)
        data = (np.arange(shape[0] * shape[1]) % 11).astype(np.float32).reshape(shape)
        contents = {
            names["input_buffer"]: data.tobytes(),
            names["output_buffer"]: WIDTH * HEIGHT * 4,
        }
        machine = Interpreter(values, contents, workers=3, seed=5)
        machine.run(program.body)
    got = np.frombuffer(machine.content(names["output_buffer"]), np.float32)
    for _ in stages:
        data = data * 2 + 1
    want = data[:HEIGHT, :WIDTH] + data[1 : HEIGHT + 1, :WIDTH]
    np.testing.assert_array_equal(got.reshape(HEIGHT, WIDTH), want)
    offsets = [
        n.address.args[1]
        for n in iterate(program.body)
        if isinstance(n, Allocate) and n.address is not None
    ]
    if tail is hl.TailStrategy.ShiftInwards and kind != "fused":
        # The last part computes points again, from what would be gone.
        assert len(set(offsets)) == len(offsets)
