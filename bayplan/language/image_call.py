"""The coordinates at which an image, a Buffer or ImageParam, is used in an expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.errors import DefinitionError
from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.types import INT32
from bayplan.language.definition import coordinates
from bayplan.language.expr import as_node
from bayplan.language.var import PLACEHOLDER


def image_arguments(title: str, coords: Sequence[Any], dimensions: int) -> tuple[Expr, ...]:
    """The int32 coordinates of a use of `title`; `_` stands for all that are left out."""
    nodes = [as_node(c) for c in coords]
    for i, node in enumerate(nodes):
        if type(node) is Variable and node.name == PLACEHOLDER:
            left_out = max(0, dimensions - (len(nodes) - 1))
            nodes[i : i + 1] = [Variable(INT32, f"_{k}") for k in range(left_out)]
            break
    if len(nodes) != dimensions:
        raise DefinitionError(
            f"{title} has {dimensions} dimensions, but it is used with {len(nodes)} coordinates"
        )
    return tuple(coordinates(title, nodes))
