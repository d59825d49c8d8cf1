"""Moves allocations out of loops to the places that `hoist_storage` asked for."""

from __future__ import annotations

from bayplan.analysis.bounds import bounds_of_expr_in_scope
from bayplan.analysis.interval import Interval
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Allocate, For, HoistedStorage, LetStmt, Stmt
from bayplan.ir.walk import StmtRewriter, free_variables, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_storage


def hoist_storage(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement without HoistedStorage: allocations stand where the marks stood.

    Their sizes are the greatest over the loops that they leave.

    Order: after flatten_storage; before choose_storage.

    Raises:
        ScheduleError: A size has no bound over the loops, or a loop in between has lanes or
            threads that would share the storage.
    """
    return _Hoist(lowering)(stmt)


class _Hoist(StmtRewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering

    def rewrite_HoistedStorage(self, node: HoistedStorage) -> Stmt:
        taker = _TakeAllocations(node.name, self.lowering)
        return taker.put_around(taker(self(node.body)))


class _TakeAllocations(StmtRewriter):
    """Removes the allocations of a Func; `taken` holds them with sizes valid outside."""

    memoise = False

    def __init__(self, func: str, lowering: Lowering) -> None:
        super().__init__()
        self.func = func
        self.lowering = lowering
        self.taken: dict[str, Allocate] = {}
        self.lets: dict[str, Expr] = {}
        self.loops: dict[str, Interval] = {}
        self.shared = ""

    def put_around(self, body: Stmt) -> Stmt:
        """The statement within the allocations that were taken."""
        for allocate in self.taken.values():
            body = allocate.with_body(body)
        self.taken = {}
        return body

    def _expand(self, e: Expr) -> Expr:
        used = {n: self.lets[n] for n in free_variables(e) if n in self.lets}
        return simplify(substitute(used, e)) if used else e

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        value = self._expand(node.value)
        if is_pure(node.value):
            self.lets[node.name] = value
        elif value.type.kind == "int":
            # Only its range is known, as that of a loop variable.
            self.loops[node.name] = bounds_of_expr_in_scope(value, self.loops)
        body = self(node.body)
        self.lets.pop(node.name, None)
        self.loops.pop(node.name, None)
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind is ForKind.Parallel:
            return self._in_parallel(node)
        saved = self.shared
        if node.kind not in (ForKind.Serial, ForKind.Unrolled):
            self.shared = node.name
        low = bounds_of_expr_in_scope(self._expand(node.min), self.loops).min
        last = bounds_of_expr_in_scope(self._expand(node.min + node.extent - 1), self.loops).max
        self.loops[node.name] = Interval(low, last)
        body = self(node.body)
        del self.loops[node.name]
        self.shared = saved
        return node if body is node.body else node.with_children([node.min, node.extent, body])

    def _in_parallel(self, node: For) -> Stmt:
        """Iterations that run at once need storage of their own: it stays in the loop.

        There plan_storage makes it a part of the arena of a worker, which is taken once a call.
        """
        loops, taken = self.loops, self.taken
        self.loops, self.taken = {}, {}
        body = self.put_around(self(node.body))
        self.loops, self.taken = loops, taken
        return node if body is node.body else node.with_children([node.min, node.extent, body])

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        if func_of_storage(node.name, self.lowering) != self.func:
            return self.rebuild(node)  # type: ignore[no-any-return]
        where = self.lowering.where(self.func)
        if self.shared:
            raise ScheduleError(
                f"the storage of {self.func} cannot be hoisted out of the loop {self.shared}, "
                "whose iterations run at once and would share it",
                where,
            )
        extents: list[Expr] = []
        for extent in node.extents:
            bound = bounds_of_expr_in_scope(self._expand(extent), self.loops).max
            if bound is None or not free_variables(bound).isdisjoint(self.loops):
                raise ScheduleError(
                    f"the storage of {self.func} cannot be hoisted: its extent "
                    f"{self._expand(extent)} has no bound over the loops in between",
                    where,
                )
            extents.append(simplify(bound))
        known = self.taken.get(node.name)
        if known is not None:
            extents = [build.maximum(a, b) for a, b in zip(known.extents, extents, strict=True)]
        self.taken[node.name] = Allocate(
            node.name,
            node.type,
            node.memory_type,
            tuple(extents),
            build.true(),
            node.padding,
            node.body,
        )
        body: Stmt = self(node.body)
        return body
