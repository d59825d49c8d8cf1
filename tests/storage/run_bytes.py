"""Lowers a random program and runs its final statement in the interpreter of bytes."""

from __future__ import annotations

from typing import Any

import bayplan as hl
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Stmt
from bayplan.language.target import get_host_target
from bayplan.lower.pipeline import lower
from bayplan.lower.program import LoweredProgram
from tests.differential.program import DTYPES, Program, prepare
from tests.storage.interpret_bytes import Interpreter
from tests.storage.interpret_values import Unsupported

__all__ = ["Unsupported", "interpreter_for", "lower_program", "run_program"]


def lower_program(program: Program, target: Any = None) -> tuple[LoweredProgram, list[Any]]:
    """The lowered program and what keeps its inputs alive; within `compilation()`."""
    func, kept = prepare(program, hl)
    return lower([func._function], target or get_host_target(), "p"), kept


def interpreter_for(
    lowered: LoweredProgram,
    program: Program,
    machine: type[Interpreter] = Interpreter,
    **options: Any,
) -> Any:
    """An interpreter in which the arguments have the program's values."""
    values: dict[str, Any] = {}
    buffers: dict[str, bytes | int] = {}
    kinds = iter(program.kinds)
    for argument in lowered.arguments:
        if argument.kind == "scalar":
            values[argument.name] = argument.source.value
        elif argument.kind == "output_buffer":
            next(kinds)
            stride = 1
            for d, (low, extent) in enumerate(zip(program.mins, program.extents, strict=True)):
                values[f"{argument.name}.min.{d}"] = low
                values[f"{argument.name}.extent.{d}"] = extent
                values[f"{argument.name}.stride.{d}"] = stride
                stride *= extent
            buffers[argument.name] = stride * argument.type.bytes()
        else:
            source = argument.source
            buffer = source.buffer if hasattr(source, "buffer") else source
            for d in range(argument.dimensions):
                dim = buffer.dim(d)
                values[f"{argument.name}.min.{d}"] = int(dim.min())
                values[f"{argument.name}.extent.{d}"] = int(dim.extent())
                values[f"{argument.name}.stride.{d}"] = int(dim.stride())
            import numpy as np

            buffers[argument.name] = np.ascontiguousarray(np.asarray(buffer)).tobytes()
    return machine(values, buffers, **options)


def run_program(program: Program, *, seed: int = 0, limit: int = 60_000) -> str:
    """Runs a program; says what it had: "aliases" or "none".

    Raises:
        Faulty: a temporary was destroyed, or an access went astray.
        Unsupported: the interpreter cannot run it.
    """
    with compilation():
        lowered, _kept = lower_program(program)
        machine = interpreter_for(lowered, program, seed=seed, limit=limit, workers=1 + seed % 3)
        machine.run(lowered.body)
        outputs = [a for a in lowered.arguments if a.kind == "output_buffer"]
    compare_outputs(program, outputs, machine)
    return "aliases" if has_aliases(lowered.body) else "none"


def compare_outputs(program: Program, outputs: list[Any], machine: Interpreter) -> None:
    """The outputs hold what the evaluator says, where values are exact."""
    import numpy as np

    func, _kept = prepare(program.with_schedule([]), hl)
    from bayplan.reference import evaluate

    wanted = evaluate(func, program.mins, program.extents)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    for argument, kind, exact, want in zip(
        outputs, program.kinds, program.exact, wanted, strict=True
    ):
        got = np.frombuffer(machine.content(argument.name), DTYPES[kind]).reshape(want.shape)
        if exact and kind[0] != "f":
            np.testing.assert_array_equal(got, want)


def has_aliases(stmt: Stmt) -> bool:
    """Whether a plan put something into an arena."""
    from bayplan.ir.stmts import Allocate
    from bayplan.ir.walk import iterate

    return any(isinstance(n, Allocate) and n.address is not None for n in iterate(stmt))
