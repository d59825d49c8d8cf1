"""Loops over a product of two extents, as fusing loops makes them, seen as two loops again.

In the body of such a loop `t / width` and `t % width` are as good as independent variables in
[0, height) and [0, width). Bounded one operation at a time they would lose that the loop's range
and the divisor go together.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from bayplan.analysis.linear import Linear, build_linear, is_index_type, linear_of
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import add, const, mul
from bayplan.ir.exprs import Div, Expr, Mod, Mul, Variable
from bayplan.ir.walk import Rewriter, free_variables

_MOST_FACTOR: Final = 64


class FusedLoops:
    """The fused loops around a place, and the variables that their two parts get.

    Attributes:
        extents: of the fused variables, which begin at 0.
        parts: (class Div or Mod, variable, divisor) -> the variable of the part.
        last: the greatest value of each part's variable; the least is 0.
    """

    __slots__ = ("extents", "last", "parts")

    def __init__(self, outer: FusedLoops | None = None) -> None:
        self.extents: dict[str, Expr] = {}
        self.parts: dict[tuple[type, str, Expr], Variable] = {}
        if outer is not None:
            self.extents.update(outer.extents)
            self.parts.update(outer.parts)
        self.last: dict[str, Expr] = {}

    def add(self, name: str, extent: Expr) -> None:
        """Note a loop from 0 over `extent`, which is not constant."""
        self.extents[name] = extent
        for index, (width, height) in enumerate(_factorings(extent)):
            self._part(f"{name}.outer{index}", (Div, name, width), height)
            self._part(f"{name}.inner{index}", (Mod, name, width), width)

    def _part(self, part: str, key: tuple[type, str, Expr], extent: Expr) -> None:
        self.parts[key] = Variable(extent.type, part)
        self.last[part] = simplify(add(extent, -1))
        self.add(part, extent)

    def split(self, e: Expr) -> Expr:
        """The expression with the parts' variables in place of quotients and remainders."""
        if not self.extents or self.extents.keys().isdisjoint(free_variables(e)):
            return e
        return _Split(self)(e)


def _factorings(extent: Expr) -> list[tuple[Expr, Expr]]:
    """The ways in which `extent` is a product of two simplified factors, not both constant.

    A factor that is a sum has no product left to be seen: 2 (a - b + 1) is 2 a - 2 b + 2.
    """
    t = extent.type
    form = linear_of(extent)
    found: list[tuple[Expr, Expr]] = []
    if not form.terms or not is_index_type(t):
        return found
    content = gcd(*form.terms.values(), form.constant)
    for factor in _divisors(content)[1:]:
        # The other way round plain interval arithmetic is as good.
        rest = Linear({a: c // factor for a, c in form.terms.items()}, form.constant // factor)
        found.append((build_linear(rest, t), const(t, factor)))
    atom = next(iter(form.terms))
    if len(form.terms) == 1 and not form.constant and type(atom) is Mul:
        for factor in _divisors(content):
            for a, b in ((atom.a, atom.b), (atom.b, atom.a)):
                found.append((simplify(mul(a, factor)), simplify(mul(b, content // factor))))
    return found


def _divisors(n: int) -> list[int]:
    """The divisors of a small number; of a large one, 1 and itself."""
    if n > _MOST_FACTOR:
        return [1, n]
    return [d for d in range(1, n + 1) if n % d == 0]


class _Split(Rewriter):
    """Replaces quotients and remainders from the inside out."""

    def __init__(self, fused: FusedLoops) -> None:
        super().__init__()
        self._fused = fused

    def _divided(self, node: Any) -> Any:
        a = self(node.a)
        if type(a) is Variable:
            part = self._fused.parts.get((type(node), a.name, node.b))
            if part is not None:
                return part
            if self._fused.extents.get(a.name) is node.b:
                return a if type(node) is Mod else const(a.type, 0)
        b = self(node.b)
        return node if a is node.a and b is node.b else type(node)(a, b)

    def rewrite_Div(self, node: Div) -> Any:
        return self._divided(node)

    def rewrite_Mod(self, node: Mod) -> Any:
        return self._divided(node)
