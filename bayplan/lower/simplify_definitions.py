"""Removes branches that are never taken from the definitions of a pipeline."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.simplify import simplify
from bayplan.ir.build import constant_value
from bayplan.ir.exprs import Call, Expr, Select
from bayplan.ir.walk import Rewriter
from bayplan.language.function import Definition, Function


def simplify_definitions(env: dict[str, Function]) -> None:
    """Decides selects with a constant condition, in the private copies of a lowering.

    Nothing else is simplified: a clamp that is not needed still tells bounds inference a range.
    Order: before realization order is found, so that a Func in a branch that is never taken
    counts as not used. Else it would be scheduled, and bounds inference would find that no region
    of it is needed.
    """
    decide = _Decide()
    for function in env.values():
        for definition in function.stages():
            _simplify_definition(definition, decide)


def _simplify_definition(definition: Definition, decide: _Decide) -> None:
    definition.values = tuple([decide(v) for v in definition.values])
    definition.args = tuple([decide(a) for a in definition.args])
    for special in definition.specializations:
        _simplify_definition(special.definition, decide)


class _Decide(Rewriter):
    """Replaces selects and branches by the side that is always taken."""

    def rewrite_Select(self, node: Select) -> Any:
        value = constant_value(simplify(node.condition))
        if value is None:
            return self.rebuild(node)
        return self(node.true_value if value else node.false_value)

    def rewrite_Call(self, node: Call) -> Any:
        if node.is_intrinsic("if_then_else") and len(node.args) == 3:
            condition, true_value, false_value = node.args
            value = constant_value(simplify(condition))
            if value is not None:
                chosen: Expr = true_value if value else false_value
                return self(chosen)
        return self.rebuild(node)
