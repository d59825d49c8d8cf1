"""Rules for minima and maxima.

The canonical form of nested choices of index arithmetic: operands of the same operation are one
flat list, without those that another always beats; what all have in common is taken out, so that
`min(x + 3, n)` and `min(x, n - 3)` differ by a constant; `min` stands inside `max`.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from bayplan.analysis.facts import without_likely
from bayplan.analysis.linear import Linear, is_index_type, linear_of, rank_of
from bayplan.analysis.purity import reads_memory
from bayplan.analysis.simplify import Simplifier
from bayplan.analysis.vectors import lift
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import Binary, Broadcast, Cast, Const, Expr, Max, Min, Ramp
from bayplan.ir.types import Type


def _simplify_choice(s: Simplifier, e: Any) -> Expr:
    cls = type(e)
    a = s(e.a)
    b = s(e.b)
    if a is b:
        return a
    lifted = lift(s, cls, a, b)
    if lifted is not None:
        return lifted
    folded = build.fold_binary(cls, a, b)
    if folded is not None:
        return folded
    t = e.type
    if t.kind == "float" or t.kind == "handle":
        return cls(a, b)  # type: ignore[no-any-return]
    if is_index_type(t):
        return _choose_index(s, cls, a, b)
    return _choose_by_range(s, cls, a, b)


def _choose_by_range(s: Simplifier, cls: type[Binary], a: Any, b: Any) -> Expr:
    """Narrow, unsigned and vector operands: decided by their ranges alone."""
    a_low, a_high = s.range(a)
    b_low, b_high = s.range(b)
    if a_high is not None and b_low is not None and a_high <= b_low:
        return a if cls is Min else b  # type: ignore[no-any-return]
    if b_high is not None and a_low is not None and b_high <= a_low:
        return b if cls is Min else a  # type: ignore[no-any-return]
    if type(a) is Ramp and type(b) is Broadcast and a.type.kind == "int":
        chosen = _choose_ramp(s, cls, a, b)
        if chosen is not None:
            return chosen
    if type(b) is Ramp and type(a) is Broadcast and a.type.kind == "int":
        chosen = _choose_ramp(s, cls, b, a)
        if chosen is not None:
            return chosen
    # min(min(x, c), d)
    if type(a) is cls:
        if a.b is b or a.a is b:
            return a
        folded = build.fold_binary(cls, a.b, b)
        if folded is not None:
            return cls(a.a, folded)  # type: ignore[no-any-return]
    if type(a) is Cast and type(b) is Cast and a.value.type is b.value.type:
        inner = a.value.type
        if a.type.can_represent(inner):
            return s(Cast(a.type, cls(a.value, b.value)))
    return cls(b, a) if build.is_const(a) else cls(a, b)


def _choose_ramp(s: Simplifier, cls: type[Binary], ramp: Ramp, other: Broadcast) -> Expr | None:
    """A ramp and one value: where first and last lane agree, all do."""
    value = other.value
    if value.type is not ramp.base.type or not is_index_type(value.type):
        return None
    if type(ramp.stride) is not Const:
        return None
    reach = build.const(value.type, int(ramp.stride.value) * (ramp.lanes - 1))
    last = s(build.add(ramp.base, reach))
    ends = [s.range_of_difference(end, value) for end in (ramp.base, last)]
    if all(high is not None and high <= 0 for _, high in ends):
        return ramp if cls is Min else other
    if all(low is not None and low >= 0 for low, _ in ends):
        return ramp if cls is Max else other
    return None


def _beats(s: Simplifier, cls: type[Binary], a: Expr, b: Expr) -> bool | None:
    """Whether the choice of a and b surely is a (True) or surely is b (False)."""
    low, high = s.range_of_difference(a, b)
    if low is not None and low >= 0:
        return cls is Max
    if high is not None and high <= 0:
        return cls is Min
    return None


def _has_likely(e: Any) -> bool:
    return without_likely(e) is not e


def _choose_index(s: Simplifier, cls: type[Binary], a: Expr, b: Expr) -> Expr:
    if _has_likely(a) or _has_likely(b):
        return _choose_likely(s, cls, a, b)
    t = a.type
    leaves: list[Expr] = []
    for side in (a, b):
        for leaf in _leaves(cls, side):
            _add_leaf(s, cls, leaves, leaf)
    if len(leaves) == 1:
        return leaves[0]
    if len(leaves) == 2:
        found = _two_leaves(s, cls, leaves[0], leaves[1])
        if found is not None:
            return found
    return _canonical(s, cls, leaves, t)


def _choose_likely(s: Simplifier, cls: type[Binary], a: Expr, b: Expr) -> Expr:
    """The marks stay where they are; only what is certain is decided."""
    plain_a = s(without_likely(a))
    plain_b = s(without_likely(b))
    beats = _beats(s, cls, plain_a, plain_b)
    if beats is not None:
        # A mark stays: it may belong to a choice further out.
        return a if beats else b
    return cls(a, b)


def _leaves(cls: type[Binary], e: Any) -> list[Expr]:
    """The operands of nested choices of the same kind, an offset outside distributed."""
    if type(e) is cls:
        return _leaves(cls, e.a) + _leaves(cls, e.b)
    form = linear_of(e)
    if len(form.terms) == 1 and form.constant:
        ((atom, c),) = form.terms.items()
        if c == 1 and type(atom) is cls:
            return [build.add(leaf, form.constant) for leaf in _leaves(cls, atom)]
    return [e]


def _add_leaf(s: Simplifier, cls: type[Binary], leaves: list[Expr], leaf: Expr) -> None:
    """Add an operand unless one there beats it; drop those it beats."""
    leaf = s(leaf)
    kept: list[Expr] = []
    for other in leaves:
        if other is leaf:
            return
        beats = _beats(s, cls, other, leaf)
        if beats is True:
            return
        if beats is None:
            kept.append(other)
    kept.append(leaf)
    leaves[:] = kept


def _two_leaves(s: Simplifier, cls: type[Binary], a: Any, b: Any) -> Expr | None:
    other = Max if cls is Min else Min
    if cls is Min:
        # min(max(p, q), r) with q <= r: the clamp is written max(min(p, r), q).
        for clamp, bound in ((a, b), (b, a)):
            if type(clamp) is not Max:
                continue
            for low, value in ((clamp.b, clamp.a), (clamp.a, clamp.b)):
                high = s.range_of_difference(low, bound)[1]
                if high is not None and high <= 0:
                    return s(Max(s(Min(value, bound)), low))
    if type(a) is other and type(b) is other:
        # max(min(x, c), min(y, c)) == min(max(x, y), c)
        for x, p in ((a.a, a.b), (a.b, a.a)):
            for y, q in ((b.a, b.b), (b.b, b.a)):
                if p is q:
                    return s(other(s(cls(x, y)), p))
    return None


def _canonical(s: Simplifier, cls: type[Binary], leaves: list[Expr], t: Type) -> Expr:
    forms = [linear_of(leaf) for leaf in leaves]
    common = {
        atom: c
        for atom, c in forms[0].terms.items()
        if all(form.terms.get(atom) == c for form in forms[1:])
    }
    ordered = [(_order(form), form) for form in forms]
    ordered.sort(key=_first)
    forms = [form for _, form in ordered]
    constant = forms[0].constant
    if any(form.constant != constant for form in forms) and any(reads_memory(e) for e in leaves):
        # max(x + 9, m) is not max(x, m - 9) + 9: data may be the least of all numbers, as the
        # begin of a maximum is, and 9 less than that is a great one.
        constant = 0
    outside = Linear(common, constant)
    if outside.terms or outside.constant:
        forms = [form.plus(outside, -1) for form in forms]
    divisor = gcd(*[v for form in forms for v in (*form.terms.values(), form.constant)])
    if divisor > 1:
        forms = [
            Linear({a: c // divisor for a, c in form.terms.items()}, form.constant // divisor)
            for form in forms
        ]
    result = s.sum(forms[0], t)
    for form in forms[1:]:
        result = cls(result, s.sum(form, t))
    if divisor > 1 or outside.terms or outside.constant:
        s._memo[result] = result
        return s.sum(outside.plus(linear_of(result), max(divisor, 1)), t)
    return result


def _first(entry: tuple[Any, Linear]) -> Any:
    return entry[0]


def _order(form: Linear) -> tuple[bool, list[tuple[int, int]]]:
    """Where an operand stands: constants last, else by its terms whatever the constant is."""
    return (not form.terms, sorted([(rank_of(a), c) for a, c in form.terms.items()]))


RULES: Final[dict[type, Any]] = {Min: _simplify_choice, Max: _simplify_choice}

__all__ = ["RULES", "const"]
