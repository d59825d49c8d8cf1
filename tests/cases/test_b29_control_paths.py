"""B29: one allocation and one release on every path, and a moved temporary is released too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver


@pytest.fixture(autouse=True)
def checked_allocations() -> Iterator[None]:
    driver.context().check_allocations()
    yield
    driver.context().check_allocations(False)
    driver.context().log_events(False)


def _events(name: str) -> list[tuple[str, int]]:
    """What was allocated and released of a temporary, in order."""
    return [(e.kind, e.size_bytes) for e in driver.context().events() if e.name == name]


@pytest.mark.parametrize("value", [True, False])
def test_b29_written_in_both_branches(value: bool) -> None:
    x = hl.Var("x")
    cond = hl.Param(hl.Bool(), "cond")
    a, out = hl.Func("A"), hl.Func("out")
    a[x] = hl.select(cond, hl.cast(hl.Float(32), 1), hl.cast(hl.Float(32), 5))
    a.specialize(cond)
    out[x] = a[x]
    a.compute_root().store_in(hl.MemoryType.Heap)
    cond.set(value)
    driver.context().log_events()
    got = np.asarray(out.realize([2]))
    assert got[1] == (1 if value else 5)
    assert _events(a.name()) == [("alloc", 8), ("free", 8)]
    assert driver.context().check_counts() == (1, 0, 0)
    # Allocated before the branch, released after what reads it.
    source = driver.compile_pipeline([out._function]).source
    body = source[source.index("_body(bp_context") :]
    assert body.index("ctx->alloc(ctx") < body.index("if (cond") < body.rindex("bp_release(ctx")


@pytest.mark.parametrize("value", [True, False])
def test_b29_used_in_one_branch_only(value: bool) -> None:
    x = hl.Var("x")
    cond = hl.Param(hl.Bool(), "cond")
    a, out = hl.Func("A"), hl.Func("out")
    a[x] = hl.cast(hl.Float(32), 7)
    out[x] = hl.select(cond, a[x], 0.0)
    a.compute_root().store_in(hl.MemoryType.Heap)
    cond.set(value)
    got = np.asarray(out.realize([2]))
    np.testing.assert_array_equal(got, 7 if value else 0)
    assert driver.context().check_counts() == (int(value), 0, 0)


def test_b29_one_of_two_in_an_arena_is_not_needed() -> None:
    x = hl.Var("x")
    cond = hl.Param(hl.Bool(), "cond")
    a, b, out = hl.Func("A"), hl.Func("B"), hl.Func("out")
    a[x] = hl.cast(hl.Float(32), x)
    b[x] = hl.cast(hl.Float(32), 2 * x)
    out[x] = hl.select(cond, a[x], 0.0) + b[x]
    for f in (a, b):
        f.compute_root().store_in(hl.MemoryType.Heap)
    sizes = []
    for value in (True, False):
        cond.set(value)
        got = np.asarray(out.realize([100]))
        np.testing.assert_array_equal(got, np.arange(100) * (3 if value else 2))
        sizes.append(hl.Pipeline(out).storage([100]).peak_bytes)
    assert driver.context().check_counts()[1:] == (0, 0)
    assert sizes[1] < sizes[0]


def test_b29_an_error_in_between_releases_all() -> None:
    x = hl.Var("x")
    limit = hl.Param(hl.Int(32), "limit")
    a, b, out = hl.Func("A"), hl.Func("B"), hl.Func("out")
    a[x] = x
    b[x] = hl.require(a[x] < limit, a[x], "too large:", a[x])
    out[x] = b[9 - x]
    for f in (a, b):
        f.compute_root().store_in(hl.MemoryType.Heap)
    limit.set(5)
    driver.context().log_events()
    with pytest.raises(hl.RequirementFailed, match="too large: 5"):
        out.realize([10])
    count, live, bad = driver.context().check_counts()
    assert count >= 1 and (live, bad) == (0, 0)
    kinds = [e.kind for e in driver.context().events()]
    assert kinds.count("alloc") == kinds.count("free") == count
    limit.set(10)
    np.testing.assert_array_equal(np.asarray(out.realize([10])), np.arange(10)[::-1])
    assert driver.context().check_counts()[1:] == (0, 0)


def test_b29_over_the_stack_limit_a_thousand_times() -> None:
    x = hl.Var("x")
    tmp, out = hl.Func("tmp"), hl.Func("out")
    tmp[x] = hl.cast(hl.Float(64), x)
    out[x] = tmp[69_999 - x]
    tmp.compute_root().store_in(hl.MemoryType.Stack).bound(x, 0, 70_000)
    result = hl.Buffer(hl.Float(64), [10])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(1000):
            out.realize(result)
    np.testing.assert_array_equal(np.asarray(result), np.arange(69_999, 69_989, -1))
    assert driver.context().check_counts() == (1000, 0, 0)
    texts = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    assert len(texts) == 1 and tmp.name() in texts[0] and "560000" in texts[0].replace(",", "")
    (row,) = hl.Pipeline(out).storage([10]).temporaries
    assert (row.asked.lower(), row.kind.lower(), row.bytes) == ("stack", "heap", 560_000)
