"""Solving conditions for one variable."""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.facts import without_likely
from bayplan.analysis.interval import Interval
from bayplan.analysis.linear import Linear, build_linear, is_index_type, linear_of
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
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
    Let,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Variable,
)
from bayplan.ir.types import Type
from bayplan.ir.walk import free_variables, substitute

# Calls that are their first argument, when they are evaluated.
_TRANSPARENT: Final = frozenset(
    ["likely", "likely_if_innermost", "promise_clamped", "unsafe_promise_clamped"]
)


def solve_expression(expr: Expr, var: str) -> Expr:
    """The condition with `var` alone on the left of its comparison, where that is possible.

    Other expressions, and comparisons in which `var` cannot be isolated, come back simplified.
    """
    expr = simplify(without_likely(expr))
    cls = type(expr)
    if cls is And or cls is Or:
        make = build.logical_and if cls is And else build.logical_or
        a, b = expr.a, expr.b  # type: ignore[attr-defined]
        return make(solve_expression(a, var), solve_expression(b, var))
    if cls not in (LT, LE, GT, GE, EQ, NE) or var not in free_variables(expr):
        return expr
    comparison: Any = expr
    if not is_index_type(comparison.a.type):
        return expr
    form = linear_of(comparison.a).plus(linear_of(comparison.b), -1)
    variable, c = _own_term(form, var)
    if variable is None or abs(c) != 1:
        return expr
    rest = Linear({a: k for a, k in form.terms.items() if a is not variable}, form.constant)
    right = build_linear(rest.times(-c), variable.type)
    if c < 0:
        cls = {LT: GT, LE: GE, GT: LT, GE: LE}.get(cls, cls)
    return cls(variable, right)


def solve_for_outer_interval(condition: Expr, var: str) -> Interval:
    """An interval of `var` outside of which the condition surely fails.

    Ends may use the other variables of the condition.
    """
    return _Solver(var, outer=True).solve(simplify(without_likely(condition)), True)


def solve_for_inner_interval(condition: Expr, var: str) -> Interval:
    """An interval of `var` in which the condition surely holds, whatever else is the case.

    Ends may use the other variables of the condition.
    """
    return _Solver(var, outer=False).solve(simplify(without_likely(condition)), True)


def _own_term(form: Linear, var: str) -> tuple[Expr | None, int]:
    """The variable with its coefficient, where it occurs in the form in this way alone."""
    found: tuple[Expr | None, int] = (None, 0)
    for atom, c in form.terms.items():
        if type(atom) is Variable and atom.name == var:
            found = (atom, c)
        elif var in free_variables(atom):
            return (None, 0)
    return found


class _Solver:
    """Solves for one variable; unknown parts give everything (outer) or nothing (inner)."""

    def __init__(self, var: str, outer: bool) -> None:
        self.var = var
        self.outer = outer

    def _unknown(self) -> Interval:
        return Interval.everything() if self.outer else Interval.nothing()

    def solve(self, e: Any, holds: bool) -> Interval:
        cls = type(e)
        if cls is Const:
            return Interval.everything() if bool(e.value) is holds else Interval.nothing()
        if cls is Not:
            return self.solve(e.value, not holds)
        if cls is And or cls is Or:
            a = self.solve(e.a, holds)
            b = self.solve(e.b, holds)
            return self._both(a, b) if (cls is And) is holds else self._either(a, b)
        if cls is Let:
            return self.solve(substitute({e.name: e.value}, e.body), holds)
        if cls is Call and e.name in ("likely", "likely_if_innermost"):
            return self.solve(e.args[0], holds)
        if self.var not in free_variables(e):
            return self._unknown()
        if cls in (LT, LE, GT, GE, EQ, NE) and is_index_type(e.a.type):
            return self._comparison(cls, e, holds)
        return self._unknown()

    def _both(self, a: Interval, b: Interval) -> Interval:
        return a.intersection(b)

    def _either(self, a: Interval, b: Interval) -> Interval:
        if self.outer:
            return a.union(b)
        # The union of two intervals in which a condition holds may have a hole.
        if a.empty or b.is_everything():
            return b
        return a

    def _comparison(self, cls: type, e: Any, holds: bool) -> Interval:
        form = linear_of(e.b).plus(linear_of(e.a), -1)
        t = e.a.type
        if cls is EQ or cls is NE:
            if (cls is EQ) is holds:
                return self._both(
                    self._non_negative(form, t), self._non_negative(form.times(-1), t)
                )
            above = self._non_negative(form.plus_constant(-1), t)
            below = self._non_negative(form.times(-1).plus_constant(-1), t)
            return self._either(above, below)
        if cls is GT or cls is GE:
            form = form.times(-1)
        if cls is LT or cls is GT:
            form = form.plus_constant(-1)
        if not holds:
            form = form.times(-1).plus_constant(-1)
        return self._non_negative(form, t)

    def _non_negative(self, form: Linear, t: Type) -> Interval:
        """Where form >= 0."""
        variable, c = _own_term(form, self.var)
        if variable is not None:
            rest = Linear({a: k for a, k in form.terms.items() if a is not variable}, form.constant)
            if c > 0:
                # c v >= -rest: rounded up.
                low = build_linear(rest.times(-1).plus_constant(c - 1), t)
                return Interval(simplify(build.div(low, c)), None)
            return Interval(None, simplify(build.div(build_linear(rest, t), -c)))
        carrier = self._carrier(form)
        if carrier is None:
            return self._unknown()
        return self._through(form, carrier, t)

    def _carrier(self, form: Linear) -> Any:
        """The one atom that the variable occurs in."""
        carriers = [a for a in form.terms if self.var in free_variables(a)]
        return carriers[0] if len(carriers) == 1 else None

    def _through(self, form: Linear, atom: Any, t: Type) -> Interval:
        c = form.terms[atom]
        rest = form.plus(Linear({atom: c}, 0), -1)
        cls = type(atom)
        if cls is Min or cls is Max:
            a = self._non_negative(rest.plus(linear_of(atom.a), c), t)
            b = self._non_negative(rest.plus(linear_of(atom.b), c), t)
            return self._both(a, b) if (cls is Min) == (c > 0) else self._either(a, b)
        if cls is Div and type(atom.b) is Const and atom.b.value > 0:
            by = int(atom.b.value)
            inside = linear_of(atom.a)
            if c > 0:
                # x / by >= q, q = ceil(-rest / c)  is  x >= q by
                q = simplify(build.div(build_linear(rest.times(-1).plus_constant(c - 1), t), c))
                return self._non_negative(inside.plus(linear_of(q), -by), t)
            # x / by <= q, q = floor(rest / -c)  is  x <= q by + by - 1
            q = simplify(build.div(build_linear(rest, t), -c))
            turned = linear_of(q).times(by).plus(inside, -1)
            return self._non_negative(turned.plus_constant(by - 1), t)
        if cls is Call and atom.name in _TRANSPARENT:
            return self._non_negative(rest.plus(linear_of(atom.args[0]), c), t)
        if cls is Mul and self.outer is False:
            return Interval.nothing()
        return self._unknown()
