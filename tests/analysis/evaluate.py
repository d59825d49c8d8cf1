"""A plain evaluator of expression nodes: what simplification must not change.

Values of vectors are lists, one entry per lane. Written without looking at the simplifier.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bayplan.ir import build
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
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
    Sub,
    Variable,
)
from bayplan.ir.types import Bool, Int, Type, UInt

Value = int | float | list[Any]


def _div(a: int, b: int) -> int:
    return 0 if b == 0 else (a - a % abs(b)) // b


def _mod(a: int, b: int) -> int:
    return 0 if b == 0 else a % abs(b)


_BINARY: dict[type, Any] = {
    Add: lambda a, b: a + b,
    Sub: lambda a, b: a - b,
    Mul: lambda a, b: a * b,
    Div: _div,
    Mod: _mod,
    Min: min,
    Max: max,
    EQ: lambda a, b: int(a == b),
    NE: lambda a, b: int(a != b),
    LT: lambda a, b: int(a < b),
    LE: lambda a, b: int(a <= b),
    GT: lambda a, b: int(a > b),
    GE: lambda a, b: int(a >= b),
    And: lambda a, b: int(a and b),
    Or: lambda a, b: int(a or b),
}


def evaluate(e: Any, env: Mapping[str, int]) -> Value:
    """The value of `e`, a list when it has several lanes."""
    cls = type(e)
    if cls is Const:
        return e.value
    if cls is Variable:
        return e.type.wrap(env[e.name])
    if cls is Ramp:
        base, stride = evaluate(e.base, env), evaluate(e.stride, env)
        if isinstance(base, list):
            assert isinstance(stride, list)
            pairs = list(zip(base, stride, strict=True))
            return [e.type.wrap(b + i * s) for i in range(e.lanes) for b, s in pairs]
        return [e.type.wrap(base + i * stride) for i in range(e.lanes)]
    if cls is Broadcast:
        value = evaluate(e.value, env)
        return (value if isinstance(value, list) else [value]) * e.lanes
    if cls is Let:
        return evaluate(e.body, {**env, e.name: evaluate(e.value, env)})
    values = [evaluate(c, env) for c in e.children()]
    if e.type.lane_count > 1:
        lanes = e.type.lane_count
        spread = [v if isinstance(v, list) else [v] * lanes for v in values]
        return [_scalar(e, [v[i] for v in spread]) for i in range(lanes)]
    return _scalar(e, values)


def _scalar(e: Any, values: list[Any]) -> int | float:
    cls = type(e)
    t = e.type
    if cls in _BINARY:
        if cls is Div and t.kind == "float":
            return values[0] / values[1]
        return t.wrap(_BINARY[cls](*values))
    if cls is Not:
        return 1 - values[0]
    if cls is Select:
        return values[1] if values[0] else values[2]
    if cls is Cast:
        return t.wrap(values[0])
    if cls is Call:
        if e.name == "likely":
            return values[0]
        if e.name == "abs":
            return t.wrap(abs(values[0]))
        if e.name == "shift_right":
            return t.wrap(values[0] >> values[1])
        if e.name == "shift_left":
            return t.wrap(values[0] << values[1])
        if e.name == "bitwise_and":
            return t.wrap(values[0] & values[1])
    raise NotImplementedError(type(e).__name__)


class Shaper:
    """Makes random expressions over x, y, z of the kind index arithmetic consists of."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, t: Type, depth: int) -> Expr:
        """An integer expression of type `t`."""
        r = self.random
        if depth <= 0 or r.random() < 0.1:
            return self._leaf(t)
        kind = r.randrange(16)
        if kind < 3:
            return build.add(self.integer(t, depth - 1), self.integer(t, depth - 1))
        if kind < 6:
            return build.sub(self.integer(t, depth - 1), self.integer(t, depth - 1))
        if kind == 6:
            return build.mul(self.integer(t, depth - 1), build.const(t, r.choice([-2, 2, 3, 4, 8])))
        if kind < 9:
            made = build.div if r.random() < 0.6 else build.mod
            by = r.choice([-4, -3, -1, 0, 2, 3, 4, 8, 8, 4])
            return made(self.integer(t, depth - 1), build.const(t, by))
        if kind == 9:
            made = build.div if r.random() < 0.5 else build.mod
            return made(self.integer(t, depth - 1), self.integer(t, 1))
        if kind < 13:
            made = build.minimum if r.random() < 0.5 else build.maximum
            return made(self.integer(t, depth - 1), self.integer(t, depth - 1))
        if kind == 13:
            lanes = t.lane_count
            return build.select(
                self.condition(depth - 1, lanes),
                self.integer(t, depth - 1),
                self.integer(t, depth - 1),
            )
        if kind == 14 and t.lane_count == 1:
            inner = r.choice([Int(8), UInt(8), Int(16), UInt(16), Int(32)])
            if t.width == 32 and t.kind == "int":
                return build.cast(t, self.integer(inner, depth - 2))
            return build.cast(t, self.integer(r.choice([inner, Int(32)]), depth - 1))
        if r.random() < 0.3:
            return build.likely(self.integer(t, depth - 1))
        if t.width == 32 and t.lane_count == 1:
            name = r.choice(["shift_right", "bitwise_and"])
            by = build.const(t, r.choice([1, 2, 3]) if name == "shift_right" else 7)
            return build.intrinsic(t, name, self.integer(t, depth - 1), by)
        return self._leaf(t)

    def _leaf(self, t: Type) -> Expr:
        r = self.random
        if t.lane_count > 1:
            element = t.element_of()
            if r.random() < 0.5:
                return build.ramp(self._leaf(element), r.choice([1, 2, -1, 4]), t.lane_count)
            return build.broadcast(self._leaf(element), t.lane_count)
        if r.random() < 0.35:
            return build.const(t, r.randrange(-9, 20))
        name = r.choice("xyz")
        return Variable(t, name) if t is Int(32) else Variable(t, f"{name}_{t}")

    def condition(self, depth: int, lanes: int = 1) -> Expr:
        """A bool expression."""
        r = self.random
        if depth > 0 and r.random() < 0.4:
            kind = r.randrange(4)
            if kind == 0:
                return build.logical_not(self.condition(depth - 1, lanes))
            made = build.logical_and if kind < 3 else build.logical_or
            return made(self.condition(depth - 1, lanes), self.condition(depth - 1, lanes))
        t = r.choice([Int(32), Int(32), Int(32), UInt(8), Int(16)]).with_lanes(lanes)
        compare = r.choice([build.lt, build.le, build.gt, build.ge, build.eq, build.ne])
        return compare(self.integer(t, depth - 1), self.integer(t, depth - 1))

    def environment(self, names: frozenset[str]) -> dict[str, int]:
        """Small values for the variables."""
        wide = self.random.random() < 0.3
        reach = 70 if wide else 9
        return {n: self.random.randrange(-reach, reach + 1) for n in sorted(names)}


__all__ = ["Bool", "Shaper", "evaluate"]
