"""Replaces unrolled loops by their iterations, one after another."""

from __future__ import annotations

from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import InternalError
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import For, Stmt
from bayplan.ir.walk import Rewriter, substitute
from bayplan.lower.context import Lowering


def unroll_loops(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement without unrolled loops.

    Order: after bound_loop_extents, which makes their extents constant; before vectorize_loops, so
    that what is unrolled inside a vectorised loop is vectorised as a whole.
    """
    return _Unroll()(stmt)


class _Unroll(Rewriter):
    def rewrite_For(self, node: For) -> Stmt:
        if node.kind is not ForKind.Unrolled:
            return self.rebuild(node)
        extent = build.constant_value(node.extent)
        if extent is None:
            raise InternalError(f"the unrolled loop {node.name} has no constant extent")
        body = self(node.body)
        low = self(node.min)
        copies = [substitute({node.name: simplify(low + i)}, body) for i in range(int(extent))]
        return build.block(copies)
