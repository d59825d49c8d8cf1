"""The lowered program: what the passes make and targets, driver and reports read."""

from __future__ import annotations

from typing import Any

from bayplan.ir.exprs import Expr
from bayplan.ir.source import SourceLine
from bayplan.ir.stmts import Stmt
from bayplan.ir.types import Type
from bayplan.lower.table import Table
from bayplan.storage.plan import KindChoice, StoragePlan


class Argument:
    """One argument of the entry point, in order: inputs by name, then outputs.

    Attributes:
        kind: "input_buffer", "output_buffer" or "scalar".
        name: as it appears in the program: Loads and Stores of a buffer use this name, and its
            fields are the int32 variables NAME.min.d, NAME.extent.d, NAME.stride.d.
        source: the language's Parameter, or a Buffer object used directly in an expression.
    """

    __slots__ = ("kind", "name", "type", "dimensions", "source", "where")

    def __init__(
        self,
        kind: str,
        name: str,
        type: Type,
        dimensions: int,
        source: Any,
        where: SourceLine | None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.type = type
        self.dimensions = dimensions
        self.source = source
        self.where = where

    def is_buffer(self) -> bool:
        """Whether the argument is a buffer."""
        return self.kind != "scalar"


class Origin:
    """Which Func a temporary belongs to, and the user's line that defined it."""

    __slots__ = ("func", "where")

    def __init__(self, func: str, where: SourceLine | None) -> None:
        self.func = func
        self.where = where


class LoweredProgram:
    """A pipeline as loops and flat allocations.

    Attributes:
        name: name of the entry point.
        arguments: in calling order.
        body: the final statement, ready for emission.
        readable: the statement as users are shown it, taken before the last steps.
        origins: name of each temporary -> its Func and line.
        stages: name and statement after each pass, when they were asked for.
        timings: name and seconds of each pass.
        plan: where each temporary lives.
        kinds: by temporary, the kind that was asked for and why it got another one.
        tables: Buffers of the algorithm whose elements the program carries.
        callees: the pipelines it calls (`lower.callee.Callee`), each after those that it calls.
        regions: of a pipeline that others call, see `Callee`.
        read_ahead: name and place (`ReadAhead`) of elements of inputs that sizes depend on.
    """

    __slots__ = (
        "name", "target", "arguments", "body", "readable", "origins", "stages", "timings",
        "warnings", "plan", "kinds", "tables", "callees", "regions", "read_ahead",
    )

    def __init__(
        self,
        name: str,
        target: Any,
        arguments: list[Argument],
        body: Stmt,
        readable: Stmt,
        origins: dict[str, Origin],
    ) -> None:
        self.name = name
        self.target = target
        self.arguments = arguments
        self.body = body
        self.readable = readable
        self.origins = origins
        self.stages: list[tuple[str, Stmt]] = []
        self.timings: list[tuple[str, float]] = []
        self.warnings: list[str] = []
        self.kinds: dict[str, KindChoice] = {}
        self.plan: StoragePlan | None = None
        self.tables: list[Table] = []
        self.callees: list[Any] = []
        self.regions: dict[tuple[str, int], tuple[Expr, Expr]] = {}
        self.read_ahead: list[Any] = []
