"""Clamps indices that are looked up in a Func to the range its values have."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.interval import Interval
from bayplan.ir.build import constant_value, maximum, minimum
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.stmts import ProducerConsumer, Realize, Stmt
from bayplan.ir.types import Type
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering


def clamp_unsafe_accesses(stmt: Stmt, lowering: Lowering) -> Stmt:
    """In f(g(x)), where g is a Func, clamps g(x) to the bounds known of the values of g.

    A loop that computes more than is needed may read values of g that were never written.
    Order: after find_func_bounds; before infer_bounds, which relies on the same bounds.
    """
    return _Clamp(lowering)(stmt)


class _Clamp(Rewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self._lowering = lowering
        # A Func stored in the production at hand is computed wherever it is read.
        self._stored: list[str] = []
        self._expressions: dict[frozenset[str], _ClampExpr] = {}

    def __call__(self, node: Any) -> Any:
        if not isinstance(node, Expr):
            return super().__call__(node)
        stored = frozenset(self._stored)
        found = self._expressions.get(stored)
        if found is None:
            found = _ClampExpr(self._lowering, stored, False)
            self._expressions[stored] = found
        return found(node)

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        saved = self._stored
        if node.is_producer:
            self._stored = []
        body = self(node.body)
        self._stored = saved
        return ProducerConsumer(node.name, node.is_producer, body)

    def rewrite_Realize(self, node: Realize) -> Stmt:
        self._stored = [*self._stored, node.name]
        body = self(node.body)
        self._stored = self._stored[:-1]
        return Realize(node.name, node.types, node.memory_type, node.bounds, node.condition, body)


class _ClampExpr(Rewriter):
    """Rewrites expressions that are not indices; `_inside` those that are."""

    def __init__(self, lowering: Lowering, stored: frozenset[str], is_index: bool) -> None:
        super().__init__()
        self._lowering = lowering
        self._stored = stored
        self._is_index = is_index
        self._inside = self if is_index else _ClampExpr(lowering, stored, True)

    def rewrite_Call(self, node: Call) -> Any:
        if node.kind not in (CallKind.FUNC, CallKind.IMAGE):
            return self.rebuild(node)
        args = [self._inside(a) for a in node.args]
        call = node.with_children(args) if tuple(args) != node.args else node
        if not self._is_index or node.kind is CallKind.IMAGE or node.name in self._stored:
            return call
        bounds = self._lowering.func_bounds.get((node.name, node.value_index))
        if bounds is None or not _is_narrower(bounds, node.type):
            return call
        return maximum(minimum(call, bounds.max), bounds.min)


def _is_narrower(bounds: Interval, t: Type) -> bool:
    if bounds.min is None or bounds.max is None or bounds.is_empty():
        return False
    low, high = constant_value(bounds.min), constant_value(bounds.max)
    return not (low == t.min_value() and high == t.max_value())
