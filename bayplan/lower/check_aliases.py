"""Refuses `may_alias` where sharing bytes with an input would change the result."""

from __future__ import annotations

from bayplan.analysis.simplify import simplify
from bayplan.ir.build import is_zero
from bayplan.ir.errors import AliasError
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, Provide, Stmt
from bayplan.ir.walk import iterate
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.language.schedule import TailStrategy
from bayplan.lower.context import Lowering

# Tails that compute a point twice: the second time the input may already be overwritten.
_RECOMPUTING = frozenset(
    [
        TailStrategy.ShiftInwards,
        TailStrategy.ShiftInwardsAndBlend,
        TailStrategy.RoundUp,
        TailStrategy.RoundUpAndBlend,
    ]
)


def check_aliases(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Checks each output that may alias an input; gives back the statement as it is.

    In place is right when an input element is read only by the statement that overwrites it, and
    that statement runs once for each element. Reads by a Func that is complete before the first
    write of the output (computed at root) are right too.

    Order: after scheduling, where each use stands in its loops; before splitting Tuples, while
    coordinates are still apart.

    Raises:
        AliasError: sharing is not safe; says which read or which tail.
    """
    for name in lowering.outputs:
        function = lowering.env[name]
        for parameter in {p for o in function.output_buffers for p in o.aliases}:
            _check_tails(function, parameter)
            _check_reads(stmt, function, parameter)
    return stmt


def _check_tails(function: Function, parameter: Parameter) -> None:
    for definition in function.stages():
        for split in definition.schedule.splits:
            if split.tail in _RECOMPUTING:
                raise AliasError(
                    f"{function.name} may not share bytes with {parameter.name}: the split of "
                    f"{split.old} with TailStrategy.{split.tail.name} computes points twice",
                    split.where or function.where,
                    "use TailStrategy.GuardWithIf",
                )


def _check_reads(stmt: Stmt, function: Function, parameter: Parameter) -> None:
    for node in iterate(stmt):
        if not isinstance(node, For) or not node.name.startswith(f"{function.name}.s"):
            continue
        stage = int(node.name.removeprefix(f"{function.name}.s").split(".")[0])
        for inner in iterate(node.body):
            if isinstance(inner, Provide):
                in_place = inner.name == function.name and stage == 0
                _check_provide(inner, in_place, function, parameter)


def _check_provide(
    provide: Provide, in_place: bool, function: Function, parameter: Parameter
) -> None:
    values: list[Node] = [*provide.values, *provide.args]
    for call in iterate(*values):
        if type(call) is not Call or call.kind is not CallKind.IMAGE:
            continue
        if call.target is not parameter:
            continue
        if not in_place or not _same_place(call.args, provide.args):
            at = ", ".join([str(a) for a in call.args])
            raise AliasError(
                f"{function.name} may not share bytes with {parameter.name}: {provide.name} reads "
                f"{parameter.name}({at}) in the loops that overwrite it, at other coordinates or "
                "after they were written",
                function.where,
                f"compute what reads {parameter.name} at root before {function.name}",
            )


def _same_place(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Whether two coordinates are surely equal."""
    return all(x is y or is_zero(simplify(x - y)) for x, y in zip(a, b, strict=True))
