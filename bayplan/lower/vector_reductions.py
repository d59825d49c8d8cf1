"""Atomic updates in vectorised loops turned into reductions of lanes, for vectorize_loops."""

from __future__ import annotations

from typing import Protocol

from bayplan.analysis.linear import constant_difference
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import (
    Add,
    And,
    Call,
    Expr,
    Load,
    Max,
    Min,
    Mul,
    Or,
    ReduceOp,
    Shuffle,
    Sub,
    VectorReduce,
)
from bayplan.ir.node import Node
from bayplan.ir.stmts import Atomic, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import Type
from bayplan.lower.context import Lowering
from bayplan.lower.lanes import lane_of
from bayplan.lower.scoped import strip_likely
from bayplan.lower.vector_expressions import PredicateLoads, combine, loads, widen

_OPERATIONS: dict[type[Expr], ReduceOp] = {
    Add: ReduceOp.ADD,
    Sub: ReduceOp.ADD,
    Mul: ReduceOp.MUL,
    Min: ReduceOp.MIN,
    Max: ReduceOp.MAX,
    And: ReduceOp.AND,
    Or: ReduceOp.OR,
}

_NODES: dict[ReduceOp, type[Expr]] = {op: cls for cls, op in _OPERATIONS.items() if cls is not Sub}


class _Vectorizer(Protocol):
    lowering: Lowering

    def __call__(self, node: Node) -> Node: ...
    def total_lanes(self) -> int: ...
    def scalarize(self, stmt: Stmt) -> Stmt: ...


def reduce_lanes(vectorizer: _Vectorizer, node: Atomic, condition: Expr | None) -> Stmt | None:
    """The vector form of an atomic statement, done where `condition` holds; None if there is none.

    `f[i] = f[i] op value` becomes `f[j] = f[j] op (value reduced over the lanes with the same
    index)`; what does not read what it writes is vectorised as it stands.
    """
    body = node.body
    names = _storage_of(node.name, vectorizer.lowering)
    if condition is None:
        if type(body) is LetStmt and not loads(body.value, names):
            inner = Atomic(node.name, body.body)
            return vectorizer(LetStmt(body.name, body.value, inner))  # type: ignore[return-value]
        if type(body) is IfThenElse and body.else_case is None and not loads(body.condition, names):
            inner = Atomic(node.name, body.then_case)
            return vectorizer(IfThenElse(body.condition, inner))  # type: ignore[return-value]
    if type(body) is not Store:
        return None
    names.add(body.name)
    if body.predicate is not None and condition is None:
        condition = body.predicate
        body = Store(body.name, body.value, body.index, None, body.source)
    if body.predicate is not None or loads(body.index, names):
        return None
    if condition is not None and loads(condition, names):
        return None
    if not loads(body.value, names):
        return _without_reading(vectorizer, node, body, condition)
    return _reduction(vectorizer, node, body, condition, names)


def _storage_of(name: str, lowering: Lowering) -> set[str]:
    function = lowering.env.get(name)
    names = {name}
    if function is not None and function.outputs() > 1:
        names |= {f"{name}.{i}" for i in range(function.outputs())}
    return names


def _without_reading(
    vectorizer: _Vectorizer, node: Atomic, store: Store, condition: Expr | None
) -> Stmt | None:
    if condition is not None:
        return None
    lanes = vectorizer.total_lanes()
    value: Expr = widen(vectorizer(store.value), lanes)  # type: ignore[arg-type]
    index: Expr = widen(vectorizer(store.index), lanes)  # type: ignore[arg-type]
    return Atomic(node.name, Store(store.name, value, index, None, store.source))


def _operands(store: Store, names: set[str]) -> tuple[ReduceOp, Expr] | None:
    """The operation and the value that joins the stored element, in f[i] = f[i] op value."""
    value = store.value
    cls = type(value)
    if cls is Call and value.is_intrinsic("saturating_add"):
        op, a, b = ReduceOp.SATURATING_ADD, value.args[0], value.args[1]
    elif cls in _OPERATIONS:
        op, a, b = _OPERATIONS[cls], value.a, value.b  # type: ignore[attr-defined]
    else:
        return None
    if not _is_element(a, store) and cls is not Sub:
        a, b = b, a
    if not _is_element(a, store) or loads(b, names):
        return None
    return op, b


def _is_element(e: Expr, store: Store) -> bool:
    return (
        type(e) is Load and e.name == store.name and e.index is store.index and e.predicate is None
    )


def _reduction(
    vectorizer: _Vectorizer,
    node: Atomic,
    store: Store,
    condition: Expr | None,
    names: set[str],
) -> Stmt | None:
    found = _operands(store, names)
    if found is None:
        return None
    op, scalar = found
    lanes = vectorizer.total_lanes()
    value: Expr = widen(vectorizer(scalar), lanes)  # type: ignore[arg-type]
    index: Expr = widen(simplify(vectorizer(store.index)), lanes)  # type: ignore[arg-type]
    if condition is not None:
        mask = widen(strip_likely(vectorizer(condition)), lanes)  # type: ignore[arg-type]
        neutral = _neutral(op, value.type)
        if neutral is None:
            return None
        value = build.select(mask, PredicateLoads(mask)(value), neutral)
    groups = _groups(index)
    if groups is None:
        return None
    value = _grouped(op, value, groups)
    count = len(groups)
    where = _group_index(index, groups)
    old = Load(value.type, store.name, where, None, store.source)
    if op is ReduceOp.SATURATING_ADD:
        new: Expr = build.intrinsic(value.type, "saturating_add", old, value)
    else:
        new = combine(type(store.value), old, value)
    assert new.type.lane_count == count
    return Atomic(node.name, Store(store.name, new, where, None, store.source))


def _neutral(op: ReduceOp, t: Type) -> Expr | None:
    """The value that changes nothing."""
    if op in (ReduceOp.ADD, ReduceOp.SATURATING_ADD, ReduceOp.OR):
        return build.const(t, 0)
    if op in (ReduceOp.MUL, ReduceOp.AND):
        return build.const(t, 1)
    if t.is_float():
        return build.const(t, float("inf") if op is ReduceOp.MIN else float("-inf"))
    element = t.element_of()
    return build.const(t, element.max_value() if op is ReduceOp.MIN else element.min_value())


def _groups(index: Expr) -> list[list[int]] | None:
    """The lanes that share an element, group by group; None if they are not equal in number."""
    first = lane_of(index, 0)
    found: dict[int, list[int]] = {}
    for lane in range(index.type.lane_count):
        distance = constant_difference(simplify(lane_of(index, lane)), simplify(first))
        if distance is None:
            return None
        found.setdefault(int(distance), []).append(lane)
    groups = list(found.values())
    for group in groups:
        if len(group) != len(groups[0]):
            return None
    return groups


def _grouped(op: ReduceOp, value: Expr, groups: list[list[int]]) -> Expr:
    """One value per group: the lanes of each group joined."""
    order = [lane for group in groups for lane in group]
    if len(groups[0]) == 1:
        return value if order == list(range(len(order))) else Shuffle((value,), tuple(order))
    if order == list(range(len(order))):
        return VectorReduce(op, value, len(groups))
    count = len(groups)
    if op is not ReduceOp.SATURATING_ADD and groups == [
        list(range(g, len(order), count)) for g in range(count)
    ]:
        # The lanes of a group lie `count` apart: join whole slices, no lane has to move.
        slices: list[Expr] = [
            Shuffle((value,), tuple(range(at, at + count))) for at in range(0, len(order), count)
        ]
        while len(slices) > 1:
            pairs = [combine(_NODES[op], a, b) for a, b in zip(slices[::2], slices[1::2])]
            slices = pairs + slices[len(pairs) * 2 :]
        return slices[0]
    return VectorReduce(op, Shuffle((value,), tuple(order)), count)


def _group_index(index: Expr, groups: list[list[int]]) -> Expr:
    """The element of each group."""
    first = simplify(lane_of(index, 0))
    if len(groups) == 1:
        return first
    steps: list[int] = []
    for group in groups:
        distance = constant_difference(simplify(lane_of(index, group[0])), first)
        assert distance is not None
        steps.append(int(distance))
    stride = steps[1] - steps[0]
    if steps == [i * stride for i in range(len(steps))]:
        return build.ramp(first, stride, len(steps))
    return Shuffle((index,), tuple([group[0] for group in groups]))
