"""Bounds of expressions, and the regions of Funcs and buffers that code touches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.analysis.bounder import Bounder, FuncBounds, Scope
from bayplan.analysis.box import Box
from bayplan.analysis.ends import bounds_of_type, constant_ends
from bayplan.analysis.interval import Interval
from bayplan.analysis.regions import Regions
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import const
from bayplan.ir.exprs import Expr
from bayplan.ir.node import Node
from bayplan.ir.stmts import Stmt
from bayplan.ir.types import Type


def bounds_of_expr_in_scope(
    expr: Expr,
    scope: Scope,
    func_bounds: FuncBounds | None = None,
    const_bound: bool = False,
) -> Interval:
    """The interval of the expression while the variables of `scope` move in theirs.

    Variables outside of the scope stand still and may occur in the ends, unless `const_bound`,
    with which the ends are constants. Values of Funcs and buffers that are read are bounded by
    `func_bounds`, else by their types.
    """
    found = Bounder(scope, func_bounds)(simplify(expr))
    return _constant(found, expr.type.element_of()) if const_bound else found


def _constant(found: Interval, t: Type) -> Interval:
    low, high = constant_ends(found)
    whole = bounds_of_type(t)
    return Interval(
        whole.min if low is None else const(t, low), whole.max if high is None else const(t, high)
    )


def find_constant_bound(expr: Expr, direction: str, scope: Scope | None = None) -> Expr | None:
    """A constant that is at least ("upper") or at most ("lower") the expression, if known."""
    found = bounds_of_expr_in_scope(expr, scope or {}, None, const_bound=True)
    return found.max if direction == "upper" else found.min


def _regions(
    node: Node | Iterable[Expr],
    scope: Scope | None,
    func_bounds: FuncBounds | None,
    reads: bool,
    writes: bool,
    only: str | None = None,
) -> dict[str, Box]:
    regions = Regions(reads, writes, scope or {}, func_bounds, only)
    for root in [node] if isinstance(node, Node) else node:
        regions.visit(root)
    return regions.result()


def boxes_required(
    node: Node | Iterable[Expr],
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> dict[str, Box]:
    """The box of each Func and buffer that the statement, expression or expressions read."""
    return _regions(node, scope, func_bounds, reads=True, writes=False)


def boxes_provided(
    stmt: Stmt, scope: Scope | None = None, func_bounds: FuncBounds | None = None
) -> dict[str, Box]:
    """The box of each Func that is written."""
    return _regions(stmt, scope, func_bounds, reads=False, writes=True)


def boxes_touched(
    stmt: Stmt, scope: Scope | None = None, func_bounds: FuncBounds | None = None
) -> dict[str, Box]:
    """The box of each Func and buffer that is read or written."""
    return _regions(stmt, scope, func_bounds, reads=True, writes=True)


def box_required(
    node: Node | Iterable[Expr],
    name: str,
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> Box | None:
    """The box of `name` that is read, None where it is not."""
    return _regions(node, scope, func_bounds, True, False, name).get(name)


def box_provided(
    stmt: Stmt,
    name: str,
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> Box | None:
    """The box of `name` that is written, None where it is not."""
    return _regions(stmt, scope, func_bounds, False, True, name).get(name)


def box_touched(
    stmt: Stmt,
    name: str,
    scope: Scope | None = None,
    func_bounds: FuncBounds | None = None,
) -> Box | None:
    """The box of `name` that is read or written, None where it is not."""
    return _regions(stmt, scope, func_bounds, True, True, name).get(name)


def compute_func_value_bounds(
    order: Iterable[str], env: Mapping[str, Any]
) -> dict[tuple[str, int], Interval]:
    """The interval of the values of each Func of `order`, producers first.

    Only constant ends, as they must hold for all coordinates and be visible everywhere. A Func
    with updates may hold anything its type allows.

    Args:
        order: names of Funcs, each after those it calls.
        env: the language's Function of each name.
    """
    found: dict[tuple[str, int], Interval] = {}
    for name in order:
        function = env[name]
        init = function.init
        for index, t in enumerate(function.output_types):
            interval = bounds_of_type(t)
            if init is not None and not function.updates and index < len(init.values):
                scope = {arg: Interval.everything() for arg in function.args}
                value = simplify(init.values[index])
                interval = _constant(Bounder(scope, found)(value), t)
            found[(name, index)] = interval
    return found


__all__ = [
    "Bounder",
    "FuncBounds",
    "Scope",
    "bounds_of_expr_in_scope",
    "bounds_of_type",
    "box_provided",
    "box_required",
    "box_touched",
    "boxes_provided",
    "boxes_required",
    "boxes_touched",
    "compute_func_value_bounds",
    "find_constant_bound",
]
