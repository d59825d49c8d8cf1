"""External stages give what they give in the wheel, with as many calls."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import bayplan
from bayplan import driver
from tests.callees.conftest import count
from tests.callees.programs import ALL


@pytest.mark.parametrize("name", sorted(ALL))
def test_same_as_the_wheel(name: str, functions: ctypes.CDLL) -> None:
    halide = pytest.importorskip("halide")
    count(functions, "calls")
    expected = ALL[name](halide)
    calls = count(functions, "calls")
    found = ALL[name](bayplan)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    made = count(functions, "calls")
    # The wheel leaves specializations of such stages out.
    assert made == calls or name == "specialized"


@pytest.mark.parametrize("inside", ["", "f", "f and g"])
def test_the_report_asks_the_functions(inside: str, functions: ctypes.CDLL) -> None:
    hl = bayplan
    x, y = hl.Var("x"), hl.Var("y")
    k = hl.Param(hl.Int(32), "k", 2)
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 7
    f.define_extern("ex_stencil", [g, k], hl.Int(32), [x, y])
    h[x, y] = f[x, y] + f[x, y + 1]
    g.compute_root()
    f.compute_root()
    if "f" in inside:
        f.compute_at(h, y)
    if "g" in inside:
        g.compute_at(h, y)
    report = h.storage([20, 10])
    extents = {row.func: row.extents for row in report.temporaries}
    rows = 2 if "f" in inside else 11
    assert extents[f.name()] == (20, rows)
    assert extents[g.name()] == (24, rows + 1 if "g" in inside else 12)
    h.realize([20, 10])
    counts = driver.context().counts
    assert report.exact
    assert report.peak_bytes == counts.peak_bytes
    assert report.allocations == counts.allocations


def test_memory_of_tasks_that_only_a_function_knows_is_a_bound(functions: ctypes.CDLL) -> None:
    """Tasks take it for themselves, and whether all do at one moment is not known."""
    hl = bayplan
    x, y = hl.Var("x"), hl.Var("y")
    g, f, h = hl.Func("g"), hl.Func("f"), hl.Func("h")
    g[x, y] = x * 3 + y * 7
    f.define_extern("ex_stencil", [g, 2], hl.Int(32), [x, y])
    h[x, y] = f[x, y] + f[x, y + 1]
    f.compute_at(h, y)
    g.compute_at(h, y)
    h.parallel(y)
    one, four = (hl.Pipeline(h).storage([20, 10], workers=n) for n in (1, 4))
    assert one.exact and not four.exact
    assert four.peak_bytes == 4 * one.peak_bytes
    assert "at most" in str(four) and "at most" not in str(one)
    h.realize([20, 10])
    counts = driver.context().counts
    assert one.peak_bytes <= counts.peak_bytes
    assert counts.allocations == one.allocations == four.allocations
