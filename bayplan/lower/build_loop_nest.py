"""Builds the loops of one stage of a Func around its write, as its schedule says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.ir.build import (
    add,
    false,
    ge,
    int32,
    intrinsic,
    is_const,
    le,
    likely,
    logical_and,
    select,
    sub,
    var,
)
from bayplan.ir.errors import ErrorSite, RequirementFailed, ScheduleError
from bayplan.ir.exprs import And, Call, CallKind, Expr
from bayplan.ir.stmts import AssertStmt, Atomic, For, IfThenElse, LetStmt, Provide, Stmt
from bayplan.ir.walk import Rewriter, free_variables, iterate, substitute
from bayplan.language.function import Definition, Function
from bayplan.language.schedule import OUTERMOST, Dim, SplitKind, StageSchedule, TailStrategy
from bayplan.lower.apply_splits import Action, Step, apply_split, bounds_after_split
from bayplan.lower.place_prefetches import place_prefetches
from bayplan.lower.qualify import Qualify

NO_FUSE = -1


def build_stage(
    env: Mapping[str, Function],
    prefix: str,
    function: Function,
    definition: Definition,
    fused_from: int = NO_FUSE,
) -> Stmt:
    """The loops that compute one stage, with a branch for each specialization.

    The loops refer to "f.s0.x.min" and "f.s0.x.max" for the region they must compute at least.

    Args:
        env: The Funcs of the pipeline.
        prefix: Name of the stage with its dot, as "f.s0.".
        function: The Func.
        definition: Its definition of this stage, or of a specialization of it.
        fused_from: Index in `dims` of the innermost loop shared with other stages (compute_with).
    """
    qualify = Qualify(prefix)
    values = tuple([qualify(v) for v in definition.values])
    args = tuple([qualify(a) for a in definition.args])
    body: Stmt = Provide(function.name, values, args)
    if definition.schedule.atomic:
        body = Atomic(function.name, body)
    stmt = _build_loops(body, prefix, fused_from, function, definition)
    stmt = place_prefetches(stmt, prefix, definition.schedule.prefetches, env)
    for special in reversed(definition.specializations):
        if special.failure:
            text = "no specialization fits the call, and specialize_fail() says: " + special.failure
            where = special.where or definition.where
            site = ErrorSite(RequirementFailed, _literal(text), where)
            stmt = AssertStmt(false(), site)
        else:
            then_case = build_stage(env, prefix, function, special.definition, fused_from)
            stmt = IfThenElse(special.condition, then_case, stmt)
    return stmt


def _literal(text: str) -> str:
    """The text as a template that has no arguments."""
    return text.replace("{", "{{").replace("}", "}}")


def _build_loops(
    body: Stmt, prefix: str, fused_from: int, function: Function, definition: Definition
) -> Stmt:
    schedule = definition.schedule
    stmt = _apply_splits(body, prefix, function, schedule)
    wrappers = _order_wrappers(stmt, prefix, fused_from, definition)
    stmt = _innermost(stmt)
    for wrapper in reversed(wrappers):
        stmt = wrapper.wrap(stmt)
    return _define_loop_bounds(stmt, prefix, function.args, schedule)


def _known_multiples(function: Function, schedule: StageSchedule) -> dict[str, Expr]:
    """Loop variable -> an expression that its extent is a multiple of, by the user's promises."""
    multiples: dict[str, Expr] = {}
    for bound in function.schedule.bounds:
        if bound.extent is not None:
            multiples[bound.var] = bound.extent
        if bound.modulus is not None:
            multiples[bound.var] = bound.modulus
    for rvar in schedule.rvars:
        multiples[rvar.var] = rvar.extent
    return multiples


def _apply_splits(body: Stmt, prefix: str, function: Function, schedule: StageSchedule) -> Stmt:
    multiples = _known_multiples(function, schedule)
    unsplittable = {
        s.inner
        for s in schedule.splits
        if s.tail in (TailStrategy.PredicateLoads, TailStrategy.PredicateStores)
    }
    stmt = body
    parts: set[str] = set()
    for split in schedule.splits:
        if split.kind is SplitKind.Split and split.old in unsplittable:
            raise ScheduleError(
                f"{split.old} of {function.name} comes from a split with predicated loads or "
                "stores, and such a loop cannot be split again",
                split.where or function.where,
            )
        steps = apply_split(split, prefix, multiples, split.old in parts)
        stmt = _apply_steps(stmt, steps, function)
        parts |= {split.outer, split.inner} if split.kind is SplitKind.Split else {split.old}
    return stmt


def _apply_steps(stmt: Stmt, steps: Sequence[Step], function: Function) -> Stmt:
    for action, name, value in steps:
        if action is Action.SUBSTITUTE:
            stmt = substitute({name: value}, stmt)
        elif action is Action.LET:
            stmt = LetStmt(name, value, stmt)
        elif action is Action.GUARD:
            stmt = IfThenElse(value, stmt)
        elif action is Action.SUBSTITUTE_IN_CALLS:
            stmt = _InCalls({name: value})(stmt)
        elif action is Action.SUBSTITUTE_IN_PROVIDES:
            stmt = _InProvides({name: value})(stmt)
        elif action is Action.PREDICATE_CALLS:
            stmt = _PredicateCalls(value)(stmt)
        elif action is Action.PREDICATE_PROVIDES:
            stmt = _PredicateProvides(value)(stmt)
        else:
            stmt = _Blend(value, function)(stmt)
    return stmt


class _InCalls(Rewriter):
    """Substitutes in calls of Funcs and images only."""

    def __init__(self, values: Mapping[str, Expr]) -> None:
        super().__init__()
        self._values = values

    def rewrite_Call(self, node: Call) -> Any:
        call = self.rebuild(node)
        return substitute(self._values, call) if call.kind in _MEMORY else call


class _InProvides(Rewriter):
    """Substitutes in the coordinates that are written only."""

    def __init__(self, values: Mapping[str, Expr]) -> None:
        super().__init__()
        self._values = values

    def rewrite_Provide(self, node: Provide) -> Any:
        args = tuple([substitute(self._values, a) for a in node.args])
        return Provide(node.name, node.values, args, node.predicate)


_MEMORY = frozenset([CallKind.FUNC, CallKind.IMAGE])


class _PredicateCalls(Rewriter):
    """Makes calls of Funcs and images conditional; the value is not specified elsewhere."""

    def __init__(self, condition: Expr) -> None:
        super().__init__()
        self._condition = condition

    def rewrite_Call(self, node: Call) -> Any:
        call = self.rebuild(node)
        if call.kind not in _MEMORY:
            return call
        return intrinsic(call.type, "if_then_else", self._condition, call)


class _PredicateProvides(Rewriter):
    """Makes the write conditional."""

    def __init__(self, condition: Expr) -> None:
        super().__init__()
        self._condition = condition

    def rewrite_Provide(self, node: Provide) -> Any:
        predicate = self._condition
        if node.predicate is not None:
            predicate = logical_and(node.predicate, predicate)
        return Provide(node.name, node.values, node.args, predicate)


class _Blend(Rewriter):
    """Writes the old value back where the condition does not hold."""

    def __init__(self, condition: Expr, function: Function) -> None:
        super().__init__()
        self._condition = condition
        self._function = function

    def rewrite_Provide(self, node: Provide) -> Any:
        function = self._function
        values: list[Expr] = []
        for i, value in enumerate(node.values):
            old = Call(value.type, function.name, node.args, CallKind.FUNC, function, i)
            values.append(select(self._condition, value, old))
        return Provide(node.name, tuple(values), node.args, node.predicate)


# The wrappers around the write: loops, lets and ifs, sorted so that bounds analysis sees as much
# as possible.


class _Wrapper:
    """A loop, let or if around the write.

    Attributes:
        name: variable that it defines; for the guard of a fused loop the one it speaks of.
        value: value of a let, condition of an if, None for a loop.
    """

    __slots__ = ("dim", "name", "value")

    def __init__(self, name: str, value: Expr | None, dim: Dim | None) -> None:
        self.name = name
        self.value = value
        self.dim = dim

    def wrap(self, stmt: Stmt) -> Stmt:
        raise NotImplementedError


class _Loop(_Wrapper):
    def wrap(self, stmt: Stmt) -> Stmt:
        assert self.dim is not None
        return For(
            self.name,
            var(f"{self.name}.loop_min"),
            var(f"{self.name}.loop_extent"),
            self.dim.kind,
            self.dim.partition,
            stmt,
        )


class _Let(_Wrapper):
    def wrap(self, stmt: Stmt) -> Stmt:
        assert self.value is not None
        return LetStmt(self.name, self.value, stmt)


class _If(_Wrapper):
    def wrap(self, stmt: Stmt) -> Stmt:
        assert self.value is not None
        return IfThenElse(self.value, stmt)


class _FusedGuard(_If):
    """Guard of a fused loop: stays inside its loop."""


def _innermost(stmt: Stmt) -> Stmt:
    while True:
        if isinstance(stmt, LetStmt):
            stmt = stmt.body
        elif isinstance(stmt, IfThenElse):
            stmt = stmt.then_case
        else:
            return stmt


def _order_wrappers(
    stmt: Stmt, prefix: str, fused_from: int, definition: Definition
) -> list[_Wrapper]:
    """All that goes around the write, outermost first."""
    dims = definition.schedule.dims
    nest: list[_Wrapper] = [_Loop(prefix + d.var, None, d) for d in reversed(dims)]
    ifs: list[_Wrapper] = []
    lets: list[_Wrapper] = []
    while True:
        if isinstance(stmt, LetStmt):
            lets.append(_Let(stmt.name, stmt.value, None))
            stmt = stmt.body
        elif isinstance(stmt, IfThenElse):
            ifs.append(_If("", stmt.condition, None))
            stmt = stmt.then_case
        else:
            break
    qualify = Qualify(prefix)
    for predicate in split_conjunction(definition.predicate):
        ifs.append(_If("", qualify(predicate), None))
    for let in lets:
        _push_out(nest, let, past_loops=True)
    for guard in _fused_guards(dims, prefix, fused_from):
        _push_out(nest, guard, past_loops=False)
    # Bounds analysis narrows the variable of a likely condition, but not the lets outside that
    # were made of it: so the ifs go as far out as they can.
    for condition in ifs:
        _push_out(nest, condition, past_loops=True)
    return nest


def _fused_guards(dims: Sequence[Dim], prefix: str, fused_from: int) -> list[_Wrapper]:
    """Guards that keep a stage within its own bounds in loops over the union of several."""
    guards: list[_Wrapper] = []
    if fused_from < 0:
        return guards
    for dim in dims[fused_from : len(dims) - 1]:
        name = prefix + dim.var
        loop = var(name)
        guards.append(_FusedGuard(name, likely(ge(loop, var(f"{name}.loop_min"))), None))
        guards.append(_FusedGuard(name, likely(le(loop, var(f"{name}.loop_max"))), None))
    return guards


def _push_out(nest: list[_Wrapper], wrapper: _Wrapper, past_loops: bool) -> None:
    """Insert a wrapper as far out as the variables it uses allow."""
    assert wrapper.value is not None
    place = len(nest)
    if not _contains_impure_call(wrapper.value):
        used = free_variables(wrapper.value)
        while place > 0:
            outside = nest[place - 1]
            if outside.name in used or (not past_loops and isinstance(outside, _Loop)):
                break
            place -= 1
    nest.insert(place, wrapper)


def _contains_impure_call(e: Expr) -> bool:
    return any(
        type(n) is Call and not n.is_pure() and n.kind is not CallKind.IMAGE for n in iterate(e)
    )


def split_conjunction(condition: Expr) -> list[Expr]:
    """The conditions that must all hold, without those that always do."""
    result: list[Expr] = []
    pending = [condition]
    while pending:
        e = pending.pop()
        if type(e) is And:
            pending.append(e.b)
            pending.append(e.a)
        elif not is_const(e, 1):
            result.append(e)
    return result


def _define_loop_bounds(
    stmt: Stmt, prefix: str, args: Sequence[str], schedule: StageSchedule
) -> Stmt:
    """Define min, max and extent of all loops by the region that bounds inference will define.

    They are lets, because that region has other values further in: the loops must use the
    values of this place.
    """
    for split in reversed(schedule.splits):
        for name, low, high in bounds_after_split(split, prefix):
            stmt = _define(stmt, name, low, high)
    stmt = _define(stmt, prefix + OUTERMOST, int32(0), int32(0))
    for arg in [*args, *[r.var for r in schedule.rvars]]:
        name = prefix + arg
        stmt = _define(stmt, name, var(f"{name}.min"), var(f"{name}.max"))
    return stmt


def _define(stmt: Stmt, name: str, low: Expr, high: Expr) -> Stmt:
    low_var, high_var = var(f"{name}.loop_min"), var(f"{name}.loop_max")
    extent = add(sub(high_var, low_var), 1)
    if is_const(low) and is_const(high):
        extent = add(sub(high, low), 1)
    stmt = LetStmt(f"{name}.loop_extent", extent, stmt)
    stmt = LetStmt(f"{name}.loop_min", low, stmt)
    return LetStmt(f"{name}.loop_max", high, stmt)
