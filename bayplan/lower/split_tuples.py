"""Splits Funcs with several values into one storage and one write for each value."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.simplify import can_prove
from bayplan.ir.build import block, conjunction, eq, logical_not
from bayplan.ir.exprs import Call, CallKind, Expr, Variable
from bayplan.ir.stmts import Atomic, LetStmt, Prefetch, Provide, Realize, Stmt
from bayplan.ir.walk import Rewriter, iterate
from bayplan.lower.context import Lowering


def split_tuples(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Makes "f.0", "f.1", ... of each Func f with more than one value.

    Values that read each other's old value at the place that is written are all computed before
    any is written.
    Order: after fold_storage and infer_allocation_bounds, which treat the values as one.
    """
    tuples = {name for name, f in lowering.env.items() if f.outputs() > 1}
    return _SplitTuples(tuples)(stmt) if tuples else stmt


class _SplitTuples(Rewriter):
    def __init__(self, tuples: set[str]) -> None:
        super().__init__()
        self._tuples = tuples

    def rewrite_Call(self, node: Call) -> Any:
        call = self.rebuild(node)
        if call.kind is not CallKind.FUNC or call.name not in self._tuples:
            return call
        part = f"{call.name}.{call.value_index}"
        return Call(call.type, part, call.args, call.kind, call.target)

    def rewrite_Realize(self, node: Realize) -> Stmt:
        body = self(node.body)
        bounds = tuple([(self(low), self(extent)) for low, extent in node.bounds])
        condition = self(node.condition)
        if len(node.types) == 1:
            return Realize(node.name, node.types, node.memory_type, bounds, condition, body)
        for i, t in enumerate(node.types):
            name = f"{node.name}.{i}"
            body = Realize(name, (t,), node.memory_type, bounds, condition, body)
        return body

    def rewrite_Prefetch(self, node: Prefetch) -> Stmt:
        body = self(node.body)
        bounds = tuple([(self(low), self(extent)) for low, extent in node.bounds])
        condition = self(node.condition)
        if len(node.types) == 1:
            return Prefetch(node.name, node.types, bounds, condition, node.source, body)
        for i, t in enumerate(node.types):
            body = Prefetch(f"{node.name}.{i}", (t,), bounds, condition, node.source, body)
        return body

    def rewrite_Atomic(self, node: Atomic) -> Stmt:
        if isinstance(node.body, Provide) and len(node.body.values) > 1:
            return self._split(node.body, node)
        return Atomic(node.name, self(node.body))

    def rewrite_Provide(self, node: Provide) -> Stmt:
        return self._split(node, None) if len(node.values) > 1 else self.rebuild(node)

    def _split(self, node: Provide, atomic: Atomic | None) -> Stmt:
        args = tuple([self(a) for a in node.args])
        values = [self(v) for v in node.values]
        predicate = None if node.predicate is None else self(node.predicate)
        clusters = _clusters(node)
        # Values that do not depend on each other can be updated one by one.
        separate = all(len(c) == 1 for c in clusters)
        writes: list[Stmt] = []
        for cluster in clusters:
            lets: list[tuple[str, Expr]] = []
            parts: list[Stmt] = []
            for i in cluster:
                name = f"{node.name}.{i}"
                value = values[i]
                if len(cluster) > 1 and not _is_undef(value):
                    lets.append((f"{name}.value", value))
                    value = Variable(value.type, f"{name}.value")
                if not _is_undef(value):
                    parts.append(Provide(name, (value,), args, predicate))
            write = block(parts)
            for let, value in reversed(lets):
                write = LetStmt(let, value, write)
            if atomic is not None and separate:
                write = Atomic(f"{node.name}.{cluster[0]}", write)
            writes.append(write)
        result = block(writes)
        return Atomic(atomic.name, result) if atomic is not None and not separate else result


def _is_undef(e: Expr) -> bool:
    return type(e) is Call and e.is_intrinsic("undef")


def _clusters(node: Provide) -> list[list[int]]:
    """Groups of values in which one reads what another writes."""
    group = list(range(len(node.values)))
    for i, value in enumerate(node.values):
        for read in iterate(value):
            if (
                type(read) is Call
                and read.kind is CallKind.FUNC
                and read.name == node.name
                and read.value_index != i
                and group[read.value_index] != group[i]
                and _could_be_same(read.args, node.args)
            ):
                old, new = group[read.value_index], group[i]
                group = [new if g == old else g for g in group]
    members: dict[int, list[int]] = {}
    for i, g in enumerate(group):
        members.setdefault(g, []).append(i)
    return list(members.values())


def _could_be_same(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    same = conjunction([eq(x, y) for x, y in zip(a, b, strict=True)])
    return not can_prove(logical_not(same))
