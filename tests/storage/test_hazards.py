"""Which steps of a kernel must wait for which others."""

from __future__ import annotations

import pytest

from bayplan.ir.build import const, div, eq, ge, int32, lt, minimum, mod, var
from bayplan.ir.exprs import Broadcast, Call, CallKind, Cast, Expr, Load, Ramp
from bayplan.ir.stmts import Atomic, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import INT32, INT64, Float
from bayplan.storage.hazards import NEVER, Hazards
from bayplan.storage.memory_places import GLOBAL, SHARED
from bayplan.storage.placement import keep_placement
from tests.storage.kernels import (
    X,
    Y,
    Z,
    alias,
    arena,
    block,
    load,
    serial,
    shared,
    steps_of,
    store,
    threads,
    when,
)

N, W, H = var("n"), var("w"), var("h")


def hazard(first: Stmt, second: Stmt, *, bytes: int = 4096) -> int:
    """The kinds of memory in which `second` waits for `first`; S is shared memory."""
    kernel = steps_of(shared("S", bytes // 4, block([first, second])))
    a, b = kernel.steps
    return Hazards(kernel).between(a, b)


def writes(index: Expr | int, *extents: int | Expr, at: Expr | None = None) -> Stmt:
    s: Stmt = store("S", index, 1)
    return threads(s if at is None else when(at, s), *extents)


def reads(index: Expr | int, *extents: int | Expr, at: Expr | None = None) -> Stmt:
    s: Stmt = store("out", X, load("S", index))
    return threads(s if at is None else when(at, s), *extents)


def test_each_of_read_and_write_conflicts_but_not_two_reads() -> None:
    turned = 63 - X
    assert hazard(writes(X, 64), reads(turned, 64)) == SHARED
    assert hazard(reads(X, 64), writes(turned, 64)) == SHARED
    assert hazard(writes(X, 64), writes(turned, 64)) == SHARED
    second = threads(store("other", X, load("S", turned)), 64)
    assert hazard(reads(X, 64), second) == 0


def test_a_buffer_that_is_written_and_read_is_global_memory() -> None:
    first = threads(store("out", X, 1), 64)
    assert hazard(first, threads(store("S", X, load("out", 63 - X)), 64)) == GLOBAL
    both = block([store("out", X, 1), store("S", X, 2)])
    after = threads(store("res", X, load("out", 63 - X) + load("S", 63 - X)), 64)
    assert hazard(threads(both, 64), after) == GLOBAL | SHARED


@pytest.mark.parametrize(
    "index",
    [
        X,
        X * 3 + 7,
        -X + 63,
        X + Y * 64,
        X * 8 + Y,
        Y + X * 8 + var("u"),
        div(X, 8) * 10 + mod(X, 8),
        mod(X, 4) * 16 + mod(div(X, 4), 4) + div(X, 16) * 4,
    ],
)
def test_a_thread_meets_only_its_own_bytes(index: Expr) -> None:
    rows = 8 if "thread_id_y" in str(index) else 1
    assert hazard(writes(index, 64, rows), reads(index, 64, rows)) == 0


@pytest.mark.parametrize(
    "index",
    [X + Y * 63, X * 7 + Y, div(X, 2), mod(X, 63), minimum(X, 5), div(X, 8) * 10 + mod(X, 4)],
)
def test_two_threads_may_meet_where_the_index_is_not_injective(index: Expr) -> None:
    assert hazard(writes(index, 64, 8), reads(index, 64, 8)) == SHARED


def test_rows_of_threads_without_a_place_in_the_index_are_other_threads() -> None:
    assert hazard(writes(X, 64, 2), reads(X, 64, 2)) == SHARED
    only = eq(Y, 0)
    assert hazard(writes(X, 64, 2, at=only), reads(X, 64, 2, at=only)) == 0
    assert hazard(writes(X, 64, 2, at=only), reads(X, 64, 2, at=eq(Y, 1))) == SHARED
    assert hazard(writes(3, 64, at=eq(X, 0)), reads(3, 64, at=eq(X, 0))) == 0


@pytest.mark.parametrize("offset", [0, 1, 10, 31, 32, 58, 64])
def test_a_fill_at_an_offset_meets_what_others_copied(offset: int) -> None:
    wanted = 0 if offset in (0, 64) else SHARED
    assert hazard(writes(X, 64), writes(X + offset, 64, at=lt(X, 6))) == wanted
    assert hazard(writes(X + offset, 64, at=lt(X, 6)), reads(X, 64)) == wanted


def test_guards_narrow_what_is_touched() -> None:
    assert hazard(writes(X, 64, at=lt(X, 32)), reads(X, 64, at=ge(X, 32))) == 0
    assert hazard(writes(X, 64, at=lt(X, 32)), reads(63 - X, 64, at=lt(X, 32))) == 0
    assert hazard(writes(X, 64, at=lt(X, 33)), reads(63 - X, 64, at=lt(X, 32))) == SHARED
    # A row of 40, of which only the first 30 threads write.
    assert (
        hazard(writes(X + Y * 30, 64, 4, at=lt(X, 30)), reads(X + Y * 30, 64, 4, at=lt(X, 30))) == 0
    )


def test_loops_of_one_thread() -> None:
    i = var("i")
    own = threads(serial("i", 4, store("S", X * 4 + i, 1)), 16)
    own_read = threads(serial("i", 4, store("out", X, load("S", X * 4 + 3 - i))), 16)
    assert hazard(own, own_read) == 0
    wide = threads(serial("i", 5, store("out", X, load("S", X * 4 + i))), 16)
    assert hazard(own, wide) == SHARED
    low = threads(serial("i", 4, store("S", i, 1), low=X * 4), 16)
    assert hazard(low, own_read) == 0


def test_striped_memory_of_threads() -> None:
    i, j = var("i"), var("j")
    first = threads(serial("i", N, store("S", i * 32 + X, 1)), 32)
    second = threads(serial("j", N, store("out", X, load("S", j * 32 + X))), 32)
    assert hazard(first, second) == 0
    other = threads(serial("j", N, store("out", X, load("S", j * 32 + 31 - X))), 32)
    assert hazard(first, other) == SHARED


def test_even_and_odd_elements_are_apart() -> None:
    assert hazard(writes(X * 2, 64), reads(127 - X * 2, 64)) == 0
    assert hazard(writes(X * 2, 64), reads(126 - X * 2, 64)) == SHARED


def test_run_time_strides() -> None:
    index = X + Y * W
    inside = lt(X, W)
    assert hazard(writes(index, W, 8), reads(index, W, 8)) == 0
    assert hazard(writes(index, 64, 8, at=inside), reads(index, 64, 8, at=inside)) == 0
    assert hazard(writes(index, 64, 8), reads(index, 64, 8)) == SHARED
    cube = X + Y * W + Z * W * H
    assert hazard(writes(cube, W, H, N), reads(cube, W, H, N)) == 0
    wrong = X + Y * W + Z * W * (H - 1)
    assert hazard(writes(wrong, W, H, N), reads(wrong, W, H, N)) == SHARED


def test_values_that_are_the_same_for_all_threads_cancel() -> None:
    u = var("u")
    where = mod(u, 2) * 64
    assert hazard(writes(X + where, 64), reads(X + where, 64)) == 0
    assert hazard(writes(X + where, 64), reads(X + (64 - where), 64)) == SHARED
    assert hazard(writes(X + u, 64), reads(X + u + 64, 64)) == 0


def test_an_index_from_memory_may_be_any() -> None:
    table = threads(store("S", load("in", X), 1), 64)
    assert hazard(table, reads(X, 64)) == SHARED
    named = threads(LetStmt("v", load("in", X), store("S", var("v"), 1)), 64)
    assert hazard(named, reads(var("v"), 64)) == SHARED


def test_atomic_updates_of_one_operation_need_no_order() -> None:
    place = load("in", X)

    def add(value: int) -> Stmt:
        return threads(Atomic("f", Store("S", load("S", place) + value, place)), 64)

    taken = threads(Atomic("f", Store("S", load("S", place) - 3, place)), 64)
    doubled = threads(Atomic("f", Store("S", load("S", place) * 2, place)), 64)
    mixed = threads(Atomic("f", Store("S", load("S", place) * 2 + 1, place)), 64)
    assert hazard(add(1), add(2)) == 0
    assert hazard(add(1), taken) == 0
    assert hazard(add(1), doubled) == SHARED
    assert hazard(mixed, mixed) == SHARED
    assert hazard(writes(X, 64), add(1)) == SHARED
    assert hazard(add(1), reads(X, 64)) == SHARED


def test_lanes_are_touched_together() -> None:
    value = Broadcast(const(INT32, 1), 4)
    wide = threads(Store("S", value, Ramp(X * 4, const(INT32, 1), 4)), 16)
    own = Load(INT32.with_lanes(4), "S", Ramp(X * 4, const(INT32, 1), 4))
    assert hazard(wide, threads(Store("out", own, Ramp(X * 4, const(INT32, 1), 4)), 16)) == 0
    assert hazard(wide, reads(X, 16)) == SHARED
    assert hazard(wide, reads(X * 4 + 2, 16)) == 0
    far = Load(INT32.with_lanes(4), "S", Ramp(X * 4, const(INT32, 2), 4))
    assert hazard(wide, threads(Store("out", far, Ramp(X * 4, const(INT32, 1), 4)), 16)) == SHARED


def test_code_that_every_thread_runs_reads_for_all_of_them() -> None:
    named = LetStmt("v", load("S", 3), threads(store("out", X, var("v")), 64))
    assert hazard_of_steps(block([writes(X, 64), named]), 0, 1) == SHARED
    branch = IfThenElse(lt(load("S", 3), 5), threads(store("S", X, 1), 64))
    kernel = block([threads(store("S", 3, load("in", X)), 64), branch])
    assert hazard_of_steps(kernel, 0, 1) == SHARED
    assert hazard_of_steps(kernel, 1, 2) == SHARED
    alone = block([threads(store("S", 3, 1), 1), branch_of_one()])
    assert hazard_of_steps(alone, 0, 1) == 0


def branch_of_one() -> Stmt:
    return IfThenElse(lt(load("S", 3), 5), threads(store("out", X, 1), 1))


def hazard_of_steps(body: Stmt, first: int, second: int, carried: int = NEVER) -> int:
    kernel = steps_of(shared("S", 1024, body))
    return Hazards(kernel).between(kernel.steps[first], kernel.steps[second], carried)


def test_iterations_of_a_loop_of_the_block() -> None:
    i = var("i")
    rows = serial("i", 8, block([writes(X + i * 64, 64), reads(63 - X + i * 64, 64)]))
    assert hazard_of_steps(rows, 0, 1) == SHARED
    # In a later iteration another row is written.
    assert hazard_of_steps(rows, 1, 0, 0) == 0
    ring = serial(
        "i", 8, block([writes(X + mod(i, 2) * 64, 64), reads(63 - X + mod(i, 2) * 64, 64)])
    )
    assert hazard_of_steps(ring, 1, 0, 0) == SHARED
    same = serial("i", 8, block([writes(X, 64), reads(63 - X, 64)]))
    assert hazard_of_steps(same, 1, 0, 0) == SHARED
    own = serial("i", 8, block([writes(X, 64), reads(X, 64)]))
    assert hazard_of_steps(own, 1, 0, 0) == 0
    before = serial("i", N, writes(X + i * 64, 64), low=W)
    assert hazard_of_steps(before, 0, 0, 0) == 0


def test_values_of_another_iteration_do_not_cancel() -> None:
    body = LetStmt(
        "v", load("in", var("i")), block([writes(X + var("v"), 64), reads(X + var("v"), 64)])
    )
    loop = serial("i", 8, body)
    # Step 0 reads `in`.
    assert hazard_of_steps(loop, 1, 2) == 0
    assert hazard_of_steps(loop, 2, 1, 0) == SHARED


def test_aliases_share_bytes_or_do_not() -> None:
    def pair(offset: int, size: int = 64) -> int:
        body = block(
            [
                threads(store("a", X, 1), 64),
                threads(store("out", X, load("b", 63 - X)), 64),
            ]
        )
        kernel = steps_of(arena(1024, alias("a", 64, 0, alias("b", size, offset, body))))
        return Hazards(kernel).between(*kernel.steps)

    assert pair(256) == 0
    assert pair(0) == pair(4) == pair(252) == SHARED


def test_elements_of_other_sizes_in_the_same_bytes() -> None:
    body = block(
        [
            threads(store("a", X, 1), 64),
            threads(store("out", X, Load(Float(64), "b", X)), 64),
        ]
    )
    kernel = steps_of(arena(512, alias("a", 64, 0, alias("b", 64, 0, body, Float(64)))))
    assert Hazards(kernel).between(*kernel.steps) == SHARED


def test_elements_of_a_buffer_lie_apart_whatever_its_strides() -> None:
    down, far = var("out.stride.1"), var("out.stride.2")

    def access(x: Expr, y: Expr, z: Expr) -> Stmt:
        return threads(store("out", x + y * down + z * far, 1), 8, 4)

    def later(x: Expr, y: Expr, z: Expr) -> int:
        kernel = steps_of(serial("i", N, access(x, y, z)))
        (step,) = kernel.steps
        return Hazards(kernel).between(step, step, 0)

    i = var("i")
    assert later(X, Y, i) == later(X, i * 4 + Y, X) == later(X + i * 8, Y, Y) == 0
    # The same rows in each iteration, or rows that overlap.
    assert later(7 - X, Y, X * 0) == 0  # of one thread
    assert later(X, mod(Y + i, 4), i * 0) == GLOBAL
    assert later(X, i * 3 + Y, i * 0) == GLOBAL
    assert later(X + i, Y, i * 0) == GLOBAL


def test_the_device_has_bytes_of_its_own_for_a_temporary_with_two_homes() -> None:
    body = block(
        [
            threads(store("t", X, 1), 64),
            threads(store("u", X, load("t", 63 - X)), 64),
            threads(store("out", X, load("u", 63 - X)), 64),
        ]
    )
    # On the host t and u share bytes; on the device they do not.
    apart = alias("t.device", 64, 0, alias("u.device", 64, 256, body))
    kernel = steps_of(alias_on_host(arena(512, apart)))
    first, second, third = kernel.steps
    hazards = Hazards(kernel)
    assert hazards.between(first, second) == hazards.between(second, third) == SHARED
    assert hazards.between(first, third) == 0
    # And the other way round.
    over = alias("t.device", 64, 0, alias("u.device", 64, 0, body))
    kernel = steps_of(alias_on_host(arena(512, over), 256))
    first, second, third = kernel.steps
    assert Hazards(kernel).between(first, third) == SHARED


def alias_on_host(body: Stmt, second: int = 0) -> Stmt:
    """Homes of t and u on the host, around those on the device."""
    return arena(512, alias("t", 64, 0, alias("u", 64, second, body)))


def test_offsets_that_only_the_call_knows() -> None:
    body = block([threads(store("a", X, 1), N), threads(store("out", X, load("b", 7 - X)), N)])

    def pair(lives: list[tuple[int, int]]) -> int:
        target = keep_placement(lives, [4, 4], [[64, 64]])
        slices = var("k.block_id_x") * W
        offsets = [
            Cast(INT64, slices)
            + Call(INT64, "placed_offset", (int32(i),), CallKind.INTRINSIC, target)
            for i in range(2)
        ]
        kernel = steps_of(arena(4096, alias("a", N, offsets[0], alias("b", N, offsets[1], body))))
        return Hazards(kernel).between(*kernel.steps)

    assert pair([(0, 2), (1, 3)]) == 0
    assert pair([(0, 1), (1, 3)]) == SHARED
