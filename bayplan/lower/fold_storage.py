"""Folds the storage of Funcs into rings that hold what is alive at once, in place of everything.

Where the region of a Func that a loop touches moves in one direction, an element is needed for a
few iterations only, and coordinates can be taken modulo the greatest extent touched in one
iteration. The factor is that extent itself, not the next power of two: rows are found once per row,
where the remainder costs nothing beside the work on the row, and each row left out is a row of
bytes saved. Only a ring that fits a cache line even so takes the next power of two, whose
remainder is a mask: such rings are indexed anew for each element.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from bayplan.analysis.bounds import boxes_provided, boxes_required, find_constant_bound
from bayplan.analysis.box import Box, merge_boxes
from bayplan.analysis.facts import Facts
from bayplan.analysis.interval import Interval
from bayplan.analysis.monotonic import Monotonic, is_monotonic
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.ir import build
from bayplan.ir.errors import ErrorSite, FoldError
from bayplan.ir.exprs import Call, CallKind, Const, Expr, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    AssertStmt,
    Block,
    For,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Provide,
    Realize,
    Stmt,
)
from bayplan.ir.walk import StmtRewriter, free_variables, iterate, substitute, uses_variable
from bayplan.language.function import Function
from bayplan.language.schedule import StorageDim
from bayplan.lower.apply_folds import ApplyFolds, Fold
from bayplan.lower.check_folds import check_footprint, count_footprint
from bayplan.lower.context import Lowering
from bayplan.lower.extern_buffers import plain_storage
from bayplan.lower.slide_windows import sliding_func

_MOST = 1024
_CACHE_LINE_BYTES = 64


def fold_storage(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with folded storage and without the markers of slide_windows.

    Order: after infer_allocation_bounds, which gives what is not folded its size; before
    flatten_storage.

    Raises:
        FoldError: A fold that was asked for is too small, or cannot be.
    """
    finder = _FoldStorage(lowering, _Accesses(stmt, lowering))
    stmt = finder(stmt)
    return ApplyFolds(finder.folds)(stmt)


class _FoldStorage(StmtRewriter):
    memoise = False

    def __init__(self, lowering: Lowering, accesses: _Accesses) -> None:
        super().__init__()
        self.lowering = lowering
        self.accesses = accesses
        self.plain = plain_storage(lowering)
        self.facts = Facts()
        self.constants: dict[str, int] = {}
        # By name, one entry per realization in the order of the program.
        self.folds: dict[str, list[list[Fold]]] = {}

    def _inside(self, facts: Facts, body: Stmt) -> Stmt:
        outer = self.facts
        self.facts = facts
        result: Stmt = self(body)
        self.facts = outer
        return result

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        if type(node.value) is Const:
            self.constants[node.name] = int(node.value.value)
        body = self._inside(self.facts.let(node.name, node.value), node.body)
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def rewrite_For(self, node: For) -> Stmt:
        self.accesses.facts[node.name] = self.facts
        body = self._inside(self.facts.loop(node.name, node.min, node.extent), node.body)
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Realize(self, node: Realize) -> Stmt:
        body = self(node.body)
        found = self.folds.setdefault(node.name, [])
        function = self.lowering.env.get(node.name)
        if function is None:
            found.append([])
            return self._with(node, node.bounds, body)
        producers = self.accesses.producers[node.name]
        if producers > 1:
            producers = _count_producers(node)
        attempt = _FoldFunction(function, producers != 1, self.lowering, self.accesses)
        schedule = function.schedule
        if node.name in self.plain:
            _refuse_requests(function)
        elif schedule.compute_level != schedule.store_level:
            # Else there is no loop in between.
            body = attempt(body)
        _check_requests(function, attempt)
        found.append(attempt.folds)
        self._round_small_ring(node, attempt.folds)
        bounds = node.bounds
        for fold in attempt.folds:
            ring = (build.int32(0), fold.factor)
            bounds = (*bounds[: fold.dim], ring, *bounds[fold.dim + 1 :])
        result = self._with(node, bounds, body)
        for fold in attempt.folds:
            if fold.head:
                result = count_footprint(result, fold.head, node.bounds[fold.dim], fold.forward)
        return result

    def _round_small_ring(self, node: Realize, folds: list[Fold]) -> None:
        """Takes a power of two as the factor of a ring that stays within a cache line."""
        if len(folds) != 1 or folds[0].asked:
            return
        factor = build.constant_value(folds[0].factor)
        size = sum([t.bytes() for t in node.types])
        for dim, (_, extent) in enumerate(node.bounds):
            value = build.constant_value(extent)
            if value is None and type(extent) is Variable:
                value = self.constants.get(extent.name)
            if dim != folds[0].dim:
                size *= int(value) if value is not None else _CACHE_LINE_BYTES + 1
        if factor is not None and factor > 0:
            rounded = 1 << (int(factor) - 1).bit_length()
            if size * rounded <= _CACHE_LINE_BYTES:
                folds[0].factor = build.int32(rounded)

    def _with(self, node: Realize, bounds: Any, body: Stmt) -> Stmt:
        if body is node.body and bounds is node.bounds:
            return node
        return Realize(node.name, node.types, node.memory_type, bounds, node.condition, body)


def _refuse_requests(function: Function) -> None:
    """Refuse folds of what a C function is given."""
    for dim in function.schedule.storage_dims:
        if dim.fold_factor is not None:
            raise FoldError(
                f"{function.name} cannot be folded along {dim.var}: an external function computes "
                "it or is given it, and knows nothing of rings",
                dim.where or function.where,
            )


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


def _count_producers(stmt: Stmt) -> int:
    name = stmt.name  # type: ignore[attr-defined]
    found = [n for n in iterate(stmt) if type(n) is ProducerConsumer and n.name == name]
    return sum([n.is_producer for n in found])


class _Accesses:
    """What all Funcs touch, found once for all of them.

    Attributes:
        producers: how often each Func is produced.
        by_vectors: (name, dimension) where the coordinate differs between the lanes of a vector.
        facts: what is known around each loop, by its variable; filled on the way down.
    """

    def __init__(self, stmt: Stmt, lowering: Lowering) -> None:
        self._bounds = lowering.func_bounds
        self._boxes: dict[tuple[str, bool], dict[str, Box]] = {}
        self.producers: Counter[str] = Counter()
        self.by_vectors: set[tuple[str, int]] = set()
        self.facts: dict[str, Facts] = {}
        varying: set[str] = set()
        used: list[Any] = []
        # Lets stand outside of what they are used in, so parents come first.
        for n in iterate(stmt):
            cls = type(n)
            if cls is ProducerConsumer:
                self.producers[n.name] += n.is_producer
            elif cls is For or cls is LetStmt:
                if self._varies(n, varying):
                    varying.add(n.name)
            elif cls is Provide or (cls is Call and n.kind is CallKind.FUNC):
                used.append(n)
        if varying:
            for n in used:
                for dim, arg in enumerate(n.args):
                    if _depends_on(arg, varying):
                        self.by_vectors.add((n.name, dim))

    @staticmethod
    def _varies(n: Any, varying: set[str]) -> bool:
        """Whether a loop or let gives a name values that differ between lanes."""
        if type(n) is For:
            return n.kind is ForKind.Vectorized
        return bool(varying) and _depends_on(n.value, varying)

    def touched(self, loop: For, name: str, guarded: bool) -> Box | None:
        """The box of a Func that one iteration touches, guards looked at or not.

        Folds of other Funcs do not change it, so what was found in a loop stays true.
        """
        boxes = self._boxes.get((loop.name, guarded))
        if boxes is None:
            body = loop.body if guarded else _WithoutGuards()(loop.body)
            provided = boxes_provided(body, {}, self._bounds)
            boxes = merge_boxes(provided, boxes_required(body, {}, self._bounds))
            self._boxes[loop.name, guarded] = boxes
        return boxes.get(name)


def _depends_on(e: Expr, names: set[str]) -> bool:
    return not free_variables(e).isdisjoint(names)


class _WithoutGuards(StmtRewriter):
    """Runs what an if guards in any case."""

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        else_case = None if node.else_case is None else self(node.else_case)
        return build.block([self(node.then_case), else_case])


class _FoldFunction(StmtRewriter):
    """Tries to fold one Func over the loops between its storage and its production.

    Attributes:
        folds: what was folded.
        stopped_at: the parallel loop that was met, or "".
    """

    memoise = False

    def __init__(
        self,
        function: Function,
        explicit_only: bool,
        lowering: Lowering,
        accesses: _Accesses,
    ) -> None:
        super().__init__()
        self.accesses = accesses
        self.function = function
        self.explicit_only = explicit_only
        self.lowering = lowering
        self.folds: list[Fold] = []
        self.stopped_at = ""
        self.found_loop = False
        # What is defined between the storage and this place: None for loops.
        self.inner: dict[str, Expr | None] = {}

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        return node if node.name == self.function.name else self.rebuild(node)

    def rewrite_Provide(self, node: Provide) -> Stmt:
        return node

    def rewrite_Block(self, node: Block) -> Stmt:
        for s in node.stmts:
            if sliding_func(s) == self.function.name:
                # What is inside must keep its values for the next iteration outside.
                return node
        return self.rebuild(node)  # type: ignore[no-any-return]

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        self.inner[node.name] = node.value if is_pure(node.value) else None
        body = self(node.body)
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def _expand(self, e: Expr) -> Expr:
        """The expression without lets that stand inside the storage."""
        values: dict[str, Expr] = {}
        for name in free_variables(e):
            value = self.inner.get(name)
            if value is not None:
                values[name] = self._expand(value)
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
            body = self(body)
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def _fold_over(self, node: For) -> tuple[Stmt, bool]:
        """The body of the loop, and whether inner loops may be folded over too."""
        # Guards, such as those of rewound loops, are left out: a little more may be touched then,
        # but in a way that moves evenly. They are looked at only for a fold that was asked for.
        before = len(self.folds)
        name = self.function.name
        body, go_on = self._fold_box(node, self.accesses.touched(node, name, guarded=False))
        asked = any(dim.fold_factor is not None for dim in self.function.schedule.storage_dims)
        if asked and len(self.folds) == before:
            return self._fold_box(node, self.accesses.touched(node, name, guarded=True))
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

    def _fold_dim(
        self, node: For, body: Stmt, dim: int, low: Expr, high: Expr
    ) -> tuple[Stmt, bool] | None:
        """The body folded in a dimension and whether iterations overlap; None if not folded."""
        inside = self.accesses.facts[node.name].loop(node.name, node.min, node.extent)
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
            found = self._factor(node, dim, extent)
            if found is None:
                return None
            factor = found
        self.folds.append(Fold(dim, factor, forward, head, request is not None))
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
        facts = self.accesses.facts[node.name]
        first = simplify(substitute({node.name: node.min}, extent), facts)
        later = facts.loop(node.name, node.min + 1, node.extent - 1)
        steady = simplify(extent, later)
        if first is steady:
            return first
        everywhere = simplify(extent, facts.loop(node.name, node.min, node.extent))
        if build.constant_value(everywhere) is not None:
            return everywhere
        return simplify(build.maximum(first, steady), later)

    def _factor(self, node: For, dim: int, extent: Expr) -> Expr | None:
        """The factor of a fold that was not asked for; None where it does not pay or is unknown."""
        if (self.function.name, dim) in self.accesses.by_vectors:
            return None
        last = node.min + node.extent - 1
        scope = {node.name: Interval(node.min, last)}
        bound = find_constant_bound(extent, "upper", scope)
        if bound is None:
            extent = simplify(self._expand(extent), self.accesses.facts[node.name])
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
