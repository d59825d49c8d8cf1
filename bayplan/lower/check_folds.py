"""Checks at run time that folded storage holds what is read, where no proof was found."""

from __future__ import annotations

from bayplan.analysis.bounds import box_provided, box_required
from bayplan.ir import build
from bayplan.ir.errors import ErrorSite, FoldError
from bayplan.ir.exprs import Expr, Load
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Allocate, AssertStmt, LetStmt, ProducerConsumer, Stmt, Store
from bayplan.ir.types import INT32
from bayplan.ir.walk import Rewriter
from bayplan.language.function import Function
from bayplan.language.schedule import StorageDim


def count_footprint(stmt: Stmt, head: str, bounds: tuple[Expr, Expr], forward: bool) -> Stmt:
    """The statement inside the counter `head`, which holds the furthest coordinate produced."""
    low, extent = bounds
    start = low if forward else low + extent - 1
    body = build.block([Store(head, start, build.int32(0)), stmt])
    return Allocate(head, INT32, MemoryType.Stack, (), build.true(), 0, body)


def check_footprint(
    function: Function, request: StorageDim, loop: str, dim: int, head: str, body: Stmt
) -> Stmt:
    """The body of the loop `loop` with the counter moved by each production and checked by uses."""
    return _CheckFootprint(function, request, loop, dim, head)(body)


class _CheckFootprint(Rewriter):
    def __init__(
        self, function: Function, request: StorageDim, loop: str, dim: int, head: str
    ) -> None:
        super().__init__()
        self.function = function
        self.request = request
        self.dim = dim
        self.head = head
        assert request.fold_factor is not None
        self.factor = request.fold_factor
        where = request.where or function.where
        name, along = function.name, f"along {request.var} by {{0}}"
        self.too_small = ErrorSite(
            FoldError,
            f"the storage of {name} is folded {along}, but the loop {loop} needs {{1}} at once",
            where,
        )
        self.gone = ErrorSite(
            FoldError,
            f"the storage of {name} is folded {along}, but the loop {loop} goes back to {{1}} "
            "when only {0} elements up to {2} are kept",
            where,
        )

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        if node.name != self.function.name:
            return self.rebuild(node)  # type: ignore[no-any-return]
        checks = self._produced(node.body) if node.is_producer else self._consumed(node.body)
        body = build.block([*checks, node.body])
        return ProducerConsumer(node.name, node.is_producer, body)

    def _edge(self) -> Expr:
        return Load(INT32, self.head, build.int32(0))

    def _produced(self, body: Stmt) -> list[Stmt]:
        box = box_provided(body, self.function.name)
        if box is None or box[self.dim].min is None or box[self.dim].max is None:
            raise FoldError(
                f"cannot fold the storage of {self.function.name} along {self.request.var}: "
                "the region that is produced has no bounds",
                self.too_small.where,
            )
        low, high = box[self.dim].min, box[self.dim].max
        assert low is not None and high is not None
        factor = self.factor
        edge_name = f"{self.head}.next"
        edge = build.var(edge_name)
        if self.request.fold_forward:
            moved = build.maximum(high, self._edge())
            kept = build.gt(low, edge - factor)
        else:
            moved = build.minimum(low, self._edge())
            kept = build.lt(high, edge + factor)
        extent = high - low + 1
        checks = build.block(
            [
                AssertStmt(build.le(extent, factor), self.too_small, (factor, extent)),
                AssertStmt(kept, self.gone, (factor, low, edge)),
                Store(self.head, edge, build.int32(0)),
            ]
        )
        return [LetStmt(edge_name, moved, checks)]

    def _consumed(self, body: Stmt) -> list[Stmt]:
        box = box_required(body, self.function.name)
        if box is None or box[self.dim].min is None or box[self.dim].max is None:
            return []
        low, high = box[self.dim].min, box[self.dim].max
        assert low is not None and high is not None
        edge = self._edge()
        if self.request.fold_forward:
            kept = build.logical_and(build.gt(low, edge - self.factor), build.le(high, edge))
        else:
            kept = build.logical_and(build.lt(high, edge + self.factor), build.ge(low, edge))
        return [AssertStmt(kept, self.gone, (self.factor, low, edge))]
