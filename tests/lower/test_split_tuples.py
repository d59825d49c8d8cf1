"""Values of a Tuple become separate storage; values that swap are read before any is written."""

from __future__ import annotations

from bayplan.ir.build import add, mul, true, var
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.memory import MemoryType
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Atomic, Provide, Realize
from bayplan.ir.types import INT32
from bayplan.language.function import Function
from bayplan.lower.context import Lowering
from bayplan.lower.split_tuples import split_tuples


def tuple_func() -> tuple[Function, Lowering]:
    f = Function("f")
    f.args = ["x"]
    f.output_types = [INT32, INT32]
    return f, Lowering(["f"], {"f": f}, None)


def read(f: Function, x: Expr, i: int) -> Call:
    return Call(INT32, "f", (x,), CallKind.FUNC, f, i)


def test_values_that_do_not_meet_are_written_one_by_one() -> None:
    f, lowering = tuple_func()
    with compilation():
        x = var("x")
        write = Provide("f", (add(read(f, x, 0), 1), mul(read(f, x, 1), 2)), (x,))
        text = str(split_tuples(write, lowering))
    assert text.split("\n")[:2] == ["f.0(x) = f.0(x) + 1", "f.1(x) = f.1(x) * 2"]


def test_values_that_swap_are_read_first() -> None:
    f, lowering = tuple_func()
    with compilation():
        x = var("x")
        write = Provide("f", (read(f, x, 1), read(f, x, 0)), (x,))
        lines = [line.strip() for line in str(split_tuples(write, lowering)).split("\n")]
    assert lines[:4] == [
        "let f.0.value = f.1(x)",
        "let f.1.value = f.0(x)",
        "f.0(x) = f.0.value",
        "f.1(x) = f.1.value",
    ]


def test_a_read_elsewhere_does_not_couple_the_values() -> None:
    f, lowering = tuple_func()
    with compilation():
        x = var("x")
        write = Provide("f", (read(f, add(x, 1), 1), read(f, x, 1)), (x,))
        text = str(split_tuples(write, lowering))
    assert "let" not in text


def test_storage_is_split_too() -> None:
    f, lowering = tuple_func()
    with compilation():
        x = var("x")
        write = Provide("f", (x, x), (x,))
        bounds = ((var("a"), var("b")),)
        stmt = Realize("f", (INT32, INT32), MemoryType.Auto, bounds, true(), write)
        text = str(split_tuples(stmt, lowering))
    assert "realize f.0([a, b])" in text
    assert "realize f.1([a, b])" in text


def test_coupled_values_share_one_atomic_section() -> None:
    f, lowering = tuple_func()
    with compilation():
        x = var("x")
        swap = Atomic("f", Provide("f", (read(f, x, 1), read(f, x, 0)), (x,)))
        assert isinstance(split_tuples(swap, lowering), Atomic)
        apart = Atomic("f", Provide("f", (read(f, x, 0), read(f, x, 1)), (x,)))
        assert not isinstance(split_tuples(apart, lowering), Atomic)
