"""The checkers of races find each barrier that is missing, and each plan that overlaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bayplan.ir.build import int32, lt, mod, var
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Atomic, Block, Evaluate, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import INT32
from bayplan.ir.walk import Rewriter
from bayplan.lower.insert_barriers import insert_barriers
from bayplan.storage.barriers import BARRIER
from bayplan.storage.check_races import check_races
from bayplan.storage.memory_places import GLOBAL, SHARED
from tests.lower.build_statements import lowering
from tests.storage.interpret_kernels import Race
from tests.storage.interpret_values import Faulty
from tests.storage.kernels import (
    X,
    Y,
    alias,
    arena,
    block,
    count_barriers,
    fill_at,
    is_barrier,
    kernel,
    load,
    serial,
    shared,
    stage_of,
    store,
    threads,
    when,
)
from tests.storage.run_kernels import run_kernel

N = 16
TURNED = N - 1 - X
I, J = var("i"), var("j")
stage = partial(stage_of, N)


def own(target: str, source: str) -> Stmt:
    return threads(store(target, X, load(source, X)), N)


def in_arena(body: Stmt, offsets: dict[str, int], bytes: int) -> Stmt:
    for name, offset in reversed(offsets.items()):
        body = alias(name, N, offset, body)
    return arena(bytes, body)


def chain() -> Stmt:
    body = block([stage("a", "in"), stage("b", "a"), stage("c", "b"), stage("out", "c")])
    return in_arena(body, {"a": 0, "b": 64, "c": 0}, 128)


def overwritten() -> Stmt:
    body = block([stage("a", "in"), stage("out", "a"), stage("b", "in"), stage("res", "b")])
    return in_arena(body, {"a": 0, "b": 0}, 64)


def looped() -> Stmt:
    body = block([stage("a", "in"), stage("b", "a"), stage("c", "b"), own("out", "c")])
    return in_arena(serial("i", 3, body), {"a": 0, "b": 128, "c": 4}, 256)


def looped_two() -> Stmt:
    a = threads(store("a", X, load("in", TURNED) + I), N)
    return shared("a", N, serial("i", 5, block([a, stage("out", "a")])))


def accumulated() -> Stmt:
    def row(out: str) -> Stmt:
        at = threads(store(out, X, load(out, X) + load("a", mod(X + J, N))), N)
        return serial("j", N, at)

    body = block([stage("a", "in"), threads(store("out", X, 0), N), row("out")])
    return shared("a", N, serial("i", 2, body))


def branched() -> Stmt:
    decide = IfThenElse(lt(load("a", 0), 5), stage("a", "in2"))
    return shared("a", N, block([own("a", "in"), decide, stage("out", "a")]))


def uniform() -> Stmt:
    bound = LetStmt("v", load("a", 3), block([stage("a", "in2"), stage("out", "a")]))
    return shared("a", N, block([own("a", "in"), bound]))


def histogram() -> Stmt:
    place = mod(load("in", X), N)
    add = threads(Atomic("a", Store("a", load("a", place) + 1, place)), N)
    body = block([threads(store("a", X, 0), N), add, add, stage("out", "a")])
    return shared("a", N, body)


def through_global() -> Stmt:
    body = block([own("out", "in"), stage("res", "out")])
    return body


def through_both() -> Stmt:
    both = threads(block([store("out", X, load("in", X)), store("a", X, load("in", X))]), N)
    return shared(
        "a", N, block([both, stage("res", "out", "a"), stage("a", "in"), stage("end", "a")])
    )


def tile() -> Stmt:
    across, down = X + Y * 4, Y + X * 4
    body = block([
        threads(store("a", across, load("in", across)), 4, 4),
        threads(store("b", across, load("a", down)), 4, 4),
        threads(when(lt(X, 3), store("out", across, load("b", across + 1))), 4, 4),
    ])  # fmt: skip
    return in_arena(body, {"a": 0, "b": 64}, 128)


def filled() -> Stmt:
    return shared("S", N, block(fill_at(5, N, 4)))


PROGRAMS = [
    chain, overwritten, looped, looped_two, accumulated, branched, uniform, histogram,
    through_global, through_both, tile, filled,
]  # fmt: skip
COUNTS = [3, 3, 3, 2, 2, 3, 3, 2, 1, 3, 2, 2]


def with_barriers(program: Callable[[], Stmt]) -> Stmt:
    return insert_barriers(kernel(program()), lowering())


def run(stmt: Stmt) -> dict[str, list[int]]:
    inputs = {"in": range(1, N + 1), "in2": range(50, 50 + N)}
    written = {n.name for n in _nodes(stmt) if isinstance(n, Store)}
    outputs = {n: N for n in ("out", "res", "end") if n in written}
    return run_kernel(stmt, outputs, inputs)


def _nodes(s: Stmt) -> Iterator[Any]:
    from bayplan.ir.walk import iterate

    return iterate(s)


class _Drop(Rewriter):
    """Leaves out the barrier of a number, or gives it another fence."""

    memoise = False

    def __init__(self, number: int, fence: int = 0) -> None:
        super().__init__()
        self.left = number
        self.fence = fence

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        if not is_barrier(node):
            return node
        self.left -= 1
        if self.left != -1:
            return node
        if not self.fence:
            return block([])
        call = Call(INT32, BARRIER, (int32(self.fence),), CallKind.INTRINSIC)
        return Evaluate(call)


@pytest.mark.parametrize(("program", "count"), list(zip(PROGRAMS, COUNTS, strict=True)))
def test_barriers_are_enough(program: Callable[[], Stmt], count: int) -> None:
    stmt = with_barriers(program)
    assert count_barriers(stmt) == count
    check_races(stmt)
    run(stmt)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_barrier_is_missed(program: Callable[[], Stmt]) -> None:
    stmt = with_barriers(program)
    for number in range(count_barriers(stmt)):
        fewer = _Drop(number)(stmt)
        assert count_barriers(fewer) == count_barriers(stmt) - 1
        with pytest.raises(PlanError, match="do not wait for each other"):
            check_races(fewer)
        with pytest.raises(Faulty, match=r"without a barrier|is read before|was destroyed"):
            run(fewer)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_fence_that_covers_too_little_is_missed(program: Callable[[], Stmt]) -> None:
    stmt = with_barriers(program)
    for number in range(count_barriers(stmt)):
        for fence in (SHARED, GLOBAL):
            other = _Drop(number, fence)(stmt)
            if other is stmt:
                continue
            if _fence_of(stmt, number) & ~fence:
                with pytest.raises(PlanError):
                    check_races(other)
                with pytest.raises(Race, match="without a barrier"):
                    run(other)


def _fence_of(stmt: Stmt, number: int) -> int:
    found: list[int] = []

    def walk(s: Any) -> None:
        if is_barrier(s):
            found.append(int(s.value.args[0].value))
        for child in s.children():
            if isinstance(child, Stmt):
                walk(child)

    walk(stmt)
    return found[number]


def test_the_chain_computes_what_it_says() -> None:
    out = run(with_barriers(chain))["out"]
    assert out == list(range(1, N + 1))  # turned round four times
    assert run(with_barriers(filled))["out"] == [*range(1, 6), 0, 0, 0, 0, *range(10, N + 1)]
    assert run(with_barriers(histogram))["out"] == [2] * N


@pytest.mark.parametrize("offsets", [(0, 0, 64), (0, 32, 64), (0, 64, 64), (0, 56, 0)])
def test_a_plan_that_overlaps_is_found(offsets: tuple[int, int, int]) -> None:
    # The barriers are those of the right plan; in the wrong one a and b, or b and c, share bytes.
    right = with_barriers(chain)
    places = dict(zip("abc", offsets, strict=True))
    wrong = _Move(places)(right)
    with pytest.raises(PlanError):
        check_races(wrong)
    with pytest.raises(Faulty):
        run(wrong)


class _Move(Rewriter):
    """Gives aliases other offsets."""

    memoise = False

    def __init__(self, offsets: dict[str, int]) -> None:
        super().__init__()
        self.offsets = offsets

    def rewrite_Allocate(self, node: Any) -> Stmt:
        body = self(node.body)
        if node.name in self.offsets:
            return alias(node.name, N, self.offsets[node.name], body)
        return arena(256, body) if node.address is None else node.with_body(body)  # type: ignore[no-any-return]


def test_one_step_must_not_read_and_write_two_temporaries_in_the_same_bytes() -> None:
    body = block([stage("a", "in"), stage("b", "a"), own("out", "b")])
    apart = insert_barriers(kernel(in_arena(body, {"a": 0, "b": 64}, 128)), lowering())
    check_races(apart)
    over = insert_barriers(kernel(in_arena(body, {"a": 0, "b": 0}, 64)), lowering())
    with pytest.raises(PlanError, match="meet in byte"):
        check_races(over)
    with pytest.raises(Faulty):
        run(over)


def test_a_barrier_where_threads_are_on_their_own_is_refused() -> None:
    barrier = Evaluate(Call(INT32, BARRIER, (int32(SHARED),), CallKind.INTRINSIC))
    inside = threads(block([store("a", X, 1), barrier, store("out", X, load("a", TURNED))]), N)
    stmt = kernel(shared("a", N, inside))
    with pytest.raises(PlanError, match="in the loop over threads"):
        check_races(stmt)
    with pytest.raises(Faulty, match="each for itself"):
        run(stmt)


def test_a_barrier_that_not_all_threads_reach_is_found_when_run() -> None:
    barrier = Evaluate(Call(INT32, BARRIER, (int32(SHARED),), CallKind.INTRINSIC))
    # What the branch reads is another value for threads that run after the store.
    body = block([
        threads(store("a", X, 9), N),
        IfThenElse(lt(load("a", N - 1), 5), barrier),
    ])  # fmt: skip
    with pytest.raises(Faulty):
        run(kernel(shared("a", N, body)))


def test_data_that_says_where_elements_go() -> None:
    scatter = threads(store("a", mod(load("in", X), N), 1), N)
    body = block([scatter, stage("out", "a")])
    with pytest.raises(PlanError, match="as the data may be"):
        check_races(kernel(shared("a", N, body)))
    far = threads(store("a", N + mod(load("in", X), N), 1), N)
    check_races(kernel(shared("a", 2 * N, block([far, stage("out", "a")]))))


def test_run_time_sizes_are_tried() -> None:
    n = var("n")
    body = block([
        threads(store("a", X, load("in", X)), n),
        threads(store("out", X, load("a", X + 1)), n - 0),
    ])  # fmt: skip
    with pytest.raises(PlanError, match="do not wait"):
        check_races(kernel(shared("a", n + 1, body)))
    check_races(insert_barriers(kernel(shared("a", n + 1, body)), lowering()))


def test_blocks_that_write_the_same_elements_are_found_when_run() -> None:
    block_id = var("k.block_id_x")
    same = kernel(threads(store("out", X, load("in", X)), N), 2)
    run(same)  # the same values, as where a tail shifts inwards
    other = kernel(threads(store("out", X, load("in", X) + block_id), N), 2)
    with pytest.raises(Race, match="which block 0 wrote"):
        run(other)


def test_memory_of_a_kernel_is_global_where_it_says_so() -> None:
    body = alias("a", N, 0, block([stage("a", "in"), stage("out", "a")]))
    stmt = insert_barriers(kernel(arena(64, body, MemoryType.GPUGlobal)), lowering())
    check_races(stmt)
    with pytest.raises(PlanError):
        check_races(_Drop(0, SHARED)(stmt))


def test_statements_without_kernels_are_left_alone() -> None:
    check_races(serial("i", 4, store("out", I, 1)))
    check_races(Block((store("out", 0, 1), store("out", 1, 1))))
