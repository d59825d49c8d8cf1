"""Rules for variables, casts, calls, loads, lets and vectors."""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.linear import constant_difference, is_index_type
from bayplan.analysis.simplify import Simplifier, simplifier_of
from bayplan.ir import build
from bayplan.ir.build import const
from bayplan.ir.exprs import (
    Add,
    Broadcast,
    Call,
    CallKind,
    Cast,
    Const,
    Expr,
    Let,
    Load,
    Ramp,
    Shuffle,
    StringImm,
    Sub,
    Variable,
    VectorReduce,
)
from bayplan.ir.walk import free_variables


def _simplify_variable(s: Simplifier, e: Variable) -> Expr:
    value = s.facts.value_of_variable(e.name)
    if value is not None and value.type is e.type:
        return value
    if e.type.width == 1 and e.type.lane_count == 1:
        truth = s.facts.truth_of(e)
        if truth is not None:
            return const(e.type, 1 if truth else 0)
    if e.type.kind in ("int", "uint"):
        low, high = s.facts.range_of_variable(e.name)
        if low is not None and low == high:
            return const(e.type, low)
    return e


def _leave(s: Simplifier, e: Expr) -> Expr:
    return e


def _simplify_cast(s: Simplifier, e: Cast) -> Expr:
    value: Any = s(e.value)
    t = e.type
    made = build.cast(t, value)
    if type(made) is not Cast:
        return s(made) if type(made) is Broadcast and made.value is not value else made
    if type(value) is Cast:
        inner = value.value.type
        middle = value.type
        integers = t.kind in ("int", "uint") and middle.kind in ("int", "uint")
        # A widening cast in the middle changes nothing.
        if middle.can_represent(inner) and inner.kind != "float" and t.width > 1:
            if inner is t:
                return value.value
            if integers or (t.kind == "float" and inner.kind != "float"):
                return s(Cast(t, value.value))
        # Narrowing twice is narrowing once; wrapping keeps the low bits.
        if integers and inner.kind in ("int", "uint") and 1 < t.width <= middle.width:
            if inner is t:
                return value.value
            return s(Cast(t, value.value))
    if type(value) is Ramp and t.kind == "int" and t.width >= 32 and value.type.kind == "int":
        if value.type.width >= 32 and t.width > value.type.width:
            element = t.with_lanes(value.base.type.lane_count)
            base = s(build.cast(element, value.base))
            return build.ramp(base, s(build.cast(element, value.stride)), value.lanes)
    return made


def _simplify_ramp(s: Simplifier, e: Ramp) -> Expr:
    return build.ramp(s(e.base), s(e.stride), e.lanes)


def _simplify_broadcast(s: Simplifier, e: Broadcast) -> Expr:
    value: Any = s(e.value)
    if type(value) is Broadcast:
        return Broadcast(value.value, value.lanes * e.lanes)
    return Broadcast(value, e.lanes)


def _simplify_load(s: Simplifier, e: Load) -> Expr:
    index: Any = s(e.index)
    predicate = None if e.predicate is None else s(e.predicate)
    if predicate is not None and build.is_one(predicate):
        predicate = None
    if type(index) is Broadcast and predicate is None:
        scalar = Load(e.type.with_lanes(index.value.type.lane_count), e.name, index.value, None,
                      e.source, e.alignment)  # fmt: skip
        return Broadcast(scalar, index.lanes)
    return Load(e.type, e.name, index, predicate, e.source, e.alignment)


def _simplify_shuffle(s: Simplifier, e: Shuffle) -> Expr:
    vectors = tuple([s(v) for v in e.vectors])
    if len(vectors) == 1 and e.indices == tuple(range(vectors[0].type.lane_count)):
        return vectors[0]
    first: Any = vectors[0]
    if len(e.indices) == 1 and len(vectors) == 1:
        if type(first) is Broadcast and first.value.type.lane_count == 1:
            return first.value
        if type(first) is Ramp and first.base.type.lane_count == 1:
            step = build.mul(first.stride, e.indices[0])
            return s(build.add(first.base, step))
    return Shuffle(vectors, e.indices)


def _simplify_reduce(s: Simplifier, e: VectorReduce) -> Expr:
    value = s(e.value)
    return value if value.type.lane_count == e.lanes else VectorReduce(e.op, value, e.lanes)


def _simplify_let(s: Simplifier, e: Let) -> Expr:
    value = s(e.value)
    if e.name not in free_variables(e.body):
        return s(e.body) if _removable(value) else Let(e.name, value, s(e.body))
    if is_trivial(value):
        from bayplan.ir.walk import substitute

        return s(substitute({e.name: value}, e.body))
    facts = s.facts.let(e.name, value)
    body = simplifier_of(facts)(e.body)
    if e.name not in free_variables(body) and _removable(value):
        return body
    return Let(e.name, value, body)


def _removable(value: Expr) -> bool:
    from bayplan.analysis.purity import has_side_effect

    return not has_side_effect(value)


def is_trivial(value: Any) -> bool:
    """Whether a value is not worth a name: constants, variables, a variable and an offset."""
    while type(value) is Broadcast:
        value = value.value
    cls = type(value)
    if cls is Const:
        return True
    if cls is Variable:
        return True
    if cls is Add or cls is Sub:
        return type(value.a) is Variable and type(value.b) is Const
    if cls is Ramp:
        return is_trivial(value.base) and type(value.stride) is Const
    return False


def _simplify_call(s: Simplifier, e: Call) -> Expr:
    name = e.name
    if e.kind in (CallKind.PURE_INTRINSIC, CallKind.INTRINSIC):
        special = _INTRINSICS.get(name)
        if special is not None:
            found = special(s, e)
            if found is not None:
                return found  # type: ignore[no-any-return]
    args = tuple([s(a) for a in e.args])
    if e.is_pure() and len(args) > 0 and e.type.lane_count > 1:
        lanes = e.type.lane_count
        if all(type(a) is Broadcast and a.lanes == lanes for a in args):
            scalars = tuple([a.value for a in args])  # type: ignore[attr-defined]
            element = e.type.element_of()
            inner = Call(element, name, scalars, e.kind, e.target, e.value_index)
            return Broadcast(s(inner), lanes)
    return Call(e.type, name, args, e.kind, e.target, e.value_index)


def _likely(s: Simplifier, e: Call) -> Expr | None:
    value: Any = s(e.args[0])
    if type(value) is Const:
        return value
    if type(value) is Broadcast:
        inner = Call(value.value.type, e.name, (value.value,), e.kind)
        return Broadcast(s(inner), value.lanes)
    if type(value) is Call and value.name == e.name:
        return value
    return Call(value.type, e.name, (value,), e.kind)


def _shift(s: Simplifier, e: Call) -> Expr | None:
    """Shifts of index arithmetic by a constant are products and quotients."""
    if not is_index_type(e.type):
        return None
    by = build.constant_value(s(e.args[1]))
    if not isinstance(by, int) or not -31 < by < 31:
        return None
    if e.name == "shift_right":
        by = -by
    if by >= 0:
        return s(build.mul(e.args[0], 1 << by))
    return s(build.div(e.args[0], 1 << -by))


def _bitwise_and(s: Simplifier, e: Call) -> Expr | None:
    """x & (2^k - 1) of index arithmetic is a remainder."""
    if not is_index_type(e.type):
        return None
    a = s(e.args[0])
    b = s(e.args[1])
    x, y = build.constant_value(a), build.constant_value(b)
    if isinstance(x, int) and isinstance(y, int):
        return const(e.type, x & y)
    if isinstance(x, int):
        a, b, y = b, a, x
    if isinstance(y, int) and y >= 0 and (y & (y + 1)) == 0 and y + 1 < 1 << 31:
        return s(build.mod(a, y + 1))
    return None


def _absolute(s: Simplifier, e: Call) -> Expr | None:
    value = s(e.args[0])
    found = build.constant_value(value)
    if found is not None and e.type.lane_count == 1:
        return const(e.type, abs(found))
    if is_index_type(value.type):
        low, _ = s.range(value)
        if low is not None and low >= 0:
            return s(build.cast(e.type, value))
    return None


def _promise(s: Simplifier, e: Call) -> Expr | None:
    """A promise that is certain whatever the variables are is dropped.

    One that is certain because of a condition around is kept: bounds analysis relies on it where
    it cannot use the condition.
    """
    value = s(e.args[0])
    above = constant_difference(value, s(e.args[1]))
    below = constant_difference(s(e.args[2]), value)
    if above is not None and above >= 0 and below is not None and below >= 0:
        return value
    return None


def _if_then_else(s: Simplifier, e: Call) -> Expr | None:
    condition = build.constant_value(s(e.args[0]))
    if condition is None:
        return None
    if condition:
        return s(e.args[1])
    if len(e.args) > 2:
        return s(e.args[2])
    return const(e.type, 0) if e.type.kind != "handle" else None


_INTRINSICS: Final[dict[str, Any]] = {
    "likely": _likely,
    "likely_if_innermost": _likely,
    "shift_left": _shift,
    "shift_right": _shift,
    "bitwise_and": _bitwise_and,
    "abs": _absolute,
    "promise_clamped": _promise,
    "unsafe_promise_clamped": _promise,
    "if_then_else": _if_then_else,
}

RULES: Final[dict[type, Any]] = {
    Variable: _simplify_variable,
    Const: _leave,
    StringImm: _leave,
    Cast: _simplify_cast,
    Ramp: _simplify_ramp,
    Broadcast: _simplify_broadcast,
    Load: _simplify_load,
    Shuffle: _simplify_shuffle,
    VectorReduce: _simplify_reduce,
    Let: _simplify_let,
    Call: _simplify_call,
}
