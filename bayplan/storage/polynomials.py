"""Index arithmetic as polynomials, in which the strides of run-time sizes multiply out.

Indices do not overflow, so the width of an integer that was widened is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final, TypeVar

from bayplan.analysis.facts import without_likely
from bayplan.analysis.linear import Linear, cache, is_index_type, rank_of
from bayplan.ir.build import cast, mul
from bayplan.ir.exprs import Add, Call, Cast, Const, Expr, Mul, Sub
from bayplan.ir.types import INT64

Atom = TypeVar("Atom")
Terms = dict[tuple[Atom, ...], int]
"""Products of atoms, each with the number it is multiplied by; none is 0."""

Monomial = tuple[Expr, ...]
"""Atoms that are multiplied, in the order of `rank_of`."""

Polynomial = Terms[Expr]
"""Made of monomials. Never changed once made."""

_MOST_TERMS: Final = 64


def polynomial_of(e: Expr) -> Polynomial:
    """The polynomial that a scalar integer expression is."""
    return _polynomial(without_likely(e), cache("storage.polynomials"))


def _polynomial(e: Any, known: dict[Expr, Polynomial]) -> Polynomial:
    found = known.get(e)
    if found is not None:
        return found
    cls = type(e)
    result: Polynomial | None = None
    if cls is Const:
        result = constant(int(e.value))
    elif cls is Cast and is_index_type(e.type) and is_index_type(e.value.type):
        if e.type.width >= e.value.type.width:
            result = _polynomial(e.value, known)
    elif cls is Call and e.name == "promise_clamped":
        result = _polynomial(e.args[0], known)
    elif cls in (Add, Sub, Mul) and is_index_type(e.type):
        a, b = _polynomial(e.a, known), _polynomial(e.b, known)
        if cls is Mul:
            result = product(a, b) if len(a) * len(b) <= _MOST_TERMS else None
        else:
            result = total(a, b, 1 if cls is Add else -1)
    if result is None:
        result = {(e,): 1}
    known[e] = result
    return result


def constant(value: int) -> Polynomial:
    """The polynomial that is a number."""
    return {(): value} if value else {}


def total(a: Terms[Atom], b: Terms[Atom], factor: int = 1) -> Terms[Atom]:
    """a + factor * b."""
    result = dict(a)
    for monomial, c in b.items():
        _add(result, monomial, factor * c)
    return result


def product(a: Polynomial, b: Polynomial) -> Polynomial:
    """a * b."""
    return product_by(a, b, rank_of)


def product_by(a: Terms[Atom], b: Terms[Atom], rank: Callable[[Atom], int]) -> Terms[Atom]:
    """a * b, where the atoms of a monomial stand in the order of their ranks."""
    result: Terms[Atom] = {}
    for x, c in a.items():
        for y, d in b.items():
            monomial = tuple(sorted([*x, *y], key=rank)) if x and y else x or y
            _add(result, monomial, c * d)
    return result


def _add(terms: Terms[Atom], monomial: tuple[Atom, ...], factor: int) -> None:
    merged = terms.get(monomial, 0) + factor
    if merged:
        terms[monomial] = merged
    else:
        terms.pop(monomial, None)


def times(a: Polynomial, factor: int) -> Polynomial:
    """factor * a."""
    return {m: c * factor for m, c in a.items()} if factor else {}


def number(a: Polynomial) -> int | None:
    """The number that the polynomial is, if it has no variable."""
    if not a:
        return 0
    return a[()] if len(a) == 1 and () in a else None


def linear(a: Polynomial) -> Linear:
    """The same as a linear form, in which products are atoms, for proofs."""
    terms: dict[Expr, int] = {}
    for monomial, c in a.items():
        if monomial:
            atom = monomial[0]
            if len(monomial) > 1:
                atom = reduce(mul, [cast(INT64, e) for e in monomial])
            terms[atom] = c
    return Linear(terms, a.get((), 0))
