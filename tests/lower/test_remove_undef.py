"""Writes of undef are not done; of a select with undef only the defined side is."""

from __future__ import annotations

from bayplan.ir.build import add, gt, intrinsic, is_nothing, select, var
from bayplan.ir.exprs import Expr
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Provide
from bayplan.ir.types import INT32
from bayplan.lower.remove_undef import remove_undef
from tests.lower.build_statements import lowering


def undef() -> Expr:
    return intrinsic(INT32, "undef")


def test_a_write_of_undef_disappears() -> None:
    with compilation():
        x = var("x")
        assert is_nothing(remove_undef(Provide("f", (add(undef(), x),), (x,)), lowering()))


def test_a_select_becomes_a_condition() -> None:
    with compilation():
        x = var("x")
        value = add(select(gt(x, 3), undef(), x), 1)
        text = str(remove_undef(Provide("f", (value,), (x,)), lowering()))
    assert "if (x <= 3)" in text
    assert "f(x) = x + 1" in text


def test_other_values_of_a_tuple_are_written() -> None:
    with compilation():
        x = var("x")
        result = remove_undef(Provide("f", (undef(), x), (x,)), lowering())
        assert isinstance(result, Provide)
        assert result.values[1] is x


def test_programs_without_undef_are_left_alone() -> None:
    with compilation():
        write = Provide("f", (var("x"),), (var("x"),))
        assert remove_undef(write, lowering()) is write
