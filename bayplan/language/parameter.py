"""The data of a parameter: a scalar the call gives, or an input or output buffer.

`Param`, `ImageParam` and `OutputImageParam` are the user's handles on it.
"""

from __future__ import annotations

from typing import Any

from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.source import SourceLine
from bayplan.ir.types import INT32, Type


class DimConstraint:
    """What the user promises of one dimension of a buffer; None where nothing is promised."""

    __slots__ = ("min", "extent", "stride", "min_estimate", "extent_estimate")

    def __init__(self) -> None:
        self.min: Expr | None = None
        self.extent: Expr | None = None
        self.stride: Expr | None = None
        self.min_estimate: Expr | None = None
        self.extent_estimate: Expr | None = None


class Parameter:
    """A scalar or buffer that each call is given; identity, not name, makes it what it is.

    Attributes:
        dimensions: number of dimensions of a buffer, 0 for a scalar.
        value: the current value of a scalar (Python number), None while not set.
        buffer: the current buffer (a `language.buffer.Buffer`), None while not set.
        min_value, max_value: range of a scalar, or None.
        constraints: one per dimension; stride of dimension 0 is promised to be 1 at first.
        host_alignment: bytes the first element is aligned to.
        aliases: of an output, the input Parameters it may share bytes with (`may_alias`).
    """

    __slots__ = (
        "name",
        "type",
        "is_buffer",
        "dimensions",
        "value",
        "buffer",
        "min_value",
        "max_value",
        "estimate",
        "constraints",
        "host_alignment",
        "aliases",
        "where",
    )

    def __init__(
        self, name: str, type: Type, is_buffer: bool, dimensions: int, where: SourceLine | None
    ) -> None:
        self.name = name
        self.type = type
        self.is_buffer = is_buffer
        self.dimensions = dimensions
        self.value: int | float | None = None
        self.buffer: Any = None
        self.min_value: Expr | None = None
        self.max_value: Expr | None = None
        self.estimate: Expr | None = None
        self.constraints = [DimConstraint() for _ in range(dimensions)]
        if dimensions:
            from bayplan.ir.build import int32

            self.constraints[0].stride = int32(1)
        self.host_alignment = type.bytes()
        # Of an output: the other buffers' Parameters with which it may share bytes.
        self.aliases: list[Parameter] = []
        self.where = where

    def field(self, field: str, dim: int) -> Variable:
        """The int32 variable of a buffer's "min", "extent" or "stride" in a dimension."""
        return Variable(INT32, f"{self.name}.{field}.{dim}", self)

    def __repr__(self) -> str:
        return f"<Parameter {self.name}: {self.type}>"


class ReductionDomain:
    """The domain of an RDom: its variables in order (first innermost) and its predicate."""

    __slots__ = ("name", "variables", "predicate", "frozen", "where")

    def __init__(self, name: str, variables: list[Any], where: SourceLine | None) -> None:
        self.name = name
        # list of language.schedule.ReductionVariable
        self.variables = variables
        self.predicate: Expr | None = None
        self.frozen = False
        self.where = where
