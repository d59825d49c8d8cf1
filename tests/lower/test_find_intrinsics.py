"""Idioms of narrow integers become operations of their own, with the same values."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bayplan.ir import build
from bayplan.ir.exprs import Call, Expr, Load
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Store
from bayplan.ir.types import Type
from bayplan.lower.find_intrinsics import find_intrinsics
from tests.lower.build_statements import lowering


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with compilation():
        yield


def element(name: str, t: Type) -> Expr:
    return Load(t, name, build.var("x"))


def found(value: Expr) -> Expr:
    stmt = find_intrinsics(Store("f", value, build.var("x")), lowering())
    assert type(stmt) is Store
    return stmt.value


U8, U16, I32 = Type("uint", 8), Type("uint", 16), Type("int", 32)


def widened(t: Type, wide: Type) -> tuple[Expr, Expr]:
    return build.cast(wide, element("a", t)), build.cast(wide, element("b", t))


@pytest.mark.parametrize("narrow,wide", [(U8, U16), (U8, I32), (U16, I32), (U16, U16.widen())])
@pytest.mark.parametrize("rounded", [0, 1])
def test_averages(narrow: Type, wide: Type, rounded: int) -> None:
    a, b = widened(narrow, wide)
    value = found(build.cast(narrow, (a + b + rounded) // 2))
    assert type(value) is Call
    assert value.name == ("rounding_halving_add" if rounded else "halving_add")
    assert value.args == (element("a", narrow), element("b", narrow))


def test_an_average_that_may_overflow_is_left() -> None:
    a, b = element("a", U16), element("b", U16)
    value = found(build.cast(U8, (a + b + 1) // 2))
    assert type(value) is not Call


def test_three_terms_are_no_average() -> None:
    a, b = widened(U8, U16)
    assert type(found(build.cast(U8, (a + b + b + 1) // 2))) is not Call


def test_high_half_of_a_product() -> None:
    a, b = widened(U16, U16.widen())
    value = found(build.cast(U16, (a * b) // 65536))
    assert type(value) is Call
    assert value.name == "mul_shift_right"
