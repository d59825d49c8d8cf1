"""Boxes: the region of a Func or buffer that some code touches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bayplan.analysis.interval import Interval
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import conjunction, logical_and, logical_not, logical_or, select
from bayplan.ir.exprs import Expr


class Box:
    """An interval per dimension, and `used`: the condition under which it is touched at all.

    `used` None means: whenever the code runs.
    """

    __slots__ = ("bounds", "used")

    def __init__(self, bounds: list[Interval], used: Expr | None = None) -> None:
        self.bounds = bounds
        self.used = used

    def __len__(self) -> int:
        return len(self.bounds)

    def __getitem__(self, dim: int) -> Interval:
        return self.bounds[dim]

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.bounds)

    def is_bounded(self) -> bool:
        """Whether every end of every dimension is known."""
        return all(i.is_bounded() for i in self.bounds)

    def maybe_unused(self) -> bool:
        """Whether there is a condition under which nothing is touched."""
        return self.used is not None

    def is_empty(self) -> bool:
        """Whether some dimension is known to hold nothing."""
        return any(i.empty for i in self.bounds)

    def copy(self) -> Box:
        """A box with a list of its own."""
        return Box(list(self.bounds), self.used)

    def merge(self, other: Box) -> Box:
        """The least box around both, used where either is."""
        return merge(self, other)

    def contains(self, coordinates: list[Expr]) -> Expr:
        """The condition that the point lies in the box."""
        pairs = zip(self.bounds, coordinates, strict=True)
        return conjunction([i.contains(c) for i, c in pairs])

    def __repr__(self) -> str:
        used = "" if self.used is None else f", used={self.used}"
        return f"Box({self.bounds}{used})"


def merge(a: Box, b: Box) -> Box:
    """The least box around both, used where either is.

    Where one of the boxes is not used the other alone counts, so the ends may be selects by the
    conditions.
    """
    if a.is_empty():
        return b
    if b.is_empty():
        return a
    assert len(a.bounds) == len(b.bounds), (a, b)
    if a.used is None and b.used is None:
        return Box([x.union(y) for x, y in zip(a.bounds, b.bounds, strict=True)])
    union = Box([x.union(y) for x, y in zip(a.bounds, b.bounds, strict=True)])
    if a.used is None or b.used is None:
        sometimes, always = (a, b) if b.used is None else (b, a)
        assert sometimes.used is not None
        return Box(_choose_each(sometimes.used, union, always))
    if simplify(a.used) is simplify(logical_not(b.used)):
        return Box(_choose_each(a.used, a, b))
    either = Box(_choose_each(a.used, a, b))
    both = _choose_each(logical_and(a.used, b.used), union, either)
    return Box(both, logical_or(a.used, b.used))


def _choose_each(condition: Expr, a: Box, b: Box) -> list[Interval]:
    """The bounds of `a` where the condition holds, else those of `b`."""
    return [
        Interval(_choose(condition, x.min, y.min), _choose(condition, x.max, y.max))
        for x, y in zip(a.bounds, b.bounds, strict=True)
    ]


def _choose(condition: Expr, a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else select(condition, a, b)


def intersect(a: Box, b: Box) -> Box:
    """What lies in both, used where both are."""
    bounds = [x.intersection(y) for x, y in zip(a.bounds, b.bounds, strict=True)]
    if a.used is None or b.used is None:
        used = b.used if a.used is None else a.used
    else:
        used = logical_and(a.used, b.used)
    return Box(bounds, used)


def merge_into(boxes: dict[str, Box], name: str, box: Box) -> None:
    """Grow the box of `name` in the table by `box`."""
    known = boxes.get(name)
    boxes[name] = box if known is None else merge(known, box)


def merge_boxes(a: Mapping[str, Box], b: Mapping[str, Box]) -> dict[str, Box]:
    """Both tables; boxes of the same name are merged."""
    result = dict(a)
    for name, box in b.items():
        merge_into(result, name, box)
    return result
