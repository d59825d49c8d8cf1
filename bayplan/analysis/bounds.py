"""Bounds of expressions, and the regions of Funcs and buffers that code touches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.analysis.box import Box
from bayplan.analysis.interval import Interval
from bayplan.ir.exprs import Expr
from bayplan.ir.node import Node
from bayplan.ir.stmts import Stmt

Scope = Mapping[str, Interval]
FuncBounds = Mapping[tuple[str, int], Interval]


def bounds_of_expr_in_scope(
    expr: Expr,
    scope: Scope,
    func_bounds: FuncBounds | None = None,
    const_bound: bool = False,
) -> Interval:
    """The interval of the expression while the variables of `scope` move in theirs."""
    return Interval.everything()


def find_constant_bound(expr: Expr, direction: str, scope: Scope | None = None) -> Expr | None:
    """A constant that is at least ("upper") or at most ("lower") the expression, if known."""
    return None


def boxes_required(
    node: Node | Iterable[Expr],
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> dict[str, Box]:
    """The box of each Func and buffer that is read."""
    return {}


def boxes_provided(
    stmt: Stmt, scope: Scope | None = None, func_bounds: FuncBounds | None = None
) -> dict[str, Box]:
    """The box of each Func that is written."""
    return {}


def boxes_touched(
    stmt: Stmt, scope: Scope | None = None, func_bounds: FuncBounds | None = None
) -> dict[str, Box]:
    """The box of each Func and buffer that is read or written."""
    return {}


def box_required(
    node: Node,
    name: str,
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> Box | None:
    """The box of `name` that is read, None where it is not."""
    return boxes_required(node, scope, func_bounds).get(name)


def box_provided(
    stmt: Stmt,
    name: str,
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> Box | None:
    """The box of `name` that is written, None where it is not."""
    return boxes_provided(stmt, scope, func_bounds).get(name)


def box_touched(
    stmt: Stmt,
    name: str,
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> Box | None:
    """The box of `name` that is read or written, None where it is not."""
    return boxes_touched(stmt, scope, func_bounds).get(name)


def compute_func_value_bounds(
    order: list[str], env: Mapping[str, Any]
) -> dict[tuple[str, int], Interval]:
    """The interval of the values of each Func of `order`, producers first."""
    return {}
