"""Uses the conditions of specializations to simplify the definitions they choose."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.simplify import can_prove, simplify
from bayplan.ir.build import false, is_const, logical_not, logical_or, true
from bayplan.ir.exprs import EQ, Expr, Not, Variable
from bayplan.ir.walk import Rewriter, substitute
from bayplan.language.function import Definition, Function


def simplify_specializations(env: dict[str, Function]) -> None:
    """Drops specializations that are never taken, and puts what a condition says into the values.

    Works on the private copies of a lowering.
    """
    for function in env.values():
        assert function.init is not None
        _propagate(function.init)
        for update in function.updates:
            _propagate(update)


def _propagate(definition: Definition) -> list[Definition]:
    """Simplify a definition; gives it and all that specialize it."""
    _prune(definition)
    result = [definition]
    for special in reversed(definition.specializations):
        condition = special.condition
        if special.failure:
            continue
        chosen = _propagate(special.definition)
        if type(condition) is EQ and isinstance(condition.a, Variable):
            _set_variable(condition.a.name, condition.b, chosen)
            if condition.b.type.is_bool():
                _set_variable(condition.a.name, logical_not(condition.b), result)
        elif isinstance(condition, Variable):
            _set_variable(condition.name, true(), chosen)
            _set_variable(condition.name, false(), result)
        else:
            _assume(condition, chosen)
            _assume(simplify(logical_not(condition)), result)
        result.extend(chosen)
    return result


def _prune(definition: Definition) -> None:
    """Remove specializations that are never taken; one that is always taken is the definition."""
    kept = []
    for special in definition.specializations:
        special.condition = simplify(special.condition)
        if is_const(special.condition, 0):
            continue
        kept.append(special)
        if is_const(special.condition, 1):
            break
    definition.specializations = kept
    if kept and is_const(kept[-1].condition, 1) and not kept[-1].failure:
        always = kept.pop().definition
        definition.args = always.args
        definition.values = always.values
        definition.schedule = always.schedule.copy()
        kept.extend(always.specializations)


def _set_variable(name: str, value: Expr, definitions: list[Definition]) -> None:
    _rewrite(definitions, lambda e: simplify(substitute({name: value}, e)))


def _assume(fact: Expr, definitions: list[Definition]) -> None:
    rewriter = _UsingFact(fact)
    _rewrite(definitions, lambda e: simplify(rewriter(e)))


def _rewrite(definitions: list[Definition], change: Any) -> None:
    for definition in definitions:
        definition.args = tuple([change(a) for a in definition.args])
        definition.values = tuple([change(v) for v in definition.values])


class _UsingFact(Rewriter):
    """Replaces bools that a fact decides."""

    def __init__(self, fact: Expr) -> None:
        super().__init__()
        self._fact = fact
        self._contrary = logical_not(fact)

    def __call__(self, node: Any) -> Any:
        if isinstance(node, Expr) and node.type.is_bool() and node.type.is_scalar():
            if node is self._fact or can_prove(logical_or(self._contrary, node)):
                return true()
            contrary = node.value if isinstance(node, Not) else logical_not(node)
            if contrary is self._fact or can_prove(logical_or(self._contrary, contrary)):
                return false()
        return super().__call__(node)
