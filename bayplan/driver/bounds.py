"""How large the inputs of a pipeline must be: bounds queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.driver.compile import CompiledPipeline, check_defined, compile_pipeline
from bayplan.driver.contexts import context
from bayplan.driver.values import (
    check_extents,
    destination_buffers,
    given_value,
    has_buffers,
    output_parameters,
)
from bayplan.ir.errors import BufferError, MissingArgument
from bayplan.language.buffer import Buffer
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.lower.program import Argument
from bayplan.runtime.buffers import make_query, make_record, make_scalar

_QUERY_ROUNDS = 16


def infer_input_bounds(
    functions: Sequence[Function],
    destination: Any,
    target: Any = None,
    given: Mapping[int, Any] | None = None,
) -> None:
    """Allocates each input buffer that is not set, as large as the outputs need it.

    Args:
        destination: extents, a Buffer, or Buffers, as for `realize`.
    """
    for parameter, bounds in query_input_bounds(functions, destination, target, given):
        buffer = Buffer(parameter.type, [extent for _, extent in bounds])
        buffer.set_min([low for low, _ in bounds])
        parameter.buffer = buffer


def query_input_bounds(
    functions: Sequence[Function],
    destination: Any,
    target: Any = None,
    given: Mapping[int, Any] | None = None,
) -> list[tuple[Parameter, list[tuple[int, int]]]]:
    """The (min, extent) in each dimension that unset input buffers need; runs nothing.

    Output Buffers without memory are questions too: they take over what the program answers.
    """
    check_defined(functions)
    parameters = output_parameters(functions)
    compiled = compile_pipeline(functions, target)
    buffers: list[Any] = []
    if has_buffers(destination):
        buffers, _ = destination_buffers(functions, parameters, destination)
        boxes = [
            [(int(b.dim(d).min()), int(b.dim(d).extent())) for d in range(b.dimensions())]
            for b in buffers
        ]
    else:
        extents = check_extents(functions, destination)
        boxes = [[(0, extent) for extent in extents] for _ in parameters]
    asked: dict[int, Any] = {}
    values: list[Any] = []
    outputs = {id(p): box for p, box in zip(parameters, boxes, strict=True)}
    for argument in compiled.arguments:
        values.append(query_value(argument, outputs, given or {}, asked))
    if not asked:
        return []
    # A constraint can make one answer depend on another, so ask until nothing changes.
    answers = [v for a, v in zip(compiled.arguments, values, strict=True) if a.is_buffer()]
    for _ in range(_QUERY_ROUNDS):
        before = [bounds_of(v) for v in answers]
        compiled.call(values, context())
        if before == [bounds_of(v) for v in answers]:
            break
    else:
        raise BufferError("the bounds of the inputs do not settle; their constraints conflict")
    _answer_queries(compiled, parameters, buffers, values)
    sources = {id(a.source): a.source for a in compiled.arguments}
    return [(sources[key], bounds_of(record)) for key, record in asked.items()]


def _answer_queries(
    compiled: CompiledPipeline,
    parameters: Sequence[Parameter],
    buffers: Sequence[Any],
    values: Sequence[Any],
) -> None:
    """Give output Buffers without memory the bounds that the program proposed."""
    by_source = {id(p): b for p, b in zip(parameters, buffers, strict=False)}
    for argument, record in zip(compiled.arguments, values, strict=True):
        buffer = by_source.get(id(argument.source))
        if argument.kind == "output_buffer" and buffer is not None and not buffer.host_address():
            buffer.set_bounds(bounds_of(record))


def query_value(
    argument: Argument,
    outputs: Mapping[int, list[tuple[int, int]]],
    given: Mapping[int, Any],
    asked: dict[int, Any],
) -> Any:
    if argument.kind == "output_buffer":
        return make_query(argument.type, outputs[id(argument.source)])
    if argument.kind == "scalar":
        return make_scalar(argument.type, given_value(argument, given), argument.name)
    try:
        return make_record(given_value(argument, given), argument.name)
    except MissingArgument:
        record = make_query(argument.type, [(0, 0)] * argument.dimensions)
        asked[id(argument.source)] = record
        return record


def bounds_of(record: Any) -> list[tuple[int, int]]:
    return [(record.dim[d].min, record.dim[d].extent) for d in range(record.dimensions)]
