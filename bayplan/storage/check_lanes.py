"""Values of expressions in all threads of a block at once, for the checker of races."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.evaluate import OPERATIONS, Number, Unknown, evaluate
from bayplan.ir.exprs import (
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    CallKind,
    Cast,
    Const,
    Expr,
    Let,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Variable,
)
from bayplan.ir.types import Type

Value = int | float | list[Any] | None
"""One number for all threads, or one a thread; None: not known, as it depends on data."""

_TRANSPARENT: Final = frozenset(
    ["likely", "likely_if_innermost", "strict_float", "promise_clamped", "unsafe_promise_clamped"]
)


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
            return e.value if e.type.kind == "float" else int(e.value)
        if cls is Variable:
            if e.name in self.names:
                return self.names[e.name]
            known = self._from_outside(e)
            return float(known) if isinstance(known, int) and e.type.kind == "float" else known
        if cls is And or cls is Or:
            return self._short(self.of(e.a, lane), self.of(e.b, lane), int(cls is Or))
        if cls in OPERATIONS:
            return self._binary(e, lane)
        if cls is Select:
            condition = self.of(e.condition, lane if e.condition.type.lane_count > 1 else 0)
            return _choose(condition, self.of(e.true_value, lane), self.of(e.false_value, lane))
        if cls is Not:
            return _map1(lambda x: int(not x), self.of(e.value, lane))
        if cls is Cast:
            if "float" in (e.type.kind, e.value.type.kind):
                return self._in_each_thread(e, lane)
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
            return self._in_each_thread(e, lane)
        operation = OPERATIONS[type(e)]
        found = _map2(operation, self.of(e.a, lane), self.of(e.b, lane))
        t = e.type.element_of()
        if t.kind == "int" and t.width >= 32:
            # Must not overflow.
            return found
        return _map1(lambda x: int(t.wrap(x)), found)

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
        if e.kind in (CallKind.PURE_INTRINSIC, CallKind.PURE_EXTERN):
            return self._in_each_thread(e, lane)
        if e.type.lane_count == 1 and e.type.kind != "float":
            return self._from_outside(e)
        return None

    def _in_each_thread(self, e: Any, lane: int) -> Value:
        """The value of an operation on numbers, computed once for all operands that are equal."""
        operands: list[Expr] = list(e.children())
        if any(o.type.kind == "handle" for o in operands):
            return None
        values = [self.of(o, lane if o.type.lane_count > 1 else 0) for o in operands]
        if None in values:
            return None
        types = [o.type.element_of() for o in operands]
        one = _Operation(e, types)
        counts = [len(v) for v in values if isinstance(v, list)]
        if not counts:
            found: Value = one(tuple(values))
            return found
        rows = zip(*[_spread(v, counts[0]) for v in values], strict=True)
        return [None if None in row else one(row) for row in rows]

    def _vector(self, e: Any, lane: int) -> Value:
        cls = type(e)
        if cls is Broadcast:
            return self.of(e.value, lane % e.value.type.lane_count)
        if cls is Ramp:
            inner = e.base.type.lane_count
            factor = lane // inner
            step = _map1(lambda x: x * factor, self.of(e.stride, lane % inner))
            return _map2(OPERATIONS[Add], self.of(e.base, lane % inner), step)
        if cls is Shuffle:
            place = e.indices[lane]
            for v in e.vectors:
                if place < v.type.lane_count:
                    return self.of(v, place)
                place -= v.type.lane_count
        return None


class _Operation:
    """An operation on scalars, its results remembered.

    One that is not known how to compute gives any number, the same for the same operands: what
    depends on nothing but threads and loops is not data, which may be different each time.
    """

    def __init__(self, e: Any, types: list[Type]) -> None:
        self.e = e
        self.types = types
        self.type: Type = e.type.element_of()
        self.found: dict[tuple[Any, ...], Any] = {}

    def __call__(self, operands: tuple[Any, ...]) -> Any:
        if operands not in self.found:
            self.found[operands] = self._compute(operands)
        return self.found[operands]

    def _compute(self, operands: tuple[Any, ...]) -> Number | None:
        try:
            constants = [Const(t, v) for t, v in zip(self.types, operands, strict=True)]
            return evaluate(self._scalar(constants), {})
        except (Unknown, ArithmeticError, ValueError, TypeError):
            pass
        words = (self.e.name if type(self.e) is Call else type(self.e).__name__, operands)
        number = int.from_bytes(repr(words).encode(), "little") % 1_000_003
        return self.type.wrap(number) if self.type.kind != "float" else number % 1000 / 8

    def _scalar(self, constants: list[Const]) -> Expr:
        e = self.e
        if type(e) is Call:
            return Call(self.type, e.name, tuple(constants), e.kind, e.target, e.value_index)
        if type(e) is Cast:
            return Cast(self.type, constants[0])
        found: Expr = e.with_children(constants)
        return found


def _spread(value: Value, n: int) -> list[Any]:
    return value if isinstance(value, list) else [value] * n


def _map1(f: Callable[[Any], Any], a: Value) -> Value:
    if isinstance(a, list):
        return [None if x is None else f(x) for x in a]
    return None if a is None else f(a)


def _map2(f: Callable[[Any, Any], Any], a: Value, b: Value) -> Value:
    if a is None or b is None:
        return None
    if not isinstance(a, list) and not isinstance(b, list):
        found: Value = f(a, b)
        return found
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
