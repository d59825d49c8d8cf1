"""Argument: what a compiled function takes, in the order of a list of them."""

from __future__ import annotations

from enum import Enum
from typing import Any

from bayplan.ir.types import Type


class ArgumentKind(Enum):
    """What an argument is to a program."""

    InputScalar = 0
    InputBuffer = 1
    OutputBuffer = 2


class Argument:
    """One argument of a function, made of the parameter that stands for it in the algorithm.

    Args:
        parameter: a Param, an ImageParam, an output buffer, or a Buffer.
    """

    __slots__ = ("dimensions", "kind", "name", "source", "type")

    def __init__(self, parameter: Any = None) -> None:
        self.name = ""
        self.kind = ArgumentKind.InputScalar
        self.dimensions = 0
        self.type = Type("uint", 8)
        self.source: Any = None
        if parameter is None:
            return
        found = getattr(parameter, "parameter", None)
        if found is None:
            self.name, self.type = parameter.name(), parameter.type()
            self.dimensions = parameter.dimensions()
            self.kind = ArgumentKind.InputBuffer
            self.source = parameter
            return
        source = found()
        self.source = source
        self.name, self.type, self.dimensions = source.name, source.type, source.dimensions
        if source.is_buffer:
            is_input = hasattr(parameter, "function")
            self.kind = ArgumentKind.InputBuffer if is_input else ArgumentKind.OutputBuffer

    def is_buffer(self) -> bool:
        """Whether the argument is a buffer."""
        return self.kind is not ArgumentKind.InputScalar

    def is_scalar(self) -> bool:
        """Whether the argument is a number."""
        return self.kind is ArgumentKind.InputScalar

    def is_input(self) -> bool:
        """Whether the program reads it."""
        return self.kind is not ArgumentKind.OutputBuffer

    def is_output(self) -> bool:
        """Whether the program writes it."""
        return self.kind is ArgumentKind.OutputBuffer

    def __repr__(self) -> str:
        return f"<bayplan.Argument {self.name}: {self.kind.name} {self.type}>"
