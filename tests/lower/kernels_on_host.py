"""Runs GPU schedules on the host: kernels in their normal form become plain loops.

Blocks and the threads of a stretch run forwards or backwards: what depends on their order gives
other results in one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bayplan.ir.build import int32, var
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.stmts import For, LetStmt, Stmt
from bayplan.ir.verify import verify
from bayplan.ir.walk import Rewriter
from bayplan.lower import pipeline
from bayplan.lower.context import Lowering


class _AsLoops(Rewriter):
    """Blocks and threads as serial loops, where asked from the last iteration to the first."""

    memoise = False

    def __init__(self, reverse: bool) -> None:
        super().__init__()
        self._reverse = reverse

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_For(self, node: For) -> Stmt:
        body = self(node.body)
        kind = ForKind.Serial if node.kind.is_gpu else node.kind
        if not node.kind.is_gpu or not self._reverse:
            return For(node.name, node.min, node.extent, kind, node.partition, body)
        backwards = f"{node.name}.backwards"
        body = LetStmt(node.name, node.extent - 1 - var(backwards), body)
        return For(backwards, int32(0), node.extent, kind, Partition.Never, body)


@contextmanager
def kernels_on_host(reverse: bool = True) -> Iterator[list[Stmt]]:
    """Within it pipelines with GPU loops are lowered for the host; gives the normal forms."""
    load = pipeline.load_pass
    forms: list[Stmt] = []

    def normalize(stmt: Stmt, lowering: Lowering) -> Stmt:
        result = load("normalize_kernels")(stmt, lowering)
        verify(result, "kernels")
        forms.append(result)
        return _AsLoops(reverse)(result)

    def check(stmt: Stmt, lowering: Lowering) -> Stmt:
        target, lowering.target = lowering.target, None
        load("check_gpu_loops")(stmt, lowering)
        lowering.target = target
        return stmt

    def load_pass(name: str) -> Any:
        return {"normalize_kernels": normalize, "check_gpu_loops": check}.get(name) or load(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "load_pass", load_pass)
        yield forms
