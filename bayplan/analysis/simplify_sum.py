"""Rules for sums, differences and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.linear import (
    Linear,
    build_linear,
    is_index_type,
    linear_of,
    rank_of,
)
from bayplan.analysis.simplify import Simplifier
from bayplan.analysis.vectors import lift
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import (
    Add,
    Binary,
    Broadcast,
    Const,
    Div,
    Expr,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Select,
    Sub,
)
from bayplan.ir.types import Type


def _simplify_sum(s: Simplifier, e: Any) -> Expr:
    t = e.type
    if is_index_type(t):
        return _simplify_index(s, e)
    a = s(e.a)
    b = s(e.b)
    cls = type(e)
    lifted = lift(s, cls, a, b)
    if lifted is not None:
        return lifted
    if t.kind == "float":
        return _simplify_float(cls, a, b)
    made = _MAKERS[cls](a, b)
    if t.lane_count == 1 and type(made) in _MAKERS:
        return _merge_wrapping_constants(made)
    return made


def _simplify_index(s: Simplifier, e: Expr) -> Expr:
    raw = linear_of(e)
    if e in raw.terms:
        return _simplify_product(s, e)
    form = Linear({}, raw.constant)
    for atom, c in raw.terms.items():
        form = form.plus(linear_of(s(atom)), c)
    return s.constant_if_known(s.sum(form, e.type))


def _simplify_product(s: Simplifier, e: Any) -> Expr:
    """A product of two expressions that are not constants as they stand."""
    a = s(e.a)
    b = s(e.b)
    if type(a) is Const or type(b) is Const:
        return s(build.mul(a, b))
    # A constant factor goes outside, so that it can join other terms.
    outside = 1
    a, factor = _without_factor(a)
    outside *= factor
    b, factor = _without_factor(b)
    outside *= factor
    if rank_of(a) > rank_of(b):
        a, b = b, a
    product = Mul(a, b)
    return product if outside == 1 else s(build.mul(product, outside))


def _without_factor(e: Expr) -> tuple[Expr, int]:
    if type(e) is Mul and type(e.b) is Const:
        return e.a, int(e.b.value)
    return e, 1


def _simplify_float(cls: type[Binary], a: Expr, b: Expr) -> Expr:
    """Only what gives the same bits: x * 1, x - 0, x + -0."""
    value = build.constant_value(b)
    if cls is Sub and value == 0 and str(value) == "0.0":
        return a
    if cls is Add and value == 0 and str(value) == "-0.0":
        return a
    return _MAKERS[cls](a, b)


def _merge_wrapping_constants(e: Any) -> Expr:
    """(x + c1) + c2 and (x * c1) * c2 of integers that wrap: exact modulo their size."""
    cls = type(e)
    if cls is Sub and type(e.b) is Const:
        negated = const(e.type, -e.b.value)
        return _merge_wrapping_constants(Add(e.a, negated)) if type(e.a) is Add else e
    if cls in (Add, Mul) and type(e.a) is Const:
        e = cls(e.b, e.a)
    if cls in (Add, Mul) and type(e.b) is Const and type(e.a) is cls and type(e.a.b) is Const:
        x, y = e.a.b.value, e.b.value
        merged = const(e.type, x + y if cls is Add else x * y)
        return _MAKERS[cls](e.a.a, merged)
    return e  # type: ignore[no-any-return]


_MAKERS: Final[dict[type, Callable[[Expr, Expr], Expr]]] = {
    Add: build.add,
    Sub: build.sub,
    Mul: build.mul,
}


def combine(s: Simplifier, form: Linear, t: Type) -> Linear:
    """A linear form in which terms that belong together are joined.

    Quotients and remainders of the same value, products with a common factor, and minima and
    maxima next to a term that cancels in one of their sides.
    """
    for _ in range(16):
        if len(form.terms) < 2:
            return form
        changed = _combine_once(s, form, t)
        if changed is None:
            return form
        form = changed
    return form


def _combine_once(s: Simplifier, form: Linear, t: Type) -> Linear | None:
    quotients: list[tuple[Any, int]] = []
    remainders: list[tuple[Any, int]] = []
    products: list[tuple[Any, int]] = []
    choices: list[tuple[Any, int]] = []
    for atom, c in form.terms.items():
        cls = type(atom)
        if cls is Div:
            quotients.append((atom, c))
        elif cls is Mod:
            remainders.append((atom, c))
        elif cls is Mul:
            products.append((atom, c))
        elif cls is Min or cls is Max or cls is Select:
            choices.append((atom, c))
    if quotients or remainders:
        changed = _combine_quotients(s, form, quotients, remainders)
        if changed is not None:
            return changed
    if len(products) > 1:
        changed = _combine_products(s, form, products, t)
        if changed is not None:
            return changed
    if choices:
        return _combine_choices(s, form, choices, t)
    return None


def _replaced(form: Linear, gone: Linear, added: Linear) -> Linear:
    return form.plus(gone, -1).plus(added)


def _times(form: Linear, k: int, form_atoms: dict[Expr, int]) -> bool:
    """Whether k * form is there among the terms, exactly."""
    for atom, c in form.terms.items():
        if form_atoms.get(atom) != k * c:
            return False
    return bool(form.terms)


def _combine_quotients(
    s: Simplifier,
    form: Linear,
    quotients: list[tuple[Any, int]],
    remainders: list[tuple[Any, int]],
) -> Linear | None:
    terms = form.terms
    for m, k in remainders:
        if type(m.b) is not Const or m.b.value <= 0:
            continue
        by = int(m.b.value)
        x = linear_of(m.a)
        for q, c in quotients:
            # k (x % by) + k by (x / by) == k x
            if q.b is m.b and c == k * by and q.a is m.a:
                gone = Linear({m: k, q: c}, 0)
                return _replaced(form, gone, x.times(k))
        if _times(x, -k, terms):
            # k (x % by) - k x == -k by (x / by)
            gone = Linear({m: k}, 0).plus(x, -k)
            quotient = linear_of(s(Div(m.a, m.b)))
            return _replaced(form, gone, quotient.times(-k * by))
    for i, (q, c) in enumerate(quotients):
        if type(q.b) is not Const or q.b.value <= 0:
            continue
        by = int(q.b.value)
        x = linear_of(q.a)
        if c % by == 0 and _times(x, -(c // by), terms):
            # k x - k by (x / by) == k (x % by)
            k = -(c // by)
            gone = Linear({q: c}, 0).plus(x, k)
            return _replaced(form, gone, linear_of(s(Mod(q.a, q.b))).times(k))
        for p, d in quotients[i + 1 :]:
            if d != -c or p.b is not q.b:
                continue
            apart = x.plus(linear_of(p.a), -1)
            if not apart.terms:
                # (y + e) / by - y / by == (y % by + e) / by
                base = s(Mod(p.a, p.b))
                joined = s(Div(build.add(base, apart.constant), q.b))
                return _replaced(form, Linear({q: c, p: d}, 0), linear_of(joined).times(c))
    return None


def _combine_products(
    s: Simplifier, form: Linear, products: list[tuple[Any, int]], t: Type
) -> Linear | None:
    """x * y + z * y == (x + z) * y."""
    for i, (p, c) in enumerate(products):
        for q, d in products[i + 1 :]:
            for common, x in ((p.a, p.b), (p.b, p.a)):
                if common is not q.a and common is not q.b:
                    continue
                z = q.b if common is q.a else q.a
                factor = s.sum(linear_of(x).times(c).plus(linear_of(z), d), t)
                joined = s(build.mul(factor, common))
                return _replaced(form, Linear({p: c, q: d}, 0), linear_of(joined))
    return None


_MOST_PUSHED: Final = 4
"""Terms are pushed into choices inside choices this deep: each level may double the work."""


def _sides(e: Any) -> tuple[Expr, Expr]:
    return (e.true_value, e.false_value) if type(e) is Select else (e.a, e.b)


def _leaf_terms(e: Any, found: set[tuple[Expr, int]], depth: int = 0) -> None:
    """The terms of the sides of a choice, also of choices inside them."""
    for side in _sides(e):
        for atom, c in linear_of(side).terms.items():
            found.add((atom, c))
            if c == 1 and depth < 4 and type(atom) in (Min, Max, Select):
                _leaf_terms(atom, found, depth + 1)


def _combine_choices(
    s: Simplifier, form: Linear, choices: list[tuple[Any, int]], t: Type
) -> Linear | None:
    """min(x + y, z) - x == min(y, z - x), and the like for max and select."""
    if s.pushed >= _MOST_PUSHED:
        return None
    for choice, k in choices:
        leaves: set[tuple[Expr, int]] = set()
        _leaf_terms(choice, leaves)
        moved: dict[Expr, int] = {}
        for atom, c in form.terms.items():
            if atom is not choice and c % k == 0 and (atom, -(c // k)) in leaves:
                moved[atom] = c // k
        if not moved:
            continue
        inside = Linear(moved, 0)
        left, right = _sides(choice)
        s.pushed += 1
        left = s.sum(linear_of(left).plus(inside), t)
        right = s.sum(linear_of(right).plus(inside), t)
        s.pushed -= 1
        if type(choice) is Select:
            made: Expr = s(build.select(choice.condition, left, right))
        else:
            made = s(type(choice)(left, right))
        gone = Linear({choice: k}, 0).plus(inside, k)
        return _replaced(form, gone, linear_of(made).times(k))
    return None


RULES: Final = {Add: _simplify_sum, Sub: _simplify_sum, Mul: _simplify_sum}

__all__ = ["RULES", "Broadcast", "Ramp", "build_linear", "combine"]
