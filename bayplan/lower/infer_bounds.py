"""Defines the region of every Func that each loop requires, from the consumers' regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.analysis.bounds import bounds_of_expr_in_scope, box_provided, boxes_provided
from bayplan.analysis.box import Box, merge
from bayplan.analysis.interval import Interval
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import add, div, int32, maximum, minimum, mul, sub, var
from bayplan.ir.errors import InternalError
from bayplan.ir.exprs import Expr, Let
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.stmts import (
    Atomic,
    Block,
    For,
    HoistedStorage,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerConsumer,
    Provide,
    Realize,
    Stmt,
)
from bayplan.ir.walk import Rewriter, StmtRewriter, free_variables, substitute
from bayplan.language.schedule import Bound, FusedPair, TailStrategy
from bayplan.lower.context import Lowering
from bayplan.lower.find_calls import TouchIndex, trim_to
from bayplan.lower.fuse_loops import find_dim
from bayplan.lower.query_extern_stages import query_inputs, query_regions
from bayplan.lower.stage_regions import Stage, always_pure_dims, find_stages

_OUTERMOST = "<outermost>"


def infer_bounds(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Puts lets "f.s0.x.min" and "f.s0.x.max" into each loop in which f is produced.

    The same names are defined again further in, for the part of the region that is needed there.
    Order: variables are not unique from here until uniquify_names; no pass between may simplify
    statements or take equal names for equal values.
    """
    # A loop around everything stands for the root, so that it is treated as any other loop.
    root = For(_OUTERMOST, int32(0), int32(1), ForKind.Serial, Partition.Never, stmt)
    result = _InferBounds(lowering)(root)
    assert isinstance(result, For)
    return result.body


def _speaks_of_regions(e: Expr) -> bool:
    return any(name.endswith((".max", ".min")) for name in free_variables(e))


class _InferBounds(StmtRewriter):
    """Adds the lets.

    Attributes:
        in_pipeline: Funcs whose production or consumption encloses this place.
        inner_productions: Funcs that are produced inside the loop at hand.
    """

    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        self.stages = find_stages(lowering)
        self.place = {(s.function.name, s.index): i for i, s in enumerate(self.stages)}
        self.pure_dims = {s.function.name: always_pure_dims(s.function) for s in self.stages}
        self.touched = TouchIndex()
        self.in_pipeline: list[str] = []
        self.inner_productions: set[str] = set()
        self.lets_in_scope: list[str] = []
        self.pairs: dict[str, list[FusedPair]] = {}
        for group in lowering.fused_groups:
            pairs = [
                pair
                for name in group
                for definition in lowering.env[name].stages()
                for pair in definition.schedule.fused_pairs
            ]
            for name in group:
                self.pairs[name] = pairs

    # Statements that hold nothing to be done are left as they are.

    def rewrite_Provide(self, node: Provide) -> Stmt:
        return node

    def rewrite_Atomic(self, node: Atomic) -> Stmt:
        return node if isinstance(node.body, Provide) else Atomic(node.name, self(node.body))

    def rewrite_Evaluate(self, node: Any) -> Stmt:
        result: Stmt = node
        return result

    def rewrite_AssertStmt(self, node: Any) -> Stmt:
        result: Stmt = node
        return result

    def rewrite_Realize(self, node: Realize) -> Stmt:
        body = self(node.body)
        return Realize(node.name, node.types, node.memory_type, node.bounds, node.condition, body)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        self.lets_in_scope.append(node.name)
        body = self(node.body)
        self.lets_in_scope.pop()
        return LetStmt(node.name, node.value, body)

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        self.in_pipeline.append(node.name)
        body = self(node.body)
        self.in_pipeline.pop()
        self.inner_productions.add(node.name)
        return ProducerConsumer(node.name, node.is_producer, body)

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind is ForKind.Extern:
            # It stands for a call.
            return node
        outer_productions = self.inner_productions
        self.inner_productions = set()
        scope_depth = len(self.lets_in_scope)
        wrappers, body = self._open(node.body)
        # A loop that holds nothing but a loop needs no regions of its own.
        is_plain = isinstance(body, For) and body.kind is not ForKind.Extern
        producing = self._stage_of_loop(node.name)
        fused: list[Stage] = []
        produced: dict[str, Box] = {}
        if producing is not None:
            fused = [producing]
            if not is_plain:
                fused = self._fused_stages(producing, node.name)
                produced = self._produced(body, fused)
        body = self(body)
        if not is_plain:
            body = self._define_required(body, producing, node.name)
            if producing is not None:
                is_extern = producing.function.extern() is not None
                if is_extern:
                    body = query_inputs(body, producing.function, nested=True)
                if self.inner_productions or is_extern:
                    body = self._define_produced(body, fused, produced)
                body = self._define_rvars(body, fused, producing)
        self.inner_productions |= outer_productions
        del self.lets_in_scope[scope_depth:]
        for wrapper in reversed(wrappers):
            if isinstance(wrapper, LetStmt):
                body = LetStmt(wrapper.name, wrapper.value, body)
            else:
                body = IfThenElse(wrapper.condition, body)
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def _open(self, body: Stmt) -> tuple[list[Any], Stmt]:
        """The lets and ifs that do not depend on regions, so that regions may depend on them."""
        wrappers: list[Any] = []
        while True:
            if isinstance(body, LetStmt) and not _speaks_of_regions(body.value):
                wrappers.append(body)
                self.lets_in_scope.append(body.name)
                body = body.body
            elif (
                isinstance(body, IfThenElse)
                and body.else_case is None
                and not _speaks_of_regions(body.condition)
            ):
                wrappers.append(body)
                body = body.then_case
            else:
                return wrappers, body

    def _stage_of_loop(self, loop: str) -> Stage | None:
        parts = loop.split(".", 2)
        if len(parts) < 3 or not parts[1].startswith("s"):
            return None
        found = self.place.get((parts[0], int(parts[1][1:])))
        return None if found is None else self.stages[found]

    # Stages that share loops (compute_with).

    def _is_fused_with(self, producing: Stage, consumer: tuple[str, int], loop_var: str) -> bool:
        """Whether the stage shares the loop over `loop_var` with the consumer."""
        pairs = self.pairs.get(producing.function.name, ())
        if not pairs:
            return False
        dims = producing.function.definition(producing.index).schedule.dims
        at = find_dim(dims, loop_var)
        if at < 0:
            return False
        for pair in pairs:
            if consumer in ((pair.func_1, pair.stage_1), (pair.func_2, pair.stage_2)):
                index = find_dim(dims, pair.var)
                if 0 <= index <= at:
                    return True
        return False

    def _fused_stages(self, producing: Stage, loop: str) -> list[Stage]:
        """The stages that are computed by the loop: its own and those that share it."""
        own = (producing.function.name, producing.index)
        loop_var = loop.rsplit(".", 1)[1]
        keys = {own}
        for pair in self.pairs.get(own[0], ()):
            for key in ((pair.func_1, pair.stage_1), (pair.func_2, pair.stage_2)):
                if key != own and self._is_fused_with(producing, key, loop_var):
                    keys.add(key)
        return [self.stages[self.place[key]] for key in sorted(keys)]

    def _produced(self, body: Stmt, fused: Sequence[Stage]) -> dict[str, Box]:
        """What one iteration computes of each of the stages."""
        bounds = self.lowering.func_bounds
        if len(fused) == 1:
            stage = fused[0]
            name = stage.function.name
            trimmed = trim_to(name, body, self.touched)
            if _computes_beyond(stage):
                trimmed = _DropPredicates(name)(trimmed)
            box = box_provided(trimmed, name, {}, bounds)
            assert box is not None, stage.name()
            return {stage.name(): box}
        for stage in fused:
            if _computes_beyond(stage):
                body = _DropPredicates(stage.function.name)(body)
        boxes = boxes_provided(body, {}, bounds)
        return {
            stage.name(): boxes[stage.function.name]
            for stage in fused
            if stage.function.name in boxes
        }

    # Regions required.

    def _define_required(self, body: Stmt, producing: Stage | None, loop: str) -> Stmt:
        """Define the regions of what is produced in this loop, and of what these serve.

        A region already known from outside is not defined again for a Func whose production or
        consumption encloses the loop.
        """
        needed = [False] * len(self.stages)
        for i, stage in enumerate(self.stages):
            name = stage.function.name
            if name in self.inner_productions:
                needed[i] = True
            if name in self.in_pipeline:
                needed[i] = False
            if needed[i]:
                for consumer in stage.consumers:
                    needed[consumer] = True
                body = self._define_region(body, stage, producing, loop)
        return body

    def _region(self, stage: Stage, producing: Stage | None, loop: str) -> Box | None:
        """The union of what the consumers in this loop require of the stage."""
        loop_var = loop.rsplit(".", 1)[-1]
        own = None if producing is None else (producing.function.name, producing.index)
        result: Box | None = None
        for consumer in sorted(stage.boxes):
            if (
                consumer == own
                or consumer[0] in self.inner_productions
                or (producing is not None and self._is_fused_with(producing, consumer, loop_var))
            ):
                box = stage.boxes[consumer]
                result = box if result is None else merge(result, box)
        return None if result is None else result.copy()

    def _define_region(self, body: Stmt, stage: Stage, producing: Stage | None, loop: str) -> Stmt:
        function = stage.function
        box = self._region(stage, producing, loop)
        last = len(function.updates)
        if box is not None and stage.index < last:
            # A dimension that no update treats specially has one region for all stages.
            for dim, is_pure in enumerate(self.pure_dims[function.name]):
                if is_pure:
                    stem = f"{function.name}.s{last}.{function.args[dim]}"
                    box.bounds[dim] = Interval(var(f"{stem}.min"), var(f"{stem}.max"))
        is_known = box is not None or function.name in self.inner_productions
        if is_known and function.extern() is not None:
            body = query_regions(body, function, nested=bool(self.in_pipeline))
        if function.name not in self.in_pipeline:
            for bound in function.schedule.bounds:
                body = self._apply_bound(body, stage, bound, loop)
        if box is None and function.name in self.inner_productions:
            # It stands in the program, but what uses it is never reached.
            nowhere = [Interval(int32(0), int32(-1)) for _ in function.args]
            box = Box(nowhere)
        for dim, interval in enumerate(box if box is not None else ()):
            stem = stage.prefix + function.args[dim]
            low, high = interval.min, interval.max
            if low is None or high is None:
                raise InternalError(f"the region of {stem} has no bounds", function.where)
            # Defined by max, so that they stay visibly one point.
            body = LetStmt(f"{stem}.min", var(f"{stem}.max") if low is high else low, body)
            body = LetStmt(f"{stem}.max", high, body)
        if stage.index > 0:
            for rvar in stage.rvars:
                stem = stage.prefix + rvar.var
                body = LetStmt(f"{stem}.min", rvar.min, body)
                body = LetStmt(f"{stem}.max", sub(add(rvar.extent, rvar.min), 1), body)
        return body

    def _apply_bound(self, body: Stmt, stage: Stage, bound: Bound, loop: str) -> Stmt:
        """Let what the user said of the bounds take the place of what is required."""
        schedule = stage.function.schedule
        stem = stage.prefix + bound.var
        low: Expr = var(f"{stem}.min")
        high: Expr = var(f"{stem}.max")
        if bound.extent is not None:
            # With the min unknown, and moving in an outer loop, the extent says nothing of max.
            level = schedule.compute_level
            fixed = level.match(loop) and schedule.store_level.match(loop)
            if bound.min is not None or level.is_root() or fixed:
                new_low = low if bound.min is None else bound.min
                body = LetStmt(f"{stem}.min", new_low, body)
                body = LetStmt(f"{stem}.max", sub(add(new_low, bound.extent), 1), body)
            # Kept for the check that the promise covers what is required.
            body = LetStmt(f"{stem}.min_unbounded", low, body)
            body = LetStmt(f"{stem}.max_unbounded", high, body)
        if bound.modulus is not None:
            low, high = align_range(low, high, bound.modulus, bound.remainder)
            body = LetStmt(f"{stem}.min", low, body)
            body = LetStmt(f"{stem}.max", high, body)
        return body

    # Regions produced, for producers further in.

    def _define_produced(
        self, body: Stmt, fused: Sequence[Stage], produced: dict[str, Box]
    ) -> Stmt:
        for stage in fused:
            box = produced.get(stage.name())
            if box is None:
                continue
            for dim, interval in enumerate(box):
                stem = stage.prefix + stage.function.args[dim]
                low, high = interval.min, interval.max
                if low is None or high is None:
                    raise InternalError(
                        f"{stage.function.name} is computed without bounds in dimension {dim}",
                        stage.function.where,
                    )
                high = var(f"{stem}.min") if low is high else high
                body = LetStmt(f"{stem}.max", high, body)
                body = LetStmt(f"{stem}.min", low, body)
        return body

    def _define_rvars(self, body: Stmt, fused: Sequence[Stage], producing: Stage) -> Stmt:
        """Define the part of the reduction domain that one iteration covers."""
        for stage in fused:
            if stage.index == 0:
                continue
            for rvar in stage.rvars:
                name = stage.prefix + rvar.var
                interval = bounds_of_inner_var(name, body)
                if interval is not None and interval.is_bounded():
                    assert interval.min is not None and interval.max is not None
                    # A guard of a split is not seen there; but no part of a split exceeds
                    # the whole.
                    low: Expr = maximum(interval.min, var(f"{name}.min"))
                    high: Expr = minimum(interval.max, var(f"{name}.max"))
                elif stage is not producing:
                    # A stage that shares the loop around this one, and not what is in it.
                    continue
                else:
                    # The variable is defined outside of this loop, perhaps with a guard.
                    guarded = f"{name}.guarded"
                    low = high = var(guarded if guarded in self.lets_in_scope else name)
                body = LetStmt(f"{name}.min", low, body)
                body = LetStmt(f"{name}.max", high, body)
        return body


def align_range(low: Expr, high: Expr, modulus: Expr, remainder: Expr | None) -> tuple[Expr, Expr]:
    """The least range around low .. high that is aligned as the user wishes.

    With a remainder both ends are aligned, without one only the extent is rounded up.
    """
    if remainder is None:
        extent = add(sub(high, low), 1)
        extent = simplify(mul(div(sub(add(extent, modulus), 1), modulus), modulus))
        return low, simplify(sub(add(low, extent), 1))
    new_low = add(mul(div(sub(low, remainder), modulus), modulus), remainder)
    after = sub(add(high, 1), remainder)
    after = add(mul(div(sub(add(after, modulus), 1), modulus), modulus), remainder)
    return new_low, sub(after, 1)


def bounds_of_inner_var(name: str, stmt: Stmt) -> Interval | None:
    """The values of a variable that a let or loop inside the statement defines, seen from outside.

    None where it is not defined inside.
    """
    if isinstance(stmt, LetStmt):
        if stmt.name == name:
            return Interval.single_point(stmt.value)
        found = bounds_of_inner_var(name, stmt.body)
        return None if found is None else _hide_let(found, stmt.name, stmt.value)
    if isinstance(stmt, For):
        extent = sub(add(stmt.min, stmt.extent), 1)
        loop = Interval(stmt.min, extent)
        if stmt.name == name:
            return loop
        found = bounds_of_inner_var(name, stmt.body)
        return None if found is None else _hide_loop(found, stmt.name, loop)
    if isinstance(stmt, Block):
        # Most likely at the end: what comes before are other productions.
        for part in reversed(stmt.stmts):
            found = bounds_of_inner_var(name, part)
            if found is not None:
                return found
        return None
    if isinstance(stmt, IfThenElse):
        found = bounds_of_inner_var(name, stmt.then_case)
        if found is None and stmt.else_case is not None:
            found = bounds_of_inner_var(name, stmt.else_case)
        return found
    if isinstance(stmt, ProducerConsumer | Realize | Prefetch | HoistedStorage | Atomic):
        return bounds_of_inner_var(name, stmt.body)
    return None


def _hide_let(found: Interval, name: str, value: Expr) -> Interval:
    def wrap(e: Expr | None) -> Expr | None:
        return Let(name, value, e) if e is not None and name in free_variables(e) else e

    return Interval(wrap(found.min), wrap(found.max))


def _hide_loop(found: Interval, name: str, loop: Interval) -> Interval:
    low, high = found.min, found.max
    scope = {name: loop}
    if low is not None and name in free_variables(low):
        low = bounds_of_expr_in_scope(low, scope).min
    if high is not None and name in free_variables(high):
        high = bounds_of_expr_in_scope(high, scope).max
    return Interval(low, high)


def _computes_beyond(stage: Stage) -> bool:
    """Whether values are computed, and so need their inputs, where nothing is stored."""
    definition = stage.function.definition(stage.index)
    schedules = [definition.schedule]
    schedules += [s.definition.schedule for s in definition.specializations]
    return any(
        split.tail is TailStrategy.PredicateStores for s in schedules for split in s.splits
    )


class _DropPredicates(Rewriter):
    """Takes the predicates off the stores of one Func, and the promise that they hold."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def rewrite_Provide(self, node: Provide) -> Stmt:
        if node.name != self.name or node.predicate is None:
            return node
        # See `apply_splits`: the guarded variable is the plain one and a promise about it.
        plain = {
            name: var(name.removesuffix(".guarded"))
            for arg in node.args
            for name in free_variables(arg)
            if name.endswith(".guarded")
        }
        return Provide(node.name, node.values, tuple([substitute(plain, a) for a in node.args]))
