"""Replaces vectorised loops by statements on vectors, for targets with vector registers."""

from __future__ import annotations

from bayplan.ir import build
from bayplan.ir.errors import InternalError, ScheduleError
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import For, Stmt
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_loop, line_of_loop, loop_variable
from bayplan.lower.vector_statements import VectorizedBody


def vectorize_loops(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement without vectorised loops.

    Loops nested in a vectorised loop that are vectorised too give vectors of the product of their
    lanes; the innermost loop's lanes lie next to one another. What cannot be done on vectors
    (asserts and conditions that differ by lane and guard more than stores, calls with side
    effects) runs as a serial loop over the lanes.

    Order: after bound_loop_extents and unroll_loops; before partition_loops, which takes apart the
    loops around the guards left here.
    """
    return _Vectorize(lowering)(stmt)


class _Vectorize(Rewriter):
    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind is not ForKind.Vectorized:
            return self.rebuild(node)
        extent = build.constant_value(node.extent)
        if extent is None:
            raise InternalError(f"the vectorised loop {node.name} has no constant extent")
        lanes = int(extent)
        if lanes < 1:
            return build.nothing()
        if lanes == 1:
            body = For(node.name, node.min, node.extent, ForKind.Serial, node.partition, node.body)
            return self(body)
        if lanes > 4096:
            raise ScheduleError(
                f"the loop over {loop_variable(node.name, self.lowering)} of "
                f"{func_of_loop(node.name, self.lowering)} is vectorised over {lanes} lanes; at "
                "most 4096 are possible",
                line_of_loop(node.name, self.lowering),
                hint="give vectorize() a factor",
            )
        return VectorizedBody(self.lowering).loop(node)
