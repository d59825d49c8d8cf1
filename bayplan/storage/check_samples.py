"""Sizes and parameters a program could be called with, for what the checker cannot prove."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from bayplan.analysis.evaluate import Number, Unknown
from bayplan.analysis.linear import is_index_type, linear_of
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
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
_FRUITLESS: Final = 24
"""Tries after which a condition that none of them met is taken to be one that no call meets."""

_REPAIRS: Final = 30
_REPAIRS_OF_CONDITION: Final = 12
_SIZES: Final = (1, 2, 3, 5, 8, 16, 17, 32, 64, 99)
_WHOLE: Final = (32, 64, 96, 128)  # no rest in any tile
_CHANNELS: Final = (3, 3, 1, 2, 4, 8)  # of the dimensions further out
_MINS: Final = (-9, -8, -4, -2, 0, 3, 4, 8)
_FAR: Final = 1 << 12


def find_samples(stmt: Stmt, condition: tuple[Expr, Scope | None] | None = None) -> list[Numbers]:
    """A few calls that the program's own checks do not refuse, always the same for a program.

    Args:
        stmt: the program.
        condition: another condition that the calls are to meet, and where it stands. It may ask
            for sizes that are computed from themselves, such as that an output is as large as a
            temporary whose size follows from it.
    """
    draw = random.Random(1)
    names = sorted(free_variables_of_stmt(stmt))
    written = frozenset([n.name for n in iterate(stmt) if isinstance(n, Store)])
    found: list[Numbers] = []
    for attempt in range(_TRIES):
        if attempt == _FRUITLESS and condition is not None and not found:
            break
        sizes = _WHOLE if attempt & 2 else _SIZES
        # Sizes with boundaries are computed from coordinates too, not from extents alone.
        mins = _MINS if condition is not None and attempt & 5 != 1 else (0,)
        values = _draw_values(names, written, draw, sizes, mins, far=attempt % 2 == 0)
        call = _Call(values, 1 + len(found))
        if call.accept(stmt, condition) and not (condition and call.is_empty(written)):
            found.append(call.numbers)
        if len(found) == _WANTED:
            break
    return found


class _Call:
    """A call whose values are changed until the program's checks hold in it.

    Attributes:
        values: by name.
        equal: for some of the names all those that must have the same value.
        numbers: evaluates with these values; a new one after each change.
    """

    __slots__ = ("equal", "numbers", "values")

    def __init__(self, values: dict[str, Number], workers: int) -> None:
        self.values = values
        self.equal: dict[str, set[str]] = {}
        self.numbers = Numbers(values, workers)

    def accept(self, stmt: Stmt, condition: tuple[Expr, Scope | None] | None) -> bool:
        """Whether checks and condition hold, after some changes if need be."""
        left = _REPAIRS_OF_CONDITION
        for _ in range(_REPAIRS):
            refusal = _find_refusal(stmt, self.numbers)
            try:
                if refusal is None and condition is not None and not self.numbers.value(*condition):
                    refusal = condition
                    left -= 1
                if refusal is None:
                    return True
                if not left or not self._repair(*refusal):
                    return False
            except Unknown:
                return False
            self.numbers = Numbers(self.values, self.numbers.workers)
        return False

    def is_empty(self, buffers: frozenset[str]) -> bool:
        """Whether one of the buffers has no elements, so that little can be seen in the call."""
        return any(
            value < 1 and name.partition(".extent.")[0] in buffers
            for name, value in self.values.items()
            if ".extent." in name
        )

    def _repair(self, condition: Expr, scope: Scope | None) -> bool:
        """Makes a check hold by another value of one variable, where one is found."""
        binding = scope.find(condition.name) if isinstance(condition, Variable) and scope else None
        if binding is not None and binding.value is not None:
            return self._repair(binding.value, binding.outer)
        if isinstance(condition, EQ) and self._equate(condition, scope):
            return True
        if isinstance(condition, And):
            for part in (condition.a, condition.b):
                if not self.numbers.value(part, scope):
                    return self._repair(part, scope)
        return self._move(condition, scope)

    def _equate(self, condition: EQ, scope: Scope | None) -> bool:
        """Makes an equation hold a side of which is one of the values."""
        a, b = _without_casts(condition.a), _without_casts(condition.b)
        for side, other in ((a, b), (b, a)):
            if isinstance(side, Variable) and side.name in self.values:
                self._set(side.name, self.numbers.value(other, scope))
                if isinstance(other, Variable) and other.name in self.values:
                    same = self.equal.setdefault(side.name, {side.name})
                    same |= self.equal.setdefault(other.name, {other.name})
                    for name in same:
                        self.equal[name] = same
                return True
        return False

    def _move(self, condition: Expr, scope: Scope | None) -> bool:
        """Moves one of the values as far as a comparison of sums of them lacks.

        An extent rather than another: what a promise or a tile asks for is mostly a size.
        """
        if type(condition) not in (EQ, LE, LT, GE, GT):
            return False
        sides: Any = condition
        more, less = (
            (sides.b, sides.a) if isinstance(condition, EQ | LE | LT) else (sides.a, sides.b)
        )
        if not is_index_type(more.type):
            return False
        lacks = self.numbers.value(less, scope) - self.numbers.value(more, scope)
        lacks += isinstance(condition, LT | GT)
        form = linear_of(simplify(_expand(more - less, scope, {})))
        candidates = [
            (".extent." not in atom.name, atom.name, by)
            for atom, by in form.terms.items()
            if isinstance(atom, Variable) and atom.name in self.values and abs(by) == 1
        ]
        for is_no_extent, name, by in sorted(candidates):
            value = self.values[name] + by * lacks
            if is_no_extent or value >= 1:
                self._set(name, value)
                return True
        return False

    def _set(self, name: str, value: Number) -> None:
        for other in self.equal.get(name, {name}):
            self.values[other] = value


def _without_casts(e: Expr) -> Expr:
    """The number, whichever integer type it is compared in."""
    while isinstance(e, Cast) and e.type.kind == e.value.type.kind == "int":
        e = e.value
    return e


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
    mins: tuple[int, ...],
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
            choices = {"extent": _CHANNELS if outer else sizes, "min": mins, "stride": (0,)}[field]
            values[name] = draw.choice(choices)
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


def refuses_all(stmt: Stmt) -> bool:
    """Whether a check at the begin of the program is shown to fail in all calls."""
    return any(
        build.is_zero(simplify(_expand(condition, scope, {}))) for condition, scope in _checks(stmt)
    )


def _find_refusal(stmt: Stmt, numbers: Numbers) -> tuple[Expr, Scope | None] | None:
    """A check at the begin of the program that fails, as far as that can be told."""
    for condition, scope in _checks(stmt):
        try:
            if not numbers.value(condition, scope):
                return condition, scope
        except Unknown:
            continue
    return None


def _checks(stmt: Stmt) -> Iterator[tuple[Expr, Scope | None]]:
    """What the program asserts before it computes anything, in order."""
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
                if isinstance(part, AssertStmt):
                    yield part.condition, scope
            node = node.stmts[-1]
        else:
            return
