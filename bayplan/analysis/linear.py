"""Linear forms of integer index arithmetic: the canonical shape that lets terms cancel.

A `Linear` is a sum of integer multiples of atoms (nodes that are not themselves sums) and a
constant. Forms are computed once per node and belong to the interning table of the compilation,
so they go when it goes.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir.build import add, const, mul, sub
from bayplan.ir.exprs import Add, Const, Expr, Mul, Sub
from bayplan.ir.node import Node
from bayplan.ir.types import Type


class Linear:
    """terms[atom] * atom summed, plus `constant`; coefficients are never 0. Never changed."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: dict[Expr, int], constant: int) -> None:
        self.terms = terms
        self.constant = constant

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        if factor == 0:
            return self
        constant = self.constant + factor * other.constant
        if not other.terms:
            return Linear(self.terms, constant)
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            merged = terms.get(atom, 0) + factor * c
            if merged:
                terms[atom] = merged
            else:
                del terms[atom]
        return Linear(terms, constant)

    def times(self, factor: int) -> Linear:
        """factor * self."""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Linear({a: c * factor for a, c in self.terms.items()}, self.constant * factor)

    def plus_constant(self, value: int) -> Linear:
        """self + value."""
        return Linear(self.terms, self.constant + value) if value else self

    def key(self) -> frozenset[tuple[Expr, int]]:
        """The terms without the constant, as something to look up by."""
        return frozenset(self.terms.items())


ZERO: Final = Linear({}, 0)


def cache(name: str) -> dict[Any, Any]:
    """A dictionary that lives as long as the current interning table."""
    table = Node.table
    found = table.get(name)
    if found is None:
        found = table[name] = {}
    return found


def is_index_type(t: Type) -> bool:
    """Whether arithmetic of the type is taken never to overflow: signed, 32 bits or more."""
    return t.kind == "int" and t.width >= 32 and t.lane_count == 1


def linear_of(e: Expr) -> Linear:
    """The linear form of a scalar int32 or int64 expression."""
    return _linear(e, cache("analysis.linear"))


def _linear(e: Expr, known: dict[Expr, Linear]) -> Linear:
    found = known.get(e)
    if found is not None:
        return found
    cls = type(e)
    if cls is Const:
        result = Linear({}, e.value)  # type: ignore[attr-defined]
    elif cls is Add:
        result = _linear(e.a, known).plus(_linear(e.b, known))  # type: ignore[attr-defined]
    elif cls is Sub:
        result = _linear(e.a, known).plus(_linear(e.b, known), -1)  # type: ignore[attr-defined]
    elif cls is Mul:
        a = _linear(e.a, known)  # type: ignore[attr-defined]
        b = _linear(e.b, known)  # type: ignore[attr-defined]
        if not b.terms:
            result = a.times(b.constant)
        elif not a.terms:
            result = b.times(a.constant)
        else:
            result = Linear({e: 1}, 0)
    else:
        result = Linear({e: 1}, 0)
    known[e] = result
    return result


def rank_of(atom: Expr) -> int:
    """A number that orders atoms by when they were first met, the same within a compilation."""
    ranks = cache("analysis.rank")
    rank = ranks.get(atom)
    if rank is None:
        rank = ranks[atom] = len(ranks)
    return rank


def build_linear(form: Linear, t: Type) -> Expr:
    """The expression of a linear form, its terms in canonical order."""
    result: Expr | None = None
    negative: list[tuple[Expr, int]] = []
    terms = form.terms
    if len(terms) > 1:
        ordered = [(rank_of(a), a, c) for a, c in terms.items()]
        ordered.sort(key=_first)
        pairs = [(a, c) for _, a, c in ordered]
    else:
        pairs = list(terms.items())
    for atom, c in pairs:
        if c < 0:
            negative.append((atom, -c))
            continue
        term = atom if c == 1 else mul(atom, const(t, c))
        result = term if result is None else add(result, term)
    if result is None and negative:
        if form.constant:
            result = const(t, form.constant)
        else:
            result = const(t, 0)
        for atom, c in negative:
            result = sub(result, atom if c == 1 else mul(atom, const(t, c)))
        return result
    for atom, c in negative:
        assert result is not None
        result = sub(result, atom if c == 1 else mul(atom, const(t, c)))
    if result is None:
        return const(t, form.constant)
    return add(result, const(t, form.constant)) if form.constant else result


def _first(entry: tuple[int, Expr, int]) -> int:
    return entry[0]


def difference(a: Expr, b: Expr) -> Linear:
    """The linear form of a - b."""
    return linear_of(a).plus(linear_of(b), -1)


def constant_difference(a: Expr, b: Expr) -> int | None:
    """a - b where that is a constant whatever the variables are, else None."""
    if a is b:
        return 0
    if not is_index_type(a.type) or a.type is not b.type:
        return None
    form = difference(a, b)
    return None if form.terms else form.constant
