"""Runs a pipeline: allocates its outputs, or fills those given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.driver.bounds import bounds_of, query_value
from bayplan.driver.compile import CompiledPipeline, check_defined, compile_pipeline
from bayplan.driver.contexts import context
from bayplan.driver.values import (
    buffer_bounds,
    destination_buffers,
    make_values,
    output_parameters,
    run,
)
from bayplan.ir.errors import BayplanError
from bayplan.language.buffer import Buffer
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter


def realize(
    functions: Sequence[Function],
    destination: Any = None,
    target: Any = None,
    given: Mapping[int, Any] | None = None,
) -> Any:
    """Runs a pipeline.

    Args:
        functions: the output Functions.
        destination: a list of extents for all outputs, or a Buffer, or a list or tuple of
            Buffers, one per value of each output.
        target: a Target; None for this machine.
        given: values of parameters for this call, by id of their `Parameter`.

    Returns:
        None when Buffers were given; else the new Buffer, or a tuple of them.
    """
    check_defined(functions)
    parameters = output_parameters(functions)
    buffers, made = destination_buffers(functions, parameters, destination)
    compiled = compile_pipeline(functions, target)
    asked = [buffer_bounds(b) for b in buffers]
    if made:
        buffers = _grow(compiled, parameters, buffers, given or {})
    outputs = {id(p): b for p, b in zip(parameters, buffers, strict=True)}
    run(compiled, make_values(compiled, outputs, given or {}, fresh=made), context())
    if not made:
        return None
    for b in buffers:
        b.copy_to_host()
    buffers = [
        b if buffer_bounds(b) == bounds else b.cropped(bounds)
        for b, bounds in zip(buffers, asked, strict=True)
    ]
    return buffers[0] if len(buffers) == 1 else tuple(buffers)


def _grow(
    compiled: CompiledPipeline,
    parameters: Sequence[Parameter],
    buffers: list[Any],
    given: Mapping[int, Any],
) -> list[Any]:
    """The new buffers of a call, larger where the program writes beyond what was asked for.

    It does with a split whose tail rounds up, and with an update at an index that depends on data.
    Where the question has no answer the buffers stay, and the call itself says why.
    """
    boxes = {id(p): buffer_bounds(b) for p, b in zip(parameters, buffers, strict=True)}
    values = [query_value(argument, boxes, given, {}) for argument in compiled.arguments]
    try:
        compiled.call(values, context())
    except BayplanError:
        return buffers
    grown = list(buffers)
    for argument, record in zip(compiled.arguments, values, strict=True):
        if argument.kind != "output_buffer":
            continue
        position = [p is argument.source for p in parameters].index(True)
        asked, bounds = boxes[id(argument.source)], bounds_of(record)
        covers = all(
            low <= begin and begin + size <= low + extent
            for (begin, size), (low, extent) in zip(asked, bounds, strict=True)
        )
        if bounds != asked and covers:
            grown[position] = Buffer(argument.type, [extent for _, extent in bounds])
            grown[position].set_min([low for low, _ in bounds])
    return grown
