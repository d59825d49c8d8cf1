"""Constant ranges and alignments of integer expressions under some facts."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, Final

from bayplan.analysis.facts import Facts, Range
from bayplan.analysis.linear import Linear, is_index_type, linear_of
from bayplan.ir import exprs
from bayplan.ir.build import constant_value, euclidean_div
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Call,
    Const,
    Div,
    Expr,
    Mod,
    Not,
    Or,
    Variable,
)
from bayplan.ir.types import Type

UNKNOWN: Final[Range] = (None, None)


def range_of(e: Expr, facts: Facts) -> Range:
    """(least, greatest) of an integer or bool expression over all lanes; None: not known.

    int32 and int64 count as unbounded where nothing else is known, since they do not overflow.
    """
    if type(e) is Const:
        return (e.value, e.value) if isinstance(e.value, int) else UNKNOWN
    scope = facts.scope_for(e)
    found = scope.ranges.get(e)
    if found is None:
        found = scope.ranges[e] = _range(e, scope)
    return found


def type_range(t: Type) -> Range:
    """The range of a type; (None, None) for types taken not to overflow, and for floats."""
    if t.kind == "uint":
        return (0, None if t.width > 32 else (1 << t.width) - 1)
    if t.kind == "int" and t.width < 32:
        return (-(1 << (t.width - 1)), (1 << (t.width - 1)) - 1)
    return UNKNOWN


def _range(e: Any, facts: Facts) -> Range:
    t = e.type
    if t.kind == "float" or t.kind == "handle":
        return UNKNOWN
    rule = _RANGES.get(type(e))
    found = rule(e, facts) if rule is not None else UNKNOWN
    return _fit(found, t)


def _fit(found: Range, t: Type) -> Range:
    """The range after wrapping to the type: kept where it fits."""
    low, high = found
    least, greatest = type_range(t)
    if least is None:
        return found
    if low is None or high is None:
        # A one-sided range of a wrapping type says nothing, unless that end is the type's.
        return (least, greatest)
    if low < least or (greatest is not None and high > greatest):
        return (least, greatest)
    return found


def _variable(e: Variable, facts: Facts) -> Range:
    low, high = facts.range_of_variable(e.name)
    least, greatest = type_range(e.type)
    return (least if low is None else low, greatest if high is None else high)


def _sum(e: Any, facts: Facts) -> Range:
    if is_index_type(e.type):
        return range_of_linear(linear_of(e), facts)
    a_low, a_high = range_of(e.a, facts)
    b_low, b_high = range_of(e.b, facts)
    if type(e) is exprs.Sub:
        b_low, b_high = _negated(b_low, b_high)
    low = None if a_low is None or b_low is None else a_low + b_low
    high = None if a_high is None or b_high is None else a_high + b_high
    return (low, high)


def _negated(low: int | None, high: int | None) -> Range:
    return (None if high is None else -high, None if low is None else -low)


def range_of_linear(form: Linear, facts: Facts) -> Range:
    """The range of a linear form: term by term, and by the linear conditions assumed."""
    low: int | None = form.constant
    high: int | None = form.constant
    terms = form.terms
    if not terms:
        return (low, high)
    for atom, c in terms.items():
        least, greatest = range_of(atom, facts)
        if c < 0:
            least, greatest = greatest, least
        low = None if low is None or least is None else low + c * least
        high = None if high is None or greatest is None else high + c * greatest
        if low is None and high is None:
            break
    if len(terms) > 1:
        if facts.knows_forms():
            low, high = _tighten(form, low, high, facts)
        if low is None or high is None or high - low > 1:
            low, high = _tighten_quotients(form, low, high, facts)
    return (low, high)


def _tighten(form: Linear, low: int | None, high: int | None, facts: Facts) -> Range:
    terms = form.terms
    divisor = gcd(*terms.values())
    items = terms.items()
    if divisor == 1:
        key = frozenset(items)
        turned = frozenset([(a, -c) for a, c in items])
    else:
        key = frozenset([(a, c // divisor) for a, c in items])
        turned = frozenset([(a, -c // divisor) for a, c in items])
    known = facts.lower_bound_of(key)
    if known is not None:
        value = known * divisor + form.constant
        low = value if low is None else max(low, value)
    known = facts.lower_bound_of(turned)
    if known is not None:
        value = -known * divisor + form.constant
        high = value if high is None else min(high, value)
    return (low, high)


def _tighten_quotients(form: Linear, low: int | None, high: int | None, facts: Facts) -> Range:
    """x / c - y / c lies between floor and ceiling of (x - y) / c."""
    quotients = [
        (a, c) for a, c in form.terms.items() if type(a) is Div and type(a.b) is Const and a.b.value
    ]
    for i, (p, c) in enumerate(quotients):
        for q, d in quotients[i + 1 :]:
            if c != -d or p.b is not q.b:
                continue
            by = p.b.value  # type: ignore[attr-defined]
            if by < 0:
                continue
            apart = linear_of(p.a).plus(linear_of(q.a), -1)
            if len(apart.terms) >= len(form.terms) + 1:
                continue
            least, greatest = range_of_linear(apart, facts)
            least = None if least is None else least // by
            greatest = None if greatest is None else -(-greatest // by)
            if c < 0:
                least, greatest = greatest, least
            rest = dict(form.terms)
            del rest[p], rest[q]
            rest_low, rest_high = range_of_linear(Linear(rest, form.constant), facts)
            if least is not None and rest_low is not None:
                value = rest_low + c * least
                low = value if low is None else max(low, value)
            if greatest is not None and rest_high is not None:
                value = rest_high + c * greatest
                high = value if high is None else min(high, value)
    return (low, high)


def _product(e: Any, facts: Facts) -> Range:
    if is_index_type(e.type):
        form = linear_of(e)
        if e not in form.terms:
            return range_of_linear(form, facts)
    if e.a is e.b:
        low, high = range_of(e.a, facts)
        if low is None or high is None:
            return (0, None)
        ends = [low * low, high * high]
        return (0 if low <= 0 <= high else min(ends), max(ends))
    a = range_of(e.a, facts)
    b = range_of(e.b, facts)
    if None in a or None in b:
        if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
            return (a[0] * b[0], None)
        return UNKNOWN
    ends = [x * y for x in a for y in b]  # type: ignore[operator]
    return (min(ends), max(ends))


def _quotient(e: Div, facts: Facts) -> Range:
    if e.a is e.b:
        return (0, 1)  # a quotient by 0 is 0
    low, high = range_of(e.a, facts)
    least, greatest = range_of(e.b, facts)
    if least is None or greatest is None:
        if least is not None and least > 0 and low is not None:
            # Dividing by something positive moves toward zero (or to -1).
            return (min(low, 0), None if high is None else max(high, 0))
        if low is not None and high is not None:
            reach = max(abs(low), abs(high))
            return (-reach, reach)
        return UNKNOWN
    if least == greatest and least != 0:
        by = least
        if by > 0:
            return (None if low is None else low // by, None if high is None else high // by)
        return (
            None if high is None else euclidean_div(high, by),
            None if low is None else euclidean_div(low, by),
        )
    if low is None or high is None:
        if least >= 0:
            return (None if low is None else min(low, 0), None if high is None else max(high, 0))
        return UNKNOWN
    if least > 0:
        ends = [x // y for x in (low, high) for y in (least, greatest)]
        return (min(ends), max(ends))
    reach = max(abs(low), abs(high))
    return (-reach, reach)


def _remainder(e: Mod, facts: Facts) -> Range:
    if e.a is e.b:
        return (0, 0)
    low, high = range_of(e.a, facts)
    least, greatest = range_of(e.b, facts)
    top = None
    if least is not None and greatest is not None:
        top = max(abs(least), abs(greatest)) - 1
        if least == greatest and least > 0 and low is not None and high is not None:
            if low // least == high // least:
                return (low % least, high % least)
    if low is not None and low >= 0 and high is not None:
        top = high if top is None else min(top, high)
    return (0, None if top is None else max(top, 0))


def _minimum(e: Any, facts: Facts) -> Range:
    a_low, a_high = range_of(e.a, facts)
    b_low, b_high = range_of(e.b, facts)
    low = None if a_low is None or b_low is None else min(a_low, b_low)
    if a_high is None or b_high is None:
        return (low, b_high if a_high is None else a_high)
    return (low, min(a_high, b_high))


def _maximum(e: Any, facts: Facts) -> Range:
    a_low, a_high = range_of(e.a, facts)
    b_low, b_high = range_of(e.b, facts)
    high = None if a_high is None or b_high is None else max(a_high, b_high)
    if a_low is None or b_low is None:
        return (b_low if a_low is None else a_low, high)
    return (max(a_low, b_low), high)


def _select(e: exprs.Select, facts: Facts) -> Range:
    return _union(range_of(e.true_value, facts), range_of(e.false_value, facts))


def _union(a: Range, b: Range) -> Range:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return (low, high)


def _cast(e: exprs.Cast, facts: Facts) -> Range:
    source = e.value.type
    if source.kind in ("float", "handle"):
        return type_range(e.type)
    if e.type.width == 1:
        return (0, 1)
    low, high = range_of(e.value, facts)
    if e.type.can_represent(source):
        return (low, high)
    # What does not fit wraps, also in int32: a uint64 becomes any int32.
    least, greatest = e.type.min_value(), e.type.max_value()
    if low is None or high is None or low < least or high > greatest:
        return type_range(e.type)
    return (low, high)


def _ramp(e: exprs.Ramp, facts: Facts) -> Range:
    low, high = range_of(e.base, facts)
    least, greatest = range_of(e.stride, facts)
    steps = e.lanes - 1
    least = None if least is None else min(least * steps, 0)
    greatest = None if greatest is None else max(greatest * steps, 0)
    return (
        None if low is None or least is None else low + least,
        None if high is None or greatest is None else high + greatest,
    )


def _broadcast(e: exprs.Broadcast, facts: Facts) -> Range:
    return range_of(e.value, facts)


def _truth(e: Any, facts: Facts) -> Range:
    return (0, 1)


def _shuffle(e: exprs.Shuffle, facts: Facts) -> Range:
    found = range_of(e.vectors[0], facts)
    for vector in e.vectors[1:]:
        found = _union(found, range_of(vector, facts))
    return found


def _call(e: Call, facts: Facts) -> Range:
    name = e.name
    if name in ("likely", "likely_if_innermost"):
        return range_of(e.args[0], facts)
    if name in ("promise_clamped", "unsafe_promise_clamped"):
        low, _ = range_of(e.args[1], facts)
        _, high = range_of(e.args[2], facts)
        least, greatest = range_of(e.args[0], facts)
        if least is not None:
            low = least if low is None else max(low, least)
        if greatest is not None:
            high = greatest if high is None else min(high, greatest)
        return (low, high)
    if name == "abs":
        low, high = range_of(e.args[0], facts)
        if low is None or high is None:
            return (0, None)
        return (max(low, -high, 0), max(-low, high))
    if name == "absd":
        a_low, a_high = range_of(e.args[0], facts)
        b_low, b_high = range_of(e.args[1], facts)
        if a_low is None or a_high is None or b_low is None or b_high is None:
            return (0, None)
        return (max(a_low - b_high, b_low - a_high, 0), max(a_high - b_low, b_high - a_low, 0))
    if name == "shift_right":
        by = constant_value(e.args[1])
        if isinstance(by, int) and 0 <= by < 64:
            low, high = range_of(e.args[0], facts)
            return (None if low is None else low >> by, None if high is None else high >> by)
    if name == "bitwise_and":
        tops = [range_of(a, facts) for a in e.args]
        known = [high for low, high in tops if low is not None and low >= 0 and high is not None]
        if known:
            return (0, min(known))
    if name == "if_then_else" and len(e.args) == 3:
        return _union(range_of(e.args[1], facts), range_of(e.args[2], facts))
    if name in ("popcount", "count_leading_zeros", "count_trailing_zeros"):
        return (0, e.args[0].type.width)
    return UNKNOWN


_RANGES: Final[dict[type, Callable[[Any, Facts], Range]]] = {
    Variable: _variable,
    exprs.Add: _sum,
    exprs.Sub: _sum,
    exprs.Mul: _product,
    Div: _quotient,
    Mod: _remainder,
    exprs.Min: _minimum,
    exprs.Max: _maximum,
    exprs.Select: _select,
    exprs.Cast: _cast,
    exprs.Ramp: _ramp,
    exprs.Broadcast: _broadcast,
    exprs.Shuffle: _shuffle,
    Call: _call,
    **dict.fromkeys(
        (EQ, NE, LT, LE, GT, GE, And, Or, Not),
        _truth,
    ),
}  # fmt: skip


# Alignment: (modulus, remainder); modulus 0 means the constant `remainder`.

Alignment = tuple[int, int]
NO_ALIGNMENT: Final[Alignment] = (1, 0)


def alignment_of(e: Expr, facts: Facts) -> Alignment:
    """(modulus, remainder) with e == k * modulus + remainder; modulus 0: the constant remainder."""
    if type(e) is Const:
        return (0, e.value) if isinstance(e.value, int) else NO_ALIGNMENT
    if not is_index_type(e.type):
        return NO_ALIGNMENT
    scope = facts.scope_for(e)
    found = scope.aligned.get(e)
    if found is None:
        found = scope.aligned[e] = _alignment(e, scope)
    return found


def _normal(modulus: int, remainder: int) -> Alignment:
    modulus = abs(modulus)
    return (modulus, remainder % modulus) if modulus else (0, remainder)


def alignment_of_linear(form: Linear, facts: Facts) -> Alignment:
    """The alignment of a linear form."""
    modulus = 0
    remainder = form.constant
    for atom, c in form.terms.items():
        m, r = alignment_of(atom, facts)
        modulus = gcd(modulus, m * c)
        remainder += r * c
        if modulus == 1:
            return NO_ALIGNMENT
    return _normal(modulus, remainder)


def common_alignment(a: Alignment, b: Alignment) -> Alignment:
    """What holds of a value that is one of two."""
    return _normal(gcd(a[0], b[0], a[1] - b[1]), a[1])


def _alignment(e: Any, facts: Facts) -> Alignment:
    cls = type(e)
    if cls is Variable:
        return facts.alignment_of_variable(e.name)
    if cls is exprs.Add or cls is exprs.Sub or cls is exprs.Mul:
        form = linear_of(e)
        if e not in form.terms:
            return alignment_of_linear(form, facts)
        m, r = alignment_of(e.a, facts)
        n, s = alignment_of(e.b, facts)
        return _normal(gcd(m * n, m * s, n * r), r * s)
    if cls is exprs.Min or cls is exprs.Max:
        return common_alignment(alignment_of(e.a, facts), alignment_of(e.b, facts))
    if cls is exprs.Select:
        return common_alignment(
            alignment_of(e.true_value, facts), alignment_of(e.false_value, facts)
        )
    if cls is Mod and type(e.b) is Const and e.b.value > 0:
        m, r = alignment_of(e.a, facts)
        return _normal(gcd(m, int(e.b.value)), r)
    if cls is Div and type(e.b) is Const and e.b.value > 0:
        m, r = alignment_of(e.a, facts)
        by = int(e.b.value)
        if m and m % by == 0:
            return _normal(m // by, r // by)
        return NO_ALIGNMENT
    if cls is Call and e.name in ("likely", "likely_if_innermost", "promise_clamped"):
        return alignment_of(e.args[0], facts)
    if cls is exprs.Cast and is_index_type(e.value.type):
        return alignment_of(e.value, facts)
    return NO_ALIGNMENT
