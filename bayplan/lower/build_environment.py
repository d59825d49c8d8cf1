"""Collects the Funcs of a pipeline and copies them for one compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.ir.errors import DefinitionError, ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.walk import Reintern
from bayplan.language.function import Definition, Function, Requirement, Specialization
from bayplan.language.schedule import (
    Bound,
    FuncSchedule,
    LoopLevel,
    PrefetchDirective,
    ReductionVariable,
    StageSchedule,
)
from bayplan.lower.find_calls import direct_calls

Copier = Callable[[Expr], Expr]


def build_environment(outputs: Sequence[Function]) -> dict[str, Function]:
    """Copies every Func that the outputs use, for the passes to change as they like.

    The nodes of the copies belong to the current compilation. Calls keep the user's Function as
    their target; passes look the copy up by name. Loop levels are locked in their present place.

    Returns:
        The copies by name, in the order in which they are met from the outputs.
    """
    found: dict[str, Function] = {}
    pending = list(reversed(outputs))
    while pending:
        function = pending.pop()
        known = found.get(function.name)
        if known is not None:
            if known is not function:
                raise DefinitionError(
                    f"the pipeline has two Funcs called {function.name}, defined at {known.where} "
                    f"and {function.where}",
                    function.where,
                )
            continue
        _check_defined(function)
        found[function.name] = function
        users = list(direct_calls(function).values())
        users.extend(function.schedule.wrappers.values())
        pending.extend(reversed(users))
    copier = Reintern()
    return {name: _copy_function(function, copier) for name, function in found.items()}


def _check_defined(function: Function) -> None:
    if not function.has_pure_definition():
        raise DefinitionError(
            f"Func {function.name} cannot be used in a pipeline because it has no definition.",
            function.where,
        )


def _copy_function(function: Function, copier: Copier) -> Function:
    copy = Function(function.name)
    copy.args = list(function.args)
    copy.output_types = list(function.output_types)
    copy.output_buffers = list(function.output_buffers)
    copy.where = function.where
    copy.is_wrapper_of = function.is_wrapper_of
    copy.frozen = function.frozen
    copy.no_profiling = function.no_profiling
    copy.requirements = [
        Requirement(copier(r.condition), [copier(part) for part in r.message], r.where)
        for r in function.requirements
    ]
    copy.traced = set(function.traced)
    copy.schedule = _copy_func_schedule(function, copier)
    assert function.init is not None
    copy.init = _copy_definition(function.init, copier)
    copy.updates = [_copy_definition(update, copier) for update in function.updates]
    return copy


def _copy_optional(e: Expr | None, copier: Copier) -> Expr | None:
    return None if e is None else copier(e)


def _copy_func_schedule(function: Function, copier: Copier) -> FuncSchedule:
    schedule = function.schedule.copy()
    for dim in schedule.storage_dims:
        dim.alignment = _copy_optional(dim.alignment, copier)
        dim.bound = _copy_optional(dim.bound, copier)
        dim.fold_factor = _copy_optional(dim.fold_factor, copier)
    schedule.bounds = [
        Bound(
            b.var,
            _copy_optional(b.min, copier),
            _copy_optional(b.extent, copier),
            _copy_optional(b.modulus, copier),
            _copy_optional(b.remainder, copier),
            b.where,
        )
        for b in schedule.bounds
    ]
    _lock_levels(function, schedule)
    return schedule


def _lock_levels(function: Function, schedule: FuncSchedule) -> None:
    """Fix the levels; a level that was not asked for follows the one further in."""
    for word, level in (
        ("compute", schedule.compute_level),
        ("store", schedule.store_level),
        ("hoist_storage", schedule.hoist_storage_level),
    ):
        if not level.defined():
            raise ScheduleError(
                f"The {word} level of Func {function.name} is a LoopLevel that was never set.",
                schedule.where or function.where,
            )
    if schedule.store_level.is_inlined():
        schedule.store_level = schedule.compute_level.copy()
    if schedule.hoist_storage_level.is_inlined():
        schedule.hoist_storage_level = schedule.store_level.copy()
    for level in (schedule.compute_level, schedule.store_level, schedule.hoist_storage_level):
        level.locked = True


def _copy_stage_schedule(schedule: StageSchedule, copier: Copier) -> StageSchedule:
    copy = schedule.copy()
    copy.rvars = [ReductionVariable(r.var, copier(r.min), copier(r.extent)) for r in copy.rvars]
    for split in copy.splits:
        split.factor = _copy_optional(split.factor, copier)
    copy.prefetches = [
        PrefetchDirective(p.name, p.at, p.from_var, copier(p.offset), p.strategy, p.source, p.where)
        for p in copy.prefetches
    ]
    # Found anew by find_realization_order for the Funcs of this pipeline.
    copy.fused_pairs = []
    if not copy.fuse_level.defined():
        copy.fuse_level = LoopLevel.inlined()
    copy.fuse_level.locked = True
    return copy


def _copy_definition(definition: Definition, copier: Copier) -> Definition:
    copy = Definition(
        tuple([copier(a) for a in definition.args]),
        tuple([copier(v) for v in definition.values]),
        copier(definition.predicate),
        definition.is_init,
        _copy_stage_schedule(definition.schedule, copier),
        definition.where,
    )
    copy.specializations = [
        Specialization(
            copier(s.condition), _copy_definition(s.definition, copier), s.failure, s.where
        )
        for s in definition.specializations
    ]
    return copy
