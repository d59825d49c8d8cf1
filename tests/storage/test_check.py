"""The checker of plans on hand-built final statements: what it accepts and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.ir.build import const, lt, maximum, minimum, mul
from bayplan.ir.errors import InternalError, PlanError
from bayplan.ir.exprs import Cast, Expr, Ramp, Shuffle, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Evaluate, Free, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import INT32, INT64, Float, UInt
from bayplan.storage.check import check_storage
from bayplan.storage.placement import Placement, Relation, keep_placement
from tests.storage.statements import (
    ARENA,
    alias,
    arena,
    block,
    bytes_of,
    call,
    copy,
    fill,
    int32,
    load,
    loop,
    var,
)


def chain(offsets: tuple[int, int, int], bytes: int = 1200) -> Stmt:
    """a, then b from a reversed, then c from b reversed; 100 float32 each."""
    i = var("i")
    turned = int32(99) - i

    def stage(target: str, source: str) -> Stmt:
        return loop("i", 100, Store(target, load(source, turned), i))

    body = block(
        [
            loop("i", 100, fill("a", i)),
            alias("b", 100, offsets[1], block([
                stage("b", "a"),
                alias("c", 100, offsets[2], block([stage("c", "b"), stage("out", "c")])),
            ])),
        ]
    )  # fmt: skip
    return arena(bytes, alias("a", 100, offsets[0], body))


def test_the_third_may_have_the_bytes_of_the_first() -> None:
    check_storage(chain((0, 400, 0), 800))


@pytest.mark.parametrize("offsets", [(0, 0, 400), (0, 200, 800), (0, 396, 800), (0, 400, 400)])
def test_two_that_are_needed_together_may_not_share_a_byte(offsets: tuple[int, int, int]) -> None:
    with pytest.raises(PlanError, match=r"given to two temporaries at once") as caught:
        check_storage(chain(offsets))
    message = str(caught.value)
    assert "[0, 400) of a" in message or "of b" in message
    assert "step" in message and isinstance(caught.value, InternalError)


def test_an_alias_stays_within_its_arena() -> None:
    with pytest.raises(PlanError, match=r"\[800, 1200\) of c reach beyond the 1196 bytes"):
        check_storage(chain((0, 400, 800), 1196))
    with pytest.raises(PlanError, match="beyond"):
        check_storage(chain((-4, 400, 800)))


def test_an_alias_is_aligned() -> None:
    with pytest.raises(PlanError, match="aligned to 4 bytes, but lies at 402"):
        check_storage(chain((0, 402, 804), 2000))
    body = alias("a", 4, 32, fill("a", int32(0)), alignment=64)
    with pytest.raises(PlanError, match="aligned to 64"):
        check_storage(arena(100, body))


def test_one_statement_that_reads_one_and_writes_the_other_needs_both() -> None:
    t = var("t")
    body = block(
        [
            loop("t", 128, fill("a", t)),
            loop("u", 128, Store("b", load("a", int32(127) - var("u")), var("u"))),
            loop("v", 128, copy("out", "b", var("v"))),
        ]
    )
    check_storage(arena(1024, alias("a", 128, 0, alias("b", 128, 512, body))))
    with pytest.raises(PlanError):
        check_storage(arena(1024, alias("a", 128, 0, alias("b", 128, 508, body))))


@pytest.mark.parametrize("other", [4, minimum(var("m"), 4)], ids=["number", "bound"])
def test_sizes_of_which_only_a_bound_is_known_may_have_constant_offsets(other: int | Expr) -> None:
    i = var("i")

    def body(extent: Expr, offset: int) -> Stmt:
        inner = block([loop("i", 1, Store("b", load("a", 3 - i), i)), copy("out", "b", int32(0))])
        inside = block([fill("a", int32(0)), alias("b", other, offset, inner)])
        return arena(64, alias("a", extent, 0, block([inside, copy("out", "a", int32(0))])))

    for offset in (16, 20, 48):
        check_storage(body(minimum(var("n"), 4), offset))
    for extent, offset in ((minimum(var("n"), 5), 16), (minimum(var("n"), 4), 12)):
        with pytest.raises(PlanError, match="given to two temporaries at once"):
            check_storage(body(extent, offset))
    with pytest.raises(PlanError, match="given to two temporaries at once"):
        # How many there are cannot be tried.
        check_storage(body(minimum(load("table", int32(0), INT32), 4), 16))


def test_what_is_allocated_outside_a_loop_is_kept_for_all_of_it() -> None:
    i = var("i")
    inner = alias("b", 1, 0, block([fill("b", int32(0)), copy("out", "b", int32(0))]))
    inside = block([copy("out", "a", i), inner])
    check_storage(arena(8, alias("a", 1, 4, block([fill("a", int32(0)), loop("i", 9, inside)]))))
    with pytest.raises(PlanError, match="a, kept from step 0"):
        check_storage(
            arena(8, alias("a", 1, 0, block([fill("a", int32(0)), loop("i", 9, inside)])))
        )
    # Two of one iteration, one after the other, may share.
    other = alias("a", 1, 0, block([fill("a", int32(0)), copy("out", "a", int32(0))]))
    check_storage(arena(4, loop("i", 9, block([other, inner]))))


def test_branches_are_in_one_order() -> None:
    zero = int32(0)
    condition = lt(var("n"), zero)
    then, other = (
        alias("b", 1, 0, block([fill("b", zero), copy("out", "b", zero)])),
        fill("out", zero),
    )
    branch = IfThenElse(condition, block([fill("a", zero), copy("out", "a", zero)]), then)
    check_storage(arena(4, alias("a", 1, 0, branch)))
    later = block([IfThenElse(condition, fill("a", zero), then), copy("out", "a", zero), other])
    with pytest.raises(PlanError):
        check_storage(arena(4, alias("a", 1, 0, later)))


def test_the_same_node_may_stand_twice() -> None:
    zero = int32(0)
    part = alias("a", 1, 0, block([fill("a", zero), copy("out", "a", zero)]))
    check_storage(arena(4, block([part, loop("i", 3, part), part])))
    kept = alias("b", 1, 0, block([fill("b", zero), part, copy("out", "b", zero)]))
    with pytest.raises(PlanError):
        check_storage(arena(4, block([part, kept])))


def test_use_outside_of_the_scope_or_after_the_end() -> None:
    zero = int32(0)
    with pytest.raises(PlanError, match="a is used at step 1, outside of the scope"):
        check_storage(arena(4, block([alias("a", 1, 0, fill("a", zero)), copy("out", "a", zero)])))
    late = block([fill("a", zero), Free("a"), copy("out", "a", zero)])
    with pytest.raises(PlanError, match="after the end of the life of a"):
        check_storage(arena(4, alias("a", 1, 0, late)))
    with pytest.raises(PlanError, match=r"after the end of the life of p\.arena"):
        check_storage(arena(4, alias("a", 1, 0, block([Free(ARENA), fill("a", zero)]))))
    with pytest.raises(PlanError, match=r"a lies in p\.arena, which is not allocated around it"):
        check_storage(alias("a", 1, 0, fill("a", zero)))
    with pytest.raises(PlanError, match="released in each iteration of i"):
        check_storage(arena(4, alias("a", 1, 0, loop("i", 2, block([fill("a", zero), Free("a")])))))


# Parallel loops.


def workers(offset: Any, slab: int | Expr = 200, extent: int = 8) -> Stmt:
    """A parallel loop whose tasks have two temporaries of 10 float32 each in 80 bytes."""
    i = var("k")
    body = alias("b", 10, 0, alias("c", 10, 40, block([
        loop("k", 10, fill("b", i)),
        loop("k", 10, Store("c", load("b", int32(9) - i), i)),
        loop("k", 10, Store("out", load("c", i), var("y") * 10 + i)),
    ]), of="y.arena"), of="y.arena")  # fmt: skip
    worker = alias("y.arena", 80, offset, body, type=UInt(8), alignment=4)
    a = block([fill("a", int32(0)), copy("out", "a", int32(0))])
    return arena(slab, block([alias("a", 40, 0, a), loop("y", extent, worker, ForKind.Parallel)]))


SLOT = Cast(INT64, call("worker_slot", type=INT32))


def test_workers_have_slices_of_their_own() -> None:
    slots = call("parallel_slots", int32(8), type=INT32)
    some = Cast(INT64, slots) * 80
    check_storage(workers(mul(SLOT, 80), maximum(some, 40)))
    check_storage(workers(mul(SLOT, 80)), {})
    check_storage(workers(mul(SLOT, 80) + 40, some + 40))
    with pytest.raises(PlanError, match="beyond the"):
        check_storage(workers(mul(SLOT, 80), 200))
    check_storage(workers(mul(SLOT, 80), 320), {}, workers=4)
    with pytest.raises(PlanError, match="beyond the 200 bytes"):
        check_storage(workers(mul(SLOT, 80)), {}, workers=4)
    with pytest.raises(PlanError, match=r"two workers of y have the same bytes of y\.arena"):
        check_storage(workers(mul(SLOT, 76)))
    with pytest.raises(PlanError, match="two workers of y have the same bytes"):
        check_storage(workers(0))
    # One worker, one slice.
    check_storage(workers(0), {}, workers=1)


def test_a_slab_is_kept_for_all_of_its_loop() -> None:
    zero = int32(0)
    worker = alias("b", 1, mul(SLOT, 4), block([fill("b", zero), copy("out", "b", zero)]))
    body = block([fill("a", zero), loop("y", 2, worker, ForKind.Parallel), copy("out", "a", zero)])
    check_storage(arena(12, alias("a", 1, 8, body)))
    for offset in (0, 4):
        with pytest.raises(PlanError, match="two temporaries at once"):
            check_storage(arena(12, alias("a", 1, offset, body)))


def test_an_alias_does_not_cross_two_parallel_loops() -> None:
    zero = int32(0)
    inner = alias("b", 1, mul(SLOT, 4), fill("b", zero))
    nest = loop("y", 2, loop("x", 2, inner, ForKind.Parallel), ForKind.Parallel)
    with pytest.raises(PlanError, match="across the parallel loops y and x"):
        check_storage(arena(100, nest))


# In place.


def pointwise(at: Expr, read: Expr | None = None) -> Stmt:
    """b takes the bytes of a over, in loops over y and x."""
    store = Store("b", load("a", at if read is None else read), at)
    body = block([
        loop("i", 100, fill("a", var("i"))),
        loop("y", 10, loop("x", 10, store)),
        loop("i", 100, copy("out", "b", var("i"))),
    ])  # fmt: skip
    return arena(400, alias("a", 100, 0, alias("b", 100, 0, body)))


def test_in_place_where_each_element_is_replaced_by_its_last_reader() -> None:
    y, x = var("y"), var("x")
    check_storage(pointwise(y * 10 + x))
    check_storage(pointwise(x * 10 + y))
    check_storage(pointwise(int32(99) - y * 10 - x))
    with pytest.raises(PlanError, match="of b is stored twice"):
        check_storage(pointwise(y * 9 + x))
    with pytest.raises(PlanError, match=r"b is stored at .* reads a at"):
        check_storage(pointwise(y * 10 + x, y * 10 + x + 1))
    with pytest.raises(PlanError, match="element 1 of b is stored twice"):
        check_storage(pointwise(x * x + y))


def test_in_place_with_vectors_and_unknown_sizes() -> None:
    def stmt(stride: Any, lanes: int = 8) -> Stmt:
        n, y, x = var("n"), var("y"), var("x")
        at = Ramp(y * stride + x * 8, int32(1), lanes)
        vector = Float(32, lanes)
        store = Store("b", load("a", at, vector), at)
        body = block([
            loop("i", n * 800, fill("a", var("i"))),
            loop("y", 10, loop("x", n, store)),
            loop("i", n * 800, copy("out", "b", var("i"))),
        ])  # fmt: skip
        size = n * 800
        placement = keep_placement([(0, 3)], [64], [[100]])
        return LetStmt("a.bytes", bytes_of(size), arena(
            call("place_storage", load_of("a.bytes"), target=placement),
            alias("a", size, offset_of(placement, 0), alias("b", size, offset_of(placement, 0), body)),  # noqa: E501
        ))  # fmt: skip

    check_storage(stmt(var("n") * 8))
    check_storage(stmt(var("n") * 8), {"n": 3})
    with pytest.raises(PlanError, match="is stored twice"):
        check_storage(stmt(var("n") * 7))
    with pytest.raises(PlanError, match="is stored twice"):
        check_storage(stmt(var("n") * 8, lanes=16))


def test_in_place_keeps_lanes_in_their_places() -> None:
    at = Ramp(var("x") * 8, int32(1), 8)
    read = load("a", at, Float(32, 8))

    def stmt(value: Expr) -> Stmt:
        body = block(
            [
                loop("i", 80, fill("a", var("i"))),
                loop("x", 10, Store("b", value, at)),
                loop("i", 80, copy("out", "b", var("i"))),
            ]
        )
        return arena(320, alias("a", 80, 0, alias("b", 80, 0, body)))

    check_storage(stmt(read))
    with pytest.raises(PlanError, match="lanes of a go to other lanes of b"):
        check_storage(stmt(Shuffle((read,), (7, 6, 5, 4, 3, 2, 1, 0))))


def test_in_place_over_partitioned_loops() -> None:
    i = var("i")

    def stmt(second: int) -> Stmt:
        body = block([
            loop("k", 10, fill("a", var("k"))),
            loop("i", 4, copy("b", "a", i)),
            loop("i", 6, copy("b", "a", i), low=second),
            loop("k", 10, copy("out", "b", var("k"))),
        ])  # fmt: skip
        return arena(40, alias("a", 10, 0, alias("b", 10, 0, body)))

    check_storage(stmt(4))
    with pytest.raises(PlanError, match="of b is stored twice"):
        check_storage(stmt(3))


def test_in_place_is_tried_out_where_indices_alone_do_not_tell() -> None:
    n, w, t = var("n"), var("w"), var("t")

    def stmt(at: Expr, count: Expr, guard: Expr | None = None) -> Stmt:
        store: Stmt = copy("b", "a", at)
        if guard is not None:
            store = IfThenElse(guard, store)
        body = block(
            [
                loop("i", 100, fill("a", var("i"))),
                loop("y", n, loop("t", count, store)),
                loop("i", 100, copy("out", "b", var("i"))),
            ]
        )
        return arena(400, alias("a", 100, 0, alias("b", 100, 0, body)))

    y = var("y")
    # Rows of w, computed eight at a time and cut off at the end; a coordinate that is a quotient.
    padded = (w + 7) // 8 * 8
    check_storage(stmt(y * w + t, padded, lt(t, w)))
    check_storage(stmt(t // w * w + t % w + y * w * 9, w * 9))
    with pytest.raises(PlanError, match="is stored twice"):
        check_storage(stmt(y * w + t, padded))
    with pytest.raises(PlanError, match="is stored twice"):
        check_storage(stmt(minimum(t, w - 8) + y * w * 9, padded))
    # What depends on data cannot be tried.
    with pytest.raises(PlanError, match="cannot be found"):
        check_storage(stmt(load("table", t, INT32), w))


def test_in_place_ends_with_the_last_read() -> None:
    i = var("i")
    step = loop("i", 10, copy("b", "a", i))
    late = block(
        [loop("k", 10, fill("a", var("k"))), step, loop("k", 10, copy("b", "a", var("k")))]
    )
    with pytest.raises(PlanError, match="of b is stored twice"):
        check_storage(arena(40, alias("a", 10, 0, alias("b", 10, 0, late))))
    again = loop("t", 2, block([loop("k", 10, fill("a", var("k"))), step]))
    with pytest.raises(PlanError, match="a is still written"):
        check_storage(arena(40, alias("a", 10, 0, alias("b", 10, 0, again))))
    reads = block(
        [
            loop("k", 10, fill("a", var("k"))),
            loop("i", 10, block([copy("b", "a", i), copy("out", "a", i)])),
        ]
    )
    with pytest.raises(PlanError, match="does not store b"):
        check_storage(arena(40, alias("a", 10, 0, alias("b", 10, 0, reads))))


# Offsets that only the call knows.


def load_of(name: str) -> Expr:
    return Variable(INT64, name)


def offset_of(placement: Placement, index: int) -> Expr:
    return call("placed_offset", const(INT64, index), target=placement)


def placed(placement: Placement, sizes: list[Any]) -> Stmt:
    """a, b and c of n, m and n elements, each made from the one before, placed at the call."""
    n, m = var("n"), var("m")
    i = var("i")

    def stage(target: str, source: str, count: Any) -> Stmt:
        return loop("i", count, Store(target, load(source, int32(0)), i))

    body: Stmt = block([
        loop("i", n, fill("a", i)), stage("b", "a", m), stage("c", "b", n), stage("out", "c", n),
    ])  # fmt: skip
    for k, (name, count) in reversed(list(enumerate([("a", n), ("b", m), ("c", n)]))):
        body = alias(name, count, load_of(f"{name}.offset"), body, alignment=64)
        body = LetStmt(f"{name}.offset", offset_of(placement, k), body)
    total = call("place_storage", *sizes, target=placement)
    return LetStmt("p.arena.bytes", total, arena(load_of("p.arena.bytes"), body))


LIVES = [(0, 2), (1, 3), (2, 4)]
SIZES = [bytes_of(var("n")), bytes_of(var("m")), bytes_of(var("n"))]


def test_a_kept_relation_holds_for_all_calls() -> None:
    good = keep_placement(LIVES, [64, 64, 64], [[400, 400, 400], [1000, 10, 10]])
    stmt = placed(good, list(SIZES))
    check_storage(stmt)
    for n, m in [(1, 1), (100, 3), (0, 7), (3, 1000)]:
        check_storage(stmt, {"n": n, "m": m})


def test_a_relation_without_a_path_is_refused() -> None:
    good = keep_placement(LIVES, [64, 64, 64], [[400, 400, 400]])
    lost = Placement(LIVES, [64, 64, 64], [*good.relations, Relation([0, 1, 2], [[], [0], []])])
    with pytest.raises(PlanError, match=r"of b.*of c|of c.*of b"):
        check_storage(placed(lost, list(SIZES)))
    ended = keep_placement([(0, 1), (1, 3), (2, 4)], [64, 64, 64], [[400, 400, 400]])
    with pytest.raises(PlanError, match=r"of a.*of b"):
        check_storage(placed(ended, list(SIZES)))
    with pytest.raises(PlanError, match=r"\[0, 400\) of a"):
        check_storage(placed(ended, list(SIZES)), {"n": 100, "m": 100})


def test_a_size_that_is_too_small_is_refused() -> None:
    good = keep_placement(LIVES, [64, 64, 64], [[400, 400, 400]])
    small = [bytes_of(var("n")), bytes_of(var("m") - 1), bytes_of(var("n"))]
    with pytest.raises(PlanError, match=r"b takes \d+ bytes, but \d+ are kept"):
        check_storage(placed(good, list(small)))
    # Another form of the same size is compared in samples.
    check_storage(placed(good, [mul(Cast(INT64, var("n")), 4), bytes_of(var("m")), SIZES[0]]))


def test_alignment_of_a_placement() -> None:
    loose = keep_placement(LIVES, [64, 4, 64], [[400, 400, 400]])
    with pytest.raises(PlanError, match="multiple of 4 only"):
        check_storage(placed(loose, list(SIZES)))


def test_a_statement_without_arenas_is_not_looked_at() -> None:
    check_storage(Evaluate(int32(0)))
    check_storage(loop("i", 3, copy("out", "input", var("i"))))
