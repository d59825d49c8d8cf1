"""Whether elements whose place depends on data are those of one thread each.

Part of the checker of races.
"""

from __future__ import annotations

from collections.abc import Mapping

from bayplan.ir.exprs import Add, Cast, Expr, Mul, Sub, Variable
from bayplan.storage.check_lanes import Lanes


def rows_are_apart(index: Expr, lanes: Lanes, lets: Mapping[str, Expr]) -> bool:
    """Whether threads differ in one coordinate, and data decide about others alone.

    An index is a sum of coordinates, each times its stride: with another coordinate in a row of its
    own, a thread does not meet the others, wherever the data have it go in the row. An index that
    no data decide about has no such parts.

    Args:
        index: of the elements.
        lanes: gives what is known of values.
        lets: what names in the index stand for.
    """
    parts = _Parts(lanes, lets)
    parts.add(index, 1)
    return bool(parts.of_data and parts.of_threads and parts.of_data.isdisjoint(parts.of_threads))


class _Parts:
    """The strides of coordinates that depend on data, and of those that depend on threads."""

    def __init__(self, lanes: Lanes, lets: Mapping[str, Expr]) -> None:
        self.lanes = lanes
        self.lets = lets
        self.of_data: set[int] = set()
        self.of_threads: set[int] = set()

    def add(self, e: Expr, stride: int) -> None:
        """Takes a part of the sum, which is multiplied by a stride."""
        value = self.lanes.of(e)
        if isinstance(value, int | float):
            return
        if isinstance(e, Add | Sub):
            self.add(e.a, stride)
            self.add(e.b, stride)
        elif isinstance(e, Mul):
            a, b = self.lanes.of(e.a), self.lanes.of(e.b)
            if isinstance(b, int):
                self.add(e.a, stride * b)
            elif isinstance(a, int):
                self.add(e.b, stride * a)
            else:
                self._add_whole(value, stride)
        elif isinstance(e, Cast) and e.type.kind == "int" and e.type.width >= 32:
            self.add(e.value, stride)
        elif isinstance(e, Variable) and e.name in self.lets:
            self.add(self.lets[e.name], stride)
        else:
            self._add_whole(value, stride)

    def _add_whole(self, value: object, stride: int) -> None:
        if not isinstance(value, list) or None in value:
            self.of_data.add(stride)
        else:
            self.of_threads.add(stride)
