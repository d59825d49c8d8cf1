"""Whether an expression rises or falls with a variable."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.linear import cache, is_index_type, linear_of
from bayplan.analysis.ranges import range_of
from bayplan.analysis.simplify import can_prove
from bayplan.ir import exprs
from bayplan.ir.build import ge, le
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.walk import free_variables


class Monotonic(Enum):
    """How an expression changes as a variable grows; never strictly."""

    Constant = "constant"
    Increasing = "increasing"
    Decreasing = "decreasing"
    Unknown = "unknown"


_CONSTANT: Final = Monotonic.Constant
_UP: Final = Monotonic.Increasing
_DOWN: Final = Monotonic.Decreasing
_UNKNOWN: Final = Monotonic.Unknown


def is_monotonic(expr: Expr, var: str) -> Monotonic:
    """How the expression changes as the variable grows, everything else staying as it is."""
    known = cache("analysis.monotonic")
    memo = known.get(var)
    if memo is None:
        memo = known[var] = {}
    return _Walk(var, memo)(expr)


def flipped(m: Monotonic) -> Monotonic:
    """The direction of the negated expression."""
    if m is _UP:
        return _DOWN
    return _UP if m is _DOWN else m


def joined(a: Monotonic, b: Monotonic) -> Monotonic:
    """The direction of something that rises with both operands."""
    if a is b or b is _CONSTANT:
        return a
    return b if a is _CONSTANT else _UNKNOWN


class _Walk:
    __slots__ = ("var", "memo")

    def __init__(self, var: str, memo: dict[Expr, Monotonic]) -> None:
        self.var = var
        self.memo = memo

    def __call__(self, e: Expr) -> Monotonic:
        if self.var not in free_variables(e):
            return _CONSTANT
        found = self.memo.get(e)
        if found is None:
            rule = _RULES.get(type(e))
            found = _UNKNOWN if rule is None else rule(self, e)
            self.memo[e] = found
        return found

    def sum(self, e: Any) -> Monotonic:
        if not is_index_type(e.type):
            if e.type.kind == "float" or (e.type.lane_count > 1 and e.type.width >= 32):
                b = self(e.b)
                return joined(self(e.a), flipped(b) if type(e) is exprs.Sub else b)
            return _UNKNOWN
        result = _CONSTANT
        for atom, c in linear_of(e).terms.items():
            if atom is e:
                return self.product(e)
            m = self(atom)
            result = joined(result, m if c > 0 else flipped(m))
            if result is _UNKNOWN:
                break
        return result

    def product(self, e: Any) -> Monotonic:
        if e.type.kind == "uint" or e.type.width < 32:
            return _UNKNOWN
        a, b = self(e.a), self(e.b)
        if b is not _CONSTANT:
            a, b = b, a
            other = e.a
        else:
            other = e.b
        if b is not _CONSTANT:
            return _UNKNOWN
        return self._scaled(a, other)

    def _scaled(self, m: Monotonic, factor: Expr) -> Monotonic:
        from bayplan.ir.build import constant_value

        value = constant_value(factor)
        if value is not None:
            if value == 0:
                return _CONSTANT
            return m if value > 0 else flipped(m)
        low, high = range_of(factor, Facts.none())
        if low is not None and low >= 0:
            return m
        if high is not None and high <= 0:
            return flipped(m)
        return _UNKNOWN

    def multiply(self, e: Any) -> Monotonic:
        return self.sum(e) if is_index_type(e.type) else self.product(e)

    def quotient(self, e: Any) -> Monotonic:
        if self.var in free_variables(e.b):
            return _UNKNOWN
        if e.type.kind == "uint":
            return self(e.a)
        return self._scaled(self(e.a), e.b)

    def choice(self, e: Any) -> Monotonic:
        return joined(self(e.a), self(e.b))

    def select(self, e: exprs.Select) -> Monotonic:
        if self.var in free_variables(e.condition):
            return self._switch(e)
        return joined(self(e.true_value), self(e.false_value))

    def _switch(self, e: exprs.Select) -> Monotonic:
        """A select that changes sides once moves like its sides, if it steps the same way."""
        way = joined(self(e.true_value), self(e.false_value))
        condition = self(e.condition)
        if condition not in (Monotonic.Increasing, Monotonic.Decreasing):
            return _UNKNOWN
        before, after = e.true_value, e.false_value
        if condition is Monotonic.Increasing:
            before, after = after, before
        if way in (Monotonic.Increasing, Monotonic.Constant) and can_prove(le(before, after)):
            return Monotonic.Increasing
        if way in (Monotonic.Decreasing, Monotonic.Constant) and can_prove(ge(before, after)):
            return Monotonic.Decreasing
        return _UNKNOWN

    def cast(self, e: exprs.Cast) -> Monotonic:
        source, t = e.value.type, e.type
        if t.kind == "float" and source.kind != "handle":
            return self(e.value)
        if source.kind == "float":
            # Truncation rises; only a narrow target could wrap.
            return self(e.value) if t.kind == "int" and t.width >= 32 else _UNKNOWN
        if t.can_represent(source) or (t.kind == "int" and t.width >= 32):
            return self(e.value)
        return _UNKNOWN

    def less(self, e: Any) -> Monotonic:
        return joined(flipped(self(e.a)), self(e.b))

    def greater(self, e: Any) -> Monotonic:
        return joined(self(e.a), flipped(self(e.b)))

    def negation(self, e: exprs.Not) -> Monotonic:
        return flipped(self(e.value))

    def ramp(self, e: exprs.Ramp) -> Monotonic:
        return joined(self(e.base), self(e.stride))

    def broadcast(self, e: exprs.Broadcast) -> Monotonic:
        return self(e.value)

    def let(self, e: exprs.Let) -> Monotonic:
        through = is_monotonic(e.body, e.name)
        inner = self(e.value)
        if through is _DOWN:
            inner = flipped(inner)
        elif through is _CONSTANT:
            inner = _CONSTANT
        elif through is _UNKNOWN and inner is not _CONSTANT:
            return _UNKNOWN
        return joined(inner, self(e.body) if e.name != self.var else _CONSTANT)

    def call(self, e: Call) -> Monotonic:
        if e.name in _RISING and e.kind in (CallKind.PURE_EXTERN, CallKind.PURE_INTRINSIC):
            return self(e.args[0])
        if e.name in ("promise_clamped", "unsafe_promise_clamped"):
            others = joined(self(e.args[1]), self(e.args[2]))
            return self(e.args[0]) if others is _CONSTANT else _UNKNOWN
        return _UNKNOWN


_RISING: Final = frozenset(
    ["likely", "likely_if_innermost", "floor", "ceil", "round", "trunc", "sqrt", "exp",
     "log", "atan", "tanh", "sinh", "erf", "strict_float"]
)  # fmt: skip

_RULES: Final[dict[type, Callable[[_Walk, Any], Monotonic]]] = {
    exprs.Variable: lambda walk, e: _UP,
    exprs.Add: _Walk.sum,
    exprs.Sub: _Walk.sum,
    exprs.Mul: _Walk.multiply,
    exprs.Div: _Walk.quotient,
    exprs.Min: _Walk.choice,
    exprs.Max: _Walk.choice,
    exprs.And: _Walk.choice,
    exprs.Or: _Walk.choice,
    exprs.Select: _Walk.select,
    exprs.Cast: _Walk.cast,
    exprs.LT: _Walk.less,
    exprs.LE: _Walk.less,
    exprs.GT: _Walk.greater,
    exprs.GE: _Walk.greater,
    exprs.Not: _Walk.negation,
    exprs.Ramp: _Walk.ramp,
    exprs.Broadcast: _Walk.broadcast,
    exprs.Let: _Walk.let,
    Call: _Walk.call,
}
