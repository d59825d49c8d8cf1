"""What programs print, and requirements that fail."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

import bayplan


def printed(hl: Any, value: Any, size: int, vectorize: int = 0) -> str:
    x = hl.Var("x")
    f = hl.Func("f")
    f[x] = value(hl, x)
    if vectorize:
        f.vectorize(x, vectorize)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        f.realize([size])
    return out.getvalue()


PRINTS = {
    "integers": lambda hl, x: hl.print(x - 1, hl.u8(x) - 1, hl.i8(x) - 3, hl.i64(x) << 40),
    "floats": lambda hl, x: hl.print(hl.f32(x) / 3, hl.f64(x) / 3, hl.f32(x) * 1024),
    "bools": lambda hl, x: hl.print(x > 1, x),
    "strings": lambda hl, x: hl.print(x, "100%", "a\tb", 'q"uote', "back\\slash", ""),
    "many": lambda hl, x: hl.print(*[x + i for i in range(20)]),
    "sometimes": lambda hl, x: hl.print_when(x % 2 == 0, x, "is even"),
    "in a choice": lambda hl, x: hl.select(x > 2, hl.print(x, "here"), x),
    "twice": lambda hl, x: hl.print(x * 2) + hl.print(x),
}


@pytest.mark.parametrize("vectorize", [0, 4])
@pytest.mark.parametrize("name", PRINTS)
def test_prints_are_those_of_halide(name: str, vectorize: int) -> None:
    halide = pytest.importorskip("halide")
    ours = printed(bayplan, PRINTS[name], 4, vectorize)
    assert ours == printed(halide, PRINTS[name], 4, vectorize)
    assert ours.endswith("\n")


def fails(value: Any) -> str:
    x = bayplan.Var("x")
    f = bayplan.Func("f")
    f[x] = value(x)
    with pytest.raises(bayplan.RequirementFailed) as caught:
        f.realize([5])
    return str(caught.value)


def test_a_requirement_says_its_message_its_condition_and_its_line() -> None:
    text = fails(lambda x: bayplan.require(x < 3, x * 2, "x is", x, "{braces}"))
    assert "x is 3 {braces} (required: x < 3)" in text
    assert f"{__file__}:" in text


def test_a_requirement_without_message_says_its_value() -> None:
    text = fails(lambda x: bayplan.require(x < 3, x * 2))
    assert "the requirement (x < 3) does not hold for 6" in text


def test_evaluate() -> None:
    hl = bayplan
    assert hl.evaluate(hl.Expr(3) + 4) == 7
    assert hl.evaluate((hl.Expr(3), hl.f32(0.5))) == (3, 0.5)
    assert hl.evaluate(hl.Expr(3) > 2) is True
