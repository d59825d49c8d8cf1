"""Loops over a product of two extents, as fusing loops makes them, seen as two loops again.

In the body of such a loop `t / width` and `t % width` are as good as independent variables in
[0, height) and [0, width). Bounded one operation at a time they would lose that the loop's range
and the divisor go together.
"""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import Any

from bayplan.analysis.linear import Linear, build_linear, is_index_type, linear_of
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import add, const, mul
from bayplan.ir.exprs import Div, Expr, Mod, Mul, Variable
from bayplan.ir.walk import Rewriter, free_variables


class FusedLoops:
    """The loops around a place that begin at 0, and the variables that parts of them got.

    Attributes:
        extents: of the loops, and of the parts so far, which may have parts again.
        last: the greatest value of each part's variable; the least is 0.
    """

    __slots__ = ("_parts", "extents", "last")

    def __init__(self, outer: FusedLoops | None = None) -> None:
        self.extents: dict[str, Expr] = {} if outer is None else dict(outer.extents)
        self.last: dict[str, Expr] = {} if outer is None else dict(outer.last)
        # (class Div or Mod, variable, divisor) -> what it is; None where it is no part.
        self._parts: dict[tuple[type, str, Expr], Expr | None] = {}

    def add(self, name: str, extent: Expr) -> None:
        """Note a loop from 0 over `extent`, which is not constant."""
        self.extents[name] = extent

    def split(self, e: Expr) -> Expr:
        """The expression with the parts' variables in place of quotients and remainders."""
        if not self.extents or self.extents.keys().isdisjoint(free_variables(e)):
            return e
        return _Split(self)(e)

    def part(self, cls: type, name: str, width: Expr) -> Expr | None:
        """What the quotient or remainder of a variable is, if `width` is a factor of its extent."""
        key = (cls, name, width)
        if key not in self._parts:
            self._parts[key] = self._make_part(cls, name, width)
        return self._parts[key]

    def _make_part(self, cls: type, name: str, width: Expr) -> Expr | None:
        extent = self.extents[name]
        t = extent.type
        if width is extent:
            return Variable(t, name) if cls is Mod else const(t, 0)
        height = _quotient(extent, width)
        if height is None:
            return None
        # Of one name and kind there is one for each divisor.
        part = f"{name}.{'outer' if cls is Div else 'inner'}{len(self.last)}"
        self.extents[part] = height if cls is Div else width
        self.last[part] = simplify(add(self.extents[part], -1))
        return Variable(t, part)


def _quotient(extent: Expr, width: Expr) -> Expr | None:
    """What `width` times gives `extent`, found by the factors of both; None for nothing."""
    if not is_index_type(extent.type) or extent.type is not width.type:
        return None
    content, factors = _factors(extent)
    by, some = _factors(width)
    if by <= 0 or content % by or some - factors:
        return None
    found: Expr = const(extent.type, content // by)
    for factor in (factors - some).elements():
        found = mul(factor, found)
    return simplify(found)


def _factors(e: Expr) -> tuple[int, Counter[Expr]]:
    """The constant factor of an expression, and the others.

    2 (a - b + 1) is written 2 a - 2 b + 2, in which 2 and a - b + 1 are found again.
    """
    form = linear_of(e)
    if not form.terms:
        return form.constant, Counter()
    content = gcd(*form.terms.values(), form.constant)
    rest = Linear({a: c // content for a, c in form.terms.items()}, form.constant // content)
    e = build_linear(rest, e.type)
    if type(e) is not Mul or len(form.terms) > 1 or form.constant:
        return content, Counter([e])
    by_a, of_a = _factors(e.a)
    by_b, of_b = _factors(e.b)
    return content * by_a * by_b, of_a + of_b


class _Split(Rewriter):
    """Replaces quotients and remainders from the inside out."""

    def __init__(self, fused: FusedLoops) -> None:
        super().__init__()
        self._fused = fused

    def _divided(self, node: Any) -> Any:
        a = self(node.a)
        if type(a) is Variable and a.name in self._fused.extents:
            part = self._fused.part(type(node), a.name, node.b)
            if part is not None:
                return part
        b = self(node.b)
        return node if a is node.a and b is node.b else type(node)(a, b)

    def rewrite_Div(self, node: Div) -> Any:
        return self._divided(node)

    def rewrite_Mod(self, node: Mod) -> Any:
        return self._divided(node)
