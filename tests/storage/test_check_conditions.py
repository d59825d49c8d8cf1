"""Conditions for living in an output that hold in few calls, or in none, and what is checked then.

Each program that is accepted has a neighbour that destroys elements and is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.build import eq, le, logical_and, lt, maximum, minimum, true
from bayplan.ir.errors import BoundsError, ErrorSite, PlanError
from bayplan.ir.exprs import Expr
from bayplan.ir.node import compilation
from bayplan.ir.stmts import AssertStmt, Block, IfThenElse, LetStmt, Stmt, Store
from bayplan.language.target import get_host_target
from bayplan.lower.pipeline import lower
from bayplan.reference import evaluate
from bayplan.storage.check import check_storage
from bayplan.storage.check_samples import find_samples
from tests.storage.statements import arena, block, bytes_of, copy, fill, load, loop, var
from tests.storage.test_check_output import I, N, in_output

LOW = var("out.min.0")
AT = var("t") * 8 + var("k")
M = var("m")
NO_SQUARE = eq(M * M % 4, 3)
"""Holds for no number, which the simplifier does not see."""

REFUSED = "a may not live in the bytes of out: "


def program(body: Stmt, condition: Expr, extent: Expr = N) -> Stmt:
    """A program that fills "a", of so many elements, and then does the body."""
    filled = loop("i", extent, fill("a", I))
    inside = in_output("a", condition, block([filled, body]), extent=extent)
    return arena(bytes_of(extent), inside)


def tiles(store: Stmt, *, from_tile: int = 0) -> Stmt:
    """Whole tiles of 8, the elements beyond the end left out."""
    inside = IfThenElse(lt(AT, N), store)
    tile = loop("k", 8, inside)
    return loop("t", (N + 7) // 8 - from_tile, tile)


# No call: the condition is shown never to hold.


def test_a_condition_that_never_holds_does_no_harm() -> None:
    twice = block([loop("i", N, copy("out", "a", I))] * 2)
    assert isinstance(twice, Block)
    check_storage(program(twice, eq(N, N + 1), N + 1))
    check_storage(program(twice, logical_and(eq(N, M), eq(maximum(N, 3), maximum(N, 3) - 2)), M))


def test_a_condition_that_holds_sometimes_is_no_such_condition() -> None:
    twice = block([loop("i", N, copy("out", "a", I))] * 2)
    for extent in (maximum(N, 5), M + 1, N + M % 2, N):
        condition = NO_SQUARE if extent is N else eq(N, extent)
        with pytest.raises(PlanError, match=REFUSED + "element 0 of out is stored twice"):
            check_storage(program(twice, condition, extent))


# Calls in which sizes follow from themselves.


def wider(low: int, high: int) -> Expr:
    """The size of what covers both the output and an interval."""
    return maximum(LOW + N, high) - minimum(LOW, low)


@pytest.mark.parametrize("low", [-2, 3])
def test_sizes_that_follow_from_themselves_are_found(low: int) -> None:
    extent = (wider(low, low + 6) + 1) // 2 * 2
    right = program(tiles(copy("out", "a", AT)), eq(N, extent), extent)
    samples = find_samples(right, (eq(N, extent), None))
    assert len(samples) == 4
    for numbers in samples:
        first, count = numbers.value(LOW, None), numbers.value(N, None)
        assert first <= low and first + count >= low + 6 and count % 2 == 0
    check_storage(right)


def test_elements_stored_twice_in_such_calls_only_are_seen() -> None:
    # Twice where the output begins before -2, as it does wherever the condition holds.
    again = IfThenElse(le(LOW, -2), loop("i", 1, copy("out", "a", I)))
    body = block([tiles(copy("out", "a", AT)), again])
    with pytest.raises(PlanError, match=REFUSED + "element 0 of out is stored twice"):
        check_storage(program(body, eq(N, wider(-2, 4)), wider(-2, 4)))


def test_calls_with_nothing_to_compute_are_no_samples() -> None:
    stmt = program(tiles(copy("out", "a", AT)), eq(N, M), M)
    for numbers in find_samples(stmt, (eq(N, M), None)):
        assert numbers.value(N, None) >= 1
    assert not find_samples(stmt, (eq(N, 0), None))


# Other calls, where the condition holds in none.


def halves(*, second: int) -> Stmt:
    """Tiles whose halves have a loop each, which is too much for a proof."""
    stores = [copy("out", "a", var("t") * 8 + var("k") + start) for start in (0, second)]
    inside = [loop("k", 4, IfThenElse(lt(s.index, N), s)) for s in stores]
    return loop("t", (N + 7) // 8, block(inside))


def test_stores_are_counted_in_other_calls() -> None:
    check_storage(program(halves(second=4), NO_SQUARE))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (block([tiles(copy("out", "a", AT)), loop("i", 1, copy("out", "a", I))]), "element 0"),
        (tiles(copy("out", "a", AT), from_tile=1), "only [0-9]+ elements"),
        (halves(second=3), "element 3"),
        (halves(second=5), "element 8"),
        (loop("t", (N + 7) // 8, loop("k", 8, copy("out", "a", minimum(AT, N - 1)))), "element"),
    ],
    ids=["again", "last tile", "overlap", "gap", "clamped"],
)
def test_wrong_stores_are_seen_in_other_calls(body: Stmt, why: str) -> None:
    with pytest.raises(PlanError, match=REFUSED + why):
        check_storage(program(body, NO_SQUARE))


def shifted(read: Expr) -> Stmt:
    return program(
        loop("i", N, Store("out", load("a", read) + 1.0, I)),
        logical_and(NO_SQUARE, eq(var("shift") * 2, 0)),
    )


def test_distances_are_those_of_the_condition_in_other_calls() -> None:
    # That there is no element before the first is known where the loop runs only.
    check_storage(shifted(maximum(I, 0) + var("shift") * 2))
    check_storage(shifted(maximum(I, -1) - var("shift") * 2))


@pytest.mark.parametrize(
    "read",
    [maximum(I, 1) + var("shift") * 2, maximum(I, 0) + var("shift") * 4, maximum(I, 0) + M],
    ids=["another element", "twice as far", "another distance"],
)
def test_other_distances_are_refused(read: Expr) -> None:
    with pytest.raises(PlanError, match=REFUSED + "out is stored at i, a is read at"):
        check_storage(shifted(read))


# Programs that no call comes to.


def test_a_program_that_refuses_all_calls_destroys_nothing() -> None:
    twice = block([loop("i", N, copy("out", "a", I))] * 2)
    needed = (N + 2) // 3 * 3 + 1

    def checked_first(condition: Expr) -> Stmt:
        check = AssertStmt(le(var("needed"), condition), ErrorSite(BoundsError, "no"))
        return LetStmt("needed", needed, block([check, program(twice, NO_SQUARE)]))

    check_storage(checked_first(N))
    for condition in (N + 2, M):
        with pytest.raises(PlanError, match=REFUSED):
            check_storage(checked_first(condition))


# Strides of the first dimension.


def test_a_row_with_gaps_is_refused() -> None:
    stride = var("out.stride.0")
    body = loop("i", N, Store("out", load("a", I) + 1.0, I * stride))
    check_storage(program(body, eq(stride, 1)))
    with pytest.raises(PlanError, match=REFUSED + "out.stride.0 may be other than 1"):
        check_storage(program(body, true()))


def test_an_output_of_any_stride() -> None:
    x = hl.Var("x")
    source = hl.ImageParam(hl.Int(32), 1, "source")
    a, out = hl.funcs("a out")
    a[x] = source[x] * 2
    out[x] = a[x] + 1
    a.compute_root()
    out.output_buffer().dim(0).set_stride(hl.Expr())
    source.set(hl.Buffer(np.arange(60, dtype=np.int32)))
    for step in (1, 2, 3):
        whole = np.full(60 * step, -7, np.int32)
        out.realize(hl.Buffer(whole[::step]))
        np.testing.assert_array_equal(whole[::step], np.arange(60) * 2 + 1)
        assert (whole == -7).sum() == 60 * (step - 1)
        assert out.storage(hl.Buffer(whole[::step])).peak_bytes == (0 if step == 1 else 240)


# Programs whose plans were refused.


def checked(f: Any, extents: list[int], mins: list[int]) -> str:
    """The final statement, once check and values are right."""
    with compilation():
        body = lower([f._function], get_host_target(), "p").body
        check_storage(body)
    got = hl.Buffer(np.zeros(extents[::-1], evaluate(f, mins, extents).dtype))
    got.set_min(mins)
    f.realize(got)
    np.testing.assert_array_equal(np.array(got), evaluate(f, mins, extents))
    return str(body)


def test_a_temporary_with_a_row_more_than_the_output() -> None:
    x, y, xo, yo, xi, yi = hl.vars("x y xo yo xi yi")
    f0, f1, f2, f3 = (hl.Func(f"f{i}") for i in range(4))
    f0[x, y] = x * 3 + y * 5
    f1[x, y] = f0[x, y]
    f2[x, y] = f1[x // 2, y] + f0[x, y + 1]
    f3[x, y] = hl.select(x % 2 == 0, f2[x // 2, y], f1[x, y + 1])
    f3.tile(x, y, xo, yo, xi, yi, 8, 4, hl.TailStrategy.GuardWithIf)
    for f in (f0, f1, f2):
        f.compute_root()
    # It is told at compile time that no call has it there.
    assert "output_or_offset_pointer" not in checked(f3, [15, 17], [0, 0])


def test_a_temporary_that_reaches_as_far_as_its_updates() -> None:
    x, y, xo, xi = hl.vars("x y xo xi")
    r, s = hl.RDom([(2, 4)], "r"), hl.RDom([(0, 5)], "s")
    f0, f1, f2 = (hl.Func(f"f{i}") for i in range(3))
    f0[x, y] = x + y * 3
    f0[r, y] = f0[r - 1, y] + 4
    f1[x] = x
    f1[3] += f0[0, 2] + s
    f2[x, y] = f1[x] + f0[x + 2, y - 2]
    f2.split(x, xo, xi, 3, hl.TailStrategy.GuardWithIf)
    f1.compute_root()
    f0.compute_root().update().unroll(y, 2, hl.TailStrategy.PredicateLoads)
    for mins in ([-2, 4], [0, 0]):
        assert "output_or_offset_pointer" in checked(f2, [6, 2], mins)


def test_a_temporary_with_columns_more_than_the_output() -> None:
    x, y, xo, xi, yo, yi = hl.vars("x y xo xi yo yi")
    f0, f1, f2 = (hl.Func(f"f{i}") for i in range(3))
    f0[x, y] = x * 2 - y
    f1[x, y] = hl.cast(hl.UInt(8), f0[x - 2, y + 2])
    f2[x, y] = f0[x + 2, y + 3] + f1[x, y]
    f2.split(y, yo, yi, 8, hl.TailStrategy.PredicateStores)
    f2.split(x, xo, xi, 16, hl.TailStrategy.Predicate).parallel(yo)
    f0.compute_root()
    f1.compute_root()
    assert "output_or_offset_pointer" not in checked(f2, [34, 9], [-4, -1])
