"""Values of expressions in all threads of a block at once, for the checker of races."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.evaluate import Unknown
from bayplan.ir.build import euclidean_div, floor_mod
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Div,
    Expr,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Variable,
)

Value = int | list[Any] | None
"""One number for all threads, or one a thread; None: not known, as it depends on data."""

_TRANSPARENT: Final = frozenset(
    ["likely", "likely_if_innermost", "strict_float", "promise_clamped", "unsafe_promise_clamped"]
)
_OPERATIONS: Final[dict[type[Expr], Callable[[Any, Any], int]]] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: euclidean_div,
    Mod: floor_mod,
    Min: min,
    Max: max,
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
}


class Lanes:
    """Evaluates integers in the threads of a block.

    Args:
        outside: the value of a name, or of a call, from outside of the kernel.

    Attributes:
        names: what is bound in the kernel.
    """

    def __init__(self, outside: Callable[[Expr], int]) -> None:
        self.outside = outside
        self.names: dict[str, Value] = {}
        self._memo: dict[tuple[Expr, int], Value] = {}

    def bind(self, name: str, value: Value) -> Value:
        """Give the name a value; the one it had is returned."""
        self._memo = {}
        hidden = self.names.get(name)
        self.names[name] = value
        return hidden

    def of(self, e: Expr, lane: int = 0) -> Value:
        """The value of an expression, of a vector that of one of its lanes."""
        key = (e, lane)
        if key not in self._memo:
            self._memo[key] = self._compute(e, lane)
        return self._memo[key]

    def _compute(self, e: Any, lane: int) -> Value:
        cls = type(e)
        if cls is Const:
            return None if e.type.kind == "float" else int(e.value)
        if cls is Variable:
            return self.names[e.name] if e.name in self.names else self._from_outside(e)
        if cls is And or cls is Or:
            return self._short(self.of(e.a, lane), self.of(e.b, lane), int(cls is Or))
        if cls in _OPERATIONS:
            return self._binary(e, lane)
        if cls is Select:
            condition = self.of(e.condition, lane if e.condition.type.lane_count > 1 else 0)
            return _choose(condition, self.of(e.true_value, lane), self.of(e.false_value, lane))
        if cls is Not:
            return _map1(lambda x: int(not x), self.of(e.value, lane))
        if cls is Cast:
            if "float" in (e.type.kind, e.value.type.kind):
                return None
            wrap = e.type.element_of().wrap
            return _map1(lambda x: int(wrap(x)), self.of(e.value, lane))
        if cls is Let:
            hidden = self.bind(e.name, self.of(e.value))
            result = self.of(e.body, lane)
            self.bind(e.name, hidden)
            return result
        if cls is Call:
            return self._call(e, lane)
        return self._vector(e, lane)

    def _from_outside(self, e: Expr) -> Value:
        try:
            return self.outside(e)
        except Unknown:
            return None

    def _binary(self, e: Binary, lane: int) -> Value:
        if e.a.type.kind == "float":
            return None
        operation = _OPERATIONS[type(e)]
        return _map2(operation, self.of(e.a, lane), self.of(e.b, lane))

    def _short(self, a: Value, b: Value, stop: int) -> Value:
        """And and Or are known where one side decides."""

        def one(x: Any, y: Any) -> Any:
            for side in (x, y):
                if side is not None and bool(side) == bool(stop):
                    return stop
            return None if x is None or y is None else 1 - stop

        if isinstance(a, list) or isinstance(b, list):
            n = len(a) if isinstance(a, list) else len(b)  # type: ignore[arg-type]
            return [one(x, y) for x, y in zip(_spread(a, n), _spread(b, n), strict=True)]
        return one(a, b)  # type: ignore[no-any-return]

    def _call(self, e: Call, lane: int) -> Value:
        if e.name in _TRANSPARENT:
            return self.of(e.args[0], lane)
        if e.name == "if_then_else" and len(e.args) == 3:
            return _choose(self.of(e.args[0]), self.of(e.args[1], lane), self.of(e.args[2], lane))
        if e.name.startswith("warp_shuffle"):
            return None
        if e.type.lane_count == 1 and e.type.kind != "float":
            return self._from_outside(e)
        return None

    def _vector(self, e: Any, lane: int) -> Value:
        cls = type(e)
        if cls is Broadcast:
            return self.of(e.value, lane % e.value.type.lane_count)
        if cls is Ramp:
            inner = e.base.type.lane_count
            factor = lane // inner
            step = _map1(lambda x: x * factor, self.of(e.stride, lane % inner))
            return _map2(_OPERATIONS[Add], self.of(e.base, lane % inner), step)
        if cls is Shuffle:
            place = e.indices[lane]
            for v in e.vectors:
                if place < v.type.lane_count:
                    return self.of(v, place)
                place -= v.type.lane_count
        return None


def _spread(value: Value, n: int) -> list[Any]:
    return value if isinstance(value, list) else [value] * n


def _map1(f: Callable[[Any], int], a: Value) -> Value:
    if isinstance(a, list):
        return [None if x is None else f(x) for x in a]
    return None if a is None else f(a)


def _map2(f: Callable[[Any, Any], int], a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    if not isinstance(a, list) and not isinstance(b, list):
        return f(a, b)
    n = len(a) if isinstance(a, list) else len(b)  # type: ignore[arg-type]
    pairs = zip(_spread(a, n), _spread(b, n), strict=True)
    return [None if x is None or y is None else f(x, y) for x, y in pairs]


def _choose(condition: Value, a: Value, b: Value) -> Value:
    if condition is None:
        return None
    if not isinstance(condition, list):
        return a if condition else b
    n = len(condition)
    rows = zip(condition, _spread(a, n), _spread(b, n), strict=True)
    return [None if c is None else x if c else y for c, x, y in rows]
