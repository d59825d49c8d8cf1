"""Rules for comparisons, and, or, not and select."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Final

from bayplan.analysis.facts import without_likely
from bayplan.analysis.linear import Linear, build_linear, is_index_type, linear_of
from bayplan.analysis.purity import reads_memory
from bayplan.analysis.ranges import alignment_of_linear, range_of_linear
from bayplan.analysis.simplify import Simplifier
from bayplan.analysis.simplify_sum import combine
from bayplan.analysis.vectors import lift
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Broadcast,
    Const,
    Div,
    Expr,
    Max,
    Min,
    Not,
    Or,
    Select,
)
from bayplan.ir.types import Type

_MAKERS: Final[dict[type, Callable[[Expr, Expr], Expr]]] = {
    EQ: build.eq,
    NE: build.ne,
    LT: build.lt,
    LE: build.le,
    GT: build.gt,
    GE: build.ge,
}


def _simplify_comparison(s: Simplifier, e: Any) -> Expr:
    cls: Any = type(e)
    a = s(e.a)
    b = s(e.b)
    made = _MAKERS[cls](a, b)
    if made.__class__ is not cls:
        return made
    lifted = lift(s, e.__class__, a, b)
    if lifted is not None:
        return lifted
    t = a.type
    if is_index_type(t):
        return _known(s, _compare_index(s, cls, a, b, t))
    if cls is GT or cls is GE:
        cls, a, b = (LT if cls is GT else LE), b, a
    if t.kind in ("int", "uint"):
        decided = _compare_ranges(s, cls, a, b)
        if decided is not None:
            return build.const(e.type, decided)
        if t.width == 1 and t.lane_count == 1 and cls in (EQ, NE):
            return _compare_bools(s, cls, a, b)
    return _known(s, cls(a, b))


def _known(s: Simplifier, condition: Expr) -> Expr:
    """true or false where the facts say so of the canonical condition, else itself."""
    if type(condition) is Const:
        return condition
    truth = s.facts.truth_of(condition)
    return condition if truth is None else build.const(condition.type, 1 if truth else 0)


def _compare_ranges(s: Simplifier, cls: type, a: Expr, b: Expr) -> int | None:
    a_low, a_high = s.range(a)
    b_low, b_high = s.range(b)
    if cls is EQ or cls is NE:
        apart = (a_high is not None and b_low is not None and a_high < b_low) or (
            b_high is not None and a_low is not None and b_high < a_low
        )
        return (0 if cls is EQ else 1) if apart else None
    if cls is LT:
        if a_high is not None and b_low is not None and a_high < b_low:
            return 1
        if a_low is not None and b_high is not None and a_low >= b_high:
            return 0
    if cls is LE:
        if a_high is not None and b_low is not None and a_high <= b_low:
            return 1
        if a_low is not None and b_high is not None and a_low > b_high:
            return 0
    return None


def _compare_bools(s: Simplifier, cls: type, a: Expr, b: Expr) -> Expr:
    if build.is_const(a):
        a, b = b, a
    value = build.constant_value(b)
    if value is None:
        return _MAKERS[cls](a, b)
    return a if bool(value) == (cls is EQ) else s(build.logical_not(a))


def _compare_index(s: Simplifier, cls: type, a: Expr, b: Expr, t: Type) -> Expr:
    if cls is GT or cls is GE:
        cls, a, b = (LT if cls is GT else LE), b, a
    form = linear_of(b).plus(linear_of(a), -1)
    if cls is LT:
        form = form.plus_constant(-1)
    form = combine(s, form, t)
    if cls is EQ or cls is NE:
        return _equal_index(s, cls, form, t)
    decided = _sign(s, form)
    if decided is None:
        decided = _sign_without_likely(s, a, b, cls)
    if decided is not None:
        return build.true() if decided else build.false()
    if len(form.terms) > 1 and form.constant and (reads_memory(a) or reads_memory(b)):
        # x - 9 <= m is not x <= m + 9: data may be the greatest of all numbers.
        return cls(a, b)  # type: ignore[no-any-return]
    return _non_negative(s, form, t)


def _sign(s: Simplifier, form: Linear) -> bool | None:
    """Whether form >= 0 surely holds or surely fails."""
    low, high = range_of_linear(form, s.facts)
    if low is not None and low >= 0:
        return True
    if high is not None and high < 0:
        return False
    return None


def _sign_without_likely(s: Simplifier, a: Expr, b: Expr, cls: type) -> bool | None:
    plain_a = without_likely(a)
    plain_b = without_likely(b)
    if plain_a is a and plain_b is b:
        return None
    value = build.constant_value(s(cls(plain_a, plain_b)))
    return None if value is None else bool(value)


def _reduced(form: Linear) -> Linear:
    """form >= 0 without a common factor of the terms, the constant rounded down."""
    divisor = gcd(*form.terms.values())
    if divisor <= 1:
        return form
    return Linear({a: c // divisor for a, c in form.terms.items()}, form.constant // divisor)


def _non_negative(s: Simplifier, form: Linear, t: Type) -> Expr:
    """The canonical condition form >= 0."""
    form = _reduced(form)
    if len(form.terms) == 1:
        ((atom, c),) = form.terms.items()
        if type(atom) is Div and type(atom.b) is Const and atom.b.value > 0 and abs(c) == 1:
            by = int(atom.b.value)
            if c == 1:
                # x / by >= -k  is  x >= -k by
                inner = linear_of(atom.a).plus_constant(form.constant * by)
            else:
                inner = linear_of(atom.a).times(-1).plus_constant(form.constant * by + by - 1)
            if abs(inner.constant) < 1 << 31:
                return _non_negative(s, combine(s, inner, t), t)
        split = _split_choice(s, atom, c, form, t)
        if split is not None:
            return split
    elif len(form.terms) == 2:
        for atom, c in form.terms.items():
            split = _split_choice(s, atom, c, form, t)
            if split is not None:
                return split
    return _written(form, t)


def _split_choice(s: Simplifier, atom: Any, c: int, form: Linear, t: Type) -> Expr | None:
    """min(x, y) >= k is x >= k and y >= k; done where one of the two is decided."""
    if abs(c) != 1 or type(atom) not in (Min, Max):
        return None
    rest = form.plus(Linear({atom: c}, 0), -1)
    left = combine(s, rest.plus(linear_of(atom.a), c), t)
    right = combine(s, rest.plus(linear_of(atom.b), c), t)
    both = (type(atom) is Min) == (c == 1)
    signs = (_sign(s, left), _sign(s, right))
    if signs == (None, None):
        return None
    for sign, other in ((signs[0], right), (signs[1], left)):
        if sign is None:
            continue
        if sign is both:
            # true and x, false or x
            found = _sign(s, other)
            if found is not None:
                return build.true() if found else build.false()
            return _non_negative(s, other, t)
        return build.true() if sign else build.false()
    return None


def _written(form: Linear, t: Type) -> Expr:
    """form >= 0 as a comparison, positive terms on the right (on the left when alone)."""
    positive = {a: c for a, c in form.terms.items() if c > 0}
    negative = {a: -c for a, c in form.terms.items() if c < 0}
    k = form.constant
    if not negative:
        return GE(build_linear(Linear(positive, 0), t), const(t, -k))
    if not positive:
        return LE(build_linear(Linear(negative, 0), t), const(t, k))
    if k < 0:
        left = build_linear(Linear(negative, -k - 1), t)
        return LT(left, build_linear(Linear(positive, 0), t))
    return LE(build_linear(Linear(negative, 0), t), build_linear(Linear(positive, k), t))


def _equal_index(s: Simplifier, cls: type, form: Linear, t: Type) -> Expr:
    when_equal, when_not = (
        (build.true(), build.false()) if cls is EQ else (build.false(), build.true())
    )
    if not form.terms:
        return when_equal if form.constant == 0 else when_not
    low, high = range_of_linear(form, s.facts)
    if low is not None and low == high == 0:
        return when_equal
    if (low is not None and low > 0) or (high is not None and high < 0):
        return when_not
    divisor = gcd(*form.terms.values())
    if divisor > 1:
        if form.constant % divisor:
            return when_not
        form = _reduced(form)
    modulus, remainder = alignment_of_linear(form, s.facts)
    if modulus != 1 and remainder:
        return when_not
    # The first term is positive, so that x == y and y == x are the same node.
    ordered = build_linear(form, t)
    first = next(iter(linear_of(ordered).terms.values()))
    if len([c for c in form.terms.values() if c > 0]) == 0 or (first < 0):
        form = form.times(-1)
    positive = {a: c for a, c in form.terms.items() if c > 0}
    negative = {a: -c for a, c in form.terms.items() if c < 0}
    left = build_linear(Linear(positive, 0), t)
    return cls(left, build_linear(Linear(negative, -form.constant), t))  # type: ignore[no-any-return]


def _simplify_not(s: Simplifier, e: Not) -> Expr:
    value = s(e.value)
    if type(value) is Broadcast:
        return build.broadcast(s(build.logical_not(value.value)), value.lanes)
    made = build.logical_not(value)
    if type(made) in _MAKERS and made is not value:
        return s(made)
    return _known(s, made)


def _parts(cls: Any, e: Any, found: list[Expr]) -> None:
    if type(e) is cls:
        _parts(cls, e.a, found)
        _parts(cls, e.b, found)
    elif e not in found:
        found.append(e)


def _simplify_junction(s: Simplifier, e: Any) -> Expr:
    """and, or: flat, without what another part implies, false (true) on contradiction."""
    cls: Any = type(e)
    a = s(e.a)
    b = s(e.b)
    lifted = lift(s, cls, a, b)
    if lifted is not None:
        return lifted
    make = build.logical_and if cls is And else build.logical_or
    made = make(a, b)
    if made.__class__ is not cls:
        return made
    parts: list[Expr] = []
    _parts(cls, made, parts)
    parts = _stronger(cls, parts)
    absorbing = build.const(e.type, 0 if cls is And else 1)
    present = set(parts)
    for part in parts:
        if part is absorbing or build.logical_not(part) in present:
            return absorbing
    result = parts[0]
    for part in parts[1:]:
        result = e.__class__(result, part)
    return _known(s, result)


def _form_of(condition: Any) -> Linear | None:
    """The linear form that is at least 0 exactly where the comparison holds."""
    cls = type(condition)
    if cls not in (LT, LE, GT, GE) or not is_index_type(condition.a.type):
        return None
    form = linear_of(condition.b).plus(linear_of(condition.a), -1)
    if cls is GT or cls is GE:
        form = form.times(-1)
    return form.plus_constant(-1) if cls is LT or cls is GT else form


def _stronger(cls: type, parts: list[Expr]) -> list[Expr]:
    """Comparisons of the same linear terms joined: the stricter (weaker, for or) remains."""
    best: dict[Any, tuple[int, int]] = {}
    dropped: set[int] = set()
    for i, part in enumerate(parts):
        form = _form_of(part)
        if form is None:
            continue
        key = form.key()
        known = best.get(key)
        if known is not None:
            j, constant = known
            keep_new = (form.constant < constant) == (cls is And)
            dropped.add(j if keep_new else i)
            if not keep_new:
                continue
        best[key] = (i, form.constant)
        opposite = best.get(form.times(-1).key())
        if opposite is not None and i not in dropped:
            # T >= -c and -T >= -d hold together only if c + d >= 0; one of them always, if not.
            together = form.constant + opposite[1]
            if cls is And and together < 0:
                return [build.false()]
            if cls is Or and together >= -1:
                return [build.true()]
    return [p for i, p in enumerate(parts) if i not in dropped]


def _simplify_select(s: Simplifier, e: Select) -> Expr:
    condition = s(e.condition)
    value = build.constant_value(condition)
    if value is not None:
        return s(e.true_value if value else e.false_value)
    plain = s(without_likely(condition)) if without_likely(condition) is not condition else None
    if plain is not None and type(plain) is Const:
        return s(e.true_value if plain.value else e.false_value)
    a: Any = s(e.true_value)
    b: Any = s(e.false_value)
    if a is b:
        return a  # type: ignore[no-any-return]
    if type(condition) is Not:
        condition, a, b = condition.value, b, a
    if type(condition) is Broadcast and condition.type.lane_count == a.type.lane_count:
        if type(a) is Broadcast and type(b) is Broadcast and a.lanes == b.lanes:
            if a.lanes == condition.lanes:
                return build.broadcast(s(Select(condition.value, a.value, b.value)), a.lanes)
    if type(a) is Select and a.condition is condition:
        a = a.true_value
    if type(b) is Select and b.condition is condition:
        b = b.false_value
    if a is b:
        return a  # type: ignore[no-any-return]
    if e.type.width == 1:
        return _select_bool(s, condition, a, b)
    if is_index_type(e.type):
        chosen = _as_choice(condition, a, b)
        if chosen is not None:
            return s(chosen)
    elif e.type.kind == "uint" or e.type.kind == "int":
        # Of floats min and max say something else where one is not a number.
        if type(condition) in (LT, LE) and {a, b} == {condition.a, condition.b}:  # type: ignore[attr-defined]
            return s((Min if a is condition.a else Max)(a, b))  # type: ignore[attr-defined]
    # select(c, select(d, x, y), y) == select(c and d, x, y)
    if type(a) is Select and a.false_value is b and a.condition.type is condition.type:
        return s(Select(And(condition, a.condition), a.true_value, b))
    if type(b) is Select and b.true_value is a and b.condition.type is condition.type:
        return s(Select(Or(condition, b.condition), a, b.false_value))
    return Select(condition, a, b)


def _select_bool(s: Simplifier, condition: Expr, a: Expr, b: Expr) -> Expr:
    if condition.type is a.type:
        if build.is_const(a):
            if build.is_one(a):
                return s(build.logical_or(condition, b))
            return s(build.logical_and(build.logical_not(condition), b))
        if build.is_const(b):
            if build.is_zero(b):
                return s(build.logical_and(condition, a))
            return s(build.logical_or(build.logical_not(condition), a))
    return Select(condition, a, b)


def _as_choice(condition: Any, a: Expr, b: Expr) -> Expr | None:
    """select(a < b, a, b) == min(a, b), whatever way it is written."""
    form = _form_of(condition)
    if form is None:
        return None
    apart = linear_of(b).plus(linear_of(a), -1)
    if form.terms == apart.terms and form.constant in (apart.constant, apart.constant - 1):
        return Min(a, b)
    turned = apart.times(-1)
    if form.terms == turned.terms and form.constant in (turned.constant, turned.constant - 1):
        return Max(a, b)
    return None


RULES: Final[dict[type, Any]] = {
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), _simplify_comparison),
    And: _simplify_junction,
    Or: _simplify_junction,
    Not: _simplify_not,
    Select: _simplify_select,
}
