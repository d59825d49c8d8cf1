"""Folds: as small as is right, checked where they are asked for."""

from __future__ import annotations

from typing import Any

import pytest

import bayplan as hl
from bayplan.ir.errors import FoldError, ScheduleError
from tests.lower.run_lowered import run
from tests.lower.test_slide_windows import agrees, chain, column_sums


def fold_of(factor: int) -> Any:
    def schedule(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
        a.store_root().compute_at(o, y).fold_storage(y, factor)
        b.compute_at(o, y)

    return schedule


def test_asked_factor_is_taken() -> None:
    found = agrees(chain, [4, 6], schedule=fold_of(8))
    assert found.sizes["a"] == 4 * 8


def test_asked_factor_that_is_too_small_says_what_is_needed() -> None:
    with pytest.raises(FoldError, match=r"storage of a.* along y by 4, .* needs 5"):
        run(chain, [4, 6], schedule=fold_of(4))


def test_ring_of_a_two_dimensional_sum() -> None:
    assert agrees(column_sums, [6, 6], schedule=True).sizes["copy"] == 5 * 10


def too_small_for_a_sum(hl: Any) -> Any:
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y, yo, yi = hl.vars("x y yo yi")
    r = hl.RDom([(-2, 5), (-2, 5)], "r")
    copy, s, b = hl.Func("copy"), hl.Func("s"), hl.Func("b")
    copy[x, y] = source[x, y]
    s[x, y] = 0
    s[x, y] += copy[x + r.x, y + r.y]
    b[x, y] = s[x, y] / 25
    b.split(y, yo, yi, 1)
    s.compute_at(b, yo).store_root()
    copy.compute_at(s, x).store_root().fold_storage(y, 4)
    return b


def test_asked_factor_below_what_a_sum_reads() -> None:
    with pytest.raises(FoldError, match=r"copy.* along y by 4, .* needs 5"):
        run(too_small_for_a_sum, [8, 8])


def test_fold_over_a_parallel_loop_is_refused() -> None:
    def schedule(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
        a.store_root().compute_at(o, y).fold_storage(y, 8)
        b.compute_at(o, y)
        o.parallel(y)

    with pytest.raises(ScheduleError, match="parallel"):
        run(chain, [4, 6], schedule=schedule)


def test_fold_that_no_loop_moves_is_refused() -> None:
    def schedule(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
        a.compute_root().fold_storage(y, 8)

    with pytest.raises(FoldError, match=r"cannot fold .* of a.* along y by 8: there is no"):
        run(chain, [4, 6], schedule=schedule)


def looked_up(hl: Any, factor: int = 0, jump: int = 1) -> Any:
    """Rows are chosen by a table, so nothing can be proved about them."""
    source = hl.ImageParam(hl.Int(32), 2, "input")
    x, y = hl.vars("x y")
    a, o = hl.Func("a"), hl.Func("o")
    row = hl.clamp(source[0, y] * 0 + y * jump, 0, 40)
    a[x, y] = source[x, y] + 1
    o[x, y] = a[x, row] + a[x, row + 1]
    if factor:
        a.store_root().compute_at(o, y).fold_storage(y, factor)
    return o


def test_footprint_that_is_only_known_at_run_time() -> None:
    plain = run(looked_up, [3, 6])
    folded = run(looked_up, [3, 6], factor=4)
    assert folded.output == plain.output
    assert folded.sizes["a"] == 3 * 4


def test_footprint_that_is_too_large_at_run_time_is_an_error_not_a_wrong_value() -> None:
    with pytest.raises(FoldError, match="folded along y by 1"):
        run(looked_up, [3, 6], factor=1)


def test_vectors_along_the_ring_are_left_alone() -> None:
    def schedule(hl: Any, a: Any, b: Any, o: Any, x: Any, y: Any) -> None:
        b.compute_root()
        a.store_root().compute_at(b, y).vectorize(y, 4, hl.TailStrategy.GuardWithIf)

    assert run(chain, [3, 9], schedule=schedule).output == run(chain, [3, 9]).output


def test_the_error_names_the_line_of_the_fold() -> None:
    x, y = hl.vars("x y")
    a, o = hl.Func("a"), hl.Func("o")
    a[x, y] = x + y
    o[x, y] = a[x, y] + a[x, y + 2]
    a.store_root().compute_at(o, y).fold_storage(y, 2)
    with pytest.raises(FoldError) as caught:
        run(lambda hl: o, [4, 4])
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
