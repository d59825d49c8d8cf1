"""Partitioning, trimming, hoisting and naming keep what programs store, and do their work."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bayplan.analysis.simplify import simplify
from bayplan.ir.build import (
    block,
    broadcast,
    clamp,
    conjunction,
    int32,
    likely,
    logical_or,
    lt,
    maximum,
    minimum,
    ramp,
    select,
    var,
)
from bayplan.ir.exprs import Call, Expr, Load, Max, Min, Select
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.node import compilation
from bayplan.ir.stmts import For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import INT32
from bayplan.ir.walk import iterate
from bayplan.lower.eliminate_common_subexpressions import eliminate_common_subexpressions
from bayplan.lower.hoist_invariants import hoist_invariants
from bayplan.lower.partition_loops import partition_loops
from bayplan.lower.trim_no_ops import trim_no_ops
from tests.lower.build_statements import load, loop, lowering, store
from tests.lower.interpret import Interpreter

x, y, n, w, m = (var(name) for name in ("x", "y", "n", "w", "m"))
SERIAL, PARALLEL = ForKind.Serial, ForKind.Parallel


def stored(s: Stmt, **values: int) -> dict[str, Any]:
    run = Interpreter(values, {})
    run.memory["in"] = {i: i * i % 251 for i in range(-200, 600)}
    run.run(s)
    run.memory.pop("in")
    return run.memory


def same(before: Stmt, after: Stmt, cases: list[dict[str, int]]) -> None:
    for values in cases:
        assert stored(before, **values) == stored(after, **values), (values, str(after))


SIZES = [(0, 0, 0), (1, 1, 1), (2, 5, 3), (7, 9, -2), (4, 17, 6)]
CASES = [
    {"n": n_, "w": w_, "m": m_} for n_, w_, m_ in SIZES
]


def clamped(e: Expr, extent: Expr) -> Expr:
    return minimum(maximum(likely(e), 0), extent - 1)


def loops(s: Stmt, name: str) -> list[For]:
    return [f for f in iterate(s) if type(f) is For and f.name == name]


def choices(s: Stmt) -> int:
    return sum([type(e) in (Min, Max, Select) for e in iterate(s)])


def boundary(kind: ForKind = SERIAL) -> Stmt:
    at = [load("in", clamped(x + i, w) + clamped(y + i, n) * w) for i in (-1, 0, 1)]
    body = store("out", at[0] + at[1] + at[2], y * w + x)
    return simplify(loop("y", 0, n, kind, loop("x", 0, w, SERIAL, body)))


def test_boundary_conditions_cost_nothing_inside() -> None:
    s = boundary()
    parted = simplify(partition_loops(s, lowering()))
    same(s, parted, CASES[1:])
    assert len(loops(parted, "y")) == 3
    middle = loops(parted, "y")[1]
    assert len(loops(middle, "x")) == 3
    assert choices(loops(middle, "x")[1]) == 0
    assert not [c for c in iterate(parted) if type(c) is Call and c.name == "likely"]


def test_parallel_loops_stay_one_loop() -> None:
    s = boundary(PARALLEL)
    parted = simplify(partition_loops(s, lowering()))
    same(s, parted, CASES[1:])
    assert len(loops(parted, "y")) == 1
    assert type(loops(parted, "y")[0].body) is IfThenElse


def test_partition_never() -> None:
    s = loop("x", 0, w, SERIAL, store("out", load("in", clamped(x - 1, w)), x))
    s = For(s.name, s.min, s.extent, s.kind, Partition.Never, s.body)
    assert len(loops(partition_loops(s, lowering()), "x")) == 1


def test_partition_always_takes_conditions_without_a_mark() -> None:
    s = loop("x", 0, w, SERIAL, store("out", select(lt(x, m), x * 2, x * 3), x))
    assert len(loops(partition_loops(s, lowering()), "x")) == 1
    s = For(s.name, s.min, s.extent, s.kind, Partition.Always, s.body)
    parted = simplify(partition_loops(s, lowering()))
    same(s, parted, CASES)
    assert len(loops(parted, "x")) == 2


def test_guarded_tail_of_a_split() -> None:
    inner = x * 8 + var("xi")
    guard = IfThenElse(likely(lt(inner, w)), store("out", load("in", inner), inner))
    s = loop("x", 0, (w + 7) // 8, SERIAL, loop("xi", 0, 8, SERIAL, guard))
    parted = simplify(partition_loops(s, lowering()))
    same(s, parted, CASES)
    first = loops(parted, "x")[0]
    assert not [i for i in iterate(first) if type(i) is IfThenElse]


def test_vectors_become_dense() -> None:
    def at(offset: int) -> Expr:
        index = ramp(x * 8 + offset, 1, 8)
        low, high = broadcast(int32(0), 8), broadcast(w - 1, 8)
        return Load(INT32.with_lanes(8), "in", minimum(maximum(likely(index), low), high))

    def exterior(offset: int) -> Expr:
        index = ramp(x * 8 + offset, 1, 8)
        low, high = broadcast(int32(0), 8), broadcast(w - 1, 8)
        outside = logical_or(lt(index, low), lt(high, index))
        return select(outside, broadcast(int32(7), 8), likely(at(offset)))

    for value in (at(-1) + at(1), exterior(-1) + exterior(0)):
        s = simplify(loop("x", 0, w // 8, SERIAL, store("out", value, ramp(x * 8, 1, 8))))
        parted = simplify(partition_loops(s, lowering()))
        same(s, parted, [{"w": 8}, {"w": 16}, {"w": 31}, {"w": 40}])
        steady = loops(parted, "x")[1]
        assert choices(steady) == 0


def test_innermost_only() -> None:
    mark = Call(INT32, "likely_if_innermost", (y,), likely(y).kind)  # type: ignore[attr-defined]
    s = loop(
        "y", 0, n, SERIAL, loop("x", 0, w, SERIAL, store("out", minimum(mark, m), x + y * w))
    )
    assert len(loops(partition_loops(s, lowering()), "y")) == 1
    s = loop("y", 0, n, SERIAL, store("out", minimum(mark, m), y))
    parted = simplify(partition_loops(s, lowering()))
    same(s, parted, CASES)
    assert len(loops(parted, "y")) == 2


def test_trim_to_where_something_happens() -> None:
    guard = IfThenElse(conjunction([lt(x + y, m), lt(int32(2), y)]), store("out", x, x + y * 100))
    s = simplify(loop("y", 0, n, SERIAL, loop("x", 0, w, SERIAL, guard)))
    trimmed = simplify(trim_no_ops(s, lowering()))
    same(s, trimmed, CASES)
    assert loops(trimmed, "y")[0].min is int32(3)
    assert not [i for i in iterate(trimmed) if type(i) is IfThenElse]


def test_trim_leaves_loops_with_other_work() -> None:
    guard = IfThenElse(lt(x, m), store("out", x, x))
    s = loop("x", 0, n, SERIAL, block([guard, store("other", x, x)]))
    assert trim_no_ops(s, lowering()) is s


def test_invariants_leave_the_loop() -> None:
    value = load("in", (y - m) * w + x - 1) + load("in", (y - m) * w + x + 1) * (n * w)
    body = LetStmt("q", y * 3 + m, store("out", value + var("q"), x + y * w))
    s = simplify(loop("y", 0, n, SERIAL, loop("x", 0, w, SERIAL, body)))
    hoisted = hoist_invariants(s, lowering())
    same(s, hoisted, CASES)
    (inner,) = loops(hoisted, "x")
    assert type(inner.body) is Store
    assert not [e for e in iterate(inner.body.index) if "m" in str(e)]


def test_reads_stay_in_their_loop() -> None:
    s = loop("x", 0, n, SERIAL, store("in", load("in", m) + 1, m))
    assert hoist_invariants(s, lowering()) is s


def test_shared_values_get_names() -> None:
    index = x * w + y
    s = store("out", load("in", index) * load("in", index) + index, x)
    named = eliminate_common_subexpressions(s, lowering())
    same(s, named, [{"x": 1, "y": 2, "w": 3}])
    assert type(named) is LetStmt
    assert len([e for e in iterate(named) if type(e) is Load]) == 1


def test_reads_behind_a_condition_stay_there() -> None:
    far = load("in", x + 10_000)
    both = Call(INT32, "if_then_else", (lt(x, 0), far * far, x), likely(x).kind)  # type: ignore[attr-defined]
    s = store("out", both, x)
    same(s, eliminate_common_subexpressions(s, lowering()), [{"x": 1}])


def test_naming_is_linear_in_shared_nodes() -> None:
    with compilation():
        e: Expr = var("x") * var("y")
        for _ in range(300):
            e = e * e + (e - 1)
        named = eliminate_common_subexpressions(Store("out", e, var("x")), lowering())
        assert sum([type(s) is LetStmt for s in iterate(named)]) == 300


class Programs:
    """Makes random loop nests with marks, guards and shared index arithmetic."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def index(self) -> Expr:
        r = self.random
        base = r.choice([x, y, x + y, x * 2, x - y, y * 4 + x, x // 2, (x + 3) // 4])
        return base + r.randrange(-3, 4)

    def value(self, depth: int = 2) -> Expr:
        r = self.random
        kind = r.randrange(6 if depth else 2)
        if kind == 0:
            return load("in", clamp(likely(self.index()), 0, maximum(w, n) + 8))
        if kind == 1:
            return minimum(likely(self.index()), r.choice([w, n, m, w - 1]))
        if kind == 2:
            return select(lt(likely(self.index()), w), self.value(depth - 1), self.index())
        if kind == 3:
            return self.value(depth - 1) + self.value(depth - 1)
        if kind == 4:
            return maximum(likely(self.index()), r.choice([int32(0), m])) * (w + m * n)
        return select(lt(self.index(), n), likely(self.value(depth - 1)), self.index())

    def statement(self) -> Stmt:
        r = self.random
        parts: list[Stmt] = []
        for i in range(r.randrange(1, 3)):
            s: Stmt = store(f"out{i}", self.value(), x + y * 50)
            if r.random() < 0.5:
                condition = lt(self.index(), r.choice([w, n, m]))
                s = IfThenElse(likely(condition) if r.random() < 0.6 else condition, s)
            if r.random() < 0.3:
                s = LetStmt("q", self.index() * w, block([s, store("q_of", var("q"), x + y * 50)]))
            parts.append(s)
        inner_kind, outer_kind = r.choice([SERIAL, PARALLEL]), r.choice([SERIAL, PARALLEL])
        low = r.choice([int32(0), int32(-2), y, y - 2])
        nest = loop("x", low, r.choice([w, int32(6), w - 1, n + 2]), inner_kind, block(parts))
        return loop("y", r.choice([0, 1, -1]), r.choice([n, int32(5)]), outer_kind, nest)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    with compilation():
        before = Programs(seed).statement()
        s = simplify(before)
        same(before, s, CASES)
        context = lowering()
        for action in (
            partition_loops,
            lambda s, _: simplify(s),
            trim_no_ops,
            hoist_invariants,
            eliminate_common_subexpressions,
        ):
            s = action(s, context)
            same(before, s, CASES)
