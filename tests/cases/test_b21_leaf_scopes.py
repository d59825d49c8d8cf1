"""B21: what is born and dies in one leaf, and loops side by side that have scratch of their own."""

from __future__ import annotations

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.build import int32, var
from bayplan.ir.errors import PlanError
from bayplan.ir.stmts import Store
from bayplan.storage.check import check_storage
from tests.storage.statements import alias, arena, block, copy, fill, load, loop


def test_b21_both_of_one_statement_have_their_own_bytes() -> None:
    t, u = hl.Var("t"), hl.Var("u")
    a, b, out = hl.Func("A_s"), hl.Func("B_s"), hl.Func("out")
    a[t] = hl.cast(hl.Float(32), t)
    b[t] = a[127 - t]
    out[u] = b[127 - u]
    for f in (a, b):
        f.compute_root().store_in(hl.MemoryType.Heap).bound(t, 0, 128)
    np.testing.assert_array_equal(np.asarray(out.realize([128])), np.arange(128))
    report = hl.Pipeline(out).storage([128])
    offsets = {row.func: row.offset for row in report.temporaries}
    assert {offsets[a.name()], offsets[b.name()]} == {0, 512}
    assert report.peak_bytes == 1024


def test_b21_the_checker_refuses_one_offset_for_both() -> None:
    t = var("t")
    body = block(
        [
            loop("t", 128, fill("A_s", t)),
            loop("t", 128, Store("B_s", load("A_s", int32(127) - t), t)),
            loop("t", 128, copy("out", "B_s", t)),
        ]
    )
    check_storage(arena(1024, alias("A_s", 128, 0, alias("B_s", 128, 512, body))))
    with pytest.raises(PlanError, match=r"A_s.*B_s"):
        check_storage(arena(1024, alias("A_s", 128, 0, alias("B_s", 128, 0, body))))


def test_b21_sibling_loops_share_one_scratch() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    first, second, one, two, out = [hl.Func(n) for n in ("first", "second", "one", "two", "out")]
    first[x, y] = hl.cast(hl.Float(32), x + y)
    one[x, y] = first[199 - x, y] + 1.0
    second[x, y] = hl.cast(hl.Float(32), x - y)
    two[x, y] = second[199 - x, y] + one[x, y]
    out[x, y] = two[x, y]
    for f, consumer in ((first, one), (second, two)):
        f.compute_at(consumer, y).store_in(hl.MemoryType.Heap).bound(x, 0, 200)
    for f in (one, two):
        f.compute_root().store_in(hl.MemoryType.Heap).bound(x, 0, 200)
    ys, xs = np.mgrid[:5, :200]
    want = (199 - xs + ys) + 1 + (199 - xs - ys)
    np.testing.assert_array_equal(np.asarray(out.realize([200, 5])), want)
    report = hl.Pipeline(out).storage([200, 5])
    rows = {row.func: row for row in report.temporaries}
    assert rows[first.name()].bytes == rows[second.name()].bytes == 800


def test_b21_two_loops_in_one_outer_loop_take_800_bytes() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    r = hl.RDom([(0, 200)])
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x, y] = hl.cast(hl.Float(32), x + y)
    second[x, y] = hl.cast(hl.Float(32), x - y)
    out[y] = 0.0
    out[y] += first[199 - r, y]
    out[y] += second[199 - r, y]
    first.compute_at(out, y).store_in(hl.MemoryType.Heap)
    second.compute_at(out, y).store_in(hl.MemoryType.Heap)
    xs = np.arange(200)
    want = [float((xs + k).sum() + (xs - k).sum()) for k in range(7)]
    np.testing.assert_allclose(np.asarray(out.realize([7])), want)
    report = hl.Pipeline(out).storage([7])
    assert [row.bytes for row in report.temporaries] == [800, 800]
    assert report.peak_bytes <= 800 + 64, "one scratch for both loops"
