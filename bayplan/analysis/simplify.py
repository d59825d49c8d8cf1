"""Simplification of expressions and statements, and proofs by it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from bayplan.analysis.facts import Facts
from bayplan.analysis.linear import build_linear, is_index_type, linear_of
from bayplan.ir import build
from bayplan.ir.exprs import Add, Expr, Mul, Sub
from bayplan.ir.node import Node
from bayplan.ir.walk import Rewriter

N = TypeVar("N", bound=Node)

_MAKERS: dict[str, Any] = {
    "Div": build.div,
    "Mod": build.mod,
    "Min": build.minimum,
    "Max": build.maximum,
    "EQ": build.eq,
    "NE": build.ne,
    "LT": build.lt,
    "LE": build.le,
    "GT": build.gt,
    "GE": build.ge,
    "And": build.logical_and,
    "Or": build.logical_or,
}


class _Basic(Rewriter):
    def rebuild(self, node: Any) -> Any:
        children = [self(c) for c in node.children()]
        maker = _MAKERS.get(type(node).__name__)
        if maker is not None:
            return maker(*children)
        if type(node) in (Add, Sub, Mul) and is_index_type(node.type):
            made = type(node)(*children)
            return build_linear(linear_of(made), node.type)
        return node.with_children(children) if children else node


def simplify(node: N, facts: Facts | None = None) -> N:
    """The same value or statement in a smaller, canonical form."""
    return cast(N, _Basic()(node))


def prove(condition: Expr, facts: Facts | None = None) -> bool | None:
    """True or False where the condition surely holds or surely fails, else None."""
    value = build.constant_value(simplify(condition, facts))
    return None if value is None else bool(value)


def can_prove(condition: Expr, facts: Facts | None = None) -> bool:
    """Whether the condition surely holds."""
    return prove(condition, facts) is True
