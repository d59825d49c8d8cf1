"""Simplifies the definitions of a pipeline before anything is asked of them."""

from __future__ import annotations

from bayplan.analysis.simplify import simplify
from bayplan.language.function import Definition, Function


def simplify_definitions(env: dict[str, Function]) -> None:
    """Folds what is constant in values and coordinates, in the private copies of a lowering.

    Order: first of all, so that a Func in a branch that is never taken counts as not used. Else
    it would be scheduled, and bounds inference would find that no region of it is needed.
    """
    for function in env.values():
        for definition in function.stages():
            _simplify_definition(definition)


def _simplify_definition(definition: Definition) -> None:
    definition.values = tuple([simplify(v) for v in definition.values])
    definition.args = tuple([simplify(a) for a in definition.args])
    for special in definition.specializations:
        _simplify_definition(special.definition)
