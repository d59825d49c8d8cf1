"""Directives on the loops of one stage: split, fuse, rename, reorder, and how a loop runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayplan.ir.build import constant_value
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.source import user_line
from bayplan.ir.types import INT32
from bayplan.language.associativity import is_constant_assignment, prove_associativity
from bayplan.language.loop_names import (
    VarOrRVar,
    list_loops,
    matches,
    name_matches,
    short_name,
)
from bayplan.language.promotion import lossless_cast
from bayplan.language.schedule import OUTERMOST, DimType, Split, SplitKind, TailStrategy
from bayplan.language.target_names import DeviceAPI

if TYPE_CHECKING:
    from bayplan.language.stage import Stage

_BLEND = frozenset([TailStrategy.ShiftInwardsAndBlend, TailStrategy.RoundUpAndBlend])


def refuse(stage: Stage, what: str) -> ScheduleError:
    """The error for a directive on a stage that names the stage and its loops."""
    return ScheduleError(
        f"in the schedule of {stage.name()}: {what}{list_loops(stage.definition.schedule.dims)}"
    )


def find_loop(stage: Stage, v: VarOrRVar, purpose: str) -> int:
    """Position of the loop in the stage's list; raise where there is none."""
    for i, dim in enumerate(stage.definition.schedule.dims):
        if matches(dim, v):
            return i
    raise refuse(stage, f"there is no loop {v.name_} to {purpose}")


def split_factor(stage: Stage, old: str, factor: Expr) -> Expr:
    """The factor as int32."""
    fitting = lossless_cast(INT32, factor)
    if fitting is None:
        raise refuse(stage, f"the factor to split {old} by is a {factor.type}, not an int32")
    value = constant_value(fitting)
    if value is not None and value <= 0:
        raise refuse(stage, f"the factor to split {old} by is {value}; it must be positive")
    return fitting


def _inner_parts(stage: Stage) -> set[str]:
    """Loops that descend from the inner part of a split."""
    inner: set[str] = set()
    for s in stage.definition.schedule.splits:
        if s.kind is SplitKind.Split:
            inner.add(s.inner)
            if s.old in inner:
                inner.add(s.outer)
        elif s.kind is SplitKind.Rename:
            if s.old in inner:
                inner.add(s.outer)
        elif s.inner in inner or s.outer in inner:
            inner.add(s.old)
    return inner


def _covered_by_shift(stage: Stage, old: str, factor: Expr) -> bool:
    """Whether `old` descends from a ShiftInwards split at least as large as `factor`."""
    covered: dict[str, Expr] = {}
    for s in stage.definition.schedule.splits:
        found = covered.get(s.old)
        if s.kind is SplitKind.Split:
            if s.tail is TailStrategy.ShiftInwards:
                assert s.factor is not None
                covered[s.outer] = s.factor
            elif found is not None:
                covered[s.inner] = covered[s.outer] = found
        elif s.kind is SplitKind.Rename and found is not None:
            covered[s.outer] = found
    larger = covered.get(old)
    if larger is None:
        return False
    a, b = constant_value(larger), constant_value(factor)
    if a is None or b is None:
        return larger is factor
    return a >= b


def _resolve_tail(
    stage: Stage, old: str, factor: Expr, exact: bool, tail: TailStrategy
) -> TailStrategy:
    """The tail strategy that is recorded; raise where the one asked for is not legal."""
    is_init = stage.definition.is_init
    is_inner = not exact and old in _inner_parts(stage)
    if tail is TailStrategy.RoundUp and is_inner and not is_init:
        raise refuse(
            stage,
            f"{old} is an inner part already, so RoundUp could compute values of an update twice "
            "and change them; use GuardWithIf",
        )
    if tail is TailStrategy.PredicateLoads and is_inner:
        raise refuse(stage, f"{old} is an inner part already, so PredicateLoads is not possible")
    if tail is TailStrategy.Auto:
        if exact or (is_inner and not is_init):
            return TailStrategy.GuardWithIf
        if not is_init:
            return TailStrategy.RoundUp
        covered = _covered_by_shift(stage, old, factor)
        return TailStrategy.RoundUp if covered else TailStrategy.ShiftInwards
    if tail is TailStrategy.ShiftInwards and not is_init:
        raise refuse(
            stage,
            f"ShiftInwards on {old} would compute values of an update twice and may change them; "
            "use GuardWithIf, or RoundUp",
        )
    if exact and tail not in (TailStrategy.GuardWithIf, TailStrategy.Predicate):
        raise refuse(
            stage,
            f"the tail of {old}, an RVar, can be GuardWithIf, Predicate or Auto, not {tail.name}, "
            "which may change the result",
        )
    return tail


def split_loop(
    stage: Stage,
    old: VarOrRVar,
    outer: VarOrRVar,
    inner: VarOrRVar,
    factor: Expr,
    tail: TailStrategy,
) -> None:
    """Replace the loop `old` by two: `inner` of `factor` iterations, and `outer` around it."""
    for part in (outer, inner):
        if part.is_rvar != old.is_rvar:
            raise refuse(stage, f"the {old.what()} cannot be split into the {part.what()}")
    factor = split_factor(stage, old.name_, factor)
    dims = stage.definition.schedule.dims
    if inner.name_ == outer.name_:
        raise refuse(stage, f"{old.name_} cannot be split into two loops both named {inner.name_}")
    for dim in dims:
        for part in (inner, outer):
            if name_matches(dim.var, part.name_) and part.name_ != old.name_:
                raise refuse(
                    stage,
                    f"{old.name_} cannot be split into {part.name_}, which names a loop already",
                )
    at = find_loop(stage, old, "split")
    old_name = dims[at].var
    tail = _resolve_tail(stage, old_name, factor, old.is_rvar, tail)
    if tail in _BLEND:
        check_blend_races(stage)
    where = user_line()
    inner_dim = dims[at]
    outer_dim = inner_dim.copy()
    inner_dim.var = f"{old_name}.{inner.name_}"
    outer_dim.var = f"{old_name}.{outer.name_}"
    inner_dim.where = outer_dim.where = where
    if outer_dim.kind is ForKind.Extern:
        # What is left to the external function is the inner part.
        outer_dim.kind = ForKind.Serial
    dims.insert(at + 1, outer_dim)
    split = Split(
        old_name, outer_dim.var, inner_dim.var, factor, old.is_rvar, tail, SplitKind.Split, where
    )
    stage.definition.schedule.splits.append(split)


_FUSED_TYPE = (DimType.ImpureRVar, DimType.PureRVar, DimType.PureVar)


def fuse_loops(stage: Stage, inner: VarOrRVar, outer: VarOrRVar, fused: VarOrRVar) -> None:
    """Replace two loops by one that runs over all pairs, `inner` fastest."""
    if fused.is_rvar != (inner.is_rvar or outer.is_rvar):
        part = outer if outer.is_rvar else inner
        raise refuse(stage, f"the {part.what()} cannot be fused into the {fused.what()}")
    dims = stage.definition.schedule.dims
    find_loop(stage, inner, "fuse as the inner one")
    outer_at = find_loop(stage, outer, "fuse as the outer one")
    if find_loop(stage, inner, "fuse") == outer_at:
        raise refuse(stage, f"{inner.name_} cannot be fused with itself")
    outer_dim = dims.pop(outer_at)
    dim = dims[find_loop(stage, inner, "fuse")]
    inner_name = dim.var
    dim.var = f"{inner_name}.{fused.name_}"
    for kind in _FUSED_TYPE:
        if kind in (dim.dim_type, outer_dim.dim_type):
            dim.dim_type = kind
            break
    where = dim.where = user_line()
    stage.definition.schedule.splits.append(
        Split(
            dim.var,
            outer_dim.var,
            inner_name,
            None,
            True,
            TailStrategy.RoundUp,
            SplitKind.Fuse,
            where,
        )
    )
    # A parallel loop that an impure RVar was fused into must be allowed again.
    set_loop_kind(stage, fused, dim.kind, dim.device)


def rename_loop(stage: Stage, old: VarOrRVar, new: VarOrRVar) -> None:
    """Give a loop another name."""
    if old.is_rvar != new.is_rvar:
        raise refuse(stage, f"the {old.what()} cannot be renamed to the {new.what()}")
    schedule = stage.definition.schedule
    dim = schedule.dims[find_loop(stage, old, "rename")]
    old_name = dim.var
    new_name = f"{old_name}.{new.name_}"
    dim.var = new_name
    # The split that made the loop is given the new name, where there is one.
    for split in reversed(schedule.splits):
        if split.kind is SplitKind.Fuse:
            if split.old == old_name:
                split.old = new_name
                return
        elif split.inner == old_name:
            split.inner = new_name
            return
        elif split.outer == old_name:
            split.outer = new_name
            return
    schedule.splits.append(
        Split(
            old_name,
            new_name,
            "",
            None,
            old.is_rvar,
            TailStrategy.RoundUp,
            SplitKind.Rename,
            user_line(),
        )
    )


def reorder_loops(stage: Stage, order: Sequence[VarOrRVar]) -> None:
    """Permute the loops named, innermost first, among the places they have."""
    dims = stage.definition.schedule.dims
    at: list[int] = []
    for v in order:
        found = find_loop(stage, v, "reorder")
        if found in at:
            raise refuse(stage, f"reorder names {v.name_} twice")
        at.append(found)
    _check_reorder(stage, order, at)
    old = list(dims)
    for place, found in zip(sorted(at), at, strict=True):
        dims[place] = old[found]
    if short_name(dims[-1].var) != OUTERMOST:
        dims[:] = old
        raise refuse(stage, "the outermost loop must stay outermost")


def _check_reorder(stage: Stage, order: Sequence[VarOrRVar], at: Sequence[int]) -> None:
    """Raise where impure RVars would change their order in a way that may change the result."""
    dims = stage.definition.schedule.dims
    for i, first in enumerate(at):
        for j in range(i + 1, len(at)):
            second = at[j]
            if first < second or dims[first].dim_type is not DimType.ImpureRVar:
                continue
            if dims[second].dim_type is DimType.ImpureRVar:
                if _any_order(stage):
                    return
                raise refuse(
                    stage,
                    f"the RVars {order[i].name_} and {order[j].name_} cannot change places: the "
                    "update is not proven associative and commutative, so its result may change",
                )


def _any_order(stage: Stage) -> bool:
    """Whether the iterations of the stage may run in any order."""
    definition = stage.definition
    name = stage.function.name
    if is_constant_assignment(name, definition.args, definition.values):
        return True
    proof = prove_associativity(name, definition.args, definition.values)
    return proof is not None and proof.commutative


def set_loop_kind(
    stage: Stage, v: VarOrRVar, kind: ForKind, device: DeviceAPI = DeviceAPI.None_
) -> None:
    """Make a loop run serially, in parallel, on a device, ...; raise on a possible race."""
    schedule = stage.definition.schedule
    dim = schedule.dims[find_loop(stage, v, f"make {kind.value}")]
    is_unordered = kind.is_parallel or kind is ForKind.Vectorized
    if dim.dim_type is DimType.ImpureRVar and is_unordered:
        if schedule.atomic and not schedule.allow_race_conditions:
            if not schedule.override_atomic_associativity_test and not _any_order(stage):
                raise refuse(
                    stage,
                    f"{v.name_} cannot be made {kind.value} under atomic(): the update is not "
                    "proven associative and commutative",
                )
        elif not schedule.allow_race_conditions:
            raise refuse(
                stage,
                f"making the RVar {v.name_} {kind.value} may be a race: different iterations may "
                "touch the same element. Where the operation is associative use atomic(); where "
                "there is no race, allow_race_conditions()",
            )
    dim.kind = kind
    dim.device = device
    dim.where = user_line()
    if kind.is_parallel:
        check_blend_races(stage)


def check_blend_races(stage: Stage) -> None:
    """Raise where a blending tail reads and writes back what a parallel loop may be writing."""
    schedule = stage.definition.schedule
    if schedule.allow_race_conditions:
        return
    parallel = {dim.var for dim in schedule.dims if dim.kind.is_parallel}
    for s in reversed(schedule.splits):
        if s.kind is SplitKind.Fuse:
            if s.old in parallel:
                parallel |= {s.inner, s.outer}
        elif s.outer in parallel or s.inner in parallel:
            parallel.add(s.old)
    for s in schedule.splits:
        if s.kind is SplitKind.Fuse:
            if s.inner in parallel or s.outer in parallel:
                parallel.add(s.old)
        elif s.old in parallel:
            parallel |= {s.outer, s.inner}
            if s.tail in _BLEND and s.kind is SplitKind.Split:
                raise refuse(
                    stage,
                    f"the tail {s.tail.name} of {short_name(s.old)} writes back values beside "
                    "those computed, and a loop of the same dimension is parallel: that is a race",
                )
