"""Folds the storage of Funcs into rings that hold what is alive at once, in place of everything.

Where the region of a Func that a loop touches moves in one direction, an element is needed for a
few iterations only, and coordinates can be taken modulo the greatest extent touched in one
iteration. The factor is that extent itself, not the next power of two: rows are found once per row,
where the remainder costs nothing beside the work on the row, and each row left out is a row of
bytes saved. (The emitter turns the remainder by a power of two into a mask on its own.)
"""

from __future__ import annotations

from typing import Any

from bayplan.analysis.bounds import box_provided, box_required, find_constant_bound
from bayplan.analysis.box import Box, merge
from bayplan.analysis.facts import Facts
from bayplan.analysis.interval import Interval
from bayplan.analysis.monotonic import Monotonic, is_monotonic
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.ir import build
from bayplan.ir.errors import ErrorSite, FoldError
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    AssertStmt,
    Block,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Provide,
    Realize,
    Stmt,
)
from bayplan.ir.walk import Rewriter, free_variables, iterate, substitute, uses_variable
from bayplan.language.function import Function
from bayplan.language.schedule import StorageDim
from bayplan.lower.check_folds import check_footprint, count_footprint
from bayplan.lower.context import Lowering
from bayplan.lower.slide_windows import sliding_func

_MOST = 1024


def fold_storage(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with folded storage and without the markers of slide_windows.

    Order: after infer_allocation_bounds, which gives what is not folded its size; before
    flatten_storage.

    Raises:
        FoldError: A fold that was asked for is too small, or cannot be.
    """
    return _Unmark()(_FoldStorage(lowering)(stmt))


class Fold:
    """A dimension that was folded.

    Attributes:
        head: "" or the name of the counter that follows the footprint at run time.
    """

    __slots__ = ("dim", "factor", "forward", "head")

    def __init__(self, dim: int, factor: Expr, forward: bool, head: str) -> None:
        self.dim = dim
        self.factor = factor
        self.forward = forward
        self.head = head


class _Unmark(Rewriter):
    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        return build.nothing() if sliding_func(node) else node

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)


class _FoldStorage(Rewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        self.facts = Facts()

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def _inside(self, facts: Facts, body: Stmt) -> Stmt:
        outer = self.facts
        self.facts = facts
        result: Stmt = self(body)
        self.facts = outer
        return result

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        body = self._inside(self.facts.let(node.name, node.value), node.body)
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def rewrite_For(self, node: For) -> Stmt:
        body = self._inside(self.facts.loop(node.name, node.min, node.extent), node.body)
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Realize(self, node: Realize) -> Stmt:
        body = self(node.body)
        function = self.lowering.env.get(node.name)
        if function is None:
            return self._with(node, node.bounds, body)
        producers = sum(
            [
                type(n) is ProducerConsumer and n.is_producer and n.name == node.name
                for n in iterate(body)
            ]
        )
        attempt = _FoldFunction(function, producers != 1, self.facts, self.lowering)
        body = attempt(body)
        _check_requests(function, attempt)
        bounds = list(node.bounds)
        for fold in attempt.folds:
            bounds[fold.dim] = (build.int32(0), fold.factor)
        result = self._with(node, tuple(bounds), body)
        for fold in attempt.folds:
            if fold.head:
                result = count_footprint(result, fold.head, node.bounds[fold.dim], fold.forward)
        return result

    def _with(self, node: Realize, bounds: Any, body: Stmt) -> Stmt:
        if body is node.body and bounds is node.bounds:
            return node
        return Realize(node.name, node.types, node.memory_type, bounds, node.condition, body)


def _check_requests(function: Function, attempt: _FoldFunction) -> None:
    folded = [fold.dim for fold in attempt.folds]
    for dim in function.schedule.storage_dims:
        if dim.fold_factor is None or function.args.index(dim.var) in folded:
            continue
        if attempt.stopped_at:
            why = f"the loop {attempt.stopped_at} runs in parallel"
        elif attempt.found_loop:
            why = f"no serial loop inside its store level moves its region along {dim.var}"
        else:
            why = "there is no serial loop between its store level and its compute level"
        raise FoldError(
            f"cannot fold the storage of {function.name} along {dim.var} "
            f"by {dim.fold_factor}: {why}",
            dim.where or function.where,
        )


class _Remainder(Rewriter):
    """Takes one coordinate of all uses of a Func modulo the factor."""

    def __init__(self, func: str, dim: int, factor: Expr) -> None:
        super().__init__()
        self.func = func
        self.dim = dim
        self.factor = factor

    def _folded(self, args: list[Expr]) -> tuple[Expr, ...]:
        args[self.dim] = build.mod(args[self.dim], self.factor)
        return tuple(args)

    def rewrite_Call(self, node: Call) -> Expr:
        if node.kind is not CallKind.FUNC or node.name != self.func:
            return self.rebuild(node)  # type: ignore[no-any-return]
        args = self._folded([self(arg) for arg in node.args])
        return Call(node.type, node.name, args, node.kind, node.target, node.value_index)

    def rewrite_Provide(self, node: Provide) -> Stmt:
        result: Provide = self.rebuild(node)
        if node.name != self.func:
            return result
        args = self._folded(list(result.args))
        return Provide(result.name, result.values, args, result.predicate)


class _WithoutGuards(Rewriter):
    """Runs what an if guards in any case."""

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        else_case = None if node.else_case is None else self(node.else_case)
        return build.block([self(node.then_case), else_case])


class _FoldFunction(Rewriter):
    """Tries to fold one Func over the loops between its storage and its production.

    Attributes:
        folds: what was folded.
        stopped_at: the parallel loop that was met, or "".
    """

    memoise = False

    def __init__(
        self, function: Function, explicit_only: bool, facts: Facts, lowering: Lowering
    ) -> None:
        super().__init__()
        self.function = function
        self.explicit_only = explicit_only
        self.facts = facts
        self.lowering = lowering
        self.folds: list[Fold] = []
        self.stopped_at = ""
        self.found_loop = False
        # What is defined between the storage and this place: None for loops.
        self.inner: dict[str, Expr | None] = {}

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        return node if node.name == self.function.name else self.rebuild(node)

    def rewrite_Block(self, node: Block) -> Stmt:
        for s in node.stmts:
            if sliding_func(s) == self.function.name:
                # What is inside must keep its values for the next iteration outside.
                return node
        return self.rebuild(node)  # type: ignore[no-any-return]

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        outer = self.facts
        self.facts = outer.let(node.name, node.value)
        self.inner[node.name] = self._expand(node.value) if is_pure(node.value) else None
        body = self(node.body)
        self.facts = outer
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def _expand(self, e: Expr) -> Expr:
        """The expression without lets that stand inside the storage."""
        values = {n: v for n in free_variables(e) if (v := self.inner.get(n)) is not None}
        return substitute(values, e) if values else e

    def rewrite_For(self, node: For) -> Stmt:
        self.inner[node.name] = None
        if node.kind not in (ForKind.Serial, ForKind.Unrolled):
            # One thread would overwrite what another still needs.
            if _uses(node.body, self.function.name):
                self.stopped_at = node.name
            return node
        body, go_on = self._fold_over(node)
        if go_on:
            outer = self.facts
            self.facts = outer.loop(node.name, node.min, node.extent)
            body = self(body)
            self.facts = outer
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def _fold_over(self, node: For) -> tuple[Stmt, bool]:
        """The body of the loop, and whether inner loops may be folded over too."""
        # Guards, such as those of rewound loops, are left out: a little more may be touched then,
        # but in a way that moves evenly. They are looked at only for a fold that was asked for.
        plain = _WithoutGuards()(node.body)
        body, go_on = self._fold_box(node, self._touched(plain))
        asked = any(dim.fold_factor is not None for dim in self.function.schedule.storage_dims)
        if asked and body is node.body and plain is not node.body:
            return self._fold_box(node, self._touched(node.body))
        return body, go_on

    def _fold_box(self, node: For, box: Box | None) -> tuple[Stmt, bool]:
        body = node.body
        if box is None:
            return body, True
        self.found_loop = True
        for dim in reversed(range(len(box))):
            interval = box[dim]
            if interval.min is None or interval.max is None:
                continue
            if any(fold.dim == dim for fold in self.folds):
                continue
            found = self._fold_dim(node, body, dim, interval.min, interval.max)
            if found is None:
                continue
            body, overlaps = found
            if overlaps:
                return body, False
        return body, True

    def _touched(self, body: Stmt) -> Box | None:
        name, bounds = self.function.name, self.lowering.func_bounds
        provided = box_provided(body, name, {}, bounds)
        required = box_required(body, name, {}, bounds)
        if provided is None or required is None:
            return provided if required is None else required
        return merge(provided, required)

    def _fold_dim(
        self, node: For, body: Stmt, dim: int, low: Expr, high: Expr
    ) -> tuple[Stmt, bool] | None:
        """The body folded in a dimension and whether iterations overlap; None if not folded."""
        inside = self.facts.loop(node.name, node.min, node.extent)
        low, high = simplify(low, inside), simplify(high, inside)
        if build.constant_value(low) is not None or build.constant_value(high) is not None:
            return None
        request = self._request(dim)
        moves = uses_variable(low, node.name) or uses_variable(high, node.name)
        if request is not None and is_pure(low) and is_pure(high) and not moves:
            request = None
        forward = backward = False
        if not self.explicit_only:
            forward = is_monotonic(low, node.name) is Monotonic.Increasing
            backward = is_monotonic(high, node.name) is Monotonic.Decreasing
        if not forward and not backward and request is None:
            return None

        head = ""
        extent = self._extent(node, low, high)
        if request is not None:
            factor = request.fold_factor
            assert factor is not None
            if forward or backward:
                body = _check_extent(self.function, request, node.name, extent, factor, body)
            else:
                forward = request.fold_forward
                head = self.lowering.unique_name(f"{self.function.name}.{request.var}.head")
                body = check_footprint(self.function, request, node.name, dim, head, body)
        else:
            found = self._factor(node, dim, extent, body)
            if found is None:
                return None
            factor = found
        body = _Remainder(self.function.name, dim, factor)(body)
        self.folds.append(Fold(dim, factor, forward, head))
        next_low = substitute({node.name: build.var(node.name) + 1}, low)
        return body, not can_prove(build.lt(high, next_low), inside)

    def _request(self, dim: int) -> StorageDim | None:
        arg = self.function.args[dim]
        for storage_dim in self.function.schedule.storage_dims:
            if storage_dim.var == arg and storage_dim.fold_factor is not None:
                return storage_dim
        return None

    def _extent(self, node: For, low: Expr, high: Expr) -> Expr:
        """The greatest extent that one iteration touches."""
        # The first iteration may touch more, where it makes a whole window.
        extent = high - low + 1
        first = simplify(substitute({node.name: node.min}, extent), self.facts)
        later = self.facts.loop(node.name, node.min + 1, node.extent - 1)
        steady = simplify(extent, later)
        if first is steady:
            return first
        everywhere = simplify(extent, self.facts.loop(node.name, node.min, node.extent))
        if build.constant_value(everywhere) is not None:
            return everywhere
        return simplify(build.maximum(first, steady), later)

    def _factor(self, node: For, dim: int, extent: Expr, body: Stmt) -> Expr | None:
        """The factor of a fold that was not asked for; None where it does not pay or is unknown."""
        if _vector_access(body, self.function.name, dim):
            return None
        last = node.min + node.extent - 1
        scope = {node.name: Interval(node.min, last)}
        bound = find_constant_bound(extent, "upper", scope)
        if bound is None:
            extent = simplify(self._expand(extent), self.facts)
            bound = find_constant_bound(extent, "upper", scope)
        if bound is not None:
            value = build.constant_value(bound)
            return bound if value is not None and 0 < value <= _MOST else None
        extent = self._expand(extent)
        if is_pure(extent) and free_variables(extent).isdisjoint(self.inner):
            # Known when the storage is made.
            return extent
        return None


def _check_extent(
    function: Function, request: StorageDim, loop: str, extent: Expr, factor: Expr, body: Stmt
) -> Stmt:
    """The body behind a check that an asked factor is large enough."""
    enough = simplify(build.le(extent, factor))
    where = request.where or function.where
    text = (
        f"the storage of {function.name} is folded along {request.var} by {{0}}, "
        f"but the loop {loop} needs {{1}} at once"
    )
    if build.is_one(enough):
        return body
    if build.is_zero(enough) and build.constant_value(extent) is not None:
        raise FoldError(text.format(factor, extent), where, hint=f"fold by at least {extent}")
    site = ErrorSite(FoldError, text, where)
    return build.block([AssertStmt(enough, site, (factor, extent)), body])


def _uses(stmt: Stmt, func: str) -> bool:
    return any(
        (type(n) is Call and n.kind is CallKind.FUNC and n.name == func)
        or (type(n) is Provide and n.name == func)
        for n in iterate(stmt)
    )


def _depends_on(e: Expr, names: set[str]) -> bool:
    return not free_variables(e).isdisjoint(names)


def _vector_access(stmt: Stmt, func: str, dim: int) -> bool:
    """Whether the coordinate in the dimension differs between the lanes of a vector."""
    varying: set[str] = set()
    # Lets stand outside of what they are used in, so parents come first.
    for n in iterate(stmt):
        if (type(n) is For and n.kind is ForKind.Vectorized) or (
            type(n) is LetStmt and not free_variables(n.value).isdisjoint(varying)
        ):
            varying.add(n.name)
    for n in iterate(stmt):
        of_func = type(n) is Provide or (type(n) is Call and n.kind is CallKind.FUNC)
        if (
            of_func
            and n.name == func  # type: ignore[attr-defined]
            and not free_variables(n.args[dim]).isdisjoint(varying)  # type: ignore[attr-defined]
        ):
            return True
    return False
