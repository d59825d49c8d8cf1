"""The text of a small program, as a reader sees it."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.node import compilation
from bayplan.ir.types import UInt
from tests.targets.programs import argument, emit


def make_blur() -> S.Stmt:
    """A parallel loop over rows with one temporary row, written and read in vectors of 16."""
    t = UInt(16, 16)
    one = build.int32(1)
    x, y = build.var("blur_y.s0.x"), build.var("blur_y.s0.y")

    def load(name: str, index: E.Expr) -> E.Expr:
        return E.Load(t, name, E.Ramp(index, one, 16))

    row = y * build.var("input.stride.1") + x * 16
    total = E.Add(E.Add(load("input", row), load("input", row + 1)), load("input", row + 2))
    third = E.Broadcast(build.const(UInt(16), 3), 16)
    produce = S.Store("blur_x", E.Div(total, third), E.Ramp(x * 16, one, 16))
    pairs = [E.Load(t, "blur_x", E.Ramp(x * 32 + k, build.int32(2), 16)) for k in range(2)]
    out = S.Store("blur_y", E.Add(*pairs), E.Ramp(y * 64 + x * 16, one, 16))

    def loop(extent: int, body: S.Stmt) -> S.Stmt:
        return S.For("blur_y.s0.x", build.int32(0), build.int32(extent), ForKind.Serial,
                     Partition.Auto, body)

    body = S.Block((S.ProducerConsumer("blur_x", True, loop(8, produce)), loop(4, out)))
    heap = S.Allocate("blur_x", UInt(16), MemoryType.Heap, (build.int32(128),), build.true(), 0,
                      body)
    return S.For("blur_y.s0.y", build.int32(0), build.var("blur_y.extent.1"), ForKind.Parallel,
                 Partition.Auto, heap)


def test_a_small_program(golden: Callable[[str, str], None]) -> None:
    with compilation():
        arguments = [argument("input_buffer", "input", UInt(16), 2),
                     argument("output_buffer", "blur_y", UInt(16), 2)]
        source = emit(make_blur(), arguments, 32, "blur_y").source
    golden("blur.c", source[source.index("static const bp_site") :])


def test_what_a_name_becomes() -> None:
    from bayplan.targets.c_names import sanitise, short_name

    assert sanitise("f$1.s0.x") == "f_1_s0_x"
    assert sanitise("int") == "int_" and sanitise("bp_x") == "bp_x_" and sanitise("2d") == "_2d"
    assert short_name("f.s0.yi") == "yi" and short_name("f.extent.1") == "f.extent.1"
