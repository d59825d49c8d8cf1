"""What an expression can be at all: every value it has lies in its range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan as hl
from bayplan.language.constant_range import constant_range, fits
from bayplan.reference import evaluate

x = hl.Var("x")

LEAVES = [
    lambda: hl.u8(x * 37), lambda: hl.i8(x * 91), lambda: hl.u16(x * 4099),
    lambda: hl.i32(hl.i8(x * 53)), lambda: hl.i32(hl.u8(x)), lambda: x > 3,
]  # fmt: skip

STEPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: hl.i16(a) * hl.i16(b),
    "div": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
    "by 7": lambda a, b: a / 7 + b % 7,
    "min": lambda a, b: hl.min(a, b),
    "max": lambda a, b: hl.max(a, b),
    "select": lambda a, b: hl.select(a < b, hl.i32(a), hl.i32(b)),
    "shift": lambda a, b: hl.i32(a) >> 2,
    "and": lambda a, b: hl.i32(a) & hl.i32(b),
    "i32": lambda a, b: hl.i32(a) + hl.i32(b),
    "u8": lambda a, b: hl.u8(a) - hl.u8(b),
    "widen": lambda a, b: hl.widening_mul(hl.u8(a), hl.i8(b)),
}

programs = st.recursive(
    st.integers(0, len(LEAVES) - 1),
    lambda inner: st.tuples(st.sampled_from(sorted(STEPS)), inner, inner),
    max_leaves=6,
)


def build(program: Any) -> hl.Expr:
    if isinstance(program, int):
        return hl.Expr(LEAVES[program]())
    name, a, b = program
    left, right = build(a), build(b)
    if left.type().is_bool() or right.type().is_bool():
        left, right = hl.i32(left), hl.i32(right)
    return hl.Expr(STEPS[name](left, right))


@settings(max_examples=150, deadline=None)
@given(programs)
def test_values_lie_in_the_range(program: Any) -> None:
    e = build(program)
    f = hl.Func("f")
    f[x] = e
    values = np.asarray(evaluate(f, [-40], [120])).astype(np.int64)
    low, high = constant_range(e.node)
    assert low <= values.min() and values.max() <= high


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (lambda u: hl.i32(u) + hl.i32(u), True),
        (lambda u: hl.i32(u) * 2, True),
        (lambda u: hl.i32(u) * 258, False),
        (lambda u: hl.i32(u) - 1, False),
        (lambda u: hl.i32(hl.u16(x)) + 1, False),
        (lambda u: x % 65536, True),
        (lambda u: x % 65537, False),
    ],
)
def test_clamp_takes_what_surely_fits(value: Any, kept: bool) -> None:
    limit = hl.Expr(value(hl.u8(x)))
    assert fits(hl.UInt(16), limit.node) is kept
    if kept:
        assert hl.clamp(hl.u16(x), 0, limit).type() == hl.UInt(16)
    else:
        with pytest.raises(hl.TypeMismatchError):
            hl.clamp(hl.u16(x), 0, limit)
