"""Bytes found by walking hand-built final statements with the sizes of a call."""

from __future__ import annotations

from bayplan.ir.build import block, div, gt, int32, lt, minimum, true, var
from bayplan.ir.exprs import Expr, Load
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import Allocate, For, Free, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import INT32, UInt
from bayplan.storage.measure import ON_STACK, measure


def allocate(
    name: str,
    extent: Expr,
    body: Stmt,
    kind: MemoryType = MemoryType.Heap,
    condition: Expr | None = None,
) -> Allocate:
    holds = true() if condition is None else condition
    return Allocate(name, INT32, kind, (extent,), holds, 0, body)


def loop(name: str, extent: Expr, body: Stmt, kind: ForKind = ForKind.Serial) -> For:
    return For(name, int32(0), extent, kind, Partition.Auto, body)


def use(name: str) -> Stmt:
    return Store("out", Load(INT32, name, int32(0)), int32(0))


def test_nested_allocations_add_up_and_siblings_do_not() -> None:
    inner = block([allocate("b", int32(10), use("b")), allocate("c", int32(30), use("c"))])
    found = measure(allocate("a", int32(5), inner), {})
    assert found.peak_bytes == 4 * (5 + 30)
    assert found.exact


def test_free_ends_the_bytes_before_the_scope_does() -> None:
    body = block([use("a"), Free("a"), allocate("b", int32(7), use("b"))])
    assert measure(allocate("a", int32(5), body), {}).peak_bytes == 4 * 7


def test_sizes_follow_the_calls_values_through_lets() -> None:
    stmt = LetStmt("n", var("out.extent.0") + 2, allocate("a", var("n"), use("a")))
    assert measure(stmt, {"out.extent.0": 100}).peak_bytes == 4 * 102


def test_a_size_that_depends_on_the_loop_takes_its_largest_value() -> None:
    size = minimum(var("i") * 3, 7)
    node = allocate("a", size, use("a"))
    found = measure(loop("i", int32(5), node), {})
    assert found.peak_bytes == 4 * 7
    # Four of five: with i == 0 the size is 0 and nothing is allocated.
    assert found.counts[node] == 4


def test_a_size_that_does_not_depend_on_the_loop_is_found_in_one_round() -> None:
    node = allocate("a", int32(8), use("a"))
    found = measure(loop("i", int32(1_000_000_000), node), {})
    assert found.peak_bytes == 32
    assert found.counts[node] == 1_000_000_000


def test_parallel_iterations_hold_their_bytes_at_once() -> None:
    stmt = loop("i", int32(10), allocate("a", int32(8), use("a")), ForKind.Parallel)
    assert [measure(stmt, {}, workers=w).peak_bytes for w in (1, 2, 16)] == [32, 64, 320]


def test_a_branch_not_taken_allocates_nothing() -> None:
    stmt = IfThenElse(
        gt(var("n"), 3), allocate("a", int32(8), use("a")), allocate("b", int32(2), use("b"))
    )
    assert measure(stmt, {"n": 4}).peak_bytes == 32
    assert measure(stmt, {"n": 3}).peak_bytes == 8


def test_a_branch_on_data_counts_both_and_says_so() -> None:
    condition = lt(Load(INT32, "in", int32(0)), 1)
    stmt = IfThenElse(
        condition, allocate("a", int32(8), use("a")), allocate("b", int32(2), use("b"))
    )
    found = measure(stmt, {})
    assert found.peak_bytes == 32
    assert not found.exact


def test_a_condition_that_fails_makes_the_size_zero() -> None:
    node = allocate("a", int32(8), use("a"), condition=gt(var("n"), 0))
    assert measure(node, {"n": 0}).peak_bytes == 0


def test_sizes_beyond_32_bits_are_exact() -> None:
    node = Allocate(
        "a", UInt(8), MemoryType.Heap, (int32(4096), int32(4096), int32(256)), true(), 0, use("a")
    )
    assert measure(node, {}).peak_bytes == 4_294_967_296
    node = Allocate("a", UInt(16), MemoryType.Heap, (int32(65535),) * 2, true(), 0, use("a"))
    assert measure(node, {}).peak_bytes == 8_589_672_450


def test_the_stack_is_counted_apart() -> None:
    stmt = allocate("a", div(var("n"), 2), use("a"), MemoryType.Stack)
    assert measure(stmt, {"n": 9}).peak_bytes == 0
    assert measure(stmt, {"n": 9}, ON_STACK).peak_bytes == 16
