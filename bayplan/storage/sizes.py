"""The size of a temporary where its arena is taken: out of all loops and lets that are inside."""

from __future__ import annotations

from typing import Final

from bayplan.analysis.bounds import bounds_of_expr_in_scope
from bayplan.analysis.interval import Interval
from bayplan.analysis.monotonic import Monotonic, is_monotonic
from bayplan.analysis.purity import is_pure, reads_memory
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import (
    cast,
    const,
    constant_value,
    gt,
    int32,
    is_const,
    le,
    logical_and,
    minimum,
    mul,
    select,
    true,
)
from bayplan.ir.exprs import Call, CallKind, Expr, StringImm
from bayplan.ir.stmts import For, LetStmt
from bayplan.ir.types import INT64
from bayplan.ir.walk import free_variables, iterate, substitute
from bayplan.storage.lives import Life
from bayplan.storage.places import Place, outward

# A size is tried for each iteration of a loop, which takes far longer to run. Where there are more
# iterations than that, the loop is one over elements and the bound has to do.
_MOST_ITERATIONS: Final = 1 << 16
_MOST_FOR_NUMBERS: Final = 1 << 12


class SizesOutside:
    """Finds what the sizes of allocations are for somebody who stands outside.

    Args:
        outside: the lets that the arena is inside of; their names may be used.
    """

    def __init__(self, outside: set[int]) -> None:
        self._outside = outside
        self._known: dict[tuple[Expr, Place, bool], tuple[Expr | None, bool]] = {}

    def exact_extents_of(self, life: Life) -> tuple[Expr, ...] | None:
        """As extents_of, where every loop in which intervals give only a bound is searched."""
        found = [self._search_all(extent, life.place) for extent in life.node.extents]
        extents = [e for e in found if e is not None]
        return tuple(extents) if len(extents) == len(found) else None

    def extents_of(self, life: Life) -> tuple[Expr, ...] | None:
        """Extents that are enough for every time the allocation is made; None: not known."""
        extents: list[Expr] = []
        loops: list[Place | None] = []
        for extent in life.node.extents:
            found, loop = self._follow(extent, life.place, None)
            if found is None:
                return None
            extents.append(found)
            loops.append(loop)
        if any(constant_value(e) is None for e in extents):
            # The place is found at the call anyway, so numbers that may be too large need not be
            # preferred to a search.
            for i, loop in enumerate(loops):
                if loop is not None:
                    exact, _ = self._follow(life.node.extents[i], life.place, loop)
                    extents[i] = extents[i] if exact is None else exact
        return tuple(extents)

    def condition_of(self, life: Life) -> Expr:
        """False only where the allocation is never made; what is not known counts as true.

        That is its own condition, the branches around it, and that loops around it run at all.
        """
        own = self._known_outside(life.node.condition, life.place)
        reached = self.condition_at(life.place)
        return reached if own is None else simplify(logical_and(own, reached))

    def condition_at(self, place: Place | None) -> Expr:
        """False only where what is in the place never runs."""
        result: Expr = true()
        for around in self._inside(place):
            found: Expr | None = None
            if around.condition is not None:
                found = self._known_outside(around.condition, around.outer)
            elif type(around.node) is For and _may_not_run(around.node):
                found = self._known_outside(gt(around.node.extent, int32(0)), around.outer)
            if found is not None:
                result = logical_and(result, found)
        return simplify(result)

    def bound(self, e: Expr, place: Place | None) -> Expr | None:
        """The largest value that the expression has at the place, or a bound of it."""
        return self._follow(e, place, None)[0]

    def largest(self, e: Expr, place: Place | None) -> Expr | None:
        """The largest value that the expression has at the place; None where only bounds are known.

        That is if every loop around runs at all.
        """
        found, loop = self._follow(e, place, None)
        return found if loop is None else None

    def _follow(
        self, e: Expr, place: Place | None, searched: Place | None
    ) -> tuple[Expr | None, Place | None]:
        """Follows the expression outward.

        Args:
            searched: the loop in which the largest value is searched for at the call.

        Returns:
            Its largest value or a bound; and the last loop in which intervals gave only a bound.
        """
        last: Place | None = None
        for around in self._inside(place):
            name = around.node.name if around.node is not None else ""
            if name not in free_variables(e):
                continue
            key = (e, around, around is searched)
            if key not in self._known:
                self._known[key] = _without(e, around, around is searched)
            found, is_bound = self._known[key]
            if found is None:
                return None, None
            last = around if is_bound else last
            e = found
        return (None, None) if reads_memory(e) or not is_pure(e) else (e, last)

    def _search_all(self, e: Expr, place: Place | None) -> Expr | None:
        """The largest value over all loops around, searched for at the call where need be."""
        bound: Expr | None = e
        searched: list[_Searched] = []
        for around in self._inside(place):
            node = around.node
            if node is None:
                continue
            if type(node) is LetStmt:
                if not is_pure(node.value):
                    if any(node.name in free_variables(x) for x in [e, *_ends(searched)]):
                        return None
                    continue
                value = {node.name: node.value}
                e = simplify(substitute(value, e))
                for loop in searched:
                    loop.low, loop.extent = (substitute(value, x) for x in (loop.low, loop.extent))
                bound = None if bound is None else simplify(substitute(value, bound))
                continue
            assert type(node) is For
            if bound is not None and node.name in free_variables(bound):
                bound = _without(bound, around, False)[0]
            in_ends = any(node.name in free_variables(x) for x in _ends(searched))
            if not in_ends and node.name not in free_variables(e):
                continue
            found, is_bound = _without(e, around, False)
            if in_ends or is_bound or found is None:
                most = self.bound(node.extent, around.outer)
                searched.append(_Searched(node.name, node.min, node.extent, most))
            else:
                e = found
        if reads_memory(e) or not is_pure(e):
            return None if bound is None or reads_memory(bound) else bound
        return _nest(e, bound, searched) if searched else e

    def _known_outside(self, e: Expr, place: Place | None) -> Expr | None:
        """The same value outside; None where it changes in a loop."""
        for around in self._inside(place):
            node = around.node
            if node is None or node.name not in free_variables(e):
                continue
            if type(node) is For:
                return None
            assert type(node) is LetStmt
            e = substitute({node.name: node.value}, e)
        return None if reads_memory(e) or not is_pure(e) else simplify(e)

    def _inside(self, place: Place | None) -> list[Place]:
        found = []
        for around in outward(place):
            if around.node is not None and id(around.node) in self._outside:
                break
            found.append(around)
        return found


class _Searched:
    """A loop that a largest value is searched for in; `most` is a bound of its extent."""

    __slots__ = ("extent", "low", "most", "name")

    def __init__(self, name: str, low: Expr, extent: Expr, most: Expr | None) -> None:
        self.name = name
        self.low = low
        self.extent = extent
        self.most = most


def _ends(loops: list[_Searched]) -> list[Expr]:
    return [e for loop in loops for e in (loop.low, loop.extent)]


def _nest(e: Expr, bound: Expr | None, loops: list[_Searched]) -> Expr:
    """The largest value over all of the loops, innermost first; the bound where they are long."""
    count: Expr = const(INT64, 1)
    for loop in loops:
        if loop.most is not None:
            count = mul(count, cast(INT64, loop.most))
    # A bound that is a number is a good one in most cases.
    is_number = bound is not None and constant_value(bound) is not None
    most = _MOST_FOR_NUMBERS if is_number else _MOST_ITERATIONS
    few = true() if bound is None else le(count, most)
    for loop in loops:
        extent = select(few, loop.extent, int32(0))
        args = (StringImm(loop.name), loop.low, extent, e)
        e = Call(e.type, "largest_over", args, CallKind.PURE_INTRINSIC)
    return e if bound is None else select(few, minimum(e, bound), bound)


def _may_not_run(loop: For) -> bool:
    """Whether a loop may have no iterations; without blocks there is no launch to ask for."""
    return constant_value(loop.extent) is None and not loop.kind.is_gpu


def _without(e: Expr, around: Place, search: bool) -> tuple[Expr | None, bool]:
    """The expression without the name that the let or loop binds, and whether it is a bound.

    For a loop that is its largest value where this is known, else what intervals say.
    """
    node = around.node
    if type(node) is LetStmt:
        pure = is_pure(node.value)
        return (simplify(substitute({node.name: node.value}, e)) if pure else None), False
    assert type(node) is For
    if any(type(n) is Call and n.name == "callee_lines" for n in iterate(e)):
        args = (StringImm(node.name), node.min, node.extent, e)
        return Call(e.type, "largest_over", args, CallKind.PURE_INTRINSIC), False
    first, last = node.min, simplify(node.min + node.extent - 1)
    direction = is_monotonic(e, node.name)
    if direction is Monotonic.Increasing:
        return simplify(substitute({node.name: last}, e)), False
    if direction is Monotonic.Decreasing:
        return simplify(substitute({node.name: first}, e)), False
    bound = bounds_of_expr_in_scope(e, {node.name: Interval(first, last)}).max
    return (_search(e, node, bound) if search and bound is not None else bound), True


def _search(e: Expr, loop: For, bound: Expr) -> Expr:
    """The largest value found by going through the iterations, where these are not many.

    Intervals know nothing of what two coordinates have in common, so their bound may be far off.
    """
    count = minimum(loop.extent, _MOST_ITERATIONS)
    args = (StringImm(loop.name), loop.min, count, e)
    exact = Call(e.type, "largest_over", args, CallKind.PURE_INTRINSIC)
    if constant_value(loop.extent) is not None:
        return exact if is_const(le(loop.extent, _MOST_ITERATIONS), 1) else bound
    return select(le(loop.extent, _MOST_ITERATIONS), minimum(exact, bound), bound)
