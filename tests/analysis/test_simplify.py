"""Forms that index arithmetic takes, one by one."""

from __future__ import annotations

import pytest

from bayplan.analysis.facts import Facts
from bayplan.analysis.modulus import modulus_remainder
from bayplan.analysis.simplify import can_prove, prove, simplify
from bayplan.analysis.solve import solve_expression
from bayplan.analysis.steps import step_of
from bayplan.ir.build import (
    block,
    broadcast,
    cast,
    const,
    eq,
    ge,
    int32,
    intrinsic,
    le,
    likely,
    logical_and,
    logical_not,
    logical_or,
    lt,
    maximum,
    minimum,
    ne,
    nothing,
    ramp,
    select,
    true,
    var,
)
from bayplan.ir.errors import BoundsError, ErrorSite
from bayplan.ir.exprs import Expr, Let, Load, Variable
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.node import compilation
from bayplan.ir.stmts import AssertStmt, Evaluate, For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import FLOAT32, INT32, Float, Int, UInt

x, y, z, n = (var(name) for name in ("x", "y", "z", "n"))
eight = broadcast(int32(8), 8)
u = Variable(UInt(8), "u")
f = Variable(FLOAT32, "f")


@pytest.mark.parametrize(
    ("e", "text"),
    [
        # Sums
        (x + y - x, "y"),
        ((x + 3) * 2 - x * 2, "6"),
        (0 - x, "0 - x"),
        (x * n + y * n, "n * (x + y)"),
        ((y + 1 - z) * n - (y - z) * n, "n"),
        # Quotients and remainders
        ((x * 4 + 3) // 4, "x"),
        ((x * 6 + 3) % 4, "(x + 1) % 2 * 2 + 1"),
        ((x + 5) // 8 - x // 8, "(x % 8 + 5) / 8"),
        (x // 8 * 8 + x % 8, "x"),
        (x - x // 8 * 8, "x % 8"),
        (x - x % 8 + 8, "x / 8 * 8 + 8"),
        (x // 4 // 8, "x / 32"),
        ((x + 8) % 8, "x % 8"),
        (x // -4, "0 - x / 4"),
        (x // int32(0), "0"),
        (x % 12 % 4, "x % 4"),
        # Choices
        (minimum(x, x + 3), "x"),
        (maximum(minimum(x, y), x), "x"),
        (minimum(maximum(x, 0), 10), "max(min(x, 10), 0)"),
        (minimum(x * 8 + 8, n) - x * 8, "min(n - x * 8, 8)"),
        (minimum(x + 3, n) - minimum(x, n - 3), "3"),
        (maximum(minimum(x + 1, n), 0) - maximum(minimum(x, n - 1), -1), "1"),
        (minimum(x // 8 * 8, x), "x / 8 * 8"),
        (minimum(x * 4, y * 4), "min(x, y) * 4"),
        (maximum(minimum(x, n), minimum(y, n)), "min(n, max(x, y))"),
        (minimum(minimum(x, y), minimum(y, x)), "min(x, y)"),
        (minimum(u, const(UInt(8), 255)), "u"),
        # Comparisons
        (lt(x * 4 + 3, y * 4), "x < y"),
        (le(x, x + y), "y >= 0"),
        (lt(x // 8, 4), "x <= 31"),
        (eq(x * 2, y * 2 + 1), "false"),
        (ne(x, x + 1), "true"),
        (lt(x, minimum(x, y)), "false"),
        # Logic
        (logical_and(lt(x, 5), lt(x, 3)), "x <= 2"),
        (logical_or(lt(x, 5), ge(x, 3)), "true"),
        (logical_and(lt(x, y), le(y, x)), "false"),
        (logical_not(lt(x, y)), "y <= x"),
        # Selections
        (select(lt(x, y), x, y), "min(x, y)"),
        (select(lt(x, y), select(lt(x, y), x, z), n), "select(x < y, x, n)"),
        (select(lt(x, y), z + 1, z + 1), "z + 1"),
        # Vectors
        (ramp(x, 1, 8) + broadcast(y, 8), "ramp(x + y, 1, 8)"),
        (ramp(x * 8, 1, 8) // eight, "x8(x)"),
        (ramp(x * 8, 1, 8) % eight, "ramp(0, 1, 8)"),
        (lt(ramp(int32(0), 1, 8), eight), "x8(true)"),
        (minimum(ramp(x, 1, 8), broadcast(x + 7, 8)), "ramp(x, 1, 8)"),
        (intrinsic(Int(32, 8), "abs", broadcast(x, 8)), "x8(abs(x))"),
        (Load(Int(32, 8), "f", broadcast(x, 8)), "x8(f[x])"),
        # Casts
        (cast(UInt(8), cast(INT32, u)), "u"),
        (cast(UInt(8), cast(Int(16), x)), "uint8(x)"),
        (cast(FLOAT32, cast(INT32, u)), "float32(u)"),
        # Floats: nothing that could change a bit
        (f + 0.0, "f + 0.0f"),
        (f - 0.0, "f"),
        (f * 1.0, "f"),
        (f - f, "f - f"),
        # Lets
        (Let("t", x + 1, var("t") * 2 - x * 2), "2"),
        (Let("t", x * y, z), "z"),
        # Shifts and masks
        (intrinsic(INT32, "shift_right", x * 8, int32(3)), "x"),
        (intrinsic(INT32, "bitwise_and", x, int32(7)), "x % 8"),
    ],
)
def test_expression(e: Expr, text: str) -> None:
    with compilation():
        assert str(simplify(e)) == text


def test_likely_is_kept_but_counts_for_nothing_in_proofs() -> None:
    clamped = minimum(likely(x), n)
    assert simplify(clamped) is clamped
    assert can_prove(le(clamped, n))
    assert can_prove(eq(likely(x) + 1 - x, 1))


def test_equal_index_expressions_are_the_same_node() -> None:
    assert simplify((x + 1) * 4 + y) is simplify(y + 4 + x * 4)
    assert simplify(minimum(y + 2, x + 2)) is simplify(minimum(x, y) + 2)
    assert simplify(lt(x, y)) is simplify(logical_not(le(y, x)))


def test_alignment_and_ranges_help() -> None:
    facts = Facts().child().align_variable("x", 8, 0)
    assert simplify((x + 3) // 4, facts) is simplify(x // 4)
    assert simplify((x + 11) % 8, facts) is int32(3)
    facts = Facts().child().bound_variable("y", 0, 7)
    assert simplify((x * 8 + y) // 8, facts) is x
    assert simplify((x * 8 + y) % 8, facts) is y
    assert prove(lt(x * 8 + y, x * 8 + 8), facts) is True


def test_modulus_and_steps() -> None:
    assert modulus_remainder(x * 8 + 3) == (8, 3)
    assert modulus_remainder(x * 8 + y * 12 + 3) == (4, 3)
    assert modulus_remainder(x * 4 + 1, {"x": (2, 1)}) == (8, 5)
    assert modulus_remainder(int32(5)) == (0, 5)
    assert step_of(x * 3 + y, "x") is int32(3)
    assert step_of((x // 2) * 2, "x") is None
    assert step_of(minimum(x, y), "x") is None


def test_solving_for_a_variable() -> None:
    assert str(solve_expression(le(y + 3, n - x), "x")) == "x < n - y - 2"
    assert str(solve_expression(logical_and(lt(x, n), lt(y, x)), "x")) == "x < n && x > y"


def loop(name: str, low: Expr | int, extent: Expr | int, body: Stmt) -> For:
    low, extent = (e if isinstance(e, Expr) else int32(e) for e in (low, extent))
    return For(name, low, extent, ForKind.Serial, Partition.Auto, body)


def test_statements() -> None:
    store = Store("f", x, x)
    assert simplify(loop("x", 0, n, IfThenElse(lt(x, n), store))) is loop("x", 0, n, store)
    assert simplify(loop("x", 0, 0, store)) is nothing()
    assert simplify(loop("x", y, 1, store)) is Store("f", y, y)
    assert simplify(IfThenElse(true(), store, Evaluate(x))) is store
    assert simplify(LetStmt("t", x * y, store)) is store
    assert simplify(LetStmt("t", x + 1, Store("f", var("t"), x))) is Store("f", x + 1, x)
    twice = block([IfThenElse(lt(x, n), store), IfThenElse(lt(x, n), Store("g", x, x))])
    assert simplify(twice) is IfThenElse(lt(x, n), block([store, Store("g", x, x)]))
    assert simplify(Store("f", Load(INT32, "f", x), x)) is nothing()


def test_what_is_checked_is_known_afterwards() -> None:
    site = ErrorSite(BoundsError, "too small")
    last = LetStmt("last", x + n - 1, nothing()).value
    checked = block(
        [AssertStmt(le(x, var("needed")), site), Store("f", minimum(x, var("last") - 15), y)]
    )
    inner = LetStmt("needed", minimum(x, var("last") - 15), checked)
    simple = str(simplify(LetStmt("last", last, inner)))
    assert simple.splitlines()[-1] == "f[y] = x"


def test_a_name_bound_again_inside_is_another_variable() -> None:
    inner = loop("x", 5, 3, Store("f", x, y))
    s = loop("x", 0, 2, LetStmt("t", x, block([inner, Store("g", var("t"), x)])))
    simple = simplify(s)
    assert "f[y] = x" in str(simple)
    assert str(simple).count("for (x") == 2
    assert simplify(LetStmt("t", x, loop("x", 0, 3, Store("f", var("t"), x)))) is LetStmt(
        "t", x, loop("x", 0, 3, Store("f", var("t"), x))
    )


def test_shared_dags_take_linear_time() -> None:
    with compilation():
        e: Expr = x
        for i in range(2000):
            e = select(lt(e, n + i), minimum(e, y) + 1, e + e % 7)
        assert simplify(e).type is INT32


def test_types_stay() -> None:
    with compilation():
        for t in (UInt(8), Int(16), UInt(32), Float(32), Int(64)):
            e = Variable(t, "v") + const(t, 1) - const(t, 1)
            assert simplify(e).type is t
