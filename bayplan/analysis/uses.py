"""Which names a node uses, beyond what `ir.walk` tells."""

from __future__ import annotations

from bayplan.ir.exprs import Call, CallKind
from bayplan.ir.node import Node
from bayplan.ir.walk import iterate


def called_funcs(node: Node) -> set[str]:
    """Names of the Funcs that calls in the node read."""
    return {n.name for n in iterate(node) if type(n) is Call and n.kind is CallKind.FUNC}


def called_images(node: Node) -> set[str]:
    """Names of the input buffers that calls in the node read."""
    return {n.name for n in iterate(node) if type(n) is Call and n.kind is CallKind.IMAGE}
