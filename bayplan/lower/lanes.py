"""What holds for the lanes of a vector expression: one lane, the least, the greatest.

For vectorize_loops and lower_atomics, which turn vector conditions and vector loop bounds into
scalars.
"""

from __future__ import annotations

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
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Div,
    Expr,
    Let,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    ReduceOp,
    Select,
    Shuffle,
    Sub,
    VectorReduce,
)

_MAKERS = {
    Add: build.add,
    Sub: build.sub,
    Mul: build.mul,
    Div: build.div,
    Min: build.minimum,
    Max: build.maximum,
    EQ: build.eq,
    NE: build.ne,
    LT: build.lt,
    LE: build.le,
    GT: build.gt,
    GE: build.ge,
    And: build.logical_and,
    Or: build.logical_or,
}


def rebuild_binary(cls: type[Expr], a: Expr, b: Expr) -> Expr:
    """The binary node of class `cls`, folded where that is plain."""
    maker = _MAKERS.get(cls)
    return maker(a, b) if maker is not None else cls(a, b)  # type: ignore[operator, call-arg]


def lane_of(e: Expr, lane: int) -> Expr:
    """The scalar value of one lane, computed without the others where that is possible."""
    lanes = e.type.lane_count
    if lanes == 1:
        return e
    cls = type(e)
    if cls is Broadcast:
        return lane_of(e.value, lane % e.value.type.lane_count)
    if cls is Ramp:
        inner = e.base.type.lane_count
        base = lane_of(e.base, lane % inner)
        return base + lane_of(e.stride, lane % inner) * (lane // inner)
    if isinstance(e, Binary):
        return rebuild_binary(cls, lane_of(e.a, lane), lane_of(e.b, lane))
    if cls is Cast:
        return build.cast(e.type.element_of(), lane_of(e.value, lane))
    if cls is Not:
        return build.logical_not(lane_of(e.value, lane))
    if cls is Select:
        return build.select(
            lane_of(e.condition, lane), lane_of(e.true_value, lane), lane_of(e.false_value, lane)
        )
    if cls is Load:
        predicate = None if e.predicate is None else lane_of(e.predicate, lane)
        return Load(e.type.element_of(), e.name, lane_of(e.index, lane), predicate, e.source)
    if cls is Call and e.is_pure():
        args = [lane_of(a, lane) for a in e.args]
        return Call(e.type.element_of(), e.name, tuple(args), e.kind, e.target, e.value_index)
    if cls is Let and e.value.type.lane_count == 1:
        return Let(e.name, e.value, lane_of(e.body, lane))
    if cls is Shuffle:
        at = e.indices[lane]
        for vector in e.vectors:
            if at < vector.type.lane_count:
                return lane_of(vector, at)
            at -= vector.type.lane_count
    return Shuffle((e,), (lane,))


def concatenate(values: list[Expr]) -> Expr:
    """The vector of scalars laid end to end; a broadcast where all are the same."""
    first = values[0]
    for value in values:
        if value is not first:
            return Shuffle(tuple(values), tuple(range(len(values))))
    return build.broadcast(first, len(values))


def all_lanes(condition: Expr) -> Expr:
    """A scalar that holds only if the condition holds in every lane (mostly: exactly then)."""
    return lane_extremes(condition)[0]


def any_lane(condition: Expr) -> Expr:
    """A scalar that holds if the condition holds in some lane."""
    return lane_extremes(condition)[1]


def lane_extremes(e: Expr) -> tuple[Expr, Expr]:
    """Scalars: the least and the greatest value over the lanes (false < true).

    Where one side of an expression varies the answer is exact, else the range may be too wide.
    """
    if e.type.lane_count == 1:
        return e, e
    cls = type(e)
    if cls is Broadcast:
        return lane_extremes(e.value)
    if cls is Ramp:
        found = _ramp_extremes(e)
    elif isinstance(e, Compare):
        found = _compare_extremes(e)
    elif isinstance(e, Binary):
        found = _binary_extremes(e)
    elif cls is Not:
        low, high = lane_extremes(e.value)
        found = (build.logical_not(high), build.logical_not(low))
    elif cls is Call and e.name in ("likely", "likely_if_innermost"):
        found = lane_extremes(e.args[0])
    else:
        found = None
    return found if found is not None else _reduced_extremes(e)


def _reduced_extremes(e: Expr) -> tuple[Expr, Expr]:
    if e.type.is_bool():
        return VectorReduce(ReduceOp.AND, e, 1), VectorReduce(ReduceOp.OR, e, 1)
    return VectorReduce(ReduceOp.MIN, e, 1), VectorReduce(ReduceOp.MAX, e, 1)


def _uniform(e: Expr) -> Expr | None:
    """The scalar that all lanes have, where that is plain."""
    while type(e) is Broadcast:
        e = e.value
    return e if e.type.lane_count == 1 else None


def _ramp_extremes(e: Ramp) -> tuple[Expr, Expr] | None:
    stride = _uniform(e.stride)
    step = None if stride is None else build.constant_value(stride)
    if step is None or stride is None:
        return None
    low, high = lane_extremes(e.base)
    reach = build.like(low, int(step) * (e.lanes - 1))
    return (low, high + reach) if step >= 0 else (low + reach, high)


def _compare_extremes(e: Compare) -> tuple[Expr, Expr] | None:
    cls = type(e)
    if _uniform(e.a) is None and _uniform(e.b) is None:
        return None
    low_a, high_a = lane_extremes(e.a)
    low_b, high_b = lane_extremes(e.b)
    if cls is LT or cls is LE:
        return rebuild_binary(cls, high_a, low_b), rebuild_binary(cls, low_a, high_b)
    if cls is GT or cls is GE:
        return rebuild_binary(cls, low_a, high_b), rebuild_binary(cls, high_a, low_b)
    return None


def _binary_extremes(e: Binary) -> tuple[Expr, Expr] | None:
    cls = type(e)
    if cls is And or cls is Or:
        low_a, high_a = lane_extremes(e.a)
        low_b, high_b = lane_extremes(e.b)
        return rebuild_binary(cls, low_a, low_b), rebuild_binary(cls, high_a, high_b)
    if cls not in (Add, Sub, Mul, Div, Min, Max) or not e.type.is_int():
        return None
    a, b = _uniform(e.a), _uniform(e.b)
    if a is None and b is None:
        return None
    low_a, high_a = lane_extremes(e.a)
    low_b, high_b = lane_extremes(e.b)
    if cls is Sub:
        return low_a - high_b, high_a - low_b
    if cls is Mul or cls is Div:
        fixed = b if cls is Div or b is not None else a
        factor = None if fixed is None else build.constant_value(fixed)
        if factor is None or factor == 0 or (cls is Div and fixed is not b):
            return None
        low, high = (low_a, high_a) if fixed is b else (low_b, high_b)
        one, other = rebuild_binary(cls, low, fixed), rebuild_binary(cls, high, fixed)
        return (one, other) if factor > 0 else (other, one)
    return rebuild_binary(cls, low_a, low_b), rebuild_binary(cls, high_a, high_b)
