"""A pipeline compiled to a callable with a fixed order of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.driver.compile import check_defined, compile_pipeline
from bayplan.driver.contexts import context
from bayplan.driver.values import CallValues, make_values, output_parameters, run
from bayplan.driver.workspace import Workspace
from bayplan.ir.errors import BufferError, MissingArgument, WorkspaceError
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

    def _functions(self) -> list[Function]:
        """The outputs: what another pipeline calls when it calls this."""
        return list(self._compiled.functions)

    def _parameters(self) -> list[Parameter]:
        """The inputs in the order of the arguments."""
        return self._inputs

    def __call__(self, *values: Any, workspace: Any = None, strict: bool = False) -> None:
        """Run: first the listed arguments in order, then one buffer per output value.

        Args:
            values: numbers, and anything that a Buffer can be made of.
            workspace: writable contiguous memory with the buffer protocol, such as an array of
                bytes, in which all temporaries of the call are placed; nothing is then allocated.
                `required_bytes` of them are enough wherever it begins. Its contents are lost.
            strict: refuse a workspace that does not begin at a multiple of `workspace_alignment`,
                rather than leave the bytes before the first one unused.

        Raises:
            WorkspaceTooSmall: it has fewer bytes than the call needs at its address; nothing was
                written.
            WorkspaceError: the bytes depend on data, so that no workspace can be given; or it is
                not aligned, with `strict`.
        """
        arguments = self._values(values)
        if workspace is None:
            run(self._compiled, arguments, context())
            return
        with Workspace(workspace) as memory:
            memory.check_apart(self._compiled.arguments, arguments)
            if strict and memory.address % self.workspace_alignment:
                raise WorkspaceError(
                    f"the workspace of {self._compiled.program.name} begins "
                    f"{memory.address % self.workspace_alignment} bytes behind a multiple of "
                    f"{self.workspace_alignment}",
                    hint="make_workspace(...) gives an aligned one",
                )
            run(self._compiled, arguments, context(), (memory.address, memory.size_bytes))

    def workspace_bytes(self, *values: Any) -> int:
        """The bytes of temporaries of a call with these arguments, which is not made.

        They are those of a workspace that begins at a multiple of `workspace_alignment`.

        Raises:
            WorkspaceError: they depend on data.
        """
        return self._compiled.workspace_bytes(self._values(values), context())

    def required_bytes(self, *values: Any) -> int:
        """The bytes of workspace that suffice for a call with these arguments at any address."""
        size = self.workspace_bytes(*values)
        return size + self.workspace_alignment - 1 if size else 0

    @property
    def workspace_alignment(self) -> int:
        """What the first used address of a workspace is a multiple of; bytes before it are lost."""
        return self._compiled.workspace_alignment

    def make_workspace(self, *values: Any) -> Any:
        """A new, aligned workspace for calls with these arguments: a numpy array of bytes."""
        import numpy as np

        size, alignment = self.workspace_bytes(*values), self.workspace_alignment
        block = np.empty(size + alignment - 1, np.uint8)
        start = -block.ctypes.data % alignment
        return block[start : start + size]

    def _values(self, values: Sequence[Any]) -> CallValues:
        """The arguments of the program, in its order."""
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
        return make_values(self._compiled, outputs, given)


def _as_buffer(value: Any) -> Any:
    return value if isinstance(value, Buffer) else Buffer(value)


def compile_to_callable(
    functions: Sequence[Function], arguments: Sequence[Parameter], target: Any = None
) -> Callable:
    """A callable of the pipeline that takes `arguments` in this order, then the outputs."""
    return Callable(functions, arguments, target)
