"""Makes a prefetch of a region into loops that touch each of its cache lines once."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, StringImm
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.stmts import Evaluate, For, IfThenElse, Prefetch, Stmt
from bayplan.ir.types import INT32

_CACHE_LINE_BYTES = 64


def flatten_prefetch(
    node: Prefetch, order: list[int], index: Callable[[list[Expr]], Expr]
) -> Stmt:
    """The loops of a prefetch, without the statement that it stands before.

    Args:
        node: its bounds and condition are in the terms of the flat program.
        order: the dimensions as they lie in memory, innermost first.
        index: gives the flat index of an element from its coordinates.
    """
    name = node.name
    coordinates: list[Expr] = [low for low, _ in node.bounds]
    loops: list[tuple[str, Expr, Expr]] = []
    for position, d in enumerate(order):
        low, extent = node.bounds[d]
        variable = build.var(f"{name}.prefetch.{d}")
        if position == 0:
            # Lines, not elements: one hint fetches a whole line.
            step = max(_CACHE_LINE_BYTES // node.types[0].bytes(), 1)
            coordinates[d] = low + variable * step
            loops.append((variable.name, build.int32(0), (extent + (step - 1)) // step))
        else:
            coordinates[d] = variable
            loops.append((variable.name, low, extent))
    args = (StringImm(name), index(coordinates))
    result: Stmt = Evaluate(Call(INT32, "prefetch", args, CallKind.INTRINSIC))
    for loop, low, extent in loops:
        result = For(loop, low, extent, ForKind.Serial, Partition.Never, result)
    if not build.is_one(node.condition):
        result = IfThenElse(node.condition, result)
    return result
