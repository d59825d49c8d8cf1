"""Lowers a pipeline as far as a pass and runs the statement in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bayplan as hl
from bayplan.ir.node import compilation
from bayplan.language.target import get_host_target
from bayplan.lower.pipeline import BEFORE_READABLE, load_pass, prepare, schedule
from tests.lower.interpret import Faulty, Interpreter

Build = Callable[..., Any]


class Run:
    """What a run did.

    Attributes:
        output: elements of the output by coordinates.
        writes: how often each Func was written.
        sizes: largest number of elements each temporary had.
        read: the bounding box of what was read of the input, as (low, high) pairs.
        statement: what was run.
    """

    def __init__(self, interpreter: Interpreter, name: str, read: list[Any], stmt: Any) -> None:
        self.output = interpreter.memory.get(name, {})
        self.writes = {_plain(n): count for n, count in interpreter.writes.items()}
        self.sizes = {_plain(n): size for n, size in interpreter.sizes.items()}
        self.read = read
        self.statement = stmt


def _plain(name: str) -> str:
    return name.split("$", 1)[0]


def value_at(*where: int) -> int:
    """The input image: values that tell their places apart."""
    total = 0
    for i, at in enumerate(where):
        total = total * 31 + at * (i + 3)
    return total % 1009


def run(
    build: Build,
    extents: list[int],
    until: str = "fold_storage",
    allowed: list[Any] | None = None,
    **options: Any,
) -> Run:
    """Runs `build(hl, **options)` on an output; reads outside of `allowed` are faults."""
    read: list[Any] = []

    def image(*where: int) -> int:
        for d, at in enumerate(where):
            if d >= len(read):
                read.append((at, at))
            read[d] = (min(read[d][0], at), max(read[d][1], at))
            if allowed and not allowed[d][0] <= at <= allowed[d][1]:
                raise Faulty(f"the input is read at {where}, outside of {allowed}")
        return value_at(*where)

    with compilation():
        f = build(hl, **options)
        lowering = prepare([f._function], get_host_target())
        stmt = schedule(lowering)
        for name in BEFORE_READABLE:
            stmt = load_pass(name)(stmt, lowering)
            if name == until:
                break
        values: dict[str, Any] = {}
        stride = 1
        for d, extent in enumerate(extents):
            values |= {f"{f.name()}.min.{d}": 0, f"{f.name()}.extent.{d}": extent}
            values[f"{f.name()}.stride.{d}"] = stride
            values |= {f"input.min.{d}": -100, f"input.extent.{d}": 1000}
            values[f"input.stride.{d}"] = 1000**d
            stride *= extent
        interpreter = Interpreter(values, {"input": image})
        interpreter.run(stmt)
        return Run(interpreter, f.name(), read, stmt)
