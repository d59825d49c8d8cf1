"""Loops over a product of two extents, as fusing loops makes them, seen as two loops again.

In the body of such a loop `t / width` and `t % width` are as good as independent variables in
[0, height) and [0, width). Bounded one operation at a time they would lose that the loop's range
and the divisor go together.
"""

from __future__ import annotations

from typing import Any

from bayplan.analysis.simplify import simplify
from bayplan.ir.build import add
from bayplan.ir.exprs import Div, Expr, Mod, Mul, Variable
from bayplan.ir.walk import Rewriter, free_variables


class FusedLoops:
    """The fused loops around a place, and the variables that their two parts get.

    Attributes:
        parts: (class Div or Mod, variable, divisor) -> the variable of the part.
        last: the greatest value of each part's variable; the least is 0.
        names: the fused variables.
    """

    __slots__ = ("last", "names", "parts")

    def __init__(self, outer: FusedLoops | None = None) -> None:
        self.parts: dict[tuple[type, str, Expr], Variable] = {}
        self.names: set[str] = set()
        if outer is not None:
            self.parts.update(outer.parts)
            self.names.update(outer.names)
        self.last: dict[str, Expr] = {}

    def add(self, name: str, extent: Expr) -> None:
        """Note a loop from 0 over `extent`, if that is a product that is not constant."""
        if type(extent) is not Mul:
            return
        self.names.add(name)
        for index, (width, height) in enumerate(((extent.a, extent.b), (extent.b, extent.a))):
            self._part(f"{name}.outer{index}", (Div, name, width), height)
            self._part(f"{name}.inner{index}", (Mod, name, width), width)

    def _part(self, part: str, key: tuple[type, str, Expr], extent: Expr) -> None:
        self.parts[key] = Variable(extent.type, part)
        self.last[part] = simplify(add(extent, -1))
        self.add(part, extent)

    def split(self, e: Expr) -> Expr:
        """The expression with the parts' variables in place of quotients and remainders."""
        if not self.names or self.names.isdisjoint(free_variables(e)):
            return e
        return _Split(self)(e)


class _Split(Rewriter):
    """Replaces quotients and remainders from the inside out."""

    def __init__(self, fused: FusedLoops) -> None:
        super().__init__()
        self._parts = fused.parts

    def _divided(self, node: Any) -> Any:
        a = self(node.a)
        if type(a) is Variable:
            part = self._parts.get((type(node), a.name, node.b))
            if part is not None:
                return part
        b = self(node.b)
        return node if a is node.a and b is node.b else type(node)(a, b)

    def rewrite_Div(self, node: Div) -> Any:
        return self._divided(node)

    def rewrite_Mod(self, node: Mod) -> Any:
        return self._divided(node)
