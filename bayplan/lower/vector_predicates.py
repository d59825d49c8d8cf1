"""Vector statements that act only in the lanes where a condition holds, for vectorize_loops."""

from __future__ import annotations

from bayplan.analysis.purity import has_side_effect
from bayplan.ir import build
from bayplan.ir.exprs import Call, Expr, Load, VectorReduce
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Atomic,
    Block,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.walk import Rewriter, free_variables, iterate
from bayplan.lower.lanes import any_lane


class _Predicate(Rewriter):
    """Adds a vector condition to the loads and stores of a statement; `valid` is the verdict."""

    def __init__(self, condition: Expr) -> None:
        super().__init__()
        self.condition = condition
        self.lanes = condition.type.lane_count
        self.valid = True
        self.reads_scalars = False

    def _joined(self, predicate: Expr | None) -> Expr:
        if predicate is None:
            return self.condition
        return build.logical_and(predicate, self.condition)

    def rewrite_Load(self, node: Load) -> Expr:
        index = self(node.index)
        if index.type.lane_count == 1:
            self.reads_scalars = True
            return self.rebuild(node)
        if index.type.lane_count != self.lanes:
            self.valid = False
            return node
        predicate = self._joined(None if node.predicate is None else self(node.predicate))
        return Load(node.type, node.name, index, predicate, node.source, node.alignment)

    def rewrite_Store(self, node: Store) -> Stmt:
        if node.index.type.lane_count != self.lanes:
            self.valid = False
            return node
        predicate = self._joined(None if node.predicate is None else self(node.predicate))
        return Store(
            node.name, self(node.value), self(node.index), predicate, node.source, node.alignment
        )

    def rewrite_Call(self, node: Call) -> Expr:
        if not node.is_pure():
            self.valid = False
        return self.rebuild(node)

    def rewrite_VectorReduce(self, node: VectorReduce) -> Expr:
        self.valid = False
        return node

    def rewrite_Atomic(self, node: Atomic) -> Stmt:
        self.valid = False
        return node

    def rewrite_AssertStmt(self, node: AssertStmt) -> Stmt:
        self.valid = False
        return node

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        if has_side_effect(node.value):
            self.valid = False
        return node


def predicated(condition: Expr, then_case: Stmt, else_case: Stmt | None) -> Stmt | None:
    """`then_case` in the lanes where the condition holds, `else_case` in the others.

    None where the statements hold what cannot be done for single lanes.
    """
    parts: list[Stmt] = []
    cases = [(condition, then_case)]
    if else_case is not None:
        cases.append((build.logical_not(condition), else_case))
    for where, case in cases:
        rewriter = _Predicate(where)
        part = rewriter(case)
        if not rewriter.valid:
            return None
        if rewriter.reads_scalars:
            # Nothing says that a scalar may be read if no lane wants it.
            part = IfThenElse(any_lane(where), part)
        parts.append(part)
    return build.block(parts)


def has_vectorized_loop(stmt: Stmt) -> bool:
    """Whether a vectorised loop is left in the statement."""
    return any(type(node) is For and node.kind is ForKind.Vectorized for node in iterate(stmt))


def sink_condition(condition: Expr, stmt: Stmt) -> Stmt:
    """`if (condition) stmt`, with the condition moved into the vectorised loops of `stmt`."""
    if not has_vectorized_loop(stmt):
        return IfThenElse(condition, stmt)
    cls = type(stmt)
    if cls is Block:
        return build.block([sink_condition(condition, s) for s in stmt.stmts])
    if cls is For and stmt.name not in free_variables(condition):
        body = sink_condition(condition, stmt.body)
        return For(stmt.name, stmt.min, stmt.extent, stmt.kind, stmt.partition, body)
    if cls is LetStmt and stmt.name not in free_variables(condition):
        return LetStmt(stmt.name, stmt.value, sink_condition(condition, stmt.body))
    if cls is ProducerConsumer:
        return ProducerConsumer(stmt.name, stmt.is_producer, sink_condition(condition, stmt.body))
    if cls is Allocate:
        children = list(stmt.children())
        children[-1] = sink_condition(condition, stmt.body)
        return stmt.with_children(children)
    return IfThenElse(condition, stmt)
