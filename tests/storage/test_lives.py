"""Steps and lives of temporaries on hand-built final statements."""

from __future__ import annotations

from bayplan.ir.build import block, int32, true, var
from bayplan.ir.exprs import Load
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import Allocate, For, Free, Stmt, Store
from bayplan.ir.types import INT32
from bayplan.storage.lives import find_lives


def allocate(name: str, elements: int, body: Stmt) -> Allocate:
    return Allocate(name, INT32, MemoryType.Heap, (int32(elements),), true(), 0, body)


def loop(name: str, extent: int, body: Stmt, kind: ForKind = ForKind.Serial) -> For:
    return For(name, int32(0), int32(extent), kind, Partition.Auto, body)


def copy(target: str, source: str, at: str) -> Store:
    return Store(target, Load(INT32, source, var(at)), var(at))


def test_a_life_ends_with_the_last_read_and_not_with_the_scope() -> None:
    stmt = allocate(
        "a",
        4,
        block(
            [
                loop("i", 4, Store("a", int32(1), var("i"))),
                loop("j", 4, copy("out", "a", "j")),
                loop("k", 4, Store("out", int32(2), var("k"))),
            ]
        ),
    )
    (life,) = find_lives(stmt).lives
    assert (life.begin, life.end) == (0, 2)


def test_what_is_allocated_outside_a_loop_lives_for_the_whole_loop() -> None:
    body = block(
        [
            Store("first", int32(0), var("i")),
            copy("out", "a", "i"),
            Store("last", int32(0), var("i")),
        ]
    )
    found = find_lives(allocate("a", 4, loop("i", 4, body)))
    (life,) = found.lives
    assert len(found.steps) == 3
    assert (life.begin, life.end) == (0, 3)


def test_what_is_allocated_inside_a_loop_lives_for_its_own_steps() -> None:
    inner = allocate("a", 4, block([Store("a", int32(1), int32(0)), copy("out", "a", "i")]))
    body = block([Store("first", int32(0), var("i")), inner, Store("last", int32(0), var("i"))])
    found = find_lives(loop("i", 4, body, ForKind.Parallel))
    (life,) = found.lives
    assert (life.begin, life.end) == (1, 3)
    assert life.loops == ("i",)
    assert life.in_parallel


def test_an_allocation_that_nobody_accesses_has_an_empty_life() -> None:
    (life,) = find_lives(allocate("a", 4, Store("out", int32(0), int32(0)))).lives
    assert life.begin == life.end


def test_two_allocations_of_one_name_are_two_lives() -> None:
    def part(i: str) -> Stmt:
        body = block([Store("a", int32(1), int32(0)), copy("out", "a", i), Free("a")])
        return loop(i, 2, allocate("a", 4, body))

    lives = find_lives(block([part("i"), part("j")])).lives
    assert [(life.begin, life.end) for life in lives] == [(0, 2), (2, 4)]
