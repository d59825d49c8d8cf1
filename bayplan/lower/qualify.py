"""Puts the name of a stage before the variables of a user's expression."""

from __future__ import annotations

from typing import Any

from bayplan.ir.exprs import Let, Variable
from bayplan.ir.node import Node
from bayplan.ir.walk import Rewriter, substitute
from bayplan.language.parameter import Parameter


class Qualify(Rewriter):
    """Renames x to PREFIXx, for one prefix; parameters keep their names, Lets are expanded."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def rewrite_Variable(self, node: Variable) -> Variable:
        if isinstance(node.source, Parameter):
            return node
        return Variable(node.type, self._prefix + node.name)

    def rewrite_Let(self, node: Let) -> Any:
        # Nodes are shared, so expanding costs nothing and spares later passes the scope.
        return self(substitute({node.name: node.value}, node.body))


def qualify(prefix: str, node: Node) -> Any:
    """`node` with the prefix before each variable that is not a parameter."""
    return Qualify(prefix)(node)
