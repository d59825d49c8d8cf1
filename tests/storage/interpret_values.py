"""Values of expressions for the interpreter of bytes: lists of lanes, some of them undefined.

A lane that was never written, or whose bytes another temporary has, is `Undefined`. It spreads
through arithmetic and is a fault only where it decides something: an address, a branch, an output.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from bayplan.ir import exprs as E
from bayplan.ir.build import euclidean_div
from bayplan.ir.types import Type
from bayplan.lower.lanes import lane_of
from bayplan.targets.expand_intrinsics import expand_intrinsics
from tests.targets import interpret as plain


class Unsupported(Exception):
    """The interpreter has no form for something; the program tests nothing."""


class Faulty(AssertionError):
    """The program did what it must not do."""


class Undefined:
    """A lane without a value, and why it has none."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


Lanes = list[Any]
Names = dict[str, Lanes]

_TRANSPARENT = frozenset(
    ["likely", "likely_if_innermost", "strict_float", "promise_clamped", "unsafe_promise_clamped"]
)
_MATHS: dict[str, Callable[..., float]] = {
    "is_nan": math.isnan, "is_inf": math.isinf, "is_finite": math.isfinite, "round": round,
    "pow": math.pow,
    "inverse": lambda a: 1 / a, "inverse_sqrt": lambda a: 1 / math.sqrt(a),
}  # fmt: skip
_FORMATS = {
    ("int", 8): "<b", ("int", 16): "<h", ("int", 32): "<i", ("int", 64): "<q", ("uint", 1): "<B",
    ("uint", 8): "<B", ("uint", 16): "<H", ("uint", 32): "<I", ("uint", 64): "<Q",
    ("float", 16): "<e", ("float", 32): "<f", ("float", 64): "<d",
}  # fmt: skip


def format_of(t: Type) -> str:
    """How `struct` writes an element of the type."""
    return _FORMATS[t.kind, t.width]


class Values:
    """Evaluates expressions with the names of a scope.

    Args:
        names: lanes of each name, changed by the caller as scopes open and close.
        load: reads lanes: (load, indices, which are active) -> lanes.
        call: gives the value of calls about buffers and storage, None for others.
    """

    def __init__(
        self,
        names: Names,
        load: Callable[[E.Load, Lanes, Lanes], Lanes],
        call: Callable[[E.Call], Lanes | None],
    ) -> None:
        self.names = names
        self.load = load
        self.call = call
        self.memo: dict[E.Expr, Lanes] = {}

    def fresh(self, e: E.Expr) -> Lanes:
        """The lanes of an expression in the state of now."""
        self.memo = {}
        return self.of(e)

    def of(self, e: Any) -> Lanes:
        """The lanes of an expression; shared parts are evaluated once a statement."""
        cls = type(e)
        if cls is E.Const:
            return [e.value]
        if cls is E.Variable:
            if e.name not in self.names:
                raise Unsupported(f"the name {e.name}")
            return self.names[e.name]
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = _RULES[cls](self, e)
        return found

    def _binary(self, e: Any) -> Lanes:
        a, b = self.of(e.a), self.of(e.b)
        cls, t, operand = type(e), e.type, e.a.type
        if t.kind != "float" and operand.kind != "float":
            quick = _QUICK.get(cls)
            if quick is not None and not (_any_undefined(a) or _any_undefined(b)):
                return [quick(x, y) for x, y in zip(a, b, strict=True)]
        return [_one(cls, x, y, t, operand) for x, y in zip(a, b, strict=True)]

    def _not(self, e: E.Not) -> Lanes:
        return [x if type(x) is Undefined else int(not x) for x in self.of(e.value)]

    def _select(self, e: E.Select) -> Lanes:
        condition, a, b = self.of(e.condition), self.of(e.true_value), self.of(e.false_value)
        if len(condition) == 1:
            condition = condition * len(a)
        return [
            c if type(c) is Undefined else x if c else y
            for c, x, y in zip(condition, a, b, strict=True)
        ]

    def _cast(self, e: E.Cast) -> Lanes:
        source, t = e.value.type, e.type
        return [x if type(x) is Undefined else _convert(x, source, t) for x in self.of(e.value)]

    def _let(self, e: E.Let) -> Lanes:
        value = self.of(e.value)
        saved, memo = self.names.get(e.name), self.memo
        self.names[e.name] = value
        self.memo = {}
        result = self.of(e.body)
        self.memo = memo
        if saved is None:
            del self.names[e.name]
        else:
            self.names[e.name] = saved
        return result

    def _load(self, e: E.Load) -> Lanes:
        index = self.of(e.index)
        active = self.of(e.predicate) if e.predicate is not None else [1] * len(index)
        return self.load(e, index, active)

    def _ramp(self, e: E.Ramp) -> Lanes:
        base, stride = self.of(e.base), self.of(e.stride)
        t = e.type
        result: Lanes = []
        for k in range(e.lanes):
            for b, s in zip(base, stride, strict=True):
                bad = b if type(b) is Undefined else s if type(s) is Undefined else None
                result.append(t.wrap(b + k * s) if bad is None else bad)
        return result

    def _broadcast(self, e: E.Broadcast) -> Lanes:
        return self.of(e.value) * e.lanes

    def _shuffle(self, e: E.Shuffle) -> Lanes:
        lanes = [x for v in e.vectors for x in self.of(v)]
        return [lanes[i] for i in e.indices]

    def _reduce(self, e: E.VectorReduce) -> Lanes:
        lanes = self.of(e.value)
        if _any_undefined(lanes):
            factor = len(lanes) // e.lanes
            groups = [lanes[k * factor : (k + 1) * factor] for k in range(e.lanes)]
            bad = [next((x for x in g if type(x) is Undefined), None) for g in groups]
            tidy = [0 if type(x) is Undefined else x for x in lanes]
            values = self._reduced(e, tidy)
            return [v if b is None else b for v, b in zip(values, bad, strict=True)]
        return self._reduced(e, lanes)

    def _reduced(self, e: E.VectorReduce, lanes: Lanes) -> Lanes:
        if e.op is E.ReduceOp.SATURATING_ADD:
            raise Unsupported("saturating sums of lanes")
        return plain.reduce(e, lanes)

    def _call(self, e: E.Call) -> Lanes:
        found = self.call(e)
        if found is not None:
            return found
        if e.name in _TRANSPARENT:
            return self.of(e.args[0])
        if e.name in ("return_second", "require", "print_when"):
            return self.of(e.args[1])
        if e.name == "undef":
            return [Undefined("it is undef")] * e.type.lane_count
        if e.name == "if_then_else":
            return self._if_then_else(e)
        expanded = expand_intrinsics(e)
        if expanded is not None:
            return self.of(expanded)
        rows = zip(*[self.of(a) for a in e.args], strict=True)
        source = e.args[0].type
        return [self._primitive(e, row, source) for row in rows]

    def _if_then_else(self, e: E.Call) -> Lanes:
        lanes = e.type.lane_count
        condition = self.of(e.args[0])
        if len(condition) == 1 and lanes > 1:
            condition = condition * lanes
        result: Lanes = []
        for k, c in enumerate(condition):
            side = 1 if type(c) is not Undefined and c else 2
            if type(c) is Undefined:
                result.append(c)
            elif side < len(e.args):
                result += self.of(e.args[side] if lanes == 1 else lane_of(e.args[side], k))
            else:
                result.append(0)
        return result

    def _primitive(self, e: E.Call, row: tuple[Any, ...], source: Type) -> Any:
        for x in row:
            if type(x) is Undefined:
                return x
        t = e.type.element_of()
        try:
            if e.name in ("fast_inverse", "fast_inverse_sqrt") or e.name in _MATHS:
                return t.wrap(_MATHS[e.name.removeprefix("fast_")](*row))
            if e.kind is E.CallKind.PURE_EXTERN:
                return t.wrap(getattr(math, e.name.removeprefix("fast_"))(*row))
            if e.name == "reinterpret":
                data = struct.pack(format_of(source.element_of()), *row)
                return struct.unpack(format_of(t), data)[0]
            return t.wrap(plain.primitive(e.name, row, source, t))
        except (KeyError, AttributeError) as error:
            raise Unsupported(f"the call {e.name}") from error
        except (ValueError, ZeroDivisionError, OverflowError):
            return math.nan


def _any_undefined(lanes: Lanes) -> bool:
    return any(type(x) is Undefined for x in lanes)


def _convert(x: Any, source: Type, t: Type) -> Any:
    try:
        return plain.convert(x, source, t)
    except (ValueError, OverflowError):
        return 0


def _one(cls: type, x: Any, y: Any, t: Type, operand: Type) -> Any:
    if cls is E.And or cls is E.Or:
        stop = 0 if cls is E.And else 1
        for v in (x, y):
            if type(v) is not Undefined and bool(v) == bool(stop):
                return stop
    if type(x) is Undefined:
        return x
    if type(y) is Undefined:
        return y
    if cls is E.Div and operand.kind != "float":
        return t.wrap(euclidean_div(x, y)) if y else 0
    try:
        return plain.binary(cls, x, y, t.element_of(), operand)
    except (ValueError, OverflowError):
        return math.nan


_QUICK: dict[type, Callable[[Any, Any], Any]] = {
    E.EQ: lambda a, b: int(a == b),
    E.NE: lambda a, b: int(a != b),
    E.LT: lambda a, b: int(a < b),
    E.LE: lambda a, b: int(a <= b),
    E.GT: lambda a, b: int(a > b),
    E.GE: lambda a, b: int(a >= b),
    E.Min: min,
    E.Max: max,
}

_RULES: dict[type, Any] = {
    **dict.fromkeys(
        [
            E.Add, E.Sub, E.Mul, E.Div, E.Mod, E.Min, E.Max, E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE,
            E.And, E.Or,
        ],
        Values._binary,
    ),
    E.Not: Values._not,
    E.Select: Values._select,
    E.Cast: Values._cast,
    E.Let: Values._let,
    E.Load: Values._load,
    E.Ramp: Values._ramp,
    E.Broadcast: Values._broadcast,
    E.Shuffle: Values._shuffle,
    E.VectorReduce: Values._reduce,
    E.Call: Values._call,
}  # fmt: skip
