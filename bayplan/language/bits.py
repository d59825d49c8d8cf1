"""Counting, cutting out and joining bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.build import const, int32
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.types import Type
from bayplan.language import operations as op
from bayplan.language.casts import reinterpret
from bayplan.language.expr import Expr, as_node, as_nodes
from bayplan.language.operations import pure_intrinsic
from bayplan.language.promotion import cast_node


def _count(name: str, value: Any) -> Expr:
    e = as_node(value)
    if not e.type.is_int_or_uint():
        raise TypeMismatchError(f"{name} takes an integer, not {e.type}: {e}")
    return Expr(pure_intrinsic(e.type, name, e))


def popcount(value: Any) -> Expr:
    """The number of one bits, in the value's type."""
    return _count("popcount", value)


def count_leading_zeros(value: Any) -> Expr:
    """The number of zero bits above the highest one bit, in the value's type."""
    return _count("count_leading_zeros", value)


def count_trailing_zeros(value: Any) -> Expr:
    """The number of zero bits below the lowest one bit, in the value's type."""
    return _count("count_trailing_zeros", value)


def _unsigned(e: ir.Expr) -> ir.Expr:
    return reinterpret(e.type.with_code("uint"), e).node


def extract_bits(t: Type, value: Any, lowest_bit: Any) -> Expr:
    """As many bits as `t` has, from `lowest_bit` on, taken as a `t`; zeros beyond the top."""
    e = _unsigned(as_node(value))
    shift = cast_node(e.type, as_node(lowest_bit))
    # A shift by the whole width or more has no defined result, so it is made zero here.
    in_range = op.lt(shift, const(e.type, e.type.width)) if e.type.width > 1 else None
    shifted = op.shift_right(e, shift)
    if in_range is not None:
        shifted = ir.Select(in_range, shifted, const(e.type, 0))
    return reinterpret(t, cast_node(t.with_code("uint"), shifted))


def concat_bits(values: Sequence[Any]) -> Expr:
    """The bits of two, four or eight values of one type as one integer, first the lowest."""
    nodes = as_nodes(values)
    count = len(nodes)
    if count == 0 or count & (count - 1):
        raise DefinitionError(f"concat_bits takes a power of two of values, not {count}")
    first = nodes[0].type
    for e in nodes:
        if e.type is not first:
            raise TypeMismatchError(
                f"the values of concat_bits must have one type, not {first} and {e.type}"
            )
    wide = first.with_code("uint").with_bits(first.width * count)
    result = cast_node(wide, _unsigned(nodes[0]))
    for i, e in enumerate(nodes[1:], start=1):
        shift = cast_node(wide, int32(i * first.width))
        result = op.bitwise_or(result, op.shift_left(cast_node(wide, _unsigned(e)), shift))
    return reinterpret(first.with_bits(first.width * count), result)
