"""Prints the loops of a pipeline as pseudocode, for a user who wants to see a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.build import constant_value
from bayplan.ir.errors import InternalError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.node import compilation
from bayplan.ir.stmts import For, ProducerConsumer, Provide, Realize, Stmt
from bayplan.language.function import Function
from bayplan.language.target_names import DeviceAPI
from bayplan.lower.context import Lowering
from bayplan.lower.names import dim_of_loop
from bayplan.lower.pipeline import load_pass, prepare, schedule

_WORDS = {
    ForKind.Serial: "for",
    ForKind.Parallel: "parallel",
    ForKind.Vectorized: "vectorized",
    ForKind.Unrolled: "unrolled",
    ForKind.Extern: "extern",
    ForKind.GPUBlock: "gpu_block",
    ForKind.GPUThread: "gpu_thread",
    ForKind.GPULane: "gpu_lane",
}
_PASSES = (
    "find_func_bounds",
    "infer_bounds",
    "slide_windows",
    "uniquify_names",
    "simplify_program",
)


def print_loop_nest(functions: Sequence[Function], target: Any = None) -> str:
    """The loops, productions and writes of a pipeline, one a line, indented."""
    with compilation():
        lowering = prepare(functions, target)
        stmt = schedule(lowering)
        for name in _PASSES:
            stmt = load_pass(name)(stmt, lowering)
        return "".join([line + "\n" for line in _Printer(lowering).lines(stmt)])


class _Printer:
    def __init__(self, lowering: Lowering) -> None:
        self._lowering = lowering
        self._lines: list[str] = []

    def lines(self, stmt: Stmt) -> list[str]:
        """The statement as lines."""
        self._visit(stmt, 0)
        return self._lines

    def _add(self, indent: int, text: str) -> None:
        self._lines.append("  " * indent + text)

    def _visit(self, node: Any, indent: int) -> None:
        if isinstance(node, Expr):
            return
        if isinstance(node, For):
            what = f"{_WORDS[node.kind]} {_loop_name(node.name)}"
            self._add(indent, f"{what}{self._range(node)}{self._device(node)}:")
            self._visit(node.body, indent + 1)
        elif isinstance(node, Realize):
            function = self._lowering.env.get(node.name)
            if function is None:
                raise InternalError(f"storage of {node.name}, which is no Func")
            if function.schedule.store_level != function.schedule.compute_level:
                self._add(indent, f"store {_func_name(node.name)}:")
                indent += 1
            self._visit(node.body, indent)
        elif isinstance(node, ProducerConsumer):
            word = "produce" if node.is_producer else "consume"
            self._add(indent, f"{word} {_func_name(node.name)}:")
            self._visit(node.body, indent + 1)
        elif isinstance(node, Provide):
            self._add(indent, f"{_func_name(node.name)}(...) = ...")
        else:
            for child in node.children():
                self._visit(child, indent)

    def _range(self, loop: For) -> str:
        low = constant_value(loop.min)
        extent = constant_value(loop.extent)
        if low is None or extent is None:
            return ""
        return f" in [{low}, {int(low) + int(extent) - 1}]"

    def _device(self, loop: For) -> str:
        dim = dim_of_loop(loop.name, self._lowering) if loop.kind.is_gpu else None
        return "" if dim is None or dim.device is DeviceAPI.None_ else f"<{dim.device.name}>"


def _func_name(name: str) -> str:
    return name.split("$", 1)[0]


def _loop_name(loop: str) -> str:
    """The loop without Func and stage, and without what makes the names unique."""
    parts = loop.split(".")[2:]
    return ".".join([part.split("$", 1)[0] for part in parts])
