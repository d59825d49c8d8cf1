"""Simplification of expressions and statements, and proofs by it.

`simplify` gives the same value in a smaller, canonical form, so that index expressions that are
equal become the same node and differences cancel. The rules are in the `simplify_*` modules next
to this one, by the root operation; this module holds the engine and the entry points.

int32 and int64 are taken not to overflow; narrower and unsigned integers wrap, so that only what
is exact modulo a power of two is done to them. Floats change only where the result is identical.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from bayplan.analysis.facts import Facts, Range, without_likely
from bayplan.analysis.linear import (
    Linear,
    build_linear,
    is_index_type,
    linear_of,
)
from bayplan.analysis.ranges import range_of, range_of_linear
from bayplan.ir.build import const, constant_value
from bayplan.ir.exprs import Const, Expr
from bayplan.ir.node import Node
from bayplan.ir.types import Type

N = TypeVar("N", bound=Node)


class Simplifier:
    """Simplifies expressions under some facts; one per `Facts`, with its memo."""

    __slots__ = ("_memo", "facts", "pushed")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        # How deep terms are being pushed into choices at the moment.
        self.pushed = 0
        self._memo = facts.simplified

    def __call__(self, e: Expr) -> Expr:
        """The simplified expression."""
        found = self._memo.get(e)
        if found is not None:
            return found
        facts = self.facts
        scope = facts.scope_for(e)
        if scope is facts:
            return self._apply(e)
        # The outermost scope that knows as much about `e` as this one remembers the answer.
        found = scope.simplified.get(e)
        if found is None:
            found = simplifier_of(scope)._apply(e)
        self._memo[e] = found
        return found

    def _apply(self, e: Expr) -> Expr:
        """The result of the rule for the root of `e`, remembered."""
        rule = (_table or _rules()).get(type(e))
        if rule is None:
            return e
        result = rule(self, e)
        self._memo[e] = result
        if result is not e:
            self._memo[result] = result
        return result

    def sum(self, form: Linear, t: Type) -> Expr:
        """The canonical expression of a linear form over simplified atoms."""
        from bayplan.analysis.simplify_sum import combine

        return build_linear(combine(self, form, t), t)

    def range(self, e: Expr) -> Range:
        """The constant range of a simplified expression."""
        return range_of(e, self.facts)

    def range_of_difference(self, a: Expr, b: Expr) -> Range:
        """The constant range of a - b, for simplified operands of an index type."""
        if a is b:
            return (0, 0)
        form = linear_of(a).plus(linear_of(b), -1)
        if not form.terms:
            return (form.constant, form.constant)
        low, high = range_of_linear(form, self.facts)
        if (low is not None and low >= 0) or (high is not None and high <= 0):
            return (low, high)
        if len(form.terms) == 1:
            return (low, high)
        from bayplan.analysis.simplify_sum import combine

        combined = combine(self, form, a.type)
        if combined is form:
            return (low, high)
        return range_of_linear(combined, self.facts)

    def constant_if_known(self, e: Expr) -> Expr:
        """The constant, where the range of `e` is a single value; else `e`."""
        if type(e) is Const:
            return e
        low, high = self.range(e)
        return const(e.type, low) if low is not None and low == high else e


Rule = Callable[[Simplifier, Any], Expr]

_table: dict[type, Rule] = {}


def _rules() -> dict[type, Rule]:
    if not _table:
        from bayplan.analysis import (
            simplify_call,
            simplify_divide,
            simplify_logic,
            simplify_minmax,
            simplify_sum,
        )

        for module in (
            simplify_sum,
            simplify_divide,
            simplify_minmax,
            simplify_logic,
            simplify_call,
        ):
            _table.update(module.RULES)
    return _table


def simplifier_of(facts: Facts) -> Simplifier:
    """The simplifier of a scope of facts, made at its first use."""
    found = facts.simplifier
    if found is None:
        found = facts.simplifier = Simplifier(facts)
    return cast(Simplifier, found)


def simplify(node: N, facts: Facts | None = None) -> N:
    """The same value or statement in a smaller, canonical form.

    Args:
        node: an expression or statement.
        facts: what is known where it stands; facts of enclosing lets, loops, conditions and
            asserts inside the node are found by itself.
    """
    if facts is None:
        facts = Facts.none()
    if isinstance(node, Expr):
        return cast(N, simplifier_of(facts)(node))
    from bayplan.analysis.simplify_stmt import simplify_stmt

    return cast(N, simplify_stmt(cast(Any, node), facts))


def prove(condition: Expr, facts: Facts | None = None) -> bool | None:
    """True or False where the condition surely holds or surely fails, else None."""
    if facts is None:
        facts = Facts.none()
    condition = without_likely(condition)
    value = constant_value(simplifier_of(facts)(condition))
    if value is not None:
        return bool(value)
    if facts.knows_forms():
        from bayplan.analysis.eliminate import decide

        return decide(simplifier_of(facts)(condition), facts)
    return None


def can_prove(condition: Expr, facts: Facts | None = None) -> bool:
    """Whether the condition surely holds."""
    return prove(condition, facts) is True


__all__ = ["Facts", "Simplifier", "can_prove", "is_index_type", "prove", "simplify"]
