"""How many barriers kernels get, where, and what they cover."""

from __future__ import annotations

from functools import partial

import pytest

from bayplan.ir.build import lt, mod, var
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Evaluate, For, IfThenElse, LetStmt, Stmt
from bayplan.ir.walk import iterate
from bayplan.lower.insert_barriers import insert_barriers
from bayplan.storage.memory_places import GLOBAL, SHARED
from tests.lower.build_statements import lowering
from tests.storage.kernels import (
    X,
    alias,
    arena,
    block,
    count_barriers,
    fences,
    fill_at,
    is_barrier,
    kernel,
    load,
    serial,
    shared,
    stage_of,
    store,
    threads,
)

TURNED = 63 - X
I = var("i")
stage = partial(stage_of, 64)


def own(target: str, source: str) -> Stmt:
    """Each thread needs what it made itself."""
    return threads(store(target, X, load(source, X)), 64)


def chain(count: int, *, sharing: bool) -> Stmt:
    """in -> t0 -> t1 -> ... -> out; with sharing each has the bytes of the last but one."""
    names = [f"t{i}" for i in range(count)]
    stages = [stage(b, a) for a, b in zip(["in", *names], [*names, "out"], strict=True)]
    body = block(stages)
    for i, name in enumerate(names):
        offset = 256 * (i % 2 if sharing else i)
        body = alias(name, 64, offset, body)
    return arena(512 if sharing else 256 * count, body)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("sharing", [False, True])
def test_a_chain_has_one_barrier_for_each_producer(count: int, sharing: bool) -> None:
    # The third is written behind the barrier that the second is read behind, which covers both.
    assert fences(chain(count, sharing=sharing)) == [SHARED] * count


def test_bytes_that_are_shared_at_once_need_one_more() -> None:
    # a is read and out is written, then b takes the bytes of a.
    body = block([stage("a", "in"), stage("out", "a"), own("b", "in2"), stage("res", "b")])
    assert fences(arena(512, alias("a", 64, 0, alias("b", 64, 256, body)))) == [SHARED] * 2
    assert fences(arena(256, alias("a", 64, 0, alias("b", 64, 0, body)))) == [SHARED] * 3


def three_stages(sharing: bool) -> Stmt:
    """In a loop of the block: t1 from in, t2 from t1, t3 from t2, and out, each thread's own.

    t3 has elements of 4 bytes where t1 has them, but begins 4 bytes later, so that a thread's
    element of t3 is the next thread's element of t1.
    """
    body = block([stage("t1", "in"), stage("t2", "t1"), stage("t3", "t2"), own("out", "t3")])
    third = 4 if sharing else 1024
    body = alias("t1", 64, 0, alias("t2", 64, 512, alias("t3", 64, third, body)))
    return body


@pytest.mark.parametrize(("sharing", "count"), [(False, 2), (True, 3)])
def test_three_stages_in_a_loop_of_the_block(sharing: bool, count: int) -> None:
    # t3 is left in its bytes when the next iteration writes t1 over them.
    looped = arena(2048, serial("i", 10, three_stages(sharing)))
    assert fences(looped) == [SHARED] * count
    assert fences(arena(2048, three_stages(sharing))) == [SHARED] * 2


def test_a_loop_of_two_stages_waits_at_its_end_too() -> None:
    body = block([stage("t", "in"), stage("out", "t")])
    assert fences(shared("t", 64, serial("i", 4, body))) == [SHARED] * 2
    assert fences(shared("t", 64, body)) == [SHARED]


def test_a_window_of_two_rows() -> None:
    new, old = X + mod(I, 2) * 64, TURNED + mod(I, 2) * 64
    rows = block([threads(store("t", new, load("in", X)), 64),
                  threads(store("out", X, load("t", old)), 64)])  # fmt: skip
    # Which row the next iteration writes is not looked into; that costs one barrier more.
    assert fences(shared("t", 128, serial("i", 4, rows))) == [SHARED] * 2


@pytest.mark.parametrize("offset", [0, 1, 10, 31, 32, 58])
def test_b25_a_fill_at_an_offset(offset: int) -> None:
    assert fences(shared("S", 64, block(fill_at(offset)))) == [SHARED] * (2 if offset else 0)


def test_a_barrier_covers_the_kinds_that_need_it() -> None:
    globals_ = block([own("out", "in"), stage("res", "out")])
    assert fences(globals_) == [GLOBAL]
    both = block([
        threads(block([store("out", X, load("in", X)), store("S", X, 1)]), 64),
        stage("res", "out", "S"),
    ])  # fmt: skip
    assert fences(shared("S", 64, both)) == [SHARED | GLOBAL]
    # The global hazard has no barrier of its own, so one that stands there covers it.
    later = block([
        threads(block([store("out", X, load("in", X)), store("S", X, 1)]), 64),
        stage("r1", "S"),
        stage("r2", "out"),
    ])  # fmt: skip
    assert fences(shared("S", 64, later)) == [SHARED | GLOBAL]


def test_heap_memory_in_a_kernel_is_global() -> None:
    body = alias("t", 64, 0, block([stage("t", "in"), stage("out", "t")]))
    assert fences(arena(256, body, MemoryType.GPUGlobal)) == [GLOBAL]


def test_what_stands_before_a_loop_is_waited_for_before_it() -> None:
    body = block([stage("t", "in"), serial("i", 9, own_sum("out", "t"))])
    stmt = insert(shared("t", 64, body))
    assert count_barriers(stmt) == 1
    loops = [s for s in iterate(stmt) if isinstance(s, For) and s.name == "i"]
    assert count_barriers(loops[0]) == 0


def own_sum(target: str, source: str) -> Stmt:
    return threads(store(target, X, load(target, X) + load(source, TURNED)), 64)


def test_what_a_loop_leaves_is_waited_for_behind_it() -> None:
    accumulate = threads(store("t", X, load("t", X) + load("in", X)), 64)
    body = block([threads(store("t", X, 0), 64), serial("i", 9, accumulate), stage("out", "t")])
    stmt = insert(shared("t", 64, body))
    assert count_barriers(stmt) == 1
    loops = [s for s in iterate(stmt) if isinstance(s, For) and s.name == "i"]
    assert count_barriers(loops[0]) == 0


def test_a_loop_that_may_not_run_covers_nothing_behind_it() -> None:
    inside = block([stage("s", "t"), stage("t", "s")])
    body = block([stage("t", "in"), serial("i", var("n"), inside), stage("out", "t")])
    both = alias("t", 64, 0, alias("s", 64, 256, body))
    # Before s is made from t, before t is made from s, and for the last read.
    assert len(fences(arena(512, both))) == 3


def test_a_branch_has_its_own_barriers() -> None:
    branch = IfThenElse(lt(var("u"), 5), block([stage("s", "t"), stage("r", "s")]))
    body = alias("t", 64, 0, alias("s", 64, 256, block([stage("t", "in"), branch])))
    stmt = insert(arena(512, body))
    branches = [s for s in iterate(stmt) if isinstance(s, IfThenElse)]
    assert count_barriers(stmt) == count_barriers(branches[0]) == 2


def test_a_branch_on_shared_memory_is_taken_by_all_alike() -> None:
    decide = IfThenElse(lt(load("t", 0), 5), threads(store("t", X, 7), 64))
    body = block([threads(store("t", X, load("in", X)), 64), decide])
    stmt = insert(shared("t", 64, body))
    # Before the condition is read, and before what it was read from is written over.
    (branch,) = [s for s in iterate(stmt) if isinstance(s, IfThenElse)]
    assert (count_barriers(stmt), count_barriers(branch)) == (2, 1)


def test_a_value_read_between_stretches() -> None:
    body = block([
        threads(store("t", X, load("in", X)), 64),
        LetStmt("v", load("t", 3), threads(store("out", X, var("v")), 64)),
    ])  # fmt: skip
    stmt = insert(shared("t", 64, body))
    lets = [s for s in iterate(stmt) if isinstance(s, LetStmt)]
    assert (count_barriers(stmt), count_barriers(lets[0])) == (1, 0)


def test_bounds_of_a_loop_that_are_read_are_read_once() -> None:
    body = block([
        threads(store("t", X, load("in", X)), 64),
        serial("i", load("t", 0), block([stage("s", "t"), own("t", "s")])),
    ])  # fmt: skip
    stmt = insert(arena(512, alias("t", 64, 0, alias("s", 64, 256, body))))
    (loop,) = [s for s in iterate(stmt) if isinstance(s, For) and s.name == "i"]
    assert "t[" not in str(loop.extent)
    assert "let i.extent = t[0]" in str(stmt)


def test_barriers_stand_between_stretches_only() -> None:
    stmt = insert(chain(4, sharing=True))
    stretches = [s for s in iterate(stmt) if isinstance(s, For) and s.kind.is_gpu]
    for s in stretches:
        if s.name != "k.block_id_x":
            assert not any(is_barrier(n) for n in iterate(s) if isinstance(n, Evaluate))


def test_two_kernels_each_have_their_own() -> None:
    one = shared("t", 64, block([stage("t", "in"), stage("out", "t")]))
    stmt = insert_barriers(block([kernel(one), kernel(own("res", "out"), 2)]), lowering())
    assert count_barriers(stmt) == 1


def test_statements_without_kernels_stay_the_same() -> None:
    stmt = serial("i", 10, store("out", I, load("in", I)))
    assert insert_barriers(stmt, lowering()) is stmt


def insert(body: Stmt) -> Stmt:
    return insert_barriers(kernel(body, 4), lowering())
