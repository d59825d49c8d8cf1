"""What surrounds a place in the statement: lets, loops and branches, innermost first."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import For, LetStmt


class Place:
    """A let, a loop or a branch of the statement, and what is around it.

    Equal statements are one node, so the same node can stand in several places; a Place is one of
    them.

    Attributes:
        outer: what is around it, None at the outermost.
        node: the LetStmt or For; None for a branch.
        condition: of a branch: what holds in it.
        begin, end: of a loop: the half-open interval of its steps, once it was walked.
    """

    __slots__ = ("begin", "condition", "end", "node", "outer")

    def __init__(
        self, outer: Place | None, node: LetStmt | For | None, condition: Expr | None = None
    ) -> None:
        self.outer = outer
        self.node = node
        self.condition = condition
        self.begin = self.end = 0

    def is_parallel(self) -> bool:
        """Whether it is a parallel loop."""
        return type(self.node) is For and self.node.kind is ForKind.Parallel


def outward(place: Place | None) -> Iterator[Place]:
    """The place and all around it, innermost first."""
    while place is not None:
        yield place
        place = place.outer


def parallel_loop_of(place: Place | None) -> Place | None:
    """The innermost parallel loop around."""
    for around in outward(place):
        if around.is_parallel():
            return around
    return None


def loops_around(place: Place | None) -> tuple[str, ...]:
    """Names of the loops that the place is in, outermost first; the place itself counts."""
    names = [p.node.name for p in outward(place) if type(p.node) is For]
    return tuple(names[::-1])
