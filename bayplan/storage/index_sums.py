"""Indices as sums of products, for the question how far apart two elements are.

Widths of integers are left out: an index that is right does not overflow where it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bayplan.analysis.purity import is_pure, reads_memory
from bayplan.ir.build import add, cast, const, constant_value, mul
from bayplan.ir.exprs import Add, Broadcast, Cast, Expr, Mul, Ramp, Sub, Variable
from bayplan.ir.stmts import For, LetStmt
from bayplan.ir.types import INT64
from bayplan.ir.walk import free_variables
from bayplan.storage.places import Place, outward
from bayplan.storage.polynomials import Terms, product_by, total

_MOST_TERMS: Final = 200

Atom = Expr | tuple[int, int]
"""What a product is made of: a scalar or vector expression, or a lane's digit: lanes that have the
same one in a row, and how many there are."""

Sum = Terms[Atom]
"""With atoms in the order in which they were met."""


class TooLong(Exception):
    """A sum of more products than are worth a look."""


class IndexSums:
    """Makes sums of indices at the places where they stand.

    Args:
        outside: names that stay as they are; all other lets are written out.
        values: what buffers' fields are known to be.
    """

    def __init__(self, outside: frozenset[str], values: Mapping[str, Expr]) -> None:
        self._outside = outside
        self._values = values
        self._known: dict[tuple[Expr, Place | None], Sum] = {}
        self._order: dict[Atom, int] = {}

    def distance(self, a: Expr, b: Expr, place: Place | None) -> Expr | None:
        """How many elements `a` and `b` lie apart, in names from outside; None: not one number.

        Raises:
            TooLong: it cannot be told.
        """
        difference = total(self.of(a, place), self.of(b, place), -1)
        result: Expr = const(INT64, 0)
        terms = sorted(difference.items(), key=_text)
        sign = -1 if terms and terms[0][1] < 0 else 1
        for atoms, factor in terms:
            product: Expr = const(INT64, sign * factor)
            for atom in atoms:
                if not isinstance(atom, Expr) or not self._is_outside(atom, place):
                    return None
                product = mul(cast(INT64, atom), product)
            result = add(product, result)
        return result

    def of(self, e: Expr, place: Place | None) -> Sum:
        """The sum that an expression is at a place."""
        key = (e, place)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._sum(e, place)
            if len(found) > _MOST_TERMS:
                raise TooLong
        return found

    def _sum(self, e: Expr, place: Place | None) -> Sum:
        value = constant_value(e)
        if value is not None and e.type.kind != "float":
            return {(): int(value)} if value else {}
        if type(e) is Variable:
            return self._variable(e, place)
        if isinstance(e, Add | Sub) and e.type.kind != "float":
            return total(self.of(e.a, place), self.of(e.b, place), 1 if type(e) is Add else -1)
        if isinstance(e, Mul) and e.type.kind != "float":
            return self._times(self.of(e.a, place), self.of(e.b, place))
        if type(e) is Cast and e.type.width >= 32 and e.value.type.kind == e.type.kind == "int":
            return self.of(e.value, place)
        if type(e) is Broadcast:
            return self.of(e.value, place)
        if type(e) is Ramp:
            lane: Sum = {((e.base.type.lane_count, e.lanes),): 1}
            steps = self._times(self.of(e.stride, place), lane)
            return total(self.of(e.base, place), steps, 1)
        return {(e,): 1}

    def _variable(self, e: Variable, place: Place | None) -> Sum:
        if e.name in self._values:
            return self.of(self._values[e.name], None)
        if e.name not in self._outside:
            for around in outward(place):
                node = around.node
                if node is None or node.name != e.name:
                    continue
                if type(node) is LetStmt and is_pure(node.value) and not reads_memory(node.value):
                    return self.of(node.value, around.outer)
                break
        # Whose field it is has been noted at some places only.
        return {(Variable(e.type, e.name),): 1}

    def _times(self, a: Sum, b: Sum) -> Sum:
        return product_by(a, b, self._number)

    def _number(self, atom: Atom) -> int:
        return self._order.setdefault(atom, len(self._order))

    def _is_outside(self, e: Expr, place: Place | None) -> bool:
        if reads_memory(e) or not is_pure(e) or e.type.lane_count > 1:
            return False
        inside = {
            around.node.name
            for around in outward(place)
            if isinstance(around.node, For | LetStmt) and around.node.name not in self._outside
        }
        return inside.isdisjoint(free_variables(e))


def _text(term: tuple[tuple[Atom, ...], int]) -> list[str]:
    return sorted([str(atom) for atom in term[0]])
