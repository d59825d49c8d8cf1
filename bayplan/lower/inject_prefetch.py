"""Finds what each prefetch fetches: what is read some iterations later."""

from __future__ import annotations

from bayplan.analysis.bounds import box_touched
from bayplan.analysis.box import Box, intersect
from bayplan.analysis.interval import Interval
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import add, conjunction, ge, is_const, le, logical_and, sub, var
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.stmts import For, LetStmt, Prefetch, Realize, Stmt
from bayplan.ir.walk import StmtRewriter
from bayplan.language.parameter import Parameter
from bayplan.language.schedule import PrefetchBoundStrategy, PrefetchDirective
from bayplan.lower.context import Lowering


def inject_prefetch(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Gives each Prefetch its bounds, or removes it where nothing is read, and in kernels.

    Order: after fold_storage, so that the storage that is left is known.
    """
    result: Stmt = _InjectPrefetch(lowering)(stmt)
    return result


class _InjectPrefetch(StmtRewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self._lowering = lowering
        self._stored: dict[str, Box] = {}
        self._in_kernel = False

    def rewrite_Realize(self, node: Realize) -> Stmt:
        saved = self._stored.get(node.name)
        intervals = [Interval(low, sub(add(low, extent), 1)) for low, extent in node.bounds]
        self._stored[node.name] = Box(intervals, node.condition)
        body = self(node.body)
        if saved is None:
            del self._stored[node.name]
        else:
            self._stored[node.name] = saved
        return Realize(node.name, node.types, node.memory_type, node.bounds, node.condition, body)

    def rewrite_For(self, node: For) -> Stmt:
        saved = self._in_kernel
        self._in_kernel = saved or node.kind.is_gpu
        body: Stmt = self(node.body)
        self._in_kernel = saved
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Prefetch(self, node: Prefetch) -> Stmt:
        body: Stmt = self(node.body)
        if self._in_kernel:
            # Blocks and threads hide what memory takes.
            return body
        directive = node.source
        if not isinstance(directive, PrefetchDirective):
            return Prefetch(node.name, node.types, node.bounds, node.condition, node.source, body)
        ahead = add(var(directive.from_var), directive.offset)
        later = LetStmt(directive.from_var, ahead, body)
        box = box_touched(later, node.name, {}, self._lowering.func_bounds)
        if box is None or not box.is_bounded():
            self._lowering.warnings.append(
                f"nothing is prefetched of {node.name} at {directive.at}: the region that "
                f"{directive.from_var} + offset needs is not bounded"
            )
            return body
        condition = node.condition
        exists = self._exists(directive, len(box))
        if directive.strategy is PrefetchBoundStrategy.Clamp:
            box = intersect(box, exists)
        elif directive.strategy is PrefetchBoundStrategy.GuardWithIf:
            condition = logical_and(condition, _lies_within(box, exists))
        if box.used is not None and not is_const(box.used, 1):
            condition = logical_and(condition, box.used)
        bounds: list[tuple[Expr, Expr]] = []
        for interval in box:
            low, high = interval.min, interval.max
            assert low is not None and high is not None
            bounds.append((simplify(low), simplify(add(sub(high, low), 1))))
        return Prefetch(
            node.name,
            node.types,
            tuple(bounds),
            simplify(condition),
            directive.source,
            body,
        )

    def _exists(self, directive: PrefetchDirective, dimensions: int) -> Box:
        """The region of which something is there to be fetched."""
        found = self._stored.get(directive.name)
        if found is not None:
            return found
        source = directive.source
        if not isinstance(source, Parameter):
            raise ScheduleError(
                f"prefetch of {directive.name}: nothing is stored of it there",
                directive.where,
            )
        intervals: list[Interval] = []
        for dim in range(dimensions):
            low, extent = source.field("min", dim), source.field("extent", dim)
            intervals.append(Interval(low, sub(add(low, extent), 1)))
        return Box(intervals)


def _lies_within(box: Box, exists: Box) -> Expr:
    conditions: list[Expr] = []
    for wanted, there in zip(box, exists, strict=True):
        if wanted.min is not None and there.min is not None:
            conditions.append(ge(wanted.min, there.min))
        if wanted.max is not None and there.max is not None:
            conditions.append(le(wanted.max, there.max))
    return conjunction(conditions)
