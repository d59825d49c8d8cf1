"""A pipeline as text: the lowered program, its C, its loops, its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.driver.compile import any_target, check_defined, compile_pipeline, default_target
from bayplan.ir.node import compilation
from bayplan.language.function import Function
from bayplan.lower.program import Argument


def lowered_text(functions: Sequence[Function], target: Any = None) -> str:
    """The lowered program as text."""
    from bayplan.ir.printer import print_node

    check_defined(functions)
    return print_node(compile_pipeline(functions, target).program.readable)


def c_source(
    functions: Sequence[Function], target: Any = None, name: str | None = None
) -> str:
    """The emitted C."""
    check_defined(functions)
    return compile_pipeline(functions, target, name).source


def device_source(functions: Sequence[Function], target: Any = None) -> str:
    """The kernels in the device's language; "" where the schedule has none."""
    check_defined(functions)
    return compile_pipeline(functions, target).device_source


def loop_nest_text(functions: Sequence[Function]) -> str:
    """The loops of the schedule, without bounds or expressions."""
    from bayplan.lower.print_loop_nest import print_loop_nest

    check_defined(functions)
    with compilation():
        return print_loop_nest(list(functions), default_target())


def infer_arguments(functions: Sequence[Function]) -> list[Argument]:
    """The inputs that a call of the pipeline needs, in order of name."""
    check_defined(functions)
    arguments = compile_pipeline(functions, any_target(functions)).arguments
    return [a for a in arguments if a.kind != "output_buffer"]
