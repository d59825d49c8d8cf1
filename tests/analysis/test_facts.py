"""What loops, lets and conditions make provable."""

from __future__ import annotations

import pytest

from bayplan.analysis.facts import Facts
from bayplan.analysis.simplify import prove, simplify
from bayplan.ir.build import eq, ge, int32, le, logical_and, logical_or, lt, maximum, minimum, var

x, y, n, m, w = (var(name) for name in ("x", "y", "n", "m", "w"))


def test_constant_loop() -> None:
    facts = Facts().loop("x", int32(0), int32(8))
    assert prove(lt(x, 8), facts) is True
    assert prove(lt(x, 7), facts) is None
    assert prove(ge(x, 8), facts) is False
    assert simplify(x // 8, facts) is int32(0)


def test_symbolic_loop_inside_another() -> None:
    outer = Facts().loop("y", int32(0), n)
    facts = outer.loop("x", y * 8, minimum(w - y * 8, int32(8)))
    assert prove(lt(x, w), facts) is True
    assert prove(le(x, y * 8 + 7), facts) is True
    assert prove(lt(y, n), facts) is True
    assert prove(lt(x, n * 8), facts) is True
    assert prove(lt(x, w - 1), facts) is None


def test_loop_that_may_be_empty() -> None:
    facts = Facts().loop("x", int32(0), maximum(minimum(m - y, w), 0))
    assert prove(lt(x + y, m), facts) is True
    assert prove(lt(x, w), facts) is True
    # Nothing is said of a greater of two lengths.
    facts = Facts().loop("x", int32(0), maximum(m, w))
    assert prove(lt(x, m), facts) is None
    assert prove(ge(x + 1, w), facts) is None


def test_let_keeps_sides_of_a_minimum() -> None:
    facts = Facts().let("x", minimum(n, y * 2))
    assert prove(le(x, n), facts) is True
    assert prove(le(x, y * 2 + 1), facts) is True
    facts = Facts().let("x", maximum(n, y))
    assert prove(ge(x, n), facts) is True
    assert prove(le(x, n), facts) is None


@pytest.mark.parametrize(
    ("assumed", "asked", "answer"),
    [
        (lt(x, y), le(x + 1, y), True),
        (lt(x, y), eq(x, y), False),
        (logical_and(lt(x, y), lt(y, n)), lt(x, n), True),
        (logical_or(lt(x, y), lt(y, n)), lt(x, n), None),
        (le(x * 4, n * 4 + 3), le(x, n), True),
        (eq(x, y), eq(x - y, 0), True),
    ],
)
def test_conditions(assumed: object, asked: object, answer: bool | None) -> None:
    assert prove(asked, Facts().child().assume(assumed)) is answer  # type: ignore[arg-type]
