"""The only place that joins front and back: lower, emit, compile, load, run, report.

Methods of Func and Pipeline that run something are one-line calls of the functions here. All take
the pipeline as a list of `Function`s, its outputs in order.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.analysis.evaluate import Number
from bayplan.ir.errors import (
    BayplanError,
    BufferError,
    DefinitionError,
    ErrorSite,
    InternalError,
    MissingArgument,
    OutOfMemory,
)
from bayplan.ir.node import compilation
from bayplan.language import changes
from bayplan.language.buffer import Buffer
from bayplan.language.fingerprint import fingerprint
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter
from bayplan.lower.pipeline import lower
from bayplan.lower.program import Argument, LoweredProgram
from bayplan.runtime.binding import BP_CANCELLED, BP_OUT_OF_MEMORY, Context, Runtime
from bayplan.runtime.buffers import check_shape, make_query, make_record, make_scalar

_KEPT_PROGRAMS = 128
_QUERY_ROUNDS = 16


class CompiledPipeline:
    """A pipeline that was lowered, and loaded once it first runs.

    Attributes:
        functions: the output Functions it was made from.
        program: the lowered program.
        source: the emitted C.
        sites: the places at which a call can end with an error.
    """

    def __init__(self, functions: Sequence[Function], target: Any, name: str) -> None:
        from bayplan.targets import c

        self.functions = tuple(functions)
        self.target = target
        self.changes = changes.count()
        self.fingerprint = fingerprint(functions)
        with compilation():
            self.program: LoweredProgram = lower(list(functions), target, name)
            emitted = c.emit(self.program)
        _show_warnings(self.program.warnings)
        self.source: str = emitted.source
        self.sites: list[ErrorSite] = emitted.sites
        self._loaded: Any = None

    def is_current(self) -> bool:
        """Whether the pipeline is still what was compiled."""
        count = changes.count()
        if self.changes != count:
            if self.fingerprint != fingerprint(self.functions):
                return False
            # Something else was changed; look again only after the next change.
            self.changes = count
        return True

    @property
    def arguments(self) -> list[Argument]:
        """What a call is given, in order."""
        return self.program.arguments

    def load(self) -> Any:
        """The compiled code in this process (a `build.loading.LoadedProgram`)."""
        if self._loaded is None:
            from bayplan.build.loading import load_program

            self._loaded = load_program(self.source, self.program.name)
        return self._loaded

    def call(self, values: Sequence[Any], context: Context) -> None:
        """Runs the program.

        Args:
            values: one `BufferRecord` or ctypes scalar per argument.
            context: memory, workers and messages of the call.

        Raises:
            BayplanError: the call ended with one of the program's errors.
            KeyboardInterrupt: SIGINT arrived on the main thread while it ran.
        """
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        interrupt = threading.current_thread() is threading.main_thread()
        status = context.call(self.load().entry, pointers, interrupt=interrupt)
        if status:
            self._raise(status, context)

    def _raise(self, status: int, context: Context) -> None:
        if status == BP_CANCELLED:
            import time

            # Python's own handler noted the signal; it raises here, once.
            time.sleep(0)
            raise KeyboardInterrupt
        failure = context.failure()
        if failure is not None and 0 <= failure[0] < len(self.sites):
            raise self.sites[failure[0]].error(failure[1])
        text = context.failure_text()
        if status == BP_OUT_OF_MEMORY:
            raise OutOfMemory(text or "the allocator could not give the bytes of a temporary")
        raise InternalError(f"the program ended with {status}: {text or 'no message'}")


def _show_warnings(texts: Sequence[str]) -> None:
    """Shows what lowering has to say as Python warnings at the user's line."""
    if not texts:
        return
    import sys
    import warnings

    package = __file__.rpartition("driver")[0]
    depth, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        depth, frame = depth + 1, frame.f_back
    for text in texts:
        warnings.warn(text, RuntimeWarning, stacklevel=depth)


_kept: OrderedDict[tuple[Any, ...], CompiledPipeline] = OrderedDict()
_kept_lock = threading.Lock()


def default_target() -> Any:
    """The target of code that runs in this process."""
    from bayplan.language.target import get_jit_target_from_environment

    return get_jit_target_from_environment()


def compile_pipeline(
    functions: Sequence[Function], target: Any = None, name: str | None = None
) -> CompiledPipeline:
    """Lowers a pipeline, or finds what was lowered before and is still true.

    Args:
        functions: the output Functions.
        target: a Target; None for this machine.
        name: of the entry point; None for the first output's name.
    """
    if not functions:
        raise DefinitionError("a pipeline needs at least one output Func")
    target = default_target() if target is None else target
    title = name or functions[0].name
    key = (*[id(f) for f in functions], str(target), title)
    with _kept_lock:
        found = _kept.get(key)
        if found is not None and found.is_current():
            _kept.move_to_end(key)
            return found
    compiled = CompiledPipeline(functions, target, title)
    with _kept_lock:
        if found is not None and found.source == compiled.source:
            compiled._loaded = found._loaded
        _kept[key] = compiled
        while len(_kept) > _KEPT_PROGRAMS:
            _kept.popitem(last=False)
    return compiled


# Contexts and workers.

_local = threading.local()


def runtime() -> Runtime:
    """The runtime library of this process, compiled at its first use on this machine."""
    from bayplan.build.loading import load_runtime

    return load_runtime()


def _print(text: str) -> None:
    """What programs print goes where Python prints, also when that is not file descriptor 1."""
    import sys

    sys.stdout.write(text)


def context() -> Context:
    """This thread's context: memory and messages of the calls it makes."""
    found: Context | None = getattr(_local, "context", None)
    if found is None:
        found = runtime().new_context()
        found.set_write(_print)
        _local.context = found
    return found


def set_num_threads(threads: int) -> int:
    """Sets the threads of parallel loops, caller included; returns the number before."""
    return runtime().set_num_threads(threads)


def num_threads() -> int:
    """Threads of parallel loops, caller included."""
    return runtime().num_threads()


# Values of arguments.


def _title(argument: Argument) -> str:
    kind = "Output" if argument.kind == "output_buffer" else "Input"
    return f"{kind} buffer {argument.name}"


def _given_value(argument: Argument, given: Mapping[int, Any]) -> Any:
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


def _make_values(
    compiled: CompiledPipeline, outputs: Mapping[int, Any], given: Mapping[int, Any]
) -> list[Any]:
    values: list[Any] = []
    for argument in compiled.arguments:
        if argument.kind == "scalar":
            value = _given_value(argument, given)
            values.append(make_scalar(argument.type, value, argument.name))
            continue
        if argument.kind == "output_buffer":
            buffer = outputs[id(argument.source)]
            if not buffer.is_writable():
                raise BufferError(
                    f"{_title(argument)} is read-only memory and cannot be written", argument.where
                )
        else:
            buffer = _given_value(argument, given)
        check_shape(buffer, argument.type, argument.dimensions, _title(argument), argument.where)
        values.append(make_record(buffer, argument.name))
    return values


def _output_parameters(functions: Sequence[Function]) -> list[Parameter]:
    return [p for f in functions for p in f.output_buffers]


def _check_defined(functions: Sequence[Function]) -> None:
    for f in functions:
        if not f.has_pure_definition():
            raise DefinitionError(f"Func {f.name} is not defined", f.where)


# Running.


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
    _check_defined(functions)
    parameters = _output_parameters(functions)
    buffers, made = _destination_buffers(functions, parameters, destination)
    compiled = compile_pipeline(functions, target)
    asked = [_buffer_bounds(b) for b in buffers]
    if made:
        buffers = _grow(compiled, parameters, buffers, given or {})
    outputs = {id(p): b for p, b in zip(parameters, buffers, strict=True)}
    values = _make_values(compiled, outputs, given or {})
    compiled.call(values, context())
    if not made:
        return None
    buffers = [
        b if _buffer_bounds(b) == bounds else b.cropped(bounds)
        for b, bounds in zip(buffers, asked, strict=True)
    ]
    return buffers[0] if len(buffers) == 1 else tuple(buffers)


def _destination_buffers(
    functions: Sequence[Function], parameters: Sequence[Parameter], destination: Any
) -> tuple[list[Any], bool]:
    if isinstance(destination, Buffer):
        destination = [destination]
    destination = [] if destination is None else list(destination)
    if destination and all(isinstance(d, Buffer) for d in destination):
        if len(destination) != len(parameters):
            raise BufferError(
                f"{len(destination)} output buffers were given, but "
                f"{', '.join([f.name for f in functions])} has {len(parameters)} values",
                functions[0].where,
            )
        return destination, False
    extents = [int(d) for d in destination]
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
    return [Buffer(p.type, extents) for p in parameters], True


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
    boxes = {id(p): _buffer_bounds(b) for p, b in zip(parameters, buffers, strict=True)}
    values = [_query_value(argument, boxes, given, {}) for argument in compiled.arguments]
    try:
        compiled.call(values, context())
    except BayplanError:
        return buffers
    grown = list(buffers)
    for argument, record in zip(compiled.arguments, values, strict=True):
        if argument.kind != "output_buffer":
            continue
        position = [p is argument.source for p in parameters].index(True)
        asked, bounds = boxes[id(argument.source)], _bounds_of(record)
        covers = all(
            low <= begin and begin + size <= low + extent
            for (begin, size), (low, extent) in zip(asked, bounds, strict=True)
        )
        if bounds != asked and covers:
            grown[position] = Buffer(argument.type, [extent for _, extent in bounds])
            grown[position].set_min([low for low, _ in bounds])
    return grown


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
    _check_defined(functions)
    parameters = _output_parameters(functions)
    compiled = compile_pipeline(functions, target)
    buffers: list[Any] = []
    if isinstance(destination, Buffer) or (destination and isinstance(destination[0], Buffer)):
        buffers, _ = _destination_buffers(functions, parameters, destination)
        boxes = [
            [(int(b.dim(d).min()), int(b.dim(d).extent())) for d in range(b.dimensions())]
            for b in buffers
        ]
    else:
        boxes = [[(0, int(e)) for e in destination or []] for _ in parameters]
    asked: dict[int, Any] = {}
    values: list[Any] = []
    outputs = {id(p): box for p, box in zip(parameters, boxes, strict=True)}
    for argument in compiled.arguments:
        values.append(_query_value(argument, outputs, given or {}, asked))
    if not asked:
        return []
    # A constraint can make one answer depend on another, so ask until nothing changes.
    answers = [v for a, v in zip(compiled.arguments, values, strict=True) if a.is_buffer()]
    for _ in range(_QUERY_ROUNDS):
        before = [_bounds_of(v) for v in answers]
        compiled.call(values, context())
        if before == [_bounds_of(v) for v in answers]:
            break
    else:
        raise BufferError("the bounds of the inputs do not settle; their constraints conflict")
    _answer_queries(compiled, parameters, buffers, values)
    sources = {id(a.source): a.source for a in compiled.arguments}
    return [(sources[key], _bounds_of(record)) for key, record in asked.items()]


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
            buffer.set_bounds(_bounds_of(record))


def _query_value(
    argument: Argument,
    outputs: Mapping[int, list[tuple[int, int]]],
    given: Mapping[int, Any],
    asked: dict[int, Any],
) -> Any:
    if argument.kind == "output_buffer":
        return make_query(argument.type, outputs[id(argument.source)])
    if argument.kind == "scalar":
        return make_scalar(argument.type, _given_value(argument, given), argument.name)
    try:
        return make_record(_given_value(argument, given), argument.name)
    except MissingArgument:
        record = make_query(argument.type, [(0, 0)] * argument.dimensions)
        asked[id(argument.source)] = record
        return record


def _bounds_of(record: Any) -> list[tuple[int, int]]:
    return [(record.dim[d].min, record.dim[d].extent) for d in range(record.dimensions)]


def compile_jit(functions: Sequence[Function], target: Any = None) -> None:
    """Lowers, compiles and loads now what `realize` would at its first call."""
    _check_defined(functions)
    compile_pipeline(functions, target).load()
    runtime()


class Callable:
    """A compiled pipeline called with its arguments in a fixed order, outputs last."""

    def __init__(
        self, functions: Sequence[Function], arguments: Sequence[Parameter], target: Any
    ) -> None:
        _check_defined(functions)
        self._compiled = compile_pipeline(functions, target)
        self._inputs = list(arguments)
        self._outputs = _output_parameters(functions)
        listed = {id(p) for p in self._inputs}
        for argument in self._compiled.arguments:
            source = argument.source
            if argument.kind == "output_buffer" or not isinstance(source, Parameter):
                continue
            if id(source) not in listed:
                raise MissingArgument(
                    f"the pipeline uses {argument.name}, which is not among the arguments of the "
                    "callable",
                    argument.where,
                )
        self._compiled.load()

    def __call__(self, *values: Any) -> None:
        """Run: first the listed arguments in order, then one buffer per output value."""
        count = len(self._inputs) + len(self._outputs)
        if len(values) != count:
            raise BufferError(
                f"expected {count} arguments ({len(self._inputs)} inputs, {len(self._outputs)} "
                f"outputs), got {len(values)}"
            )
        given = {
            id(p): _as_buffer(v) if p.is_buffer else v
            for p, v in zip(self._inputs, values, strict=False)
        }
        tail = values[len(self._inputs) :]
        outputs = {id(p): _as_buffer(v) for p, v in zip(self._outputs, tail, strict=True)}
        arguments = _make_values(self._compiled, outputs, given)
        self._compiled.call(arguments, context())


def _as_buffer(value: Any) -> Any:
    return value if isinstance(value, Buffer) else Buffer(value)


def compile_to_callable(
    functions: Sequence[Function], arguments: Sequence[Parameter], target: Any = None
) -> Callable:
    """A callable of the pipeline that takes `arguments` in this order, then the outputs."""
    return Callable(functions, arguments, target)


# Text.


def lowered_text(functions: Sequence[Function], target: Any = None) -> str:
    """The lowered program as text."""
    from bayplan.ir.printer import print_node

    _check_defined(functions)
    return print_node(compile_pipeline(functions, target).program.readable)


def c_source(
    functions: Sequence[Function], target: Any = None, name: str | None = None
) -> str:
    """The emitted C."""
    _check_defined(functions)
    return compile_pipeline(functions, target, name).source


def loop_nest_text(functions: Sequence[Function]) -> str:
    """The loops of the schedule, without bounds or expressions."""
    from bayplan.lower.print_loop_nest import print_loop_nest

    _check_defined(functions)
    with compilation():
        return print_loop_nest(list(functions), default_target())


def infer_arguments(functions: Sequence[Function]) -> list[Argument]:
    """The inputs that a call of the pipeline needs, in order of name."""
    _check_defined(functions)
    arguments = compile_pipeline(functions).arguments
    return [a for a in arguments if a.kind != "output_buffer"]


# Storage.


def storage(
    functions: Sequence[Function],
    destination: Any = None,
    target: Any = None,
    given: Mapping[int, Any] | None = None,
    workers: int | None = None,
) -> Any:
    """The `StorageReport` of a call, without making it.

    Args:
        destination: extents, a Buffer or Buffers of the outputs, as for `realize`.
        given: values of parameters for this call, by id; else what they are set to. Input
            buffers that are not set are taken as large as the outputs need them.
        workers: threads of parallel loops; None: as many as a call would have.
    """
    from bayplan.storage.report import make_report

    _check_defined(functions)
    compiled = compile_pipeline(functions, target)
    values = _size_values(functions, compiled, destination, given or {})
    origins = {
        name: (origin.func, origin.where) for name, origin in compiled.program.origins.items()
    }
    return make_report(
        compiled.program.name,
        compiled.program.body,
        values,
        origins,
        num_threads() if workers is None else workers,
    )


def _size_values(
    functions: Sequence[Function],
    compiled: CompiledPipeline,
    destination: Any,
    given: Mapping[int, Any],
) -> dict[str, Number]:
    """The numbers that the program's prologue would read: fields of buffers, and scalars."""
    parameters = _output_parameters(functions)
    needed = {id(p): box for p, box in query_input_bounds(functions, destination, None, given)}
    if isinstance(destination, Buffer):
        destination = [destination]
    shaped = bool(destination) and isinstance(destination[0], Buffer)
    values: dict[str, Number] = {}
    for argument in compiled.arguments:
        if argument.kind == "scalar":
            values[argument.name] = _given_value(argument, given)
            continue
        if argument.kind == "output_buffer" and not shaped:
            bounds = [(0, int(e)) for e in destination or []]
        elif argument.kind == "output_buffer":
            position = [p is argument.source for p in parameters].index(True)
            bounds = _buffer_bounds(destination[position])
        elif id(argument.source) in needed:
            bounds = needed[id(argument.source)]
        else:
            buffer = _given_value(argument, given)
            bounds = _buffer_bounds(buffer)
        stride = 1
        for d, (low, extent) in enumerate(bounds):
            values[f"{argument.name}.min.{d}"] = low
            values[f"{argument.name}.extent.{d}"] = extent
            values[f"{argument.name}.stride.{d}"] = stride
            stride *= max(extent, 1)
    return values


def _buffer_bounds(buffer: Any) -> list[tuple[int, int]]:
    return [
        (int(buffer.dim(d).min()), int(buffer.dim(d).extent())) for d in range(buffer.dimensions())
    ]


