"""Small passes on flat statements: unrolling, kinds, ends of lives, atomics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bayplan.ir import build
from bayplan.ir.build import var
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Ramp
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate, Atomic, Block, For, Free, IfThenElse, Store
from bayplan.ir.walk import iterate
from bayplan.lower.bound_loop_extents import bound_loop_extents
from bayplan.lower.choose_storage import STACK_BUDGET_BYTES, choose_storage
from bayplan.lower.free_early import free_early
from bayplan.lower.lower_atomics import lower_atomics
from bayplan.lower.remove_dead_allocations import remove_dead_allocations
from bayplan.lower.unroll_loops import unroll_loops
from tests.lower.build_statements import allocate, load, loop, lowering, store

x, y, n = var("x"), var("y"), var("n")
SERIAL = ForKind.Serial


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    with compilation():
        yield


def test_unroll_makes_one_copy_per_iteration() -> None:
    result = unroll_loops(loop("x", 3, 4, ForKind.Unrolled, store("f", x, x)), lowering())
    assert type(result) is Block
    assert [build.constant_value(s.index) for s in result.stmts] == [3, 4, 5, 6]


def test_unrolled_extent_without_a_bound_names_the_loop() -> None:
    with pytest.raises(ScheduleError, match=r"unroll the loop over x .*n"):
        bound_loop_extents(loop("x", 0, n, ForKind.Unrolled, store("f", x, x)), lowering())


def test_bounded_extent_is_guarded() -> None:
    extent = build.minimum(n, 4)
    result = bound_loop_extents(
        loop("x", 0, extent, ForKind.Unrolled, store("f", x, x)), lowering()
    )
    assert type(result) is For
    assert build.is_const(result.extent, 4)
    assert type(result.body) is IfThenElse


def kinds(stmt: object) -> dict[str, MemoryType]:
    return {s.name: s.memory_type for s in iterate(stmt) if type(s) is Allocate}  # type: ignore


def test_small_temporaries_with_constant_indices_are_registers() -> None:
    body = Block(
        (
            Store("t", build.broadcast(x, 8), Ramp(build.int32(0), build.int32(1), 8)),
            store("f", load("t", build.int32(3)), x),
        )
    )
    assert kinds(choose_storage(allocate("t", 8, body), lowering())) == {"t": MemoryType.Register}


def test_stack_holds_what_fits_together_inner_first() -> None:
    size = STACK_BUDGET_BYTES // 4 // 2 + 100
    use = store("f", load("a", x) + load("b", x), x)
    stmt = allocate("a", size, allocate("b", size, use))
    assert kinds(choose_storage(stmt, lowering())) == {"a": MemoryType.Heap, "b": MemoryType.Stack}


def test_temporaries_side_by_side_share_the_budget() -> None:
    size = STACK_BUDGET_BYTES // 4 // 2 + 100
    parts = [allocate(t, size, store("f", load(t, x), x)) for t in ("a", "b")]
    found = kinds(choose_storage(Block(tuple(parts)), lowering()))
    assert found == {"a": MemoryType.Stack, "b": MemoryType.Stack}


def test_asked_stack_without_a_bound_moves_to_the_heap_with_a_note() -> None:
    stmt = allocate("t", n, store("f", load("t", x), x))
    children = list(stmt.children())
    asked = Allocate("t", stmt.type, MemoryType.Stack, (n,), build.true(), 0, children[-1])
    context = lowering()
    assert kinds(choose_storage(asked, context)) == {"t": MemoryType.Heap}
    assert context.warnings == ["t: asked Stack, got Heap: no upper bound for n"]


def test_free_stands_after_the_last_use() -> None:
    body = Block((store("t", x, x), store("f", load("t", x), x), store("f", x, y)))
    result = free_early(allocate("t", n, body), lowering())
    assert type(result) is Allocate
    assert result.body.stmts[2] is Free("t")
    assert len(result.body.stmts) == 4


def test_free_is_never_inside_a_loop() -> None:
    body = loop("x", 0, n, SERIAL, store("f", load("t", x), x))
    result = free_early(allocate("t", n, body), lowering())
    assert type(result) is Allocate
    assert result.body.stmts == (body, Free("t"))


def test_unused_allocations_go() -> None:
    assert remove_dead_allocations(allocate("t", 4, store("f", x, x)), lowering()) is store(
        "f", x, x
    )


def test_atomic_means_nothing_outside_of_parallel_loops() -> None:
    update = store("f", load("f", y) + 1, y)
    stmt = loop("x", 0, n, SERIAL, Atomic("f", update))
    result = lower_atomics(stmt, lowering())
    assert type(result) is For
    assert result.body is update


def test_atomic_vector_store_in_a_parallel_loop_is_done_lane_by_lane() -> None:
    index = Ramp(x * 4, build.int32(1), 4)
    element = load("f", index, build.int32(0).type.with_lanes(4))
    update = Store("f", element + build.broadcast(y, 4), index)
    result = lower_atomics(loop("x", 0, n, ForKind.Parallel, Atomic("f", update)), lowering())
    atomics = [s for s in iterate(result) if type(s) is Atomic]
    assert len(atomics) == 4
    for atomic in atomics:
        assert atomic.body.index.type.lane_count == 1
