"""Whether iterations of a reduction variable may run in any order, or at the same time.

They may when no two of them touch the same element of the Func, one of them writing. The proof
compares the coordinates written by one iteration with those read and written by another as linear
forms: it succeeds where in some dimension the difference cannot be zero. It never succeeds wrongly;
where it does not succeed, the loop keeps its order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bayplan.ir.build import constant_value
from bayplan.ir.exprs import Add, Call, CallKind, Const, Expr, Let, Mul, Sub, Variable
from bayplan.ir.walk import iterate, reintern
from bayplan.language.parameter import Parameter, ReductionDomain

if TYPE_CHECKING:
    from bayplan.language.function import Definition

_INFINITY = float("inf")

Form = dict[Expr | None, int]
"""A linear form: coefficient of each term; the constant belongs to None."""


def _scaled(form: Form, factor: int) -> Form:
    return {term: factor * c for term, c in form.items()}


def _sum(a: Form, b: Form, sign: int) -> Form:
    result = dict(a)
    for term, c in b.items():
        result[term] = result.get(term, 0) + sign * c
    return result


class _Linear:
    """Expressions as integer multiples of terms that are not looked into."""

    def __init__(self) -> None:
        self._known: dict[Expr, Form] = {}

    def __call__(self, e: Expr) -> Form:
        """The form of `e`, found once for each node."""
        found = self._known.get(e)
        if found is None:
            found = self._known[e] = self._find(e)
        return found

    def _find(self, e: Expr) -> Form:
        if type(e) is Const and e.type.kind == "int":
            return {None: int(e.value)}
        if type(e) is Add:
            return _sum(self(e.a), self(e.b), 1)
        if type(e) is Sub:
            return _sum(self(e.a), self(e.b), -1)
        if type(e) is Mul:
            for factor, rest in ((e.b, e.a), (e.a, e.b)):
                value = constant_value(factor)
                if value is not None:
                    return _scaled(self(rest), int(value))
        return {e: 1}


def _is_fixed(e: Expr) -> bool:
    """Whether all iterations agree on the value: it depends on parameters and inputs alone."""
    for n in iterate(e):
        if type(n) is Variable and (n.source is None or isinstance(n.source, ReductionDomain)):
            return False
        if type(n) is Let or (type(n) is Call and n.kind is CallKind.FUNC):
            return False
        if type(n) is Variable and not isinstance(n.source, Parameter):
            return False
    return True


class _Proof:
    def __init__(self, rvar: str, definition: Definition) -> None:
        self.rvar = rvar
        self.linear = _Linear()
        self.ranges: dict[str, tuple[float, float]] = {}
        for r in definition.schedule.rvars:
            low = constant_value(r.min)
            extent = constant_value(r.extent)
            if low is not None and extent is not None:
                self.ranges[r.var] = (low, low + extent - 1)

    def _range(self, term: Expr) -> tuple[float, float]:
        if type(term) is Variable:
            return self.ranges.get(term.name, (-_INFINITY, _INFINITY))
        return (-_INFINITY, _INFINITY)

    def never_equal(self, ours: Expr, theirs: Expr) -> bool:
        """Whether `ours` differs from `theirs` of any iteration with another value of the RVar."""
        a = dict(self.linear(ours))
        b = dict(self.linear(theirs))
        low = high = float(a.pop(None, 0) - b.pop(None, 0))
        constant = int(low)
        step = 0
        divisor = 0
        # What all terms but that of the RVar are multiples of.
        others = 0
        for term in [*a, *[t for t in b if t not in a]]:
            ca, cb = a.get(term, 0), b.get(term, 0)
            assert term is not None
            if _is_fixed(term):
                # The same value on both sides; what does not cancel is unknown.
                parts = [(ca - cb, self._range(term))]
            elif type(term) is Variable and term.name == self.rvar and ca == cb:
                step = ca
                divisor = math.gcd(divisor, ca)
                continue
            else:
                parts = [(ca, self._range(term)), (-cb, self._range(term))]
            for c, (least, greatest) in parts:
                if c:
                    divisor = math.gcd(divisor, c)
                    others = math.gcd(others, c)
                    low += min(c * least, c * greatest)
                    high += max(c * least, c * greatest)
        if divisor and constant % divisor:
            return True
        if step:
            # The difference is a nonzero multiple of `step` plus something in [low, high].
            if low > -abs(step) and high < abs(step):
                return True
            least, greatest = self.ranges.get(self.rvar, (-_INFINITY, _INFINITY))
            reach = abs(step) * (greatest - least)
            if constant % others == 0 if others else constant == 0:
                # Equal only where the term of the RVar is such a multiple itself.
                if 0 < reach < others:
                    return True
            low, high = low - reach, high + reach
        return low > 0 or high < 0

    def never_meet(self, ours: tuple[Expr, ...], theirs: tuple[Expr, ...]) -> bool:
        """Whether the two places differ in some dimension."""
        return any(self.never_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _self_references(func: str, definition: Definition) -> list[tuple[Expr, ...]]:
    found = []
    for n in iterate(*definition.values, *definition.args, definition.predicate):
        if type(n) is Call and n.kind is CallKind.FUNC and n.name == func:
            found.append(tuple([reintern(arg) for arg in n.args]))
    return found


def is_parallel_safe(rvar: str, func: str, definition: Definition) -> bool:
    """Whether different values of `rvar` touch different elements of the Func `func`.

    Args:
        definition: an update of the Func; its schedule already lists the reduction variables.
    """
    proof = _Proof(rvar, definition)
    store = tuple([reintern(arg) for arg in definition.args])
    if not proof.never_meet(store, store):
        return False
    return all(proof.never_meet(load, store) for load in _self_references(func, definition))
