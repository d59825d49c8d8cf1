"""The printer's text is stable, readable and of sane length."""

from __future__ import annotations

from bayplan.ir.build import (
    block,
    broadcast,
    cast,
    const,
    int32,
    logical_and,
    logical_or,
    lt,
    minimum,
    ramp,
    true,
    var,
)
from bayplan.ir.exprs import Add, Div, Expr, Load, Mod, Mul, Not, Select, Sub
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate, For, Free, IfThenElse, LetStmt, ProducerConsumer, Store
from bayplan.ir.types import Float, Int, UInt

x, y, n = var("x"), var("y"), var("n")


def test_parentheses_only_where_needed() -> None:
    assert str(Mul(Add(x, y), n)) == "(x + y) * n"
    assert str(Add(Mul(x, y), n)) == "x * y + n"
    assert str(Sub(x, Sub(y, n))) == "x - (y - n)"
    assert str(Sub(Sub(x, y), n)) == "x - y - n"
    assert str(Div(x, Mul(y, n))) == "x / (y * n)"
    assert str(Mod(Div(x, y), n)) == "x / y % n"
    assert str(logical_or(logical_and(lt(x, y), lt(y, n)), lt(n, x))) == "x < y && y < n || n < x"
    assert str(Not(lt(x, y))) == "!(x < y)"
    assert str(x - 3) == "x - 3"
    assert str((x - 3) * 2) == "(x - 3) * 2"


def test_constants_show_their_type() -> None:
    assert str(const(UInt(8), 200)) == "200u8"
    assert str(const(Int(16), -3)) == "-3i16"
    assert str(const(Float(32), 0.5)) == "0.5f"
    assert str(const(Float(64), 0.5)) == "0.5"
    assert str(true()) == "true"


def test_vectors() -> None:
    assert str(ramp(x, 1, 8)) == "ramp(x, 1, 8)"
    assert str(broadcast(x, 4)) == "x4(x)"
    assert str(cast(UInt(8), ramp(x, 2, 4))) == "uint8x4(ramp(x, 2, 4))"
    predicated = Load(Int(32), "f", x, lt(x, n))
    assert str(predicated) == "(f[x] if x < n)"


def test_statement() -> None:
    body = block(
        [
            LetStmt("a", x - 2, Store("g", cast(UInt(16), var("a")), y)),
            IfThenElse(lt(x, n), Store("g", cast(UInt(16), x), y), Free("g")),
        ]
    )
    inner = Allocate("g", UInt(16), MemoryType.Heap, (n + 1, int32(4)), true(), 0, body)
    loop = For("f.s0.y", int32(0), n, ForKind.Parallel, Partition.Auto, inner)
    assert str(ProducerConsumer("f", True, loop)) == """\
produce f {
  for (parallel f.s0.y, 0, n) {
    allocate g[uint16 * (n + 1) * 4] in Heap
    {
      let a = x - 2
      g[y] = uint16(a)
    }
    if (x < n) {
      g[y] = uint16(x)
    } else {
      free g
    }
  }
}
"""


def test_shared_nodes_are_written_once() -> None:
    with compilation():
        e: Expr = x
        for _ in range(100):
            e = Select(lt(e, n), minimum(e, y), Add(e, e))
        text = str(e)
    assert len(text) < 20_000
    assert text.splitlines()[0].startswith("%0 = ")
    assert text == str(e)
