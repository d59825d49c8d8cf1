"""Proofs from linear conditions: variables are replaced by the bounds that loops give them.

To show that a linear form is at least 0, each known form that is at least 0 may be taken away from
it. Variables are eliminated from the innermost scope outward, as bounds of inner loops speak of
outer ones; after each step the constant range of what is left is looked at.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.linear import Linear, is_index_type, linear_of
from bayplan.analysis.ranges import range_of_linear
from bayplan.ir.exprs import EQ, GE, GT, LE, LT, NE, And, Expr, Max, Min, Not, Or, Variable

_MOST_STEPS: Final = 12
_MOST_BRANCHES: Final = 24


def decide(condition: Any, facts: Facts) -> bool | None:
    """True or False where the linear conditions of the facts settle a simplified condition."""
    cls = type(condition)
    if cls is And or cls is Or:
        a = decide(condition.a, facts)
        b = decide(condition.b, facts)
        settling = cls is Or
        if a is settling or b is settling:
            return settling
        return None if a is None or b is None else not settling
    if cls is Not:
        found = decide(condition.value, facts)
        return None if found is None else not found
    if cls not in (LT, LE, GT, GE, EQ, NE) or not is_index_type(condition.a.type):
        return None
    form = linear_of(condition.b).plus(linear_of(condition.a), -1)
    if cls is GT or cls is GE:
        form = form.times(-1)
    if cls is EQ or cls is NE:
        return _decide_equal(form, cls is EQ, facts)
    if cls is LT or cls is GT:
        form = form.plus_constant(-1)
    if is_non_negative(form, facts):
        return True
    # not (form >= 0)  is  -form - 1 >= 0
    if is_non_negative(form.times(-1).plus_constant(-1), facts):
        return False
    return None


def _decide_equal(form: Linear, when_equal: bool, facts: Facts) -> bool | None:
    above = is_non_negative(form, facts)
    below = is_non_negative(form.times(-1), facts)
    if above and below:
        return when_equal
    if above and is_non_negative(form.plus_constant(-1), facts):
        return not when_equal
    if below and is_non_negative(form.times(-1).plus_constant(-1), facts):
        return not when_equal
    return None


def is_non_negative(form: Linear, facts: Facts) -> bool:
    """Whether the facts show that the form is at least 0."""
    return _prove(form, facts, [_MOST_BRANCHES])


def _prove(form: Linear, facts: Facts, budget: list[int]) -> bool:
    budget[0] -= 1
    if budget[0] < 0:
        return False
    for _ in range(_MOST_STEPS):
        low, _high = range_of_linear(form, facts)
        if low is not None and low >= 0:
            return True
        split = _split(form, facts, budget)
        if split is not None:
            return split
        reduced = _eliminate_one(form, facts, budget)
        if reduced is None or isinstance(reduced, bool):
            return reduced is True
        form = reduced
    return False


def _split(form: Linear, facts: Facts, budget: list[int]) -> bool | None:
    """A form with a minimum (or maximum) is proven for both sides, or for either."""
    for atom, c in form.terms.items():
        cls: Any = type(atom)
        if cls is not Min and cls is not Max:
            continue
        rest = form.plus(Linear({atom: c}, 0), -1)
        pair: Any = atom
        left = rest.plus(linear_of(pair.a), c)
        right = rest.plus(linear_of(pair.b), c)
        if (cls is Min) == (c > 0):
            return _prove(left, facts, budget) and _prove(right, facts, budget)
        if _prove(left, facts, budget) or _prove(right, facts, budget):
            return True
    return None


def _eliminate_one(form: Linear, facts: Facts, budget: list[int]) -> Linear | bool | None:
    """The form with its innermost bounded variable replaced; True when a choice proves it."""
    for scope in facts.chain():
        if not scope.forms:
            continue
        for name, known in reversed(list(scope.forms.items())):
            variable, c = _coefficient(form, name)
            if variable is None:
                continue
            options: list[Linear] = []
            for fact in known:
                k = fact.terms.get(variable, 0)
                # form - m * fact is without the variable where m k == c, and m must be positive.
                if k and c % k == 0 and c // k > 0:
                    options.append(form.plus(fact, -(c // k)))
            if len(options) == 1:
                return options[0]
            for option in options:
                if _prove(option, facts, budget):
                    return True
            if options:
                return None
    return None


def _coefficient(form: Linear, name: str) -> tuple[Expr | None, int]:
    for atom, c in form.terms.items():
        if type(atom) is Variable and atom.name == name:
            return atom, c
    return None, 0
