"""How vectors of bools are written: as masks of integers, 0 or -1, as wide as their user wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import exprs as E
from bayplan.targets.c_helpers import VectorType
from bayplan.targets.c_masked import leading
from bayplan.targets.c_ramps import leading_lanes
from bayplan.targets.c_text import (
    ADD,
    ATOM,
    BIT,
    EQUAL,
    LOGIC,
    ORDER,
    UNARY,
    Text,
    binary,
    call,
    literal,
    wrap,
)
from bayplan.targets.c_vectors import constant_lanes, operand, take, uniform

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer


_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def mask_width(w: Writer, e: E.Expr) -> int:
    """The width in which a vector of bools comes about by itself."""
    memo: dict[E.Expr, int] = {}

    def find(e: E.Expr) -> int:
        e = w.measure.resolve(e)
        found = memo.get(e)
        if found is None:
            memo[e] = 0
            found = memo[e] = look(e)
        return found

    def look(e: E.Expr) -> int:
        if isinstance(e, E.Compare):
            if e.a.type.width == 1:
                return max(find(e.a), find(e.b))
            return w.vector_type(e.a.type, 2).width
        if isinstance(e, E.Cast):
            return w.vector_type(e.value.type, 2).width
        if isinstance(e, E.Variable):
            pieces = w.variable(e).pieces
            return pieces.mask_width if pieces else 0
        if isinstance(e, E.Load):
            return 8
        if isinstance(e, (E.Broadcast, E.Ramp, E.Const)):
            return 0
        widest = 0
        for c in e.children():
            if isinstance(c, E.Expr) and c.type.width == 1 and c.type.lane_count > 1:
                widest = max(widest, find(c))
        return widest

    return find(e) or 8


def _resize(w: Writer, m: Text, lanes: int, source: int, width: int) -> Text:
    if source == width:
        return m
    t = w.helpers.type(VectorType("int", width, lanes))
    return f"__builtin_convertvector({m[0]}, {t})", ATOM


def _compare(op: str, precedence: int) -> Callable[[Writer, E.Compare, int, int, int], Text]:
    def rule(w: Writer, e: E.Compare, first: int, lanes: int, width: int) -> Text:
        if e.a.type.width == 1:
            return _compare_bools(w, e, op, first, lanes, width)
        left, right = (constant_lanes(side, first, lanes) for side in (e.a, e.b))
        if left is not None and right is not None:
            # gcc 12 crashes on some comparisons of constant vectors.
            holds = _HOLDS[op]
            t = w.helpers.type(VectorType("int", width, lanes))
            bits = ["-1" if holds(x, y) else "0" for x, y in zip(left, right, strict=True)]
            return f"({t}){{{', '.join(bits)}}}", UNARY
        own = w.vector_type(e.a.type, lanes)
        a = operand(w, e.a, first, lanes)
        plain = type(uniform(e.a)) is E.Const
        b = w.vector(e.b, first, lanes) if plain else operand(w, e.b, first, lanes)
        text = binary(op, precedence, a, b)
        # clang gives comparisons of unsigned and float lanes their signed type too.
        return _resize(w, text, lanes, own.width, width)

    return rule


def _compare_bools(w: Writer, e: E.Compare, op: str, first: int, lanes: int, width: int) -> Text:
    a, b = w.mask(e.a, first, lanes, width), w.mask(e.b, first, lanes, width)
    if op == "!=":
        return binary("^", BIT, a, b)
    if op == "==":
        return f"~{wrap(binary('^', BIT, a, b), ATOM)}", UNARY
    # false < true, but 0 > -1.
    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}[op]
    return binary(flipped, ORDER, a, b)


def _logic(op: str) -> Callable[[Writer, E.Binary, int, int, int], Text]:
    def rule(w: Writer, e: E.Binary, first: int, lanes: int, width: int) -> Text:
        own = mask_width(w, e)
        a, b = w.mask(e.a, first, lanes, own), w.mask(e.b, first, lanes, own)
        return _resize(w, binary(op, BIT, a, b), lanes, own, width)

    return rule


def _not(w: Writer, e: E.Not, first: int, lanes: int, width: int) -> Text:
    own = mask_width(w, e)
    m = w.mask(e.value, first, lanes, own)
    return _resize(w, (f"~{wrap(m, UNARY)}", UNARY), lanes, own, width)


def _broadcast(w: Writer, e: E.Broadcast, first: int, lanes: int, width: int) -> Text:
    inner = e.value.type.lane_count
    if inner > 1:
        at = first % inner
        if at + lanes <= inner:
            return w.mask(e.value, at, lanes, width)
        return _assemble(w, e, first, lanes, width)
    v = VectorType("int", width, lanes)
    if isinstance(e.value, E.Const):
        return call(w.helpers.all(v), ("-1" if e.value.value else "0", ATOM))
    return call(w.helpers.all(v), (f"-{wrap(w.stable_scalar(e.value), ATOM)}", UNARY))


def _assemble(w: Writer, e: E.Expr, first: int, lanes: int, width: int) -> Text:
    t = w.helpers.type(VectorType("int", width, lanes))
    w.many_chunks = True
    parts = ["-" + wrap(w.scalar(w.measure.lane(e, first + k)), ATOM) for k in range(lanes)]
    return f"({t}){{{', '.join(parts)}}}", UNARY


def _variable(w: Writer, e: E.Variable, first: int, lanes: int, width: int) -> Text:
    pieces = w.variable(e).pieces
    assert pieces is not None, e.name
    if pieces.leading:
        count = leading_lanes(w, e, first, lanes)
        assert count is not None
        return call(leading(w.helpers, VectorType("int", width, lanes)), count)
    return _resize(w, take(w, pieces, first, lanes), lanes, pieces.mask_width, width)


def _cast(w: Writer, e: E.Cast, first: int, lanes: int, width: int) -> Text:
    source = w.vector_type(e.value.type, lanes)
    zero = literal(e.value.type.element_of(), 0) if source.kind != "float" else ("0", ATOM)
    text = binary("!=", EQUAL, w.vector(e.value, first, lanes), zero)
    return _resize(w, text, lanes, source.width, width)


def _select(w: Writer, e: E.Select, first: int, lanes: int, width: int) -> Text:
    a, b = w.mask(e.true_value, first, lanes, width), w.mask(e.false_value, first, lanes, width)
    if e.condition.type.lane_count == 1:
        c = w.stable_scalar(e.condition)
        return f"({wrap(c, ADD)} ? {wrap(a, LOGIC)} : {wrap(b, LOGIC)})", ATOM
    v = VectorType("int", width, lanes)
    return call(w.helpers.select(v), w.mask(e.condition, first, lanes, width), a, b)


def _load(w: Writer, e: E.Load, first: int, lanes: int, width: int) -> Text:
    from bayplan.targets.c_access import load_vector

    byte = VectorType("uint", 8, lanes)
    w.helpers.type(byte)
    value = load_vector(w, e, first, lanes)
    return _resize(w, binary("!=", EQUAL, value, ("0", ATOM)), lanes, 8, width)


def _shuffle(w: Writer, e: E.Shuffle, first: int, lanes: int, width: int) -> Text:
    indices = e.indices[first : first + lanes]
    if len(e.vectors) == 1 and indices == tuple(range(indices[0], indices[0] + lanes)):
        return w.mask(e.vectors[0], indices[0], lanes, width)
    return _assemble(w, e, first, lanes, width)


def _call(w: Writer, e: E.Call, first: int, lanes: int, width: int) -> Text:
    if e.name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        op = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}[e.name]
        a, b = [w.mask(x, first, lanes, width) for x in e.args]
        return binary(op, BIT, a, b)
    if e.name == "bitwise_not":
        return f"~{wrap(w.mask(e.args[0], first, lanes, width), UNARY)}", UNARY
    if e.name in ("is_nan", "is_inf", "is_finite"):
        v = w.vector_type(e.args[0].type, lanes)
        test = {
            "is_nan": "__builtin_isnan",
            "is_inf": "__builtin_isinf",
            "is_finite": "__builtin_isfinite",
        }[e.name]
        name = f"{e.name}_{v.name}"
        w.helpers.per_lane(name, v, v.mask(), 1, f"-({test}(a[k]) != 0)")
        return _resize(w, call(name, w.vector(e.args[0], first, lanes)), lanes, v.width, width)
    return _assemble(w, e, first, lanes, width)


def _reduce(w: Writer, e: E.VectorReduce, first: int, lanes: int, width: int) -> Text:
    factor = e.value.type.lane_count // e.lanes
    result: Text | None = None
    op = "&" if e.op in (E.ReduceOp.AND, E.ReduceOp.MIN, E.ReduceOp.MUL) else "|"
    for j in range(factor):
        indices = tuple([(first + k) * factor + j for k in range(lanes)])
        part = w.mask(E.Shuffle((e.value,), indices), 0, lanes, width)
        result = part if result is None else binary(op, BIT, result, part)
    assert result is not None
    return result


MASK_RULES: Final[dict[type, Callable[[Writer, Any, int, int, int], Text]]] = {
    E.EQ: _compare("==", EQUAL),
    E.NE: _compare("!=", EQUAL),
    E.LT: _compare("<", ORDER),
    E.LE: _compare("<=", ORDER),
    E.GT: _compare(">", ORDER),
    E.GE: _compare(">=", ORDER),
    E.And: _logic("&"),
    E.Or: _logic("|"),
    E.Min: _logic("&"),
    E.Max: _logic("|"),
    E.Mul: _logic("&"),
    E.Not: _not,
    E.Broadcast: _broadcast,
    E.Variable: _variable,
    E.Cast: _cast,
    E.Select: _select,
    E.Load: _load,
    E.Shuffle: _shuffle,
    E.VectorReduce: _reduce,
    E.Call: _call,
}
