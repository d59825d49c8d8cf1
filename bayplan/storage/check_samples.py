"""Sizes and parameters a program could be called with, for what the checker cannot prove."""

from __future__ import annotations

import random
from typing import Any, Final

from bayplan.analysis.evaluate import Number, Unknown
from bayplan.analysis.linear import is_index_type, linear_of
from bayplan.analysis.simplify import simplify
from bayplan.ir.exprs import EQ, GE, GT, LE, LT, And, Cast, Expr, Variable
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Block,
    LetStmt,
    ProducerConsumer,
    Stmt,
    Store,
)
from bayplan.ir.walk import free_variables_of_stmt, iterate
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.check_walk import Scope

_WANTED: Final = 4
_TRIES: Final = 40
_REPAIRS: Final = 30
_SIZES: Final = (1, 2, 3, 5, 8, 16, 17, 32, 64, 99)
_WHOLE: Final = (32, 64, 96, 128)  # no rest in any tile
_CHANNELS: Final = (3, 3, 1, 2, 4, 8)  # of the dimensions further out
_FAR: Final = 1 << 12


def find_samples(stmt: Stmt, condition: tuple[Expr, Scope | None] | None = None) -> list[Numbers]:
    """A few calls that the program's own checks do not refuse, always the same for a program.

    Args:
        stmt: the program.
        condition: another condition that the calls are to meet, and where it stands.
    """
    draw = random.Random(1)
    names = sorted(free_variables_of_stmt(stmt))
    written = frozenset([n.name for n in iterate(stmt) if isinstance(n, Store)])
    found: list[Numbers] = []
    for attempt in range(_TRIES):
        sizes = _WHOLE if attempt & 2 else _SIZES
        values = _draw_values(names, written, draw, sizes, far=attempt % 2 == 0)
        equal: dict[str, set[str]] = {}
        for _ in range(_REPAIRS):
            numbers = Numbers(values, 1 + len(found))
            refusal = _find_refusal(stmt, numbers)
            try:
                if refusal is None and condition is not None and not numbers.value(*condition):
                    refusal = condition
                if refusal is None:
                    found.append(numbers)
                    break
                if not _repair(values, equal, *refusal, numbers):
                    break
            except Unknown:
                break
        if len(found) == _WANTED:
            break
    return found


def _repair(
    values: dict[str, Number],
    equal: dict[str, set[str]],
    condition: Expr,
    scope: Scope | None,
    numbers: Numbers,
) -> bool:
    """Makes a check hold by another value of one variable, where one is found.

    Args:
        equal: for each value all those that must be the same.
    """
    binding = scope.find(condition.name) if isinstance(condition, Variable) and scope else None
    if binding is not None and binding.value is not None:
        return _repair(values, equal, binding.value, binding.outer, numbers)
    if isinstance(condition, EQ) and _equate(values, equal, condition, scope, numbers):
        return True
    if isinstance(condition, And):
        for part in (condition.a, condition.b):
            if not numbers.value(part, scope):
                return _repair(values, equal, part, scope, numbers)
    return _move(values, equal, condition, scope, numbers)


def _equate(
    values: dict[str, Number],
    equal: dict[str, set[str]],
    condition: EQ,
    scope: Scope | None,
    numbers: Numbers,
) -> bool:
    """Makes an equation hold a side of which is one of the values."""
    a, b = _without_casts(condition.a), _without_casts(condition.b)
    for side, other in ((a, b), (b, a)):
        if isinstance(side, Variable) and side.name in values:
            same = equal.setdefault(side.name, {side.name})
            value = numbers.value(other, scope)
            for name in same:
                values[name] = value
            if isinstance(other, Variable) and other.name in values:
                same |= equal.setdefault(other.name, {other.name})
                for name in same:
                    equal[name] = same
            return True
    return False


def _without_casts(e: Expr) -> Expr:
    """The number, whichever integer type it is compared in."""
    while isinstance(e, Cast) and e.type.kind == e.value.type.kind == "int":
        e = e.value
    return e


def _move(
    values: dict[str, Number],
    equal: dict[str, set[str]],
    condition: Expr,
    scope: Scope | None,
    numbers: Numbers,
) -> bool:
    """Moves one of the values as far as a comparison of sums of them lacks.

    An extent rather than another: what a promise or a tile asks for is mostly a size.
    """
    if type(condition) not in (EQ, LE, LT, GE, GT):
        return False
    sides: Any = condition
    more, less = (sides.b, sides.a) if isinstance(condition, EQ | LE | LT) else (sides.a, sides.b)
    if not is_index_type(more.type):
        return False
    lacks = numbers.value(less, scope) - numbers.value(more, scope)
    lacks += isinstance(condition, LT | GT)
    form = linear_of(simplify(_expand(more - less, scope, {})))
    candidates = [
        (".extent." not in atom.name, atom.name, by)
        for atom, by in form.terms.items()
        if isinstance(atom, Variable) and atom.name in values and abs(by) == 1
    ]
    for is_no_extent, name, by in sorted(candidates):
        value = values[name] + by * lacks
        if is_no_extent or value >= 1:
            for other in equal.get(name, {name}):
                values[other] = value
            return True
    return False


def _expand(e: Expr, scope: Scope | None, known: dict[tuple[Scope | None, Expr], Expr]) -> Expr:
    """The expression in terms of what comes from outside, as far as it does, for `_move`."""
    found = known.get((scope, e))
    if found is not None:
        return found
    binding = scope.find(e.name) if isinstance(e, Variable) and scope is not None else None
    result: Any = e
    if binding is not None and binding.value is not None:
        result = _expand(binding.value, binding.outer, known)
    elif e.children():
        children: list[Any] = [_expand(c, scope, known) for c in e.children()]  # type: ignore[arg-type]
        result = e.with_children(children)
    known[scope, e] = result
    return result  # type: ignore[no-any-return]


def _draw_values(
    names: list[str],
    written: frozenset[str],
    draw: random.Random,
    sizes: tuple[int, ...],
    *,
    far: bool,
) -> dict[str, Number]:
    """Dense buffers: small ones to write, large or small ones to read from; any parameters."""
    values: dict[str, Number] = {}
    strides: dict[str, int] = {}
    for name in names:
        buffer, _, field = name.rpartition(".")[0].rpartition(".")
        number = name.rpartition(".")[2]
        if field not in ("min", "extent", "stride") or not number.isdigit():
            values[name] = draw.choice(_SIZES)
        elif buffer in written:
            outer = int(number) >= 2
            values[name] = draw.choice(_CHANNELS if outer else sizes) if field == "extent" else 0
        else:
            extent = 2 * _FAR if far else draw.choice(sizes)
            values[name] = {"min": -_FAR if far else 0, "extent": extent, "stride": 0}[field]
    # In the order of dimensions, so that each stride is that of the dimension before times its
    # extent.
    for name in names:
        buffer, _, field = name.rpartition(".")[0].rpartition(".")
        if field == "stride":
            stride = strides.get(buffer, 1)
            values[name] = stride
            length = values.get(f"{buffer}.extent.{name.rpartition('.')[2]}", 1)
            strides[buffer] = stride * int(length)
    return values


def _find_refusal(stmt: Stmt, numbers: Numbers) -> tuple[Expr, Scope | None] | None:
    """A check at the begin of the program that fails, as far as that can be told."""
    scope: Scope | None = None
    node: Node = stmt
    while True:
        if isinstance(node, LetStmt):
            scope = Scope(node.name, node.value, None, scope)
            node = node.body
        elif isinstance(node, ProducerConsumer | Allocate):
            node = node.body
        elif isinstance(node, Block):
            for part in node.stmts[:-1]:
                if isinstance(part, AssertStmt) and _fails(part, scope, numbers):
                    return part.condition, scope
            node = node.stmts[-1]
        else:
            return None


def _fails(check: AssertStmt, scope: Scope | None, numbers: Numbers) -> bool:
    try:
        return not numbers.value(check.condition, scope)
    except Unknown:
        return False
