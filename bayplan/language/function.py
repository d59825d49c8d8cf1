"""The data of an algorithm: what `Func` fills and lowering, evaluator and reports read."""

from __future__ import annotations

from bayplan.ir.exprs import Call, Expr
from bayplan.ir.source import SourceLine
from bayplan.ir.types import Type
from bayplan.language.parameter import Parameter
from bayplan.language.schedule import FuncSchedule, StageSchedule


class Specialization:
    """A copy of a definition with a schedule of its own, taken where `condition` holds.

    With a `failure` text the call ends with that error instead.
    """

    __slots__ = ("condition", "definition", "failure", "where")

    def __init__(
        self,
        condition: Expr,
        definition: Definition,
        failure: str = "",
        where: SourceLine | None = None,
    ) -> None:
        self.condition = condition
        self.definition = definition
        self.failure = failure
        self.where = where


class Requirement:
    """A condition on the parameters of a call: where it fails, the call ends with the message."""

    __slots__ = ("condition", "message", "where")

    def __init__(self, condition: Expr, message: list[Expr], where: SourceLine | None) -> None:
        self.condition = condition
        self.message = message
        self.where = where


class Definition:
    """One definition of a Func: values at coordinates, with their schedule.

    Attributes:
        args: the coordinates on the left side, int32; in the pure definition plain Variables
            named as `Function.args`.
        values: one expression per value of the Func.
        predicate: bool; where it is false (RDom.where) nothing is done.
        is_init: whether this is the pure definition.
        schedule: the loops, for the case that no specialization holds.
        specializations: tried in order.
        where: the user's line.
    """

    __slots__ = ("args", "values", "predicate", "is_init", "schedule", "specializations", "where")

    def __init__(
        self,
        args: tuple[Expr, ...],
        values: tuple[Expr, ...],
        predicate: Expr,
        is_init: bool,
        schedule: StageSchedule,
        where: SourceLine | None = None,
    ) -> None:
        self.args = args
        self.values = values
        self.predicate = predicate
        self.is_init = is_init
        self.schedule = schedule
        self.specializations: list[Specialization] = []
        self.where = where


class Function:
    """What a Func is: its name, its definitions, its schedule.

    Attributes:
        name: unique in the process ("f", then "f$1", ...); the emitted code uses it.
        args: names of the pure Vars, first is dimension 0.
        output_types: element type of each value; empty while undefined.
        init: the pure definition, None while undefined.
        updates: the update definitions in order.
        output_buffers: a buffer Parameter per value, for constraints on an output
            (`output_buffer()`); named as the Func ("f", or "f.0", "f.1" for Tuples).
        where: the user's line of the pure definition (else of the Func's making).
        is_wrapper_of: for the Func made by in_: name of the wrapped Func, else "".
        required_types, required_dimensions: what the definition must have; empty, and None,
            where anything goes.
        requirements: checked first in each call of a pipeline that has this Func as an output.
        traced: which of "loads", "stores", "realizations" the user asked to trace.
    """

    __slots__ = (
        "name",
        "args",
        "output_types",
        "init",
        "updates",
        "schedule",
        "output_buffers",
        "where",
        "is_wrapper_of",
        "frozen",
        "no_profiling",
        "required_types",
        "required_dimensions",
        "traced",
        "requirements",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.args: list[str] = []
        self.output_types: list[Type] = []
        self.init: Definition | None = None
        self.updates: list[Definition] = []
        self.schedule = FuncSchedule()
        self.output_buffers: list[Parameter] = []
        self.where: SourceLine | None = None
        self.is_wrapper_of = ""
        # Set once the Func was used by another: its pure definition and updates are final.
        self.frozen = False
        self.no_profiling = False
        self.required_types: tuple[Type, ...] = ()
        self.required_dimensions: int | None = None
        self.traced: set[str] = set()
        self.requirements: list[Requirement] = []

    def has_pure_definition(self) -> bool:
        """Whether the Func is defined."""
        return self.init is not None

    def extern(self) -> Call | None:
        """The call that stands for the external function that computes it, or None."""
        if self.init is None or not self.init.values:
            return None
        value = self.init.values[0]
        return value if type(value) is Call and value.name == "extern_value" else None

    def dimensions(self) -> int:
        """Number of dimensions."""
        return len(self.args)

    def outputs(self) -> int:
        """Number of values (1, or the size of the Tuple)."""
        return len(self.output_types)

    def definition(self, stage: int) -> Definition:
        """Stage 0 is the pure definition, stage n the update n - 1."""
        if stage == 0:
            assert self.init is not None
            return self.init
        return self.updates[stage - 1]

    def stages(self) -> list[Definition]:
        """The pure definition and the updates in order."""
        assert self.init is not None
        return [self.init, *self.updates]

    def __repr__(self) -> str:
        return f"<Function {self.name}({', '.join(self.args)})>"
