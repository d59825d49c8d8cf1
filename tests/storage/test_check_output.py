"""The checker of plans and the interpreter of bytes on temporaries in the bytes of an output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.build import const, eq, true
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate, Stmt, Store
from bayplan.ir.types import FLOAT32, INT64, Handle
from bayplan.language.target import get_host_target
from bayplan.lower.pipeline import lower
from bayplan.storage.check import check_storage
from tests.storage.interpret_bytes import Interpreter
from tests.storage.interpret_values import Faulty
from tests.storage.statements import alias, arena, block, call, copy, fill, int32, load, loop, var

N = var("out.extent.0")
I = var("i")
SIZES: dict[str, Any] = {"out.min.0": 0, "out.extent.0": 20, "out.stride.0": 1}


def in_output(name: str, condition: Expr, body: Stmt, *, extent: Expr = N) -> Allocate:
    """A temporary that may live in "out"."""
    inside = alias(name, extent, 0, body)
    place = (condition, Variable(Handle(), "out"), Variable(Handle(), "p.arena"), const(INT64, 0))
    address = call("output_or_offset_pointer", *place, type=Handle())
    return Allocate(name, FLOAT32, MemoryType.Heap, (extent,), true(), 0, inside.body, 4, address)


def program(body: Stmt, condition: Expr | None = None, extent: Expr = N) -> Stmt:
    """A program that fills "a" and then does the body."""
    condition = eq(N, extent) if condition is None else condition
    filled = loop("i", extent, fill("a", I))
    return arena(80, in_output("a", condition, block([filled, body]), extent=extent))


def run(stmt: Stmt) -> bytes:
    machine = Interpreter(SIZES, {"out": 80})
    machine.run(stmt)
    return machine.content("out")


def is_faulty(stmt: Stmt) -> bool:
    try:
        run(stmt)
    except Faulty:
        return True
    return False


RIGHT = {
    "same": loop("i", N, copy("out", "a", I)),
    "backwards": loop("i", N, copy("out", "a", N - 1 - I)),
    "two loops": block(
        [loop("i", 3, copy("out", "a", I)), loop("i", N - 3, copy("out", "a", I + 3))]
    ),
    "sums": loop("i", N, Store("out", load("a", I * 2 - I) + 1.0, I)),
}  # fmt: skip
WRONG = {
    "mirrored": loop("i", N, Store("out", load("a", N - 1 - I), I)),
    "next": loop("i", N - 1, Store("out", load("a", I + 1) + load("a", I), I)),
    "stored twice": block([loop("i", N, copy("out", "a", I)), loop("i", N, copy("out", "a", I))]),
    "left out": loop("i", N - 1, copy("out", "a", I)),
    "read later": block(
        [loop("i", N, copy("out", "a", I)), Store("out", load("a", int32(0)), int32(0))]
    ),
    "touched before": block([fill("out", int32(0)), loop("i", N, copy("out", "a", I))]),
    "read in between": loop(
        "i", N, block([copy("out", "a", I), Store("other", load("a", I), int32(0))])
    ),
}


@pytest.mark.parametrize("name", sorted(RIGHT))
def test_what_is_stored_in_place_is_accepted(name: str) -> None:
    check_storage(program(RIGHT[name]))
    check_storage(program(RIGHT[name]), SIZES)
    assert not is_faulty(program(RIGHT[name]))


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_is_destroyed_is_refused(name: str) -> None:
    stmt = program(WRONG[name])
    with pytest.raises(PlanError, match="a may not live in the bytes of out"):
        check_storage(stmt)
    with pytest.raises(PlanError, match="a may not live in the bytes of out"):
        check_storage(stmt, SIZES)


def test_a_condition_that_says_too_little_is_refused() -> None:
    body = loop("i", var("n"), copy("out", "a", I))
    check_storage(program(body, eq(N, var("n")), extent=var("n")))
    with pytest.raises(PlanError, match="may be other than"):
        check_storage(program(body, true(), extent=var("n")))


def test_threads_store_what_they_read() -> None:
    stmt = program(loop("i", N, copy("out", "a", I), ForKind.Parallel))
    check_storage(stmt)
    run(stmt)


@pytest.mark.parametrize("kind", ["plain", "vector", "tiles"])
def test_a_donated_buffer_byte_by_byte(kind: str) -> None:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    source = hl.ImageParam(hl.Float(32), 2, "source")
    first, second, out = hl.funcs("first second out")
    first[x, y] = source[x, y] * 2.0
    second[x, y] = first[x, y] + 1.0
    out[x, y] = second[x, y] * second[x, y]
    for f in (first, second, out):
        if kind == "vector":
            f.vectorize(x, 4, hl.TailStrategy.GuardWithIf).parallel(y)
        elif kind == "tiles":
            f.tile(x, y, xo, yo, xi, yi, 5, 3, hl.TailStrategy.GuardWithIf).parallel(yo)
    first.compute_root()
    second.compute_root()
    out.may_alias(source)
    width, height = 13, 7
    data = np.arange(width * height, dtype=np.float32).reshape(height, width)
    fields = (("min", (0, 0)), ("extent", (width, height)), ("stride", (1, width)))
    with compilation():
        lowered = lower([out._function], get_host_target(), "p")
        names = {a.kind: a.name for a in lowered.arguments}
        values = {
            f"{name}.{field}.{d}": value
            for name in names.values()
            for field, sizes in fields
            for d, value in enumerate(sizes)
        }
        contents = {names["input_buffer"]: data.tobytes(), names["output_buffer"]: data.nbytes}
        donated = {names["output_buffer"]: names["input_buffer"]}
        machine = Interpreter(values, contents, workers=3, seed=2, donated=donated)
        machine.run(lowered.body)
        got = np.frombuffer(machine.content(names["output_buffer"]), np.float32)
    np.testing.assert_array_equal(got.reshape(height, width), (data * 2 + 1) ** 2)
    assert [life.size for life in machine.lives if life.name.endswith("arena")] == [0]
