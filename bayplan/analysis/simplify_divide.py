"""Rules for quotients and remainders."""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from bayplan.analysis.linear import Linear, is_index_type, linear_of
from bayplan.analysis.ranges import alignment_of_linear, range_of_linear
from bayplan.analysis.simplify import Simplifier
from bayplan.analysis.vectors import lift
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import Const, Div, Expr, Mod, Mul
from bayplan.ir.types import Type


def _simplify_div(s: Simplifier, e: Div) -> Expr:
    a = s(e.a)
    b = s(e.b)
    lifted = lift(s, Div, a, b)
    if lifted is not None:
        return lifted
    made = build.div(a, b)
    if type(made) is not Div:
        return made
    t = e.type
    if t.kind == "float":
        return made
    if build.is_zero(b):
        return const(t, 0)
    if is_index_type(t) and type(b) is Const:
        if b.value > 0:
            return _divide_linear(s, linear_of(a), int(b.value), t)
        if b.value > -(1 << 31):
            # Euclidean: x / -c == -(x / c).
            positive = _divide_linear(s, linear_of(a), -int(b.value), t)
            return s.sum(linear_of(positive).times(-1), t)
    if t.lane_count == 1:
        low, high = s.range(made)
        if low is not None and low == high:
            return const(t, low)
        if is_index_type(t):
            return _divide_product(s, made)
    return made


def _divide_product(s: Simplifier, e: Any) -> Expr:
    """(x * y) / y == x where y is known not to be 0."""
    form = linear_of(e.a)
    if len(form.terms) == 1 and not form.constant:
        ((atom, c),) = form.terms.items()
        if atom is e.b or (type(atom) is Mul and e.b in (atom.a, atom.b)):
            low, high = s.range(e.b)
            if (low is not None and low > 0) or (high is not None and high < 0):
                if atom is e.b:
                    return const(e.type, c)
                other = atom.b if e.b is atom.a else atom.a
                return s(build.mul(other, c))
    return e  # type: ignore[no-any-return]


def _divide_linear(s: Simplifier, form: Linear, by: int, t: Type) -> Expr:
    """floor(form / by), multiples of `by` taken out, common factors and known rests dropped."""
    outside: dict[Expr, int] = {}
    inside: dict[Expr, int] = {}
    for atom, c in form.terms.items():
        if c % by == 0:
            outside[atom] = c // by
        else:
            inside[atom] = c
    whole = form.constant // by
    rest = form.constant - whole * by
    out = Linear(outside, whole)
    if not inside:
        return s.sum(out, t)
    quotient = _divide_rest(s, Linear(inside, rest), by, t)
    return s.sum(out.plus(quotient), t)


def _divide_rest(s: Simplifier, form: Linear, by: int, t: Type) -> Linear:
    """floor(form / by) as a linear form; no coefficient is a multiple of `by`."""
    modulus, remainder = alignment_of_linear(form, s.facts)
    if modulus % by == 0 and remainder % by:
        # Rounding down always takes the same rest away.
        form = form.plus_constant(-(remainder % by))
    common = gcd(by, *form.terms.values())
    if common > 1:
        form = Linear({a: c // common for a, c in form.terms.items()}, form.constant // common)
        by //= common
        if by == 1:
            return form
        return linear_of(_divide_linear(s, form, by, t))
    low, high = range_of_linear(form, s.facts)
    if low is not None and high is not None and low // by == high // by:
        return Linear({}, low // by)
    nested = _divide_nested(s, form, by, t)
    if nested is not None:
        return nested
    whole = form.constant // by
    form = form.plus_constant(-whole * by)
    numerator = s.sum(form, t)
    changed = linear_of(numerator)
    if changed.terms.keys() != form.terms.keys():
        return linear_of(_divide_linear(s, changed, by, t)).plus_constant(whole)
    return Linear({Div(numerator, const(t, by)): 1}, whole)


def _divide_nested(s: Simplifier, form: Linear, by: int, t: Type) -> Linear | None:
    """(x / c + y) / d == (x + c y) / (c d), and min(...) taken apart where a side is known."""
    if len(form.terms) > 2:
        return None
    for atom, c in form.terms.items():
        if type(atom) is Div and c == 1 and type(atom.b) is Const and atom.b.value > 0:
            inner = int(atom.b.value)
            if inner * by >= 1 << 31:
                continue
            rest = Linear({a: k for a, k in form.terms.items() if a is not atom}, form.constant)
            if rest.terms:
                continue
            numerator = linear_of(atom.a).plus(rest, inner)
            return linear_of(_divide_linear(s, numerator, inner * by, t))
    return None


def _simplify_mod(s: Simplifier, e: Mod) -> Expr:
    a = s(e.a)
    b = s(e.b)
    lifted = lift(s, Mod, a, b)
    if lifted is not None:
        return lifted
    made = build.mod(a, b)
    if type(made) is not Mod:
        return made
    t = e.type
    if t.kind == "float":
        return made
    if build.is_zero(b) or a is b:
        return const(t, 0)
    if is_index_type(t) and type(b) is Const and b.value > -(1 << 31):
        return _remainder_linear(s, linear_of(a), abs(int(b.value)), t)
    if t.lane_count == 1:
        low, high = s.range(a)
        least, _ = s.range(b)
        if low is not None and high is not None and low >= 0 and least is not None and high < least:
            return a
    return made


def _remainder_linear(s: Simplifier, form: Linear, by: int, t: Type) -> Expr:
    """form mod by: multiples dropped, coefficients and constant reduced, common factors out."""
    terms: dict[Expr, int] = {}
    for atom, c in form.terms.items():
        c %= by
        if c > by // 2 and form.terms[atom] < 0:
            c -= by
        if c:
            terms[atom] = c
    form = Linear(terms, form.constant % by)
    if not terms:
        return const(t, form.constant)
    modulus, remainder = alignment_of_linear(form, s.facts)
    if modulus % by == 0:
        return const(t, remainder % by)
    low, high = range_of_linear(form, s.facts)
    if low is not None and high is not None and low // by == high // by:
        return s.sum(form.plus_constant(-(low // by) * by), t)
    if len(terms) == 1:
        ((atom, c),) = terms.items()
        if type(atom) is Mod and type(atom.b) is Const and atom.b.value % by == 0:
            inner = linear_of(atom.a).times(c).plus_constant(form.constant)
            return _remainder_linear(s, inner, by, t)
    common = gcd(by, *terms.values())
    if common > 1:
        # (g x + c) % (g m) == g ((x + c / g) % m) + c % g
        inner = Linear({a: c // common for a, c in terms.items()}, form.constant // common)
        result = _remainder_linear(s, inner, by // common, t)
        return s.sum(linear_of(result).times(common).plus_constant(form.constant % common), t)
    value = s.sum(form, t)
    changed = linear_of(value)
    if changed.terms.keys() != form.terms.keys():
        return _remainder_linear(s, changed, by, t)
    return Mod(value, const(t, by))


RULES: Final[dict[type, Any]] = {Div: _simplify_div, Mod: _simplify_mod}
