"""Choices between values: select and mux, on Exprs and on Tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.build import int32
from bayplan.ir.errors import DefinitionError, TypeMismatchError
from bayplan.ir.types import BOOL
from bayplan.language.expr import Expr, as_node
from bayplan.language.operations import eq
from bayplan.language.promotion import cast_node, constant_integer
from bayplan.language.tuple import Tuple, tuple_elements


def select_node(condition: ir.Expr, true_value: ir.Expr, false_value: ir.Expr) -> ir.Expr:
    """The choice between two nodes; an int constant takes the type of the other value."""
    if constant_integer(condition) is not None:
        condition = cast_node(BOOL.with_lanes(true_value.type.lane_count), condition)
    if constant_integer(true_value) is not None:
        true_value = cast_node(false_value.type, true_value)
    if constant_integer(false_value) is not None:
        false_value = cast_node(true_value.type, false_value)
    if not condition.type.is_bool():
        raise TypeMismatchError(
            f"the condition of a select must be a bool: {condition} has type {condition.type}"
        )
    if true_value.type is not false_value.type:
        raise TypeMismatchError(
            f"the values of a select must have the same type: {true_value} has type "
            f"{true_value.type}, {false_value} has type {false_value.type}"
        )
    return ir.Select(condition, true_value, false_value)


def _select_tuple(
    condition: Any, true_value: Any, false_value: Any, each: bool
) -> tuple[Expr, ...]:
    """The choice between Tuples; `each`: every value has a condition of its own."""
    yes, no = tuple_elements(true_value), tuple_elements(false_value)
    if yes is None or no is None:
        single = true_value if yes is None else false_value
        raise TypeMismatchError(f"select expected a Tuple but got {single!r}")
    conditions = tuple_elements(condition)
    if conditions is None and each:
        raise TypeMismatchError(f"select expected a Tuple of conditions but got {condition!r}")
    if conditions is None:
        conditions = [condition] * len(yes)
    if not len(conditions) == len(yes) == len(no):
        raise TypeMismatchError(
            "select on Tuples takes Tuples of the same size, "
            f"not {len(conditions)}, {len(yes)} and {len(no)}"
        )
    parts = zip(conditions, yes, no, strict=True)
    return tuple([Expr(select_node(as_node(c), as_node(y), as_node(n))) for c, y, n in parts])


def select(*args: Any) -> Any:
    """The value of the first condition that holds: select(c0, v0, c1, v1, ..., otherwise).

    Conditions are bools, values of one type (int constants adapt). Where values are Tuples the
    result is a tuple; the conditions may then be Tuples too.
    """
    if len(args) < 3:
        raise ValueError("select() takes at least 3 arguments: a condition and two values")
    if len(args) % 2 == 0:
        raise ValueError("select() takes pairs of condition and value, then one more value")
    result = args[-1]
    each = tuple_elements(args[0]) is not None
    on_tuples = each or tuple_elements(args[1]) is not None
    for i in range(len(args) - 3, -1, -2):
        if on_tuples:
            result = _select_tuple(args[i], args[i + 1], result, each)
        else:
            result = Expr(select_node(as_node(args[i]), as_node(args[i + 1]), as_node(result)))
    return result


def mux_node(index: ir.Expr, values: Sequence[ir.Expr]) -> ir.Expr:
    """The value numbered `index`, as a chain of selects; the last one beyond all numbers."""
    if not values:
        raise DefinitionError("mux needs at least one value")
    first = values[0].type
    for value in values:
        if value.type is not first:
            raise TypeMismatchError(
                f"the values of a mux must have the same type, not {first} and {value.type}"
            )
    result = values[-1]
    for i in range(len(values) - 2, -1, -1):
        result = ir.Select(eq(index, cast_node(index.type, int32(i))), values[i], result)
    return result


def mux(index: Any, values: Any) -> Any:
    """The value of a list whose number `index` is; of Tuples, the Tuple of that number."""
    elements = tuple_elements(values)
    if elements is None:
        raise TypeError(f"mux takes a list of values, not {values!r}")
    number = as_node(index)
    if elements and tuple_elements(elements[0]) is not None:
        rows = [tuple_elements(e) for e in elements]
        size = len(rows[0] or ())
        if any(row is None or len(row) != size for row in rows):
            raise TypeMismatchError("mux on Tuples takes Tuples of the same size")
        columns = [[as_node(row[i]) for row in rows if row is not None] for i in range(size)]
        return Tuple([Expr(mux_node(number, column)) for column in columns])
    return Expr(mux_node(number, [as_node(e) for e in elements]))
