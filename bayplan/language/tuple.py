"""Tuple: several values at one point of a Func."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bayplan.ir.errors import DefinitionError
from bayplan.ir.exprs import Expr as Node
from bayplan.language.expr import Expr, as_expr, is_expr_like


def tuple_elements(value: Any) -> list[Any] | None:
    """The elements of what can be a Tuple: a Tuple, a list or tuple, a use of a Tuple Func."""
    if isinstance(value, Tuple):
        return list(value.elements)
    if isinstance(value, list | tuple):
        return list(value)
    size = getattr(value, "size", None)
    if callable(size) and hasattr(value, "__getitem__"):
        count = size()
        if isinstance(count, int) and count > 1:
            return [value[i] for i in range(count)]
    if not is_expr_like(value) and isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    return None


class Tuple:
    """Several Exprs that are computed and stored together.

    Args:
        elements: a sequence of values that convert to Exprs, or the use of a Func.
    """

    __slots__ = ("elements",)

    elements: tuple[Expr, ...]

    def __init__(self, *elements: Any) -> None:
        values = elements if len(elements) != 1 else tuple_elements(elements[0])
        if values is None:
            values = [elements[0]]
        if not values:
            raise DefinitionError("a Tuple has at least one element")
        self.elements = tuple([as_expr(value) for value in values])

    def size(self) -> int:
        """Number of elements."""
        return len(self.elements)

    def nodes(self) -> list[Node]:
        """The ir nodes of the elements."""
        return [e.node for e in self.elements]

    def as_vector(self) -> list[Expr]:
        """The elements as a list."""
        return list(self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def __getitem__(self, index: int) -> Expr:
        return self.elements[index]

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.elements)

    def __repr__(self) -> str:
        return f"<bayplan.Tuple of size {len(self.elements)}>"

    __hash__ = object.__hash__
