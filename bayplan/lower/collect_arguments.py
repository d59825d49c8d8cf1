"""Finds what a call must be given: the buffers and scalars that the program reads or writes."""

from __future__ import annotations

from bayplan.ir.exprs import Call, CallKind, Variable
from bayplan.ir.stmts import Stmt
from bayplan.ir.walk import iterate
from bayplan.language.parameter import Parameter
from bayplan.lower.context import Lowering
from bayplan.lower.program import Argument


def collect_arguments(stmt: Stmt, lowering: Lowering) -> list[Argument]:
    """The arguments of the entry point: inputs in order of name, then the outputs.

    Runs on the statement before flattening. Two parameters of one name keep both their places;
    the emitted names are made different by the caller's naming of Parameters.
    """
    outputs = collect_outputs(lowering)
    own = {id(a.source) for a in outputs}
    inputs: dict[int, Argument] = {}
    for node in iterate(stmt, *[one.call for one in lowering.read_ahead]):
        if type(node) is Call and node.kind is CallKind.IMAGE:
            source, dims = node.target, len(node.args)
            if id(source) not in own and id(source) not in inputs:
                inputs[id(source)] = _input(node.name, node.type.element_of(), dims, source)
        elif type(node) is Variable and isinstance(node.source, Parameter):
            parameter = node.source
            if id(parameter) in own or id(parameter) in inputs:
                continue
            if parameter.is_buffer:
                inputs[id(parameter)] = _input(
                    parameter.name, parameter.type, parameter.dimensions, parameter
                )
            else:
                inputs[id(parameter)] = Argument(
                    "scalar", parameter.name, parameter.type, 0, parameter, parameter.where
                )
    return [*sorted(inputs.values(), key=lambda a: a.name), *outputs]


def _input(name: str, type: object, dimensions: int, source: object) -> Argument:
    where = getattr(source, "where", None)
    return Argument("input_buffer", name, type, dimensions, source, where)  # type: ignore[arg-type]


def collect_outputs(lowering: Lowering) -> list[Argument]:
    """One argument for each value of each output Func."""
    found: list[Argument] = []
    for name in lowering.outputs:
        function = lowering.env[name]
        for parameter in function.output_buffers:
            found.append(
                Argument(
                    "output_buffer",
                    parameter.name,
                    parameter.type,
                    function.dimensions(),
                    parameter,
                    function.where,
                )
            )
    return found
