"""Intrinsics written out in plain operations, for targets that have no better form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bayplan.ir import build
from bayplan.ir.exprs import Call, Expr, Max, Min, Select
from bayplan.ir.types import Type


def expand_intrinsics(call: Call) -> Expr | None:
    """The value of an intrinsic call in plain operations; None: there is no such form.

    One step: the result may hold other intrinsics.
    """
    rule = _RULES.get(call.name)
    return None if rule is None else rule(call)


def _const(t: Type, value: int | float) -> Expr:
    return build.const(t, value)


def _unsigned(t: Type) -> Type:
    return t.with_code("uint")


def _shift_right(a: Expr, b: Expr) -> Expr:
    return build.intrinsic(a.type, "shift_right", a, b)


def _shift_left(a: Expr, b: Expr) -> Expr:
    return build.intrinsic(a.type, "shift_left", a, b)


def _and(a: Expr, b: Expr) -> Expr:
    return build.intrinsic(a.type, "bitwise_and", a, b)


def _xor(a: Expr, b: Expr) -> Expr:
    return build.intrinsic(a.type, "bitwise_xor", a, b)


def _widen(e: Expr) -> Expr:
    return build.cast(e.type.widen(), e)


def _abs(c: Call) -> Expr:
    (a,) = c.args
    if a.type.kind == "uint":
        return a
    zero = _const(a.type, 0)
    if a.type.kind == "float":
        return Select(build.lt(a, zero), build.sub(zero, a), a)
    u = _unsigned(a.type)
    bits = build.cast(u, a)
    return Select(build.lt(a, zero), build.sub(_const(u, 0), bits), bits)


def _absd(c: Call) -> Expr:
    a, b = c.args
    if a.type.kind == "float":
        return build.intrinsic(a.type, "abs", build.sub(a, b))
    if a.type.kind == "uint":
        return build.sub(build.maximum(a, b), build.minimum(a, b))
    u = _unsigned(a.type)
    x, y = build.cast(u, a), build.cast(u, b)
    return Select(build.lt(a, b), build.sub(y, x), build.sub(x, y))


def _lerp(c: Call) -> Expr:
    a, b, w = c.args
    t = a.type
    if t.kind == "float":
        if w.type is not t:
            # An unsigned weight spans 0..1.
            w = build.cast(t, w) if w.type.kind == "float" else build.mul(
                build.cast(t, w), _const(t, 1.0 / float(w.type.max_value()))
            )
        return build.add(build.mul(a, build.sub(_const(t, 1), w)), build.mul(b, w))
    return _lerp_integers(a, b, w)


def _lerp_integers(a: Expr, b: Expr, w: Expr) -> Expr:
    t = a.type
    bits = t.width
    u = _unsigned(t)
    if w.type.kind == "float":
        # The weight becomes a whole number of the values' width, cut toward zero.
        scale = _const(w.type, float(u.max_value()))
        if bits >= 32:
            wide_float = Type("float", 64, t.lane_count)
            scaled = build.mul(build.cast(wide_float, w), _const(wide_float, float(u.max_value())))
            w = build.cast(u, scaled)
        else:
            w = build.cast(u, build.mul(w, scale))
    elif w.type.width > bits:
        scale_down = int(w.type.max_value()) // int(u.max_value())
        w = build.cast(u, build.div(w, _const(w.type, scale_down)))
    elif w.type.width < bits:
        scale_up = int(u.max_value()) // int(w.type.max_value())
        w = build.mul(build.cast(u, w), _const(u, scale_up))
    bias = 0
    zero, one = build.cast(u, a), build.cast(u, b)
    if t.kind == "int":
        bias = 1 << (bits - 1)
        zero = build.add(zero, _const(u, bias))
        one = build.add(one, _const(u, bias))
    inverse = build.sub(_const(u, u.max_value()), w)
    wide = u.widen() if bits < 64 else u
    total = build.add(
        build.mul(build.cast(wide, zero), build.cast(wide, inverse)),
        build.mul(build.cast(wide, one), build.cast(wide, w)),
    )
    # Exact division by 2**bits - 1 with rounding.
    rounded = build.add(total, _const(wide, 1 << (bits - 1)))
    quotient = _shift_right(
        build.add(rounded, _shift_right(rounded, _const(wide, bits))), _const(wide, bits)
    )
    result = build.cast(u, quotient)
    if bias:
        result = build.sub(result, _const(u, bias))
    return build.cast(t, result)


def _widening(make: Callable[[Expr, Expr], Expr]) -> Callable[[Call], Expr]:
    def rule(c: Call) -> Expr:
        a, b = c.args
        return make(build.cast(c.type, a), build.cast(c.type, b))

    return rule


def _widening_sub(c: Call) -> Expr:
    a, b = c.args
    return build.sub(build.cast(c.type, a), build.cast(c.type, b))


def _widen_right(make: Callable[[Expr, Expr], Expr]) -> Callable[[Call], Expr]:
    def rule(c: Call) -> Expr:
        a, b = c.args
        return make(a, build.cast(a.type, b))

    return rule


def _widening_shift(name: str) -> Callable[[Call], Expr]:
    def rule(c: Call) -> Expr:
        a, b = c.args
        wide = build.cast(c.type, a)
        return build.intrinsic(c.type, name, wide, build.cast(b.type.with_bits(c.type.width), b))

    return rule


def _saturating_add(c: Call) -> Expr:
    a, b = c.args
    t = c.type
    if t.kind == "float":
        return build.add(a, b)
    if t.width < 64:
        return build.intrinsic(t, "saturating_cast", build.add(_widen(a), _widen(b)))
    if t.kind == "uint":
        return build.add(a, build.minimum(b, build.sub(_const(t, t.max_value()), a)))
    u = _unsigned(t)
    total = build.cast(t, build.add(build.cast(u, a), build.cast(u, b)))
    # It overflowed if both operands differ in sign from the result.
    return _saturated(a, _and(_xor(a, total), _xor(b, total)), total)


def _saturated(a: Expr, overflow: Expr, result: Expr) -> Expr:
    """The result, or where `overflow` is negative the limit on the side of a."""
    t = a.type
    limit = _xor(_shift_right(a, _const(t, t.width - 1)), _const(t, t.max_value()))
    return Select(build.lt(overflow, _const(t, 0)), limit, result)


def _saturating_sub(c: Call) -> Expr:
    a, b = c.args
    t = c.type
    if t.kind == "float":
        return build.sub(a, b)
    if t.kind == "uint":
        return build.sub(build.maximum(a, b), b)
    if t.width < 64:
        return build.intrinsic(t, "saturating_cast", build.sub(_widen(a), _widen(b)))
    u = _unsigned(t)
    difference = build.cast(t, build.sub(build.cast(u, a), build.cast(u, b)))
    return _saturated(a, _and(_xor(a, b), _xor(a, difference)), difference)


def _saturating_cast(c: Call) -> Expr:
    (a,) = c.args
    source, t = a.type, c.type
    if source is t:
        return a
    if t.kind == "float":
        if source.kind == "float" and t.width < source.width:
            top = {16: 65504.0, 32: 3.4028234663852886e38}[t.width]
            a = build.clamp(a, _const(source, -top), _const(source, top))
        return build.cast(t, a)
    if source.kind == "float":
        return _saturating_float(a, t)
    low, high = int(t.min_value()), int(t.max_value())
    if source.max_value() > high:
        a = Min(a, _const(source, high))
    if source.min_value() < low:
        a = Max(a, _const(source, low))
    return build.cast(t, a)


def _saturating_float(a: Expr, t: Type) -> Expr:
    if a.type.width == 16:
        # float16 holds the limits of no wider type.
        a = build.cast(Type("float", 32, a.type.lane_count), a)
    source = a.type
    low, high = int(t.min_value()), int(t.max_value())
    bottom, top = _const(source, float(low)), _const(source, float(high))
    inside = Min(Max(a, bottom), top)
    if source.can_represent(high):
        return build.cast(t, inside)
    # The greatest float below the limit is what can be converted; above it is the limit.
    digits = 24 if source.width == 32 else 53
    below = float(high + 1 - (1 << (t.width - (1 if t.kind == "int" else 0) - digits)))
    safe = build.cast(t, Min(Max(a, bottom), _const(source, below)))
    return Select(build.lt(a, top), safe, _const(t, high))


def _halving_add(c: Call) -> Expr:
    a, b = c.args
    t = c.type
    if t.kind == "float":
        return build.mul(build.add(a, b), _const(t, 0.5))
    if t.width < 64:
        wide = build.add(_widen(a), _widen(b))
        return build.cast(t, _shift_right(wide, _const(wide.type, 1)))
    return build.add(_and(a, b), _shift_right(_xor(a, b), _const(t, 1)))


def _halving_sub(c: Call) -> Expr:
    a, b = c.args
    t = c.type
    if t.width < 64:
        wide = build.sub(_widen(a), _widen(b))
        return build.cast(t, _shift_right(wide, _const(wide.type, 1)))
    borrow = _and(_and(build.intrinsic(t, "bitwise_not", a), b), _const(t, 1))
    one = _const(t, 1)
    return build.sub(build.sub(_shift_right(a, one), _shift_right(b, one)), borrow)


def _rounding_halving_add(c: Call) -> Expr:
    a, b = c.args
    t = c.type
    if t.width < 64:
        wide = build.add(build.add(_widen(a), _widen(b)), _const(t.widen(), 1))
        return build.cast(t, _shift_right(wide, _const(wide.type, 1)))
    either = build.intrinsic(t, "bitwise_or", a, b)
    return build.sub(either, _shift_right(_xor(a, b), _const(t, 1)))


def _rounding_shift_right(c: Call) -> Expr:
    a, b = c.args
    t = c.type
    zero, one = _const(b.type, 0), _const(b.type, 1)
    if t.width < 64:
        wide = t.widen()
        unit = _shift_left(_const(wide, 1), build.cast(b.type.with_bits(wide.width),
                                                       Max(build.sub(b, one), zero)))
        half = Select(build.gt(b, zero), unit, _const(wide, 0))
        total = build.add(build.cast(wide, a), half)
        shift = build.cast(b.type.with_bits(wide.width), b)
        return build.cast(t, build.intrinsic(wide, "shift_right", total, shift))
    # (a >> b) + the last bit shifted out.
    last = _and(_shift_right(a, Max(build.sub(b, one), zero)), _const(t, 1))
    shifted = build.intrinsic(t, "shift_right", a, b)
    return build.add(shifted, Select(build.gt(b, zero), last, _const(t, 0)))


def _rounding_shift_left(c: Call) -> Expr:
    a, b = c.args
    zero = _const(b.type, 0)
    if b.type.kind == "uint":
        return build.intrinsic(c.type, "shift_left", a, b)
    right = build.intrinsic(c.type, "rounding_shift_right", a, Max(build.sub(zero, b), zero))
    return Select(
        build.ge(b, zero), build.intrinsic(c.type, "shift_left", a, Max(b, zero)), right
    )


def _mul_shift_right(rounding: bool) -> Callable[[Call], Expr]:
    name = "rounding_shift_right" if rounding else "shift_right"

    def rule(c: Call) -> Expr:
        a, b, q = c.args
        t = c.type
        wide = t.widen() if t.width < 64 else t
        product = build.mul(build.cast(wide, a), build.cast(wide, b))
        shift = build.cast(q.type.with_bits(wide.width), q)
        shifted = build.intrinsic(wide, name, product, shift)
        return build.intrinsic(t, "saturating_cast", shifted)

    return rule


def _round_to_zero(c: Call) -> Expr | None:
    a, b = c.args
    if a.type.kind == "uint":
        return build.div(a, b) if c.name == "div_round_to_zero" else build.mod(a, b)
    if a.type.kind != "int":
        return None
    t = a.type
    u = _unsigned(t)
    size = [build.intrinsic(u, "abs", x) for x in (a, b)]
    zero = _const(t, 0)
    if c.name == "div_round_to_zero":
        magnitude = build.cast(t, build.div(size[0], size[1]))
        negative = build.lt(_xor(a, b), zero)
    else:
        magnitude = build.cast(t, build.mod(size[0], size[1]))
        negative = build.lt(a, zero)
    return Select(negative, build.sub(zero, magnitude), magnitude)


def _first(c: Call) -> Expr:
    return c.args[0]


def _fma(c: Call) -> Expr | None:
    a, b, d = c.args
    return None if a.type.kind == "float" else build.add(build.mul(a, b), d)


_RULES: Final[dict[str, Callable[[Call], Expr | None]]] = {
    "abs": _abs,
    "absd": _absd,
    "lerp": _lerp,
    "fma": _fma,
    "widening_add": _widening(build.add),
    "widening_sub": _widening_sub,
    "widening_mul": _widening(build.mul),
    "widening_shift_left": _widening_shift("shift_left"),
    "widening_shift_right": _widening_shift("shift_right"),
    "widen_right_add": _widen_right(build.add),
    "widen_right_sub": _widen_right(build.sub),
    "widen_right_mul": _widen_right(build.mul),
    "saturating_add": _saturating_add,
    "saturating_sub": _saturating_sub,
    "saturating_cast": _saturating_cast,
    "halving_add": _halving_add,
    "halving_sub": _halving_sub,
    "rounding_halving_add": _rounding_halving_add,
    "rounding_shift_right": _rounding_shift_right,
    "rounding_shift_left": _rounding_shift_left,
    "mul_shift_right": _mul_shift_right(False),
    "rounding_mul_shift_right": _mul_shift_right(True),
    "div_round_to_zero": _round_to_zero,
    "mod_round_to_zero": _round_to_zero,
    "likely": _first,
    "likely_if_innermost": _first,
    "promise_clamped": _first,
    "unsafe_promise_clamped": _first,
}

