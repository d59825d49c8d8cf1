"""Defines the region for which each temporary has storage."""

from __future__ import annotations

from bayplan.analysis.bounds import box_touched
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import add, block, ge, le, sub, var
from bayplan.ir.errors import BoundsError, ErrorSite
from bayplan.ir.exprs import Expr
from bayplan.ir.stmts import AssertStmt, LetStmt, Provide, Realize, Stmt
from bayplan.ir.walk import StmtRewriter
from bayplan.language.schedule import Bound
from bayplan.lower.context import Lowering
from bayplan.lower.find_calls import TouchIndex, trim_to
from bayplan.lower.infer_bounds import align_range


def infer_allocation_bounds(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Puts lets "f.x.min_realized" and "f.x.extent_realized" around each Realize.

    The region is what is read or written inside, extended as the user asked for.
    Order: after slide, which changes what is touched; before fold_storage.

    Raises:
        BoundsError: A temporary is touched over an unbounded region.
    """
    return _InferAllocationBounds(lowering)(stmt)


class _InferAllocationBounds(StmtRewriter):
    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self._lowering = lowering
        self._touched = TouchIndex()

    def rewrite_Provide(self, node: Provide) -> Stmt:
        return node

    def rewrite_Realize(self, node: Realize) -> Stmt:
        part = trim_to(node.name, node.body, self._touched)
        box = box_touched(part, node.name, {}, self._lowering.func_bounds)
        body = self(node.body)
        if box is None and node.bounds:
            # Nothing touches it, perhaps because of a specialization.
            return body
        stmt: Stmt = Realize(
            node.name, node.types, node.memory_type, node.bounds, node.condition, body
        )
        if box is None:
            return stmt
        for dim, interval in enumerate(box):
            if interval.min is None or interval.max is None:
                function = self._lowering.env[node.name]
                raise BoundsError(
                    f"nothing bounds the part of {node.name} that is needed in dimension "
                    f"{function.args[dim]}; clamp the index that reads or writes it",
                    function.where,
                )
            low, high = simplify(interval.min), simplify(interval.max)
            stmt = self._define(stmt, node.name, dim, low, high)
        return stmt

    def _define(self, stmt: Stmt, name: str, dim: int, low: Expr, high: Expr) -> Stmt:
        function = self._lowering.env[name]
        arg = function.args[dim]
        bound: Bound | None = None
        for candidate in function.schedule.bounds:
            if candidate.var == arg:
                bound = candidate
        stem = f"{name}.{arg}"
        new_low, new_high = low, high
        extent = simplify(add(sub(high, low), 1))
        if bound is not None:
            if bound.min is not None:
                new_low = bound.min
            if bound.extent is not None:
                new_high = simplify(sub(add(new_low, bound.extent), 1))
            if bound.modulus is not None:
                new_low, new_high = align_range(new_low, new_high, bound.modulus, bound.remainder)
            extent = simplify(add(sub(new_high, new_low), 1))
            checks = self._checks(bound, name, stem, low, high)
            stmt = block([*checks, stmt])
        stmt = LetStmt(f"{stem}.extent_realized", extent, stmt)
        stmt = LetStmt(f"{stem}.min_realized", new_low, stmt)
        return LetStmt(f"{stem}.max_realized", new_high, stmt)

    def _checks(self, bound: Bound, name: str, stem: str, low: Expr, high: Expr) -> list[Stmt]:
        """Checks that the storage a promise allows holds what is touched."""
        given_low, given_high = var(f"{stem}.min_realized"), var(f"{stem}.max_realized")
        site = ErrorSite(
            BoundsError,
            f"{name} was promised to stay within {{0}}..{{1}} in {bound.var}, "
            "but {2}..{3} is needed",
            bound.where or self._lowering.where(name),
        )
        args = (given_low, given_high, low, high)
        checks: list[Stmt] = []
        if bound.extent is not None:
            checks.append(AssertStmt(ge(given_high, high), site, args))
        if bound.min is not None:
            checks.append(AssertStmt(le(given_low, low), site, args))
        return checks
