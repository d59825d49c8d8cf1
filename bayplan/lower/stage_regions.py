"""What each stage of each Func requires of the Funcs it uses, by its own region."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.analysis.bounds import boxes_required
from bayplan.analysis.box import Box, merge_into
from bayplan.analysis.interval import Interval
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import (
    add,
    intrinsic,
    is_const,
    likely,
    logical_and,
    logical_not,
    sub,
    true,
    var,
)
from bayplan.ir.errors import BoundsError
from bayplan.ir.exprs import Expr, Select, Variable
from bayplan.ir.types import INT32
from bayplan.ir.walk import Rewriter
from bayplan.language.function import Definition, Function
from bayplan.language.schedule import ReductionVariable
from bayplan.lower.build_loop_nest import split_conjunction
from bayplan.lower.context import Lowering
from bayplan.lower.find_calls import CallIndex
from bayplan.lower.inline_functions import Inliner, can_be_inlined
from bayplan.lower.query_extern_stages import needed_regions
from bayplan.lower.read_ahead import NameElements

Case = tuple[Expr, Expr]
"""(condition on parameters under which it is evaluated, expression)."""


class Stage:
    """One definition of a Func that is not inlined.

    Attributes:
        index: 0 for the pure definition, n for update n - 1.
        prefix: "f.s0.".
        consumers: places in the list of stages of those that use this one.
        boxes: (name, stage) of a consumer -> what it requires of this Func.
        cases: the expressions it evaluates; Funcs that are inlined are replaced in them.
        rvars: reduction variables, those of specializations included.
    """

    __slots__ = ("boxes", "cases", "consumers", "function", "index", "prefix", "rvars")

    def __init__(self, function: Function, index: int) -> None:
        self.function = function
        self.index = index
        self.prefix = f"{function.name}.s{index}."
        self.consumers: list[int] = []
        self.boxes: dict[tuple[str, int], Box] = {}
        self.rvars: list[ReductionVariable] = []
        self.cases: list[Case] = []

    def name(self) -> str:
        """The stage as a name: "f.s0"."""
        return self.prefix[:-1]

    def scope(self) -> dict[str, Interval]:
        """The region over which the stage is computed, by the names in its definition."""
        names = list(self.function.args)
        if self.index > 0:
            names.extend([r.var for r in self.rvars])
        return {
            n: Interval(var(f"{self.prefix}{n}.min"), var(f"{self.prefix}{n}.max")) for n in names
        }


class _SelectsAreBranches(Rewriter):
    """Turns selects into branches.

    What matters is which values must be right, not which are loaded.
    """

    def rewrite_Select(self, node: Select) -> Any:
        result = self.rebuild(node)
        if type(result) is Select and is_pure(result.condition):
            return intrinsic(
                result.type,
                "if_then_else",
                result.condition,
                result.true_value,
                result.false_value,
            )
        return result


def find_stages(lowering: Lowering) -> list[Stage]:
    """The stages of all Funcs that are not inlined, producers first, with what they require.

    Raises:
        BoundsError: A Func is used in a way that has no bounds.
    """
    functions = [lowering.env[name] for name in lowering.order]
    inlined = [
        f
        for f in functions
        if f.name not in lowering.outputs
        and f.schedule.compute_level.is_inlined()
        and can_be_inlined(f)
    ]
    hidden = {f.name for f in inlined}
    inliner = Inliner(inlined, CallIndex())
    branches = _SelectsAreBranches()
    stages: list[Stage] = []
    for function in functions:
        if function.name in hidden:
            continue
        for index, definition in enumerate(function.stages()):
            stage = Stage(function, index)
            args, values = _cases(definition, index > 0, stage.rvars)
            stage.cases = [(c, inliner(branches(e))) for c, e in [*args, *values]]
            if lowering.read_ahead:
                named = NameElements(lowering)
                stage.cases = [(named.inside(c), named(e)) for c, e in stage.cases]
            stages.append(stage)
    _relate(stages, lowering)
    for name in lowering.outputs:
        box = _output_box(lowering.env[name])
        for stage in stages:
            if stage.function.name == name:
                stage.boxes[(name, stage.index)] = box
    return stages


def _cases(
    definition: Definition, is_update: bool, rvars: list[ReductionVariable]
) -> tuple[list[Case], list[Case]]:
    """The coordinates and the values a definition evaluates, for all its specializations.

    Coordinates of pure definitions are plain variables and left out.
    """
    known = {r.var for r in rvars}
    rvars.extend([r for r in definition.schedule.rvars if r.var not in known])
    predicates = split_conjunction(definition.predicate)

    def guarded(e: Expr) -> Expr:
        for predicate in predicates:
            e = intrinsic(e.type, "if_then_else", likely(predicate), e)
        return e

    args = [(true(), guarded(a)) for a in definition.args] if is_update else []
    values = [(true(), guarded(v)) for v in definition.values]
    for special in reversed(definition.specializations):
        condition = special.condition
        otherwise = logical_not(condition)
        args = [(simplify(logical_and(otherwise, c)), e) for c, e in args]
        values = [(simplify(logical_and(otherwise, c)), e) for c, e in values]
        if special.failure:
            continue
        more_args, more_values = _cases(special.definition, is_update, rvars)
        args.extend([(simplify(logical_and(condition, c)), e) for c, e in more_args])
        values.extend([(simplify(logical_and(condition, c)), e) for c, e in more_values])
    return _merge_equal(args), _merge_equal(values)


def _merge_equal(cases: list[Case]) -> list[Case]:
    """One case without condition where all evaluate the same."""
    if len(cases) > 1 and all(e is cases[0][1] for _, e in cases):
        return [(true(), cases[0][1])]
    return cases


def _relate(stages: list[Stage], lowering: Lowering) -> None:
    """Find the boxes that each stage requires of those before it."""
    by_name: dict[str, list[Stage]] = {}
    for stage in stages:
        by_name.setdefault(stage.function.name, []).append(stage)
    place = {id(stage): i for i, stage in enumerate(stages)}
    # Order: consumers first, since what nobody requires (a condition that is a constant cut it
    # off) has no region, and so requires nothing.
    for i, consumer in reversed(list(enumerate(stages))):
        if consumer.function.name not in lowering.outputs and not consumer.boxes:
            continue
        for name, box in _boxes_of(consumer, lowering).items():
            for producer in by_name.get(name, ()):
                # A consumer depends on all stages of a Func, not on the last alone.
                if place[id(producer)] < i:
                    _check_bounded(box, consumer, producer)
                    producer.boxes[(consumer.function.name, consumer.index)] = box
                    producer.consumers.insert(0, i)


def _boxes_of(consumer: Stage, lowering: Lowering) -> dict[str, Box]:
    scope = consumer.scope()
    boxes: dict[str, Box] = {}
    by_condition: dict[Expr, list[Expr]] = {}
    if consumer.function.extern() is not None:
        for element, region in needed_regions(consumer.function):
            merge_into(boxes, element.name, Box([Interval(low, high) for low, high in region]))
    for condition, e in consumer.cases:
        by_condition.setdefault(condition, []).append(e)
    for condition, exprs in by_condition.items():
        if is_const(condition, 0):
            continue
        for name, box in boxes_required(exprs, scope, lowering.func_bounds).items():
            used = None if is_const(condition, 1) else condition
            merge_into(boxes, name, Box(list(box.bounds), used))
    return boxes


def _check_bounded(box: Box, consumer: Stage, producer: Stage) -> None:
    for dim, interval in enumerate(box):
        if interval.is_bounded() or interval.is_empty():
            continue
        definition = consumer.function.definition(consumer.index)
        what = "the pure definition"
        if consumer.index > 0:
            what = f"update({consumer.index - 1})"
        raise BoundsError(
            f"nothing bounds the part of {producer.function.name} that {what} of "
            f"{consumer.function.name} needs in dimension {dim}; clamp the index",
            definition.where or consumer.function.where,
        )


def _output_box(function: Function) -> Box:
    """The region of the output's buffer, which must all be computed."""
    buffer = function.output_buffers[0]
    intervals: list[Interval] = []
    for dim in range(function.dimensions()):
        constraint = buffer.constraints[dim]
        low: Expr = Variable(INT32, f"{buffer.name}.min.{dim}", buffer)
        extent: Expr = Variable(INT32, f"{buffer.name}.extent.{dim}", buffer)
        low = _reinterned(constraint.min, low)
        extent = _reinterned(constraint.extent, extent)
        intervals.append(Interval(low, sub(add(low, extent), 1)))
    return Box(intervals)


def _reinterned(constraint: Expr | None, default: Expr) -> Expr:
    from bayplan.ir.walk import reintern

    return default if constraint is None else reintern(constraint)


def always_pure_dims(function: Function) -> list[bool]:
    """For each dimension whether every update writes it at the plain variable itself."""
    result = [True] * function.dimensions()
    for update in function.updates:
        for definition in _with_specializations(update):
            for dim, arg in enumerate(definition.args):
                if type(arg) is not Variable or arg.name != function.args[dim]:
                    result[dim] = False
    return result


def _with_specializations(definition: Definition) -> Iterable[Definition]:
    yield definition
    for special in definition.specializations:
        yield from _with_specializations(special.definition)
