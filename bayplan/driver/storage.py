"""The storage report of a call that is not made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.analysis.evaluate import ASK, Number, Unknown, evaluate
from bayplan.driver.bounds import query_input_bounds
from bayplan.driver.compile import (
    CompiledPipeline,
    check_defined,
    compile_pipeline,
    default_target,
)
from bayplan.driver.contexts import num_threads
from bayplan.driver.externs import ask_extern
from bayplan.driver.values import (
    buffer_bounds,
    check_extents,
    given_value,
    has_buffers,
    output_parameters,
)
from bayplan.ir.build import constant_value
from bayplan.ir.errors import BayplanError, MissingArgument
from bayplan.ir.exprs import Call, StringImm
from bayplan.ir.walk import iterate
from bayplan.language.buffer import Buffer
from bayplan.language.function import Function
from bayplan.lower.program import Argument
from bayplan.storage.read_plan import bind_lets, names_in_sizes


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

    check_defined(functions)
    compiled = compile_pipeline(functions, target)
    values: dict[str, Any] = _size_values(functions, compiled, destination, given or {}, target)
    # Sizes may be what C functions say.
    values[ASK] = ask_extern
    if not has_buffers(destination):
        _grow_outputs(compiled, values)
    origins = {
        name: (origin.func, origin.where) for name, origin in compiled.program.origins.items()
    }
    assert compiled.program.plan is not None
    return make_report(
        compiled.program.name,
        compiled.program.plan,
        compiled.program.body,
        values,
        origins,
        compiled.program.kinds,
        num_threads() if workers is None else workers,
        compiled.program.readable,
        compiled.kernel_names,
    )


def _size_values(
    functions: Sequence[Function],
    compiled: CompiledPipeline,
    destination: Any,
    given: Mapping[int, Any],
    target: Any,
) -> dict[str, Number]:
    """The numbers that the program's prologue would read: fields of buffers, and scalars."""
    parameters = output_parameters(functions)
    shaped = has_buffers(destination)
    if not shaped:
        destination = check_extents(functions, destination)
    elif isinstance(destination, Buffer):
        destination = [destination]
    # The question is put to compiled code, which may have to be that of another target.
    asked = target if _runs_here(target) else None
    needed = {id(p): box for p, box in query_input_bounds(functions, destination, asked, given)}
    values: dict[str, Number] = {}
    for argument in compiled.arguments:
        if argument.kind == "scalar":
            values[argument.name] = given_value(argument, given)
            continue
        buffer: Any = None  # one whose strides are known
        if argument.kind == "output_buffer" and not shaped:
            bounds = [(0, extent) for extent in destination]
        elif argument.kind == "output_buffer":
            position = [p is argument.source for p in parameters].index(True)
            buffer = destination[position]
            bounds = buffer_bounds(buffer)
        elif id(argument.source) in needed:
            bounds = needed[id(argument.source)]
            _check_known(compiled, argument, bounds)
        else:
            buffer = given_value(argument, given)
            bounds = buffer_bounds(buffer)
        stride = 1
        for d, (low, extent) in enumerate(bounds):
            values[f"{argument.name}.min.{d}"] = low
            values[f"{argument.name}.extent.{d}"] = extent
            given_stride = stride if buffer is None else int(buffer.dim(d).stride())
            values[f"{argument.name}.stride.{d}"] = given_stride
            stride *= max(extent, 1)
    values.update(_elements(compiled, values, given))
    return values


def _elements(
    compiled: CompiledPipeline, values: Mapping[str, Number], given: Mapping[int, Any]
) -> dict[str, Number]:
    """The elements of inputs that sizes depend on.

    Raises:
        MissingArgument: the sizes of temporaries depend on an element that is not there.
    """
    found: dict[str, Number] = {}
    plan = compiled.program.plan
    assert plan is not None
    used = names_in_sizes(plan) if compiled.program.read_ahead else set()
    arguments = {a.name: a for a in compiled.arguments}
    for one in compiled.program.read_ahead:
        argument = arguments.get(one.call.name)
        if argument is None:
            continue  # of a table in the program
        try:
            at = [int(evaluate(e, {**values, **found})) for e in one.call.args]
            found[one.name] = given_value(argument, given)[tuple(at)]
        except (BayplanError, IndexError, Unknown) as error:
            if one.name in used:
                raise MissingArgument(
                    f"sizes of temporaries depend on {one.name}, which input buffer "
                    f"{argument.name} does not hold",
                    argument.where,
                    f"{argument.name}.set(...), or give it to storage(...)",
                ) from error
    return found


def _runs_here(target: Any) -> bool:
    """Whether code for the target runs on this machine."""
    if target is None:
        return True
    from bayplan.build.ahead_of_time import target_flags

    host = default_target()
    same = (target.arch, target.bits, target.os) == (host.arch, host.bits, host.os)
    return same and set(target_flags(target)) <= set(target_flags(host))


def _grow_outputs(compiled: CompiledPipeline, values: dict[str, Any]) -> None:
    """Makes outputs as large as `realize` does: where tails write beyond what was asked for."""
    program = compiled.program
    assert program.plan is not None
    outputs = [a for a in program.arguments if a.kind == "output_buffer"]
    answers = {
        (name.value, constant_value(d)): bounds
        for node in iterate(program.body)
        if type(node) is Call and node.name == "buffer_set_bounds"
        for name, d, *bounds in [node.args]
        if isinstance(name, StringImm)
    }
    known = bind_lets(program.plan.lets, values)
    grown: dict[str, int] = {}
    for output in outputs:
        stride = 1
        for d in range(output.dimensions):
            low, extent = (int(known[f"{output.name}.{field}.{d}"]) for field in ("min", "extent"))
            try:
                begin, size = (int(evaluate(e, known)) for e in answers[output.name, d][:2])
            except (Unknown, KeyError):
                return
            if low < begin or begin + size < low + extent:
                return  # The call is refused.
            grown[f"{output.name}.min.{d}"] = begin
            grown[f"{output.name}.extent.{d}"] = size
            grown[f"{output.name}.stride.{d}"] = stride
            stride *= max(size, 1)
    values.update(grown)


def _check_known(
    compiled: CompiledPipeline, argument: Argument, bounds: Sequence[tuple[int, int]]
) -> None:
    """Refuses an input that is not set, and of which nothing asks for elements, but for its size.

    Raises:
        MissingArgument: sizes of temporaries depend on the extent of such an input.
    """
    plan = compiled.program.plan
    assert plan is not None
    used = names_in_sizes(plan)
    for d, (_, extent) in enumerate(bounds):
        if extent <= 0 and f"{argument.name}.extent.{d}" in used:
            raise MissingArgument(
                f"sizes of temporaries depend on the extent of input buffer {argument.name} in "
                f"dimension {d}, which is not known: the buffer was not set",
                argument.where,
                f"{argument.name}.set(...), or give it to storage(...)",
            )
