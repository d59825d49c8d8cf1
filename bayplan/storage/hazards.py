"""Whether two steps of a kernel touch the same bytes from different threads of a block.

Two accesses of which one writes are a hazard, unless it is shown that no byte is touched by two
threads: the byte ranges are apart, or both indices tell the threads apart in the same way. The
difference of the two addresses is a sum over the distances between the two threads in each
dimension. Where each factor is larger than all that the terms below it come to, as the digits of
a number are, the sum is large enough unless the threads are the same.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from bayplan.analysis.eliminate import is_non_negative
from bayplan.analysis.facts import Facts
from bayplan.analysis.ranges import range_of
from bayplan.ir.exprs import Const, Div, Expr, Mod, Variable
from bayplan.storage.kernel_steps import Access, KernelSteps, Step
from bayplan.storage.memory_places import are_apart_by_plan
from bayplan.storage.polynomials import (
    Monomial,
    Polynomial,
    constant,
    linear,
    number,
    product,
    times,
    total,
)

NEVER: Final = 1 << 20
"""No loop is in another iteration."""

Ends = tuple[Polynomial | None, Polynomial | None]
"""The least and the greatest value; None: not known."""


class Hazards:
    """Answers for the steps of one kernel, once for each question."""

    def __init__(self, kernel: KernelSteps) -> None:
        self.kernel = kernel
        self._known: dict[tuple[int, int, int], int] = {}

    def between(self, first: Step, second: Step, carried: int = NEVER) -> int:
        """The kinds of memory in which the second step must wait for the first.

        Args:
            carried: of the loops around both, the outermost that has gone on to a later
                iteration in between; NEVER: none has.
        """
        common = 0
        for a, b in zip(first.loops, second.loops, strict=False):
            if a != b:
                break
            common += 1
        if carried >= common:
            carried = NEVER
        key = first.number, second.number, carried
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._find(first, second, carried)
        return found

    def _find(self, first: Step, second: Step, carried: int) -> int:
        kinds = 0
        for a in first.accesses:
            for b in second.accesses:
                if not (a.writes or b.writes) or a.place.memory != b.place.memory:
                    continue
                if kinds & a.place.kind or (a.atomic and a.atomic == b.atomic):
                    continue
                loop = None
                if carried != NEVER:
                    loop = self.kernel.loops[first.loops[carried]]
                if not Pair(self.kernel, a, b, carried, loop).is_safe():
                    kinds |= a.place.kind
        return kinds


class Pair:
    """Two accesses of the same memory, the first of which comes first.

    Args:
        carried: how many of the loops around both are in the same iteration; NEVER: all.
        loop: the variable of the loop that is in a later iteration at the second.
    """

    def __init__(
        self, kernel: KernelSteps, a: Access, b: Access, carried: int, loop: Variable | None
    ) -> None:
        self.kernel = kernel
        self.a = a
        self.b = b
        self.same = carried
        self.loop = loop
        # Whether ends are taken from names where there are numbers too.
        self.by_names = False

    def is_safe(self) -> bool:
        """Whether no two threads touch the same byte."""
        a, b = self.a, self.b
        if a.place is not b.place and self._places_are_apart():
            return True
        if a.begin is None or b.begin is None:
            return self._is_one_thread()
        rest, moving_a = self._sorted(a)
        other, moving_b = self._sorted(b)
        rest = total(rest, other, -1)
        for self.by_names in (False, True):
            if _Difference(self, rest, moving_a, moving_b).is_safe():
                return True
        return False

    def _is_one_thread(self) -> bool:
        for name in self.kernel.dims:
            low_a, high_a = self.range_of_dim(name, self.a)
            low_b, high_b = self.range_of_dim(name, self.b)
            if low_a is None or not low_a == high_a == low_b == high_b:
                return False
        return True

    def _places_are_apart(self) -> bool:
        a, b = self.a.place, self.b.place
        if are_apart_by_plan(a, b):
            return True
        for low, high in ((a, b), (b, a)):
            if low.offset is None or low.size is None or high.offset is None:
                continue
            gap = total(total(high.offset, low.offset, -1), low.size, -1)
            if self.is_positive(gap):
                return True
        return False

    def is_positive(self, form: Polynomial, least: int = 0) -> bool:
        """Whether the polynomial is shown to be at least `least`."""
        known = number(form)
        if known is not None:
            return known >= least
        if self._has_varying(form):
            return False
        rest = linear(total(form, constant(least), -1))
        return is_non_negative(rest, self.a.facts) or is_non_negative(rest, self.b.facts)

    def _has_varying(self, form: Polynomial) -> bool:
        return any(self.varies(atom) for monomial in form for atom in monomial)

    def varies(self, e: Expr) -> bool:
        """Whether the value at the first access may be another one than at the second."""
        return self.kernel.names.depth_of(e) > self.same

    def _sorted(self, access: Access) -> tuple[Polynomial, dict[Expr, Polynomial]]:
        """What is the same at both accesses, and factors of what may not be."""
        assert access.begin is not None
        rest: Polynomial = {}
        moving: dict[Expr, Polynomial] = {}
        for monomial, c in access.begin.items():
            varying = [atom for atom in monomial if self.varies(atom)]
            if not varying:
                rest = total(rest, {monomial: c})
                continue
            atom = _multiplied(varying)
            others: Monomial = tuple([x for x in monomial if x not in varying])
            moving[atom] = total(moving.get(atom, {}), {others: c})
        return rest, moving

    def range_of_dim(self, name: str, access: Access) -> tuple[int | None, int | None]:
        """The numbers of the threads that come to an access, in one dimension."""
        if name in access.facts.bounds:
            return access.facts.range_of_variable(name)
        ends = [range_of(extent, Facts.none())[1] for extent in self.kernel.dims[name]]
        most = None if None in ends else max([e for e in ends if e is not None]) - 1
        return 0, most

    def ends_of(self, atom: Expr, access: Access) -> Ends:
        """The least and the greatest value of a part of an index, at one access."""
        if isinstance(atom, Variable) and atom.name in self.kernel.dims:
            low, high = self.range_of_dim(atom.name, access)
        else:
            low, high = range_of(atom, access.facts)
        most: Polynomial | None = None if high is None else constant(high)
        if (most is None or self.by_names) and isinstance(atom, Variable):
            for upper in access.uppers.get(atom.name, []):
                if number(upper) is None and not self._has_varying(upper):
                    most = upper
        return None if low is None else constant(low), most


class _Term:
    """A factor times what may be `ends` apart; of a digit 0 says that two threads are one."""

    __slots__ = ("ends", "factor", "is_digit")

    def __init__(self, factor: Polynomial, ends: Ends, is_digit: bool) -> None:
        self.factor = factor
        self.ends = ends
        self.is_digit = is_digit


class _Difference:
    """The address of the first access minus that of the second: `rest` plus the terms.

    Attributes:
        lost: whether threads may differ in a way that no digit shows.
    """

    def __init__(
        self,
        pair: Pair,
        rest: Polynomial,
        moving_a: dict[Expr, Polynomial],
        moving_b: dict[Expr, Polynomial],
    ) -> None:
        self.pair = pair
        self.rest = rest
        self.terms: list[_Term] = []
        self.lost = False
        dims = pair.kernel.dims
        shared = [atom for atom, c in moving_a.items() if moving_b.get(atom) == c]
        digits: list[Expr] = []
        for name in dims:
            found = _digits_of(Variable(dims[name][0].type, name), shared)
            if found is not None:
                digits += found
            elif not self._is_pinned(name):
                self.lost = True
        for atom in digits:
            self._add_digit(atom, moving_a[atom])
        for moving, access, sign in ((moving_a, pair.a, 1), (moving_b, pair.b, -1)):
            for atom, factor in moving.items():
                if atom in digits or (atom is pair.loop and atom in shared):
                    continue
                ends = pair.ends_of(atom, access)
                self.terms.append(_Term(times(factor, sign), ends, False))
        if pair.loop is not None and pair.loop in shared:
            # The first access is in an earlier iteration.
            _low, most = pair.ends_of(pair.loop, pair.a)
            low = None if most is None else times(most, -1)
            self.terms.append(_Term(moving_a[pair.loop], (low, constant(-1)), False))

    def _is_pinned(self, name: str) -> bool:
        """Whether only one and the same thread, in that dimension, comes to both."""
        low_a, high_a = self.pair.range_of_dim(name, self.pair.a)
        low_b, high_b = self.pair.range_of_dim(name, self.pair.b)
        return low_a is not None and low_a == high_a == low_b == high_b

    def _add_digit(self, atom: Expr, factor: Polynomial) -> None:
        low_a, high_a = self.pair.ends_of(atom, self.pair.a)
        low_b, high_b = self.pair.ends_of(atom, self.pair.b)
        low = None if low_a is None or high_b is None else total(low_a, high_b, -1)
        high = None if high_a is None or low_b is None else total(high_a, low_b, -1)
        if not low == high == {}:
            self.terms.append(_Term(factor, (low, high), True))

    def is_safe(self) -> bool:
        """Whether the two never meet in a byte, unless they are the same thread."""
        return self._is_far() or self._falls_between() or self._tells_apart()

    def _scaled(self, term: _Term) -> Ends:
        low, high = term.ends
        low = None if low is None else product(term.factor, low)
        high = None if high is None else product(term.factor, high)
        if self.pair.is_positive(term.factor):
            return low, high
        if self.pair.is_positive(times(term.factor, -1)):
            return high, low
        return None, None

    def _is_far(self) -> bool:
        low: Polynomial | None = self.rest
        high: Polynomial | None = self.rest
        for term in self.terms:
            low, high = _plus((low, high), self._scaled(term))
        if low is not None and self.pair.is_positive(low, self.pair.b.bytes):
            return True
        return high is not None and self.pair.is_positive(times(high, -1), self.pair.a.bytes)

    def _falls_between(self) -> bool:
        """Whether the difference, modulo a number, never comes near 0."""
        step = gcd(*[c for m, c in self.rest.items() if m])
        for term in self.terms:
            step = gcd(step, *term.factor.values())
        if step <= 1:
            return False
        place = self.rest.get((), 0) % step
        return place >= self.pair.b.bytes and step - place >= self.pair.a.bytes

    def _tells_apart(self) -> bool:
        """Whether a difference near 0 means that all digits are 0.

        From the smallest factor up; `reach` is what all terms below, but those that were split
        off, may leave at most. Where all terms from here on are multiples of more than that, both
        parts must be near 0 by themselves, so the lower one is split off. A digit whose factor is
        larger than the reach must be 0. What is no digit must not stand above one.
        """
        if self.lost:
            return False
        pair = self.pair
        # Between these two the sum of the terms from here on would have to be.
        low: Polynomial | None = total(constant(1 - pair.a.bytes), self.rest, -1)
        high: Polynomial | None = total(constant(pair.b.bytes - 1), self.rest, -1)
        has_digit = False
        terms = sorted(self.terms, key=_size)
        for i, term in enumerate(terms):
            reach = self._larger(low, high)
            if reach is not None and self._is_splitting(terms[i:], reach):
                low = high = reach = {}
                has_digit = False
            if term.is_digit:
                has_digit = True
                size = self._absolute(term.factor)
                if reach is None or not pair.is_positive(total(size, reach, -1), 1):
                    return False
            elif has_digit:
                return False
            least, most = self._scaled(term)
            low = None if low is None or most is None else total(low, most, -1)
            high = None if high is None or least is None else total(high, least, -1)
        return True

    def _is_splitting(self, terms: list[_Term], reach: Polynomial) -> bool:
        """Whether all the terms are multiples of a number larger than the reach."""
        known = number(reach)
        step = gcd(*[c for term in terms for c in term.factor.values()])
        if known is not None and step > known:
            return True
        first = self._absolute(terms[0].factor)
        if len(first) != 1:
            return False
        if any(not _divides(first, term.factor) for term in terms):
            return False
        return self.pair.is_positive(total(first, reach, -1), 1)

    def _absolute(self, factor: Polynomial) -> Polynomial:
        return factor if self.pair.is_positive(factor) else times(factor, -1)

    def _larger(self, low: Polynomial | None, high: Polynomial | None) -> Polynomial | None:
        """The larger of -low and high, if that can be told."""
        if low is None or high is None:
            return None
        middle = total(low, high)
        if self.pair.is_positive(middle):
            return high
        return times(low, -1) if self.pair.is_positive(times(middle, -1)) else None


def _plus(a: Ends, b: Ends) -> Ends:
    low = None if a[0] is None or b[0] is None else total(a[0], b[0])
    high = None if a[1] is None or b[1] is None else total(a[1], b[1])
    return low, high


def _size(term: _Term) -> tuple[int, int, bool]:
    """For the order of terms: numbers first, then products, the longest last."""
    factor = term.factor
    known = number(factor)
    if known is not None:
        return 0, abs(known), term.is_digit
    degree = max([len(m) for m in factor])
    return degree, max([abs(c) for c in factor.values()]), term.is_digit


def _divides(factor: Polynomial, of: Polynomial) -> bool:
    """Whether a product divides each of a sum."""
    ((atoms, count),) = factor.items()
    for monomial, c in of.items():
        rest = list(monomial)
        for atom in atoms:
            if atom not in rest:
                return False
            rest.remove(atom)
        if c % count:
            return False
    return True


def _multiplied(atoms: list[Expr]) -> Expr:
    result = atoms[0]
    if len(atoms) > 1:
        from functools import reduce

        from bayplan.ir.build import cast, mul
        from bayplan.ir.types import INT64

        result = reduce(mul, [cast(INT64, e) for e in atoms])
    return result


def _digits_of(thread: Expr, atoms: list[Expr]) -> list[Expr] | None:
    """Those of the atoms from which the number of a thread follows; None: it does not."""
    if thread in atoms:
        return [thread]
    for atom in atoms:
        if isinstance(atom, Mod) and atom.a is thread and isinstance(atom.b, Const):
            quotient = _divided(thread, int(atom.b.value))
            found = _digits_of(quotient, [x for x in atoms if x is not atom])
            if found is not None:
                return [atom, *found]
    return None


def _divided(e: Expr, by: int) -> Expr:
    if isinstance(e, Div) and isinstance(e.b, Const):
        return Div(e.a, Const(e.type, int(e.b.value) * by))
    return Div(e, Const(e.type, by))
