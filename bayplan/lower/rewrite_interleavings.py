"""Computes vectors that alternate between cases as one vector per case, for dense accesses.

Code such as `select(x % 2 == 0, a(x / 2), b(x / 2))` would gather each element twice, as x / 2 does
not move evenly over the lanes. Every second lane, however, does: the even lanes read a at
x / 2, x / 2 + 1, ... and need no b. So the lanes are computed by their remainder, each as a vector
of its own, and woven together at the end.

Likewise stores of whole vectors to every kth element that together fill a stretch, such as those of
the channels of packed pixels, become one dense store of the woven vectors.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from bayplan.analysis.linear import constant_difference
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Div,
    Expr,
    Let,
    Load,
    Not,
    Ramp,
    Select,
    Shuffle,
    StringImm,
)
from bayplan.ir.node import Node
from bayplan.ir.stmts import Block, Stmt, Store
from bayplan.ir.walk import Rewriter, StmtRewriter, iterate
from bayplan.lower.context import Lowering
from bayplan.lower.vector_expressions import combine, loads

_MOST: Final = 4


def rewrite_interleavings(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which stores of values read at quotients of ramps are woven from parts.

    Order: after vectorize_loops and a simplification; before partition_loops and
    eliminate_common_subexpressions, which name parts of vectors.
    """
    return _Weave()(stmt)


class _Weave(StmtRewriter):
    def rewrite_Block(self, node: Block) -> Stmt:
        stmts = [self(s) for s in node.stmts]
        result: list[Stmt] = []
        at = 0
        while at < len(stmts):
            count, store = self._run_of_stores(stmts, at)
            result.append(store)
            at += count
        if len(result) == len(stmts):
            return node if stmts == list(node.stmts) else build.block(stmts)
        return build.block(result)

    def _run_of_stores(self, stmts: list[Stmt], at: int) -> tuple[int, Stmt]:
        """The dense store that takes the place of strided ones from `at` on, and of how many."""
        first = stmts[at]
        if type(first) is Store and type(first.index) is Ramp:
            stride = build.constant_value(first.index.stride)
            if isinstance(stride, int) and 2 <= stride <= _MOST and at + stride <= len(stmts):
                run = stmts[at : at + stride]
                same = [
                    s
                    for s in run
                    if type(s) is Store and s.name == first.name and s.predicate is None
                ]
                dense = _filling(same) if len(same) == stride else None
                if dense is not None:
                    return stride, dense
        return 1, first

    def rewrite_Store(self, node: Store) -> Stmt:
        lanes = node.value.type.lane_count
        parts = _parts_of(node.value) if lanes > 1 and node.predicate is None else 1
        if parts == 1 or lanes % parts:
            return node
        vectors: list[Expr] = []
        for first in range(parts):
            taken = _EveryNth(first, parts)
            part = taken(node.value)
            if not taken.possible:
                return node
            vectors.append(simplify(part))
        value = Shuffle(tuple(vectors), _woven(parts, lanes))
        return Store(node.name, value, node.index, None, node.source, node.alignment)


def _filling(stores: list[Store]) -> Store | None:
    """One dense store in place of strided ones that together fill a stretch, else None."""
    first = stores[0]
    index = first.index
    if type(index) is not Ramp or build.constant_value(index.stride) != len(stores):
        return None
    values: dict[int, Expr] = {}
    for store in stores:
        other = store.index
        if type(other) is not Ramp or other.stride is not index.stride:
            return None
        if other.lanes != index.lanes or other.base.type.lane_count != 1:
            return None
        if loads(store.value, {first.name}):
            return None
        distance = constant_difference(other.base, index.base)
        if distance is None:
            return None
        values[int(distance)] = store.value
    low = min(values)
    if sorted(values) != list(range(low, low + len(stores))):
        return None
    lanes = index.lanes * len(stores)
    vectors = [values[low + i] for i in range(len(stores))]
    value = Shuffle(tuple(vectors), _woven(len(stores), lanes))
    dense = Ramp(simplify(index.base + low), build.like(index.base, 1), lanes)
    return Store(first.name, value, dense, None, first.source)


def _woven(parts: int, lanes: int) -> tuple[int, ...]:
    """Indices that take one lane of each part in turn."""
    each = lanes // parts
    return tuple([(lane % parts) * each + lane // parts for lane in range(lanes)])


def _parts_of(value: Expr) -> int:
    """Into how many parts the lanes fall; 1 where the value is to be left as it is."""
    parts = 1
    for n in iterate(value):
        if type(n) is Load:
            for step in _uneven_quotients(n.index):
                parts = parts * step // gcd(parts, step)
    return parts if parts <= _MOST else 1


def _uneven_quotients(index: Expr) -> list[int]:
    """For each ramp divided unevenly in an index: after how many lanes it moves evenly again."""
    found: list[int] = []
    stack: list[Node] = [index]
    while stack:
        n = stack.pop()
        if type(n) is Load:
            continue
        if type(n) is Div and type(n.a) is Ramp and type(n.b) is Broadcast:
            divisor, step = build.constant_value(n.b), build.constant_value(n.a.stride)
            if n.a.base.type.lane_count == 1 and divisor and step and divisor > 0:
                found.append(int(divisor) // gcd(int(divisor), int(step)))
        stack.extend(n.children())
    return found


class _EveryNth(Rewriter):
    """Takes every nth lane of expressions, from a first one on.

    Attributes:
        possible: whether everything met could be taken apart.
    """

    def __init__(self, first: int, nth: int) -> None:
        super().__init__()
        self.first = first
        self.nth = nth
        self.possible = True

    def _shuffled(self, e: Expr) -> Expr:
        """The lanes picked from the whole vector."""
        lanes = e.type.lane_count
        return Shuffle((e,), tuple(range(self.first, lanes, self.nth)))

    def __call__(self, node: Any) -> Any:
        if node.type.lane_count == 1:
            return node
        if node.type.lane_count % self.nth:
            self.possible = False
            return node
        return super().__call__(node)

    def rebuild(self, node: Any) -> Any:
        cls = type(node)
        lanes = node.type.lane_count // self.nth
        if cls is Ramp and node.base.type.lane_count == 1:
            base = node.base + node.stride * self.first
            return build.ramp(base, node.stride * self.nth, lanes)
        if cls is Broadcast and node.value.type.lane_count == 1:
            return build.broadcast(node.value, lanes)
        if isinstance(node, Binary):
            return combine(cls, self(node.a), self(node.b))
        if cls is Cast:
            return build.cast(node.type.with_lanes(lanes), self(node.value))
        if cls is Not:
            return build.logical_not(self(node.value))
        if cls is Select:
            condition = self(node.condition)
            return build.select(condition, self(node.true_value), self(node.false_value))
        if cls is Load:
            return self._load(node, lanes)
        if cls is Call and node.is_pure():
            args = [a if type(a) is StringImm else self(a) for a in node.args]
            t = node.type.with_lanes(lanes)
            return Call(t, node.name, tuple(args), node.kind, node.target, node.value_index)
        if cls is Let and node.value.type.lane_count == 1:
            return Let(node.name, node.value, self(node.body))
        if cls is Const:
            return node
        return self._shuffled(node)

    def _load(self, node: Load, lanes: int) -> Expr:
        index = node.index
        if type(index) is Ramp and build.is_one(index.stride) and node.predicate is None:
            # One dense load serves all parts.
            return self._shuffled(node)
        predicate = None if node.predicate is None else self(node.predicate)
        t = node.type.with_lanes(lanes)
        return Load(t, node.name, simplify(self(index)), predicate, node.source)
