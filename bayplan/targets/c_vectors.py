"""How pieces of vector expressions are written in C with vector extensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.targets.c_helpers import VectorType
from bayplan.targets.c_scalars import division_helper
from bayplan.targets.c_text import (
    ADD,
    ATOM,
    BIT,
    CHOICE,
    LOGIC,
    MUL,
    SHIFT,
    UNARY,
    Text,
    binary,
    call,
    cast,
    literal,
    wrap,
)

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Pieces, Writer


def uniform(e: E.Expr) -> E.Expr | None:
    """The scalar that is in every lane of a broadcast, or None."""
    while type(e) is E.Broadcast:
        e = e.value
        if e.type.lane_count == 1:
            return e
    return None


def operand(w: Writer, e: E.Expr, first: int, lanes: int) -> Text:
    """An operand beside a vector: a constant may stand as the plain number."""
    value = uniform(e)
    if type(value) is E.Const and not (value.type.kind == "float" and value.type.width == 16):
        return literal(value.type, value.value)
    return w.vector(e, first, lanes)


def half(t: Any) -> bool:
    """Whether the type is float16, which is computed in float32 and rounded."""
    return bool(t.kind == "float" and t.width == 16)


def round_half(w: Writer, text: Text, lanes: int) -> Text:
    """The float32 lanes rounded to what float16 holds."""
    t = VectorType("float", 32, lanes)
    name = f"round_half_{t.name}"
    w.helpers.per_lane(name, t, t, 1, "bp_round_half(a[k])")
    return call(name, text)


def _broadcast(w: Writer, e: E.Broadcast, first: int, lanes: int) -> Text:
    value = e.value
    inner = value.type.lane_count
    if inner > 1:
        at = first % inner
        if at + lanes <= inner:
            return w.vector(value, at, lanes)
        return assemble(w, e, first, lanes)
    t = w.vector_type(e.type, lanes)
    name = w.helpers.all(t)
    return call(name, w.stable_scalar(value))


def _ramp(w: Writer, e: E.Ramp, first: int, lanes: int) -> Text:
    inner = e.base.type.lane_count
    if inner > 1:
        at, step = first % inner, first // inner
        if at + lanes <= inner:
            step_vector = build.broadcast(build.const(e.stride.type.element_of(), step), inner)
            return w.vector(build.add(e.base, build.mul(e.stride, step_vector)), at, lanes)
        return assemble(w, e, first, lanes)
    t = w.vector_type(e.type, lanes)
    start = build.add(e.base, build.mul(e.stride, build.const(e.stride.type, first)))
    stride = build.constant_value(e.stride)
    name = w.helpers.type(t)
    known = constant_lanes(e, first, lanes)
    if known is not None:
        steps = ", ".join([literal(e.type.element_of(), k)[0] for k in known])
        return f"({name}){{{steps}}}", UNARY
    base = call(w.helpers.all(t), w.stable_scalar(start))
    if stride is not None:
        steps = ", ".join([literal(e.type.element_of(), k * stride)[0] for k in range(lanes)])
        return binary("+", ADD, base, (f"({name}){{{steps}}}", UNARY))
    steps = ", ".join([str(k) for k in range(lanes)])
    slope = call(w.helpers.all(t), w.stable_scalar(e.stride))
    product = binary("*", MUL, slope, (f"({name}){{{steps}}}", UNARY))
    return binary("+", ADD, base, product)


def constant_lanes(e: E.Expr, first: int, lanes: int) -> list[int] | None:
    """The lanes of an integer ramp or broadcast of constants; None where they are not known."""
    if e.type.kind not in ("int", "uint"):
        return None
    if isinstance(e, E.Ramp):
        base, stride = build.constant_value(e.base), build.constant_value(e.stride)
        if e.base.type.lane_count > 1 or not isinstance(base, int) or not isinstance(stride, int):
            return None
        return [int(e.type.wrap(base + (first + k) * stride)) for k in range(lanes)]
    value = uniform(e)
    return [int(value.value)] * lanes if isinstance(value, E.Const) else None


def assemble(w: Writer, e: E.Expr, first: int, lanes: int) -> Text:
    """The lanes one by one; for what has no better form."""
    t = w.vector_type(e.type, lanes)
    w.many_chunks = True
    parts = [w.scalar(w.measure.lane(e, first + k))[0] for k in range(lanes)]
    return f"({w.helpers.type(t)}){{{', '.join(parts)}}}", UNARY


def _variable(w: Writer, e: E.Variable, first: int, lanes: int) -> Text:
    pieces = w.variable(e).pieces
    assert pieces is not None, e.name
    return take(w, pieces, first, lanes)


def take(w: Writer, pieces: Pieces, first: int, lanes: int) -> Text:
    """Lanes of a vector that is held in pieces."""
    parts = [(at, n, (text, ATOM)) for at, n, text in pieces.parts]
    if pieces.type.width == 1:
        make: Callable[[int], VectorType] = lambda n: VectorType("int", pieces.mask_width, n)
    else:
        make = lambda n: w.vector_type(pieces.type, n)
    return cut(w, parts, make, first, lanes)


def cut(
    w: Writer,
    parts: list[tuple[int, int, Text]],
    make: Callable[[int], VectorType],
    first: int,
    lanes: int,
) -> Text:
    """Lanes first ... of the parts laid end to end, as one vector.

    Args:
        w: the function.
        parts: (first lane, lanes, text) in order.
        make: the vector type of so many lanes.
        first: first lane that is wanted.
        lanes: how many are wanted.
    """
    for at, n, text in parts:
        if at == first and n == lanes:
            return text
        if at <= first and first + lanes <= at + n:
            indices = tuple(range(first - at, first - at + lanes))
            return call(w.helpers.shuffle(make(n), indices), text, text)
    if lanes >= 4 and lanes % 2 == 0:
        low = cut(w, parts, make, first, lanes // 2)
        high = cut(w, parts, make, first + lanes // 2, lanes // 2)
        return call(w.helpers.shuffle(make(lanes // 2), tuple(range(lanes))), low, high)
    texts = []
    for k in range(first, first + lanes):
        for at, n, text in parts:
            if at <= k < at + n:
                texts.append(text[0] if n == 1 else f"{wrap(text, ATOM)}[{k - at}]")
    return f"({w.helpers.type(make(lanes))}){{{', '.join(texts)}}}", UNARY


def _arithmetic(op: str, precedence: int) -> Callable[[Writer, E.Binary, int, int], Text]:
    def rule(w: Writer, e: E.Binary, first: int, lanes: int) -> Text:
        t = e.type
        if t.kind == "int" and t.width < 32:
            name = _wrapping_helper(w, w.vector_type(t, lanes), op)
            return call(name, w.vector(e.a, first, lanes), w.vector(e.b, first, lanes))
        a = operand(w, e.a, first, lanes)
        beside_number = type(uniform(e.a)) is E.Const
        b = w.vector(e.b, first, lanes) if beside_number else operand(w, e.b, first, lanes)
        text = binary(op, precedence, a, b)
        return round_half(w, text, lanes) if half(t) else text

    return rule


def _wrapping_helper(w: Writer, v: VectorType, op: str) -> str:
    """Sums and products of narrow signed lanes, which wrap; in C only unsigned ones do."""
    name = f"{_WRAPPING[op]}_{v.name}"
    unsigned = w.helpers.type(v.with_kind("uint"))
    w.helpers.type(v)
    return w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE {v.name} {name}({v.name} a, {v.name} b) "
            f"{{ return ({v.name})(({unsigned})a {op} ({unsigned})b); }}"
        ),
    )


def _div(w: Writer, e: E.Div, first: int, lanes: int) -> Text:
    t = e.type
    if t.kind == "float":
        return _FLOAT_DIV(w, e, first, lanes)
    b = _positive(e.b)
    v = w.vector_type(t, lanes)
    if not b:
        return _divide_lanes(w, e, "div", first, lanes)
    if b & (b - 1) == 0:
        if b == 1:
            return w.vector(e.a, first, lanes)
        shift = (str(b.bit_length() - 1), ATOM)
        return binary(">>", SHIFT, w.vector(e.a, first, lanes), shift)
    return _divide_constant(w, v, w.vector(e.a, first, lanes), b)


def _divide_constant(w: Writer, v: VectorType, a: Text, b: int) -> Text:
    """Floor division by a constant that is no power of two, through products."""
    if v.width == 8:
        # There are no products of bytes.
        wide = v.with_width(16)
        quotient = _divide_constant(w, wide, convert(w, a, v, wide), b)
        return convert(w, quotient, wide, v)
    name = w.helpers.type(v)
    if v.kind == "uint":
        return binary("/", MUL, a, (str(b), ATOM))
    # floor(a / b) is ~(~a / b) for negative a.
    unsigned = w.helpers.type(v.with_kind("uint"))
    a = w.local(name, a[0])
    sign = w.local(name, binary(">>", SHIFT, a, (str(v.width - 1), ATOM))[0])
    size = cast(unsigned, binary("^", BIT, a, sign))
    quotient = cast(name, binary("/", MUL, size, (str(b), ATOM)))
    return binary("^", BIT, quotient, sign)


def _mod(w: Writer, e: E.Mod, first: int, lanes: int) -> Text:
    t = e.type
    v = w.vector_type(t, lanes)
    if t.kind == "float":
        quotient = binary("/", MUL, w.vector(e.a, first, lanes), w.vector(e.b, first, lanes))
        floor = "__builtin_floor" if t.width == 64 else "__builtin_floorf"
        name = f"floor_{v.name}"
        w.helpers.per_lane(name, v, v, 1, f"{floor}(a[k])")
        a, b = w.vector(e.a, first, lanes), w.vector(e.b, first, lanes)
        return binary("-", ADD, a, binary("*", MUL, call(name, quotient), b))
    b_value = _positive(e.b)
    if not b_value:
        return _divide_lanes(w, e, "mod", first, lanes)
    if b_value & (b_value - 1) == 0:
        a = w.vector(e.a, first, lanes)
        return binary("&", BIT, a, literal(t.element_of(), b_value - 1))
    name = w.helpers.type(v)
    a = w.local(name, w.vector(e.a, first, lanes)[0])
    quotient = _divide_constant(w, v, a, b_value)
    if v.kind == "int":
        # quotient * b may lie below the least value; the difference does not.
        unsigned = w.helpers.type(v.with_kind("uint"))
        a, quotient = cast(unsigned, a), cast(unsigned, quotient)
    text = binary("-", ADD, a, binary("*", MUL, quotient, (str(b_value), ATOM)))
    return cast(name, text) if v.kind == "int" else text


def _divide_lanes(w: Writer, e: E.Binary, which: str, first: int, lanes: int) -> Text:
    v = w.vector_type(e.type, lanes)
    scalar = division_helper(w, e.type.element_of(), which)
    name = f"{which}_{v.name}"
    w.helpers.per_lane(name, v, v, 2, f"{scalar}(a[k], b[k])")
    return call(name, w.vector(e.a, first, lanes), w.vector(e.b, first, lanes))


def _positive(e: E.Expr) -> int:
    value = uniform(e)
    number = None if value is None else build.constant_value(value)
    return int(number) if number is not None and number > 0 else 0


def extreme_helper(w: Writer, v: VectorType, which: str) -> str:
    """The function for the least or greatest of each two lanes."""
    op = "<" if which == "min" else ">"
    m = w.helpers.type(v.mask())
    w.helpers.type(v)
    whole = f"({v.name})((({m})a & (a {op} b)) | (({m})b & ~(a {op} b)))"
    expr = f"a[k] {op} b[k] ? a[k] : b[k]"
    return w.helpers.per_lane(f"{which}_{v.name}", v, v, 2, expr, whole)


def _extreme(which: str) -> Callable[[Writer, E.Binary, int, int], Text]:
    def rule(w: Writer, e: E.Binary, first: int, lanes: int) -> Text:
        name = extreme_helper(w, w.vector_type(e.type, lanes), which)
        return call(name, w.vector(e.a, first, lanes), w.vector(e.b, first, lanes))

    return rule


def _select(w: Writer, e: E.Select, first: int, lanes: int) -> Text:
    a, b = w.vector(e.true_value, first, lanes), w.vector(e.false_value, first, lanes)
    condition = e.condition
    if condition.type.lane_count == 1 or uniform(condition) is not None:
        scalar = uniform(condition) if condition.type.lane_count > 1 else condition
        assert scalar is not None
        c = w.stable_scalar(scalar)
        return f"{wrap(c, ADD)} ? {wrap(a, LOGIC)} : {wrap(b, LOGIC)}", CHOICE
    v = w.vector_type(e.type, lanes)
    m = w.mask(condition, first, lanes, v.width)
    return call(w.helpers.select(v), m, a, b)


def _cast(w: Writer, e: E.Cast, first: int, lanes: int) -> Text:
    source = e.value.type
    t = e.type
    v = w.vector_type(t, lanes)
    if source.width == 1:
        m = w.mask(e.value, first, lanes, v.width)
        if v.kind == "float":
            ones = binary("&", BIT, m, ("1", ATOM))
            return convert(w, ones, v.mask(), v)
        ones = binary("&", BIT, m, ("1", ATOM))
        return ones if v.kind == "int" else cast(w.helpers.type(v), ones)
    value = w.vector(e.value, first, lanes)
    text = convert(w, value, w.vector_type(source, lanes), v)
    return round_half(w, text, lanes) if half(t) and not half(source) else text


def convert(w: Writer, a: Text, source: VectorType, v: VectorType) -> Text:
    """The lanes converted to another type, by steps that the machine has."""
    if source.name == v.name:
        return a
    if source.kind != "float" and v.kind != "float":
        if source.width == v.width:
            return cast(w.helpers.type(v), a)
        if source.width > 2 * v.width and source.width == 64:
            middle = VectorType(v.kind, 32, v.lanes)
            return convert(w, convert(w, a, source, middle), middle, v)
    elif source.kind == "float" and v.kind != "float":
        if v.width < 32:
            middle = VectorType("int", 32, v.lanes)
            return convert(w, convert(w, a, source, middle), middle, v)
    elif source.kind != "float" and source.width < 32:
        middle = VectorType("int", 32, v.lanes)
        return convert(w, convert(w, a, source, middle), middle, v)
    return f"__builtin_convertvector({a[0]}, {w.helpers.type(v)})", ATOM


def _load(w: Writer, e: E.Load, first: int, lanes: int) -> Text:
    from bayplan.targets.c_access import load_vector

    return load_vector(w, e, first, lanes)


def _shuffle(w: Writer, e: E.Shuffle, first: int, lanes: int) -> Text:
    from bayplan.targets.c_shuffles import shuffle_vector

    return shuffle_vector(w, e, first, lanes)


def _reduce(w: Writer, e: E.VectorReduce, first: int, lanes: int) -> Text:
    from bayplan.targets.c_reduce import reduce_to_vector

    return reduce_to_vector(w, e, first, lanes)


def _call(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    from bayplan.targets.c_vector_calls import call_vector

    return call_vector(w, e, first, lanes)


_WRAPPING: Final = {"+": "add", "-": "sub", "*": "mul"}
_FLOAT_DIV = _arithmetic("/", MUL)

VECTOR_RULES: Final[dict[type, Callable[[Writer, Any, int, int], Text]]] = {
    E.Broadcast: _broadcast,
    E.Ramp: _ramp,
    E.Variable: _variable,
    E.Add: _arithmetic("+", ADD),
    E.Sub: _arithmetic("-", ADD),
    E.Mul: _arithmetic("*", MUL),
    E.Div: _div,
    E.Mod: _mod,
    E.Min: _extreme("min"),
    E.Max: _extreme("max"),
    E.Select: _select,
    E.Cast: _cast,
    E.Load: _load,
    E.Shuffle: _shuffle,
    E.VectorReduce: _reduce,
    E.Call: _call,
}
