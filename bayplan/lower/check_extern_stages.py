"""Refuses schedules that external functions cannot follow."""

from __future__ import annotations

from bayplan.ir.errors import DefinitionError, ScheduleError
from bayplan.ir.exprs import CallKind
from bayplan.ir.memory import ForKind
from bayplan.language.extern_stage import ExternDefinition
from bayplan.language.function import Function
from bayplan.lower.context import Lowering
from bayplan.lower.extern_buffers import buffer_arguments

_POSSIBLE = frozenset([ForKind.Serial, ForKind.Parallel, ForKind.Unrolled])


def check_extern_stages(lowering: Lowering) -> None:
    """Checks the Funcs that C functions compute, and those that are given to them.

    Raises:
        ScheduleError: A schedule asks for what cannot be.
        DefinitionError: Two stages call one function in different ways.
    """
    known: dict[str, ExternDefinition] = {}
    for function in lowering.env.values():
        call = function.extern()
        if call is None:
            continue
        extern: ExternDefinition = call.target
        other = extern if extern.callee is not None else known.setdefault(extern.symbol, extern)
        if other.parameters != extern.parameters:
            raise DefinitionError(
                f"{other.func} and {function.name} call {extern.symbol} with different types",
                extern.where,
            )
        _check_loops(function)
        _check_inputs(function, lowering)


def _check_loops(function: Function) -> None:
    if function.updates:
        raise DefinitionError(
            f"{function.name} is computed by a C function, so it has no updates", function.where
        )
    inside = True
    for dim in function.definition(0).schedule.dims:
        if dim.kind is ForKind.Extern:
            if not inside:
                raise ScheduleError(
                    f"the loop {dim.var} of {function.name} is left to the C function, so no "
                    "other loop can be inside of it",
                    dim.where or function.where,
                )
            continue
        inside = False
        if dim.kind not in _POSSIBLE:
            raise ScheduleError(
                f"{function.name} is computed by a C function, so its loop {dim.var} cannot be "
                f"{dim.kind.value}",
                dim.where or function.where,
            )
    own = function.definition(0).schedule
    if own.fused_pairs or not (own.fuse_level.is_inlined() or own.fuse_level.is_root()):
        raise ScheduleError(
            f"{function.name} is computed by a C function, so it shares no loops with others "
            "(compute_with)",
            function.schedule.where or function.where,
        )
    schedule = function.schedule
    if schedule.hoist_storage_level != schedule.store_level:
        raise ScheduleError(
            f"the storage of {function.name}, which a C function computes, stays at its store "
            "level",
            schedule.where or function.where,
        )


def _check_inputs(function: Function, lowering: Lowering) -> None:
    for _, element in buffer_arguments(function):
        if element.kind is not CallKind.FUNC:
            continue
        given = lowering.env[element.name]
        if given.name not in lowering.outputs and given.schedule.compute_level.is_inlined():
            raise ScheduleError(
                f"{given.name} is given to the function that computes {function.name}, so it "
                "needs storage",
                given.schedule.where or given.where,
                "compute_root or compute_at",
            )
