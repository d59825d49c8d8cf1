"""A pipeline compiled to a callable with a fixed order of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.driver.compile import check_defined, compile_pipeline
from bayplan.driver.contexts import context
from bayplan.driver.values import make_values, output_parameters
from bayplan.ir.errors import BufferError, MissingArgument
from bayplan.language.buffer import Buffer
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter


class Callable:
    """A compiled pipeline called with its arguments in a fixed order, outputs last."""

    def __init__(
        self, functions: Sequence[Function], arguments: Sequence[Parameter], target: Any
    ) -> None:
        check_defined(functions)
        self._compiled = compile_pipeline(functions, target)
        self._inputs = list(arguments)
        self._outputs = output_parameters(functions)
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
        arguments = make_values(self._compiled, outputs, given)
        self._compiled.call(arguments, context())


def _as_buffer(value: Any) -> Any:
    return value if isinstance(value, Buffer) else Buffer(value)


def compile_to_callable(
    functions: Sequence[Function], arguments: Sequence[Parameter], target: Any = None
) -> Callable:
    """A callable of the pipeline that takes `arguments` in this order, then the outputs."""
    return Callable(functions, arguments, target)
