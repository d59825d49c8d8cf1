"""Removes writes of values that the user left undefined."""

from __future__ import annotations

from typing import Any

from bayplan.ir.build import block, intrinsic, logical_and, logical_not, nothing
from bayplan.ir.exprs import Call, Expr, Select
from bayplan.ir.stmts import Evaluate, IfThenElse, LetStmt, Provide, Stmt
from bayplan.ir.walk import Rewriter, StmtRewriter, free_variables, iterate
from bayplan.lower.context import Lowering


def remove_undef(stmt: Stmt, lowering: Lowering) -> Stmt:
    """A write of `undef()` is not done; a select with it writes only where the other side is taken.

    Order: after infer_allocation_bounds, so that a Func keeps storage where it is not written.
    """
    used = any(type(n) is Call and n.is_intrinsic("undef") for n in iterate(stmt))
    return _RemoveUndef()(stmt) if used else stmt


class _Undefined(Exception):
    """Raised inside of an expression that has no value."""


class _Defined(Rewriter):
    """The defined part of one value; `condition` says where it is to be used."""

    memoise = False

    def __init__(self, dead: frozenset[str]) -> None:
        super().__init__()
        self.condition: Expr | None = None
        self._dead = dead

    def __call__(self, node: Any) -> Any:
        if self._dead and not free_variables(node).isdisjoint(self._dead):
            if not node.children():
                raise _Undefined
        elif not any(type(n) is Call and n.is_intrinsic("undef") for n in iterate(node)):
            return node
        return super().__call__(node)

    def rewrite_Call(self, node: Call) -> Any:
        if node.is_intrinsic("undef"):
            raise _Undefined
        return self.rebuild(node)

    def rewrite_Select(self, node: Select) -> Any:
        condition = self(node.condition)
        when_true = self._side(node.true_value)
        when_false = self._side(node.false_value)
        if when_true is None and when_false is None:
            raise _Undefined
        if when_true is None:
            self._require(logical_not(condition))
            return when_false
        if when_false is None:
            self._require(condition)
            return when_true
        return Select(condition, when_true, when_false)

    def _side(self, e: Expr) -> Expr | None:
        try:
            result: Expr = self(e)
        except _Undefined:
            return None
        return result

    def _require(self, condition: Expr) -> None:
        known = self.condition
        self.condition = condition if known is None else logical_and(known, condition)


class _RemoveUndef(StmtRewriter):
    memoise = False

    def __init__(self) -> None:
        super().__init__()
        self._dead: frozenset[str] = frozenset()

    def _defined(self, e: Expr) -> tuple[Expr | None, Expr | None]:
        """The value and the condition under which it is one; None, None where it never is."""
        rewriter = _Defined(self._dead)
        try:
            return rewriter(e), rewriter.condition
        except _Undefined:
            return None, None

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        value, condition = self._defined(node.value)
        if value is not None:
            stmt: Stmt = LetStmt(node.name, value, self(node.body))
            return stmt if condition is None else IfThenElse(condition, stmt)
        saved = self._dead
        self._dead = saved | {node.name}
        body = self(node.body)
        self._dead = saved
        return body

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        value, condition = self._defined(node.value)
        if value is None:
            return nothing()
        return Evaluate(value) if condition is None else IfThenElse(condition, Evaluate(value))

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition, _ = self._defined(node.condition)
        then_case = self(node.then_case)
        else_case = None if node.else_case is None else self(node.else_case)
        if condition is None:
            return block([then_case, else_case])
        return IfThenElse(condition, then_case, else_case)

    def rewrite_Provide(self, node: Provide) -> Stmt:
        conditions: list[Expr] = []
        args: list[Expr] = []
        for arg in node.args:
            value, condition = self._defined(arg)
            if value is None:
                return nothing()
            args.append(value)
            if condition is not None:
                conditions.append(condition)
        values: list[Expr] = []
        kept = 0
        for old in node.values:
            value, condition = self._defined(old)
            if value is None:
                # The other values of the Tuple are written all the same.
                values.append(_undef(old))
                continue
            kept += 1
            values.append(value)
            if condition is not None:
                conditions.append(condition)
        if not kept:
            return nothing()
        stmt: Stmt = Provide(node.name, tuple(values), tuple(args), node.predicate)
        for condition in reversed(conditions):
            stmt = IfThenElse(condition, stmt)
        return stmt


def _undef(e: Expr) -> Expr:
    return intrinsic(e.type, "undef")
