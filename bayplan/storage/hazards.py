"""Whether two steps of a kernel touch the same bytes from different threads of a block.

Two accesses of which one writes are a hazard, unless it is shown that no byte is touched by two
threads: the byte ranges are apart, or both indices tell the threads apart in the same way. The
difference of the two addresses is a sum over the distances between the two threads in each
dimension. Where each factor is larger than all that the terms below it come to, as the digits of
a number are, the sum is large enough unless the threads are the same.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from bayplan.analysis.eliminate import is_non_negative
from bayplan.analysis.facts import Facts
from bayplan.analysis.ranges import range_of
from bayplan.ir.exprs import Const, Div, Expr, Mod, Variable
from bayplan.storage.kernel_steps import Access, KernelSteps, Step
from bayplan.storage.memory_places import MemoryPlace, are_apart_by_plan
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

_MOST_PROOFS: Final = 600

NEVER: Final = 1 << 20
"""No loop is in another iteration."""

Ends = tuple[Polynomial | None, Polynomial | None]
"""The least and the greatest value; None: not known."""


class Hazards:
    """Answers for the steps of one kernel, once for each question."""

    def __init__(self, kernel: KernelSteps) -> None:
        self.kernel = kernel
        self.proofs = _Proofs()
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
                if not Pair(self.kernel, self.proofs, a, b, carried, loop).is_safe():
                    kinds |= a.place.kind
        return kinds


class _Proofs:
    """Proofs about names, remembered; after many, what is not known yet is not shown."""

    def __init__(self) -> None:
        self._known: dict[Any, bool] = {}

    def is_positive(self, form: Polynomial, a: Access, b: Access) -> bool:
        """Whether what is known at either access shows that the form is at least 0."""
        key = (frozenset(form.items()), a.facts, b.facts)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_PROOFS:
                return False
            rest = linear(form)
            found = is_non_negative(rest, a.facts) or (
                b.facts is not a.facts and is_non_negative(rest, b.facts)
            )
            self._known[key] = found
        return found


class Pair:
    """Two accesses of the same memory, the first of which comes first.

    Args:
        carried: how many of the loops around both are in the same iteration; NEVER: all.
        loop: the variable of the loop that is in a later iteration at the second.
    """

    def __init__(
        self,
        kernel: KernelSteps,
        proofs: _Proofs,
        a: Access,
        b: Access,
        carried: int,
        loop: Variable | None,
    ) -> None:
        self.kernel = kernel
        self.proofs = proofs
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
        ways_a, ways_b = self._by_stride(a), self._by_stride(b)
        strides = sorted({*ways_a, *ways_b})
        for self.by_names in (False, True):
            parts = [
                _Difference(self, ways_a.get(stride, {}), ways_b.get(stride, {}), stride)
                for stride in strides
            ]
            if any(part.is_never_near() for part in parts) or self._is_told_apart(parts):
                return True
        return False

    def _by_stride(self, access: Access) -> dict[str, Polynomial]:
        """By name of a stride of a buffer the factor of it; "" for what has none."""
        assert access.begin is not None
        stem = f"{access.place.memory}.stride."
        result: dict[str, Polynomial] = {"": {}}
        for monomial, c in access.begin.items():
            names = [e for e in monomial if isinstance(e, Variable) and e.name.startswith(stem)]
            if len(names) > 1:
                # No place of an element; as if there were no strides.
                return {"": access.begin}
            stride = names[0].name if names else ""
            rest = tuple([e for e in monomial if e not in names])
            result[stride] = total(result.get(stride, {}), {rest: c})
        return result

    def _is_told_apart(self, parts: list[_Difference]) -> bool:
        """Whether the two are the same thread where all parts of the address are the same."""
        shown: set[Expr] = set()
        left = list(parts)
        while True:
            done = [part for part in left if part.shows_digits(shown)]
            if not done:
                break
            for part in done:
                shown.update(part.digits)
                left.remove(part)
        for name, extents in self.kernel.dims.items():
            thread = Variable(extents[0].type, name)
            if not self._is_pinned(name) and not _is_known(thread, shown):
                return False
        return True

    def _is_one_thread(self) -> bool:
        return all(self._is_pinned(name) for name in self.kernel.dims)

    def _is_pinned(self, name: str) -> bool:
        """Whether only one and the same thread, in that dimension, comes to both."""
        low_a, high_a = self.range_of_dim(name, self.a)
        low_b, high_b = self.range_of_dim(name, self.b)
        return low_a is not None and low_a == high_a == low_b == high_b

    def _places_are_apart(self) -> bool:
        """Whether the two temporaries, or arenas that they are in, share no byte."""
        return any(
            are_apart_by_plan(x, y) or self._lies_below(x, y) or self._lies_below(y, x)
            for x in self.a.place.around()
            for y in self.b.place.around()
            if x is not y
        )

    def _lies_below(self, low: MemoryPlace, high: MemoryPlace) -> bool:
        if low.offset is None or low.size is None or high.offset is None:
            return False
        gap = total(total(high.offset, low.offset, -1), low.size, -1)
        return self.is_positive(gap)

    def is_positive(self, form: Polynomial, least: int = 0) -> bool:
        """Whether the polynomial is shown to be at least `least`."""
        known = number(form)
        if known is not None:
            return known >= least
        if self._has_varying(form):
            return False
        return self.proofs.is_positive(total(form, constant(least), -1), self.a, self.b)

    def _has_varying(self, form: Polynomial) -> bool:
        return any(self.varies(atom) for monomial in form for atom in monomial)

    def varies(self, e: Expr) -> bool:
        """Whether the value at the first access may be another one than at the second."""
        return self.kernel.names.depth_of(e) > self.same

    def sorted(self, form: Polynomial) -> tuple[Polynomial, dict[Expr, Polynomial]]:
        """What is the same at both accesses, and factors of what may not be."""
        rest: Polynomial = {}
        moving: dict[Expr, Polynomial] = {}
        for monomial, c in form.items():
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
    """A factor times what may be `ends` apart.

    Attributes:
        digit: what of the numbers of the two threads is so far apart; None: nothing of theirs.
    """

    __slots__ = ("digit", "ends", "factor")

    def __init__(self, factor: Polynomial, ends: Ends, digit: Expr | None) -> None:
        self.factor = factor
        self.ends = ends
        self.digit = digit


class _Difference:
    """The address of the first access minus that of the second: `rest` plus the terms.

    Or the difference of what stands at one stride of a buffer. The elements of a buffer that is
    written do not overlap, so two of them are the same only if all these differences are 0.

    Attributes:
        digits: the values that are 0 apart where the difference is near 0, if that is shown.
    """

    def __init__(self, pair: Pair, a: Polynomial, b: Polynomial, stride: str) -> None:
        self.pair = pair
        # Differences below these are near.
        self.above = 1 if stride else pair.b.bytes
        self.below = 1 if stride else pair.a.bytes
        rest, self.moving_a = pair.sorted(a)
        other, self.moving_b = pair.sorted(b)
        self.rest = total(rest, other, -1)
        shared = [atom for atom, c in self.moving_a.items() if self.moving_b.get(atom) == c]
        self.digits = [atom for atom in shared if self._tells_threads(atom)]
        self.terms: list[_Term] = []
        for atom in self.digits:
            self._add_digit(atom, self.moving_a[atom])
        loop = pair.loop if pair.loop in shared else None
        for moving, access, sign in ((self.moving_a, pair.a, 1), (self.moving_b, pair.b, -1)):
            for atom, factor in moving.items():
                if atom not in self.digits and atom is not loop:
                    ends = pair.ends_of(atom, access)
                    self.terms.append(_Term(times(factor, sign), ends, None))
        if loop is not None:
            # The first access is in an earlier iteration.
            _low, most = pair.ends_of(loop, pair.a)
            low = None if most is None else times(most, -1)
            self.terms.append(_Term(self.moving_a[loop], (low, constant(-1)), None))

    def _tells_threads(self, atom: Expr) -> bool:
        """Whether it is the number of a thread, or a quotient or remainder of it."""
        while isinstance(atom, Div | Mod) and isinstance(atom.b, Const):
            atom = atom.a
        return isinstance(atom, Variable) and atom.name in self.pair.kernel.dims

    def _add_digit(self, atom: Expr, factor: Polynomial) -> None:
        low_a, high_a = self.pair.ends_of(atom, self.pair.a)
        low_b, high_b = self.pair.ends_of(atom, self.pair.b)
        low = None if low_a is None or high_b is None else total(low_a, high_b, -1)
        high = None if high_a is None or low_b is None else total(high_a, low_b, -1)
        if not low == high == {}:
            self.terms.append(_Term(factor, (low, high), atom))

    def is_never_near(self) -> bool:
        """Whether the difference is never near 0, not even for the same thread."""
        return self._is_far() or self._falls_between()

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
        if low is not None and self.pair.is_positive(low, self.above):
            return True
        return high is not None and self.pair.is_positive(times(high, -1), self.below)

    def _falls_between(self) -> bool:
        """Whether the difference, modulo a number, never comes near 0."""
        step = gcd(*[c for m, c in self.rest.items() if m])
        for term in self.terms:
            step = gcd(step, *term.factor.values())
        if step <= 1:
            return False
        place = self.rest.get((), 0) % step
        return place >= self.above and step - place >= self.below

    def shows_digits(self, shown: set[Expr]) -> bool:
        """Whether a difference near 0 means that all digits are 0; those of `shown` are.

        From the smallest factor up; `low` and `high` are what all terms below, but those
        that were split off, may leave. Where all terms from here on are multiples of more, both
        parts must be near 0 by themselves, so the lower one is split off. A digit whose factor is
        larger must be 0. What is no digit must not stand above one.
        """
        # Between these two the sum of the terms from here on would have to be.
        low: Polynomial | None = total(constant(1 - self.below), self.rest, -1)
        high: Polynomial | None = total(constant(self.above - 1), self.rest, -1)
        has_digit = False
        terms = sorted([t for t in self.terms if t.digit not in shown], key=_size)
        for i, term in enumerate(terms):
            if self._is_splitting(terms[i:], low, high):
                low = high = {}
                has_digit = False
            if term.digit is not None:
                has_digit = True
                if not self._exceeds(self._absolute(term.factor), low, high):
                    return False
            elif has_digit:
                return False
            least, most = self._scaled(term)
            low = None if low is None or most is None else total(low, most, -1)
            high = None if high is None or least is None else total(high, least, -1)
        return True

    def _is_splitting(
        self, terms: list[_Term], low: Polynomial | None, high: Polynomial | None
    ) -> bool:
        """Whether all the terms are multiples of what is larger than the sum can be."""
        if low is None or high is None:
            return False
        least, most = number(low), number(high)
        if least is not None and most is not None:
            step = gcd(*[c for term in terms for c in term.factor.values()])
            if step > max(-least, most):
                return True
        first = self._absolute(terms[0].factor)
        if len(first) != 1 or any(not _divides(first, term.factor) for term in terms):
            return False
        return self._exceeds(first, low, high)

    def _exceeds(self, size: Polynomial, low: Polynomial | None, high: Polynomial | None) -> bool:
        """Whether -size < low and high < size."""
        if low is None or high is None:
            return False
        pair = self.pair
        return pair.is_positive(total(size, high, -1), 1) and pair.is_positive(total(size, low), 1)

    def _absolute(self, factor: Polynomial) -> Polynomial:
        return factor if self.pair.is_positive(factor) else times(factor, -1)


def _plus(a: Ends, b: Ends) -> Ends:
    low = None if a[0] is None or b[0] is None else total(a[0], b[0])
    high = None if a[1] is None or b[1] is None else total(a[1], b[1])
    return low, high


def _size(term: _Term) -> tuple[int, int, bool]:
    """For the order of terms: numbers first, then products, the longest last."""
    factor = term.factor
    known = number(factor)
    if known is not None:
        return 0, abs(known), term.digit is not None
    degree = max([len(m) for m in factor])
    return degree, max([abs(c) for c in factor.values()]), term.digit is not None


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


def _is_known(thread: Expr, digits: set[Expr]) -> bool:
    """Whether the number of a thread follows from quotients and remainders of it."""
    if thread in digits:
        return True
    for digit in digits:
        if isinstance(digit, Mod) and digit.a is thread and isinstance(digit.b, Const):
            if _is_known(_divided(thread, int(digit.b.value)), digits):
                return True
    return False


def _divided(e: Expr, by: int) -> Expr:
    if isinstance(e, Div) and isinstance(e.b, Const):
        return Div(e.a, Const(e.type, int(e.b.value) * by))
    return Div(e, Const(e.type, by))
