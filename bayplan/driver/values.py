"""The values of a program's arguments, made from what the user gave or set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.driver.compile import CompiledPipeline
from bayplan.driver.device_buffers import CallBuffers, has_device
from bayplan.ir.errors import BufferError, MissingArgument
from bayplan.language.buffer import Buffer
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.lower.program import Argument
from bayplan.runtime.binding import Context
from bayplan.runtime.buffers import check_shape, make_scalar


def title_of(argument: Argument) -> str:
    kind = "Output" if argument.kind == "output_buffer" else "Input"
    return f"{kind} buffer {argument.name}"


def given_value(argument: Argument, given: Mapping[int, Any]) -> Any:
    """The value of an input: given for this call, else what the parameter was set to."""
    source = argument.source
    found = given.get(id(source))
    if found is not None:
        return found
    if not isinstance(source, Parameter):
        return source
    value = source.buffer if source.is_buffer else source.value
    if value is None:
        kind = "input buffer" if source.is_buffer else "parameter"
        raise MissingArgument(
            f"{kind} {source.name} was not set", source.where, f"{source.name}.set(...)"
        )
    return value


class CallValues(list[Any]):
    """The arguments of one call, one `BufferRecord` or ctypes scalar each, in order.

    Attributes:
        buffers: where the buffers among them have their elements.
    """

    def __init__(self, buffers: CallBuffers) -> None:
        super().__init__()
        self.buffers = buffers


def run(
    compiled: CompiledPipeline,
    arguments: CallValues,
    context: Context,
    workspace: tuple[int, int] | None = None,
) -> None:
    """Calls a program, see `CompiledPipeline.call`; then its buffers are what they became."""
    try:
        compiled.call(arguments, context, workspace)
    except BaseException:
        arguments.buffers.finish(bring_home=False)
        raise
    arguments.buffers.finish()


def make_values(
    compiled: CompiledPipeline,
    outputs: Mapping[int, Any],
    given: Mapping[int, Any],
    fresh: bool = False,
) -> CallValues:
    """The arguments of a call.

    Args:
        compiled: what is called.
        outputs: the Buffers of the outputs by their Parameters' ids.
        given: values of parameters for this call.
        fresh: nobody has written the outputs yet.
    """
    news = frozenset([id(b) for b in outputs.values()]) if fresh else frozenset()
    values = CallValues(CallBuffers(has_device(compiled.target), news))
    for argument in compiled.arguments:
        if argument.kind == "scalar":
            value = given_value(argument, given)
            values.append(make_scalar(argument.type, value, argument.name))
            continue
        if argument.kind == "output_buffer":
            buffer = outputs[id(argument.source)]
            if not buffer.is_writable():
                raise BufferError(
                    f"{title_of(argument)} is read-only memory and cannot be written",
                    argument.where,
                )
        else:
            buffer = given_value(argument, given)
        check_shape(buffer, argument.type, argument.dimensions, title_of(argument), argument.where)
        written = argument.kind == "output_buffer"
        values.append(values.buffers.add(buffer, argument.name, written=written))
    return values


def output_parameters(functions: Sequence[Function]) -> list[Parameter]:
    return [p for f in functions for p in f.output_buffers]


def buffer_bounds(buffer: Any) -> list[tuple[int, int]]:
    return [
        (int(buffer.dim(d).min()), int(buffer.dim(d).extent())) for d in range(buffer.dimensions())
    ]


def has_buffers(destination: Any) -> bool:
    """Whether the outputs of a call are Buffers, not extents."""
    if isinstance(destination, Buffer):
        return True
    listed = isinstance(destination, list | tuple) and bool(destination)
    return listed and all(isinstance(d, Buffer) for d in destination)


def destination_buffers(
    functions: Sequence[Function], parameters: Sequence[Parameter], destination: Any
) -> tuple[list[Any], bool]:
    if isinstance(destination, Buffer):
        destination = [destination]
    if has_buffers(destination):
        if len(destination) != len(parameters):
            raise BufferError(
                f"{len(destination)} output buffers were given, but "
                f"{', '.join([f.name for f in functions])} has {len(parameters)} values",
                functions[0].where,
            )
        return list(destination), False
    extents = check_extents(functions, destination)
    return [Buffer(p.type, extents) for p in parameters], True


def check_extents(functions: Sequence[Function], sizes: Any) -> list[int]:
    """The extents of all outputs, as given for a call whose output buffers are made.

    Raises:
        BufferError: they are no whole numbers, too many or too few, or negative.
    """
    try:
        extents = [int(size) for size in ([] if sizes is None else sizes)]
    except (TypeError, ValueError):
        raise BufferError(
            f"the sizes of Func {functions[0].name} are a list of numbers, or Buffers: got "
            f"{type(sizes).__name__}",
            functions[0].where,
            "hl.Buffer(array) wraps an array",
        ) from None
    for f in functions:
        if f.dimensions() != len(extents):
            raise BufferError(
                f"{len(extents)} sizes were given for Func {f.name}, which has "
                f"{f.dimensions()} dimensions",
                f.where,
            )
    for d, extent in enumerate(extents):
        if extent < 0:
            raise BufferError(
                f"the size {extent} in dimension {d} of Func {functions[0].name} is negative"
            )
    return extents
