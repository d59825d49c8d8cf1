"""Sum factorisation as the language and the schedule see it: one contraction, along one axis.

Each contraction is two Funcs. One keeps a small tile of sums in registers while the reduction runs;
the other is the temporary to which finished tiles go, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Product = Sequence[Any]


class Contraction:
    """Sums of products over one axis, and the temporary that takes them.

    Attributes:
        func: what later stages read; a Tuple where there are several sums.
        sums: the accumulators.
        over: the RVar that is summed over.
    """

    __slots__ = ("_hl", "func", "over", "sums")

    def __init__(
        self,
        hl: Any,
        name: str,
        at: Sequence[Any],
        over: Any,
        *sums: Sequence[Product],
        scale: Any = None,
    ) -> None:
        """Defines both Funcs.

        Args:
            hl: The module to build with.
            name: Of the temporary.
            at: Coordinates, the vectorised one first.
            over: The RVar of the reduction.
            *sums: For each member its summands, each a sequence of factors.
            scale: What the one sum is multiplied by in the end.
        """
        self._hl = hl
        self.over = over
        self.func, self.sums = hl.Func(name), hl.Func(f"{name}_sums")
        at = tuple(at)
        if len(sums) == 1:
            self.sums[at] = hl.f64(0.0)
            self.sums[at] = _added(self.sums[at], sums[0])
            self.func[at] = self.sums[at] if scale is None else scale * self.sums[at]
            return
        self.sums[at] = tuple([hl.f64(0.0) for _ in sums])
        self.sums[at] = tuple([_added(self.sums[at][m], one) for m, one in enumerate(sums)])
        self.func[at] = tuple([self.sums[at][m] for m in range(len(sums))])

    def parts(self, *at: Any) -> tuple[Any, ...]:
        """The members at one point, in the order of their definition."""
        if self.func.outputs() == 1:
            return (self.func[at],)
        return tuple([self.func[at][m] for m in range(self.func.outputs())])

    def schedule(self, tile: Sequence[Any], size: Sequence[int], when: Any = None) -> None:
        """Makes tiles of `size`: lanes of one vector along the first Var, rows along the second.

        Both extents must be at least as large as the tile, as its last instance is shifted
        inwards.

        Args:
            tile: The Var of the vectors and that of the rows, whose factor each row reads.
            size: Lanes and rows.
            when: The schedule holds where this does; else the loops stay scalar.
        """
        hl, (x, y), (lanes, rows) = self._hl, tile, size
        xi, yi = hl.Var("xi"), hl.Var("yi")
        inwards = hl.TailStrategy.ShiftInwards
        stage = self.func if when is None else self.func.specialize(when)
        stage.split(x, x, xi, lanes, inwards).split(y, y, yi, rows, inwards)
        others = [v for v in self.func.args() if v.name() not in (x.name(), y.name())]
        stage.reorder(xi, yi, x, y, *others[:-1])
        stage.vectorize(xi).unroll(yi)

        sums, update = self.sums, self.sums.update()
        sums.compute_at(self.func, x)
        if when is not None:
            sums, update = sums.specialize(when), update.specialize(when)
        sums.vectorize(x, lanes).unroll(y, rows)
        update.reorder(x, y, self.over).vectorize(x, lanes).unroll(y, rows)


def schedule_sweep(
    hl: Any, there: Sequence[Contraction], middle: Contraction, back: Sequence[Contraction],
    degree: int | None, n: Any,
) -> Any:
    """Schedules the contractions of a sum factorisation, all but the last at the last's outer loop.

    Args:
        hl: The module to build with.
        there: Along x and y, from nodes to points.
        middle: Along z, at the points.
        back: Along z, y and x, from points to nodes.
        degree: Of the element, which has degree + 1 nodes and degree + 2 points along an axis; None
            where the call decides.
        n: The nodes along an axis.

    Returns:
        The condition under which loops are vectors; None where they always are.
    """
    nodes = None if degree is None else degree + 1
    points = None if degree is None else degree + 2
    when = n >= lanes_of(hl, None) if degree is None else None
    over_points, over_nodes = lanes_of(hl, points), lanes_of(hl, nodes)
    (along_x, along_xy), (back_z, back_yz, last) = there, back
    x, y, z, *_, outer = last.func.args()
    last.func.parallel(outer)
    for stage in (along_x, along_xy, middle, back_z, back_yz):
        stage.func.compute_at(last.func, outer)
    along_x.schedule((x, y), (over_points, rows_of(nodes)), when)
    along_xy.schedule((x, y), (over_points, rows_of(points)), when)
    middle.schedule((x, z), (over_points, rows_of(points)), when)
    back_z.schedule((x, z), (over_points, rows_of(nodes)), when)
    back_yz.schedule((x, y), (over_points, rows_of(nodes)), when)
    last.schedule((x, y), (over_nodes, rows_of(nodes)), when)
    return when


def _added(total: Any, products: Sequence[Product]) -> Any:
    """Adds the products one by one, so that each is one fused multiply-add."""
    for first, *rest in products:
        for factor in rest:
            first = first * factor
        total = total + first
    return total


def lanes_of(hl: Any, extent: int | None) -> int:
    """The widest vector of doubles that the machine has and `extent` fills."""
    widest: int = hl.get_host_target().natural_vector_size(hl.Float(64))
    while extent is not None and widest > extent:
        widest //= 2
    return widest


def rows_of(extent: int | None, most: int = 5) -> int:
    """Rows of a tile: few enough for the registers, and a divisor of `extent` if one is."""
    if extent is None:
        return 4
    for rows in range(min(most, extent), 2, -1):
        if extent % rows == 0:
            return rows
    return min(extent, 4)
