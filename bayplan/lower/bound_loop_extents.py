"""Gives unrolled and vectorised loops a constant extent, for unroll_loops and vectorize_loops."""

from __future__ import annotations

from bayplan.analysis.bounds import find_constant_bound
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import For, IfThenElse, Stmt
from bayplan.lower.context import Lowering
from bayplan.lower.names import func_of_loop, line_of_loop, loop_variable
from bayplan.lower.scoped import ScopedRewriter, strip_likely

_WORDS = {ForKind.Unrolled: "unroll", ForKind.Vectorized: "vectorize"}


def bound_loop_extents(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which each unrolled or vectorised loop has a constant extent.

    An extent that is not a constant but has a constant upper bound takes that, and the body is
    guarded. Without such a bound the schedule is in error.

    Order: before unroll_loops and vectorize_loops.
    """
    return _BoundExtents(lowering)(stmt)  # type: ignore[no-any-return]


class _BoundExtents(ScopedRewriter):
    def rewrite_For(self, node: For) -> Stmt:
        extent: Expr = node.extent
        body = node.body
        if node.kind in _WORDS and build.constant_value(extent) is None:
            extent, guarded = self._constant_extent(node)
            if guarded:
                last = build.lt(build.var(node.name), node.min + node.extent)
                mark = build.intrinsic(last.type, "likely_if_innermost", last)
                body = IfThenElse(mark, body)
        body = self.inside_loop(node, body)
        if body is node.body and extent is node.extent:
            return node
        return For(node.name, node.min, extent, node.kind, node.partition, body)

    def _constant_extent(self, node: For) -> tuple[Expr, bool]:
        """A constant extent, and whether the body must be guarded as it may be too large."""
        expanded = strip_likely(self.expand(strip_likely(node.extent)))
        expanded = simplify(expanded, self.facts())
        if build.constant_value(expanded) is not None:
            return expanded, False
        bound = find_constant_bound(expanded, "upper", self.loops)
        if bound is not None:
            return bound, True
        func = func_of_loop(node.name, self.lowering)
        word = _WORDS[node.kind]
        raise ScheduleError(
            f"cannot {word} the loop over {loop_variable(node.name, self.lowering)} of {func}: its "
            f"extent {expanded} is neither constant nor bounded by a constant",
            line_of_loop(node.name, self.lowering),
            hint=f"{word} by a factor, or promise the range with bound()",
        )
