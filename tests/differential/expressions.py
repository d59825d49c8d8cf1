"""Draws random typed expressions over the coordinates, loads and parameters of a scope."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.choices import Choices
from tests.differential.values import (
    CONSTRUCTORS,
    FLOAT_TYPES,
    INT_TYPES,
    Value,
    bits,
    cast,
    constant,
    promoted,
    type_range,
    wrapped,
)

Load = Callable[["Scope", str], "Value | None"]


class Scope:
    """What an expression may mention.

    Attributes:
        coordinates: Vars and RVars as int32 values.
        loads: Draws a load from some Func or input; None when there is none.
        params: Scalar parameters.
        reduction: Draws an inline reduction of a type; None inside one.
    """

    def __init__(
        self,
        choices: Choices,
        coordinates: list[Value],
        load: Load,
        params: list[Value],
        reduction: Callable[[Scope, str], Value | None] | None = None,
    ) -> None:
        self.choices = choices
        self.coordinates = coordinates
        self.load = load
        self.params = params
        self.reduction = reduction

    def expression(self, kind: str, depth: int) -> Value:
        """Draws an expression of a type, at most `depth` operations deep."""
        choices = self.choices
        if depth <= 0 or choices.chance(12):
            return self.leaf(kind)
        table = FLOAT_OPERATIONS if kind in FLOAT_TYPES else INT_OPERATIONS
        for _ in range(4):
            value = choices.weighted(table)(self, kind, depth - 1)
            if value is not None:
                return value
        return self.leaf(kind)

    def leaf(self, kind: str) -> Value:
        """Draws a load, a coordinate, a parameter or a constant of a type."""
        choices = self.choices
        what = choices.weighted([(12, "load"), (4, "coordinate"), (3, "constant"), (1, "param")])
        value: Value | None = None
        if what == "load":
            value = self.load(self, kind)
        elif what == "coordinate" and self.coordinates:
            value = choices.pick(self.coordinates)
        elif what == "param" and self.params:
            value = choices.pick(self.params)
        if value is not None:
            value = cast(value, kind)
        return value if value is not None else self.constant(kind)

    def constant(self, kind: str) -> Value:
        """Draws a small constant, at times an extreme one."""
        choices = self.choices
        if kind in FLOAT_TYPES:
            return constant(kind, choices.near_zero(16) / 4)
        least, greatest = type_range(kind)
        if choices.chance(6) and bits(kind) < 32:
            return constant(kind, choices.pick([greatest, least]))
        number = choices.near_zero(9)
        return constant(kind, abs(number) if least == 0 else number)

    def condition(self, depth: int) -> str:
        """Draws a boolean expression without rounding in it."""
        choices = self.choices
        if depth > 0 and choices.chance(25):
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return f"({a} {choices.pick('&|')} {b})"
        kind = choices.pick(("i32", "u8", "i16", "u32", "f32", "i64", "f64"))
        a_value, b_value = self.expression(kind, depth - 1), self.leaf(kind)
        if kind in FLOAT_TYPES and not (a_value.exact and b_value.exact):
            kind = "i32"
            a_value, b_value = self.expression(kind, depth - 1), self.leaf(kind)
        operator = choices.pick(("<", "<=", ">", ">=", "==", "!="))
        return f"({a_value.text} {operator} {b_value.text})"


def _sums(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, depth)
    if scope.choices.chance(40):
        return _int(f"({a.text} - {b.text})", kind, a.low - b.high, a.high - b.low)
    return _int(f"({a.text} + {b.text})", kind, a.low + b.low, a.high + b.high)


def _product(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, min(depth, 1))
    corners = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    return _int(f"({a.text} * {b.text})", kind, min(corners), max(corners))


def _int(text: str, kind: str, low: float, high: float) -> Value | None:
    return wrapped(text, kind, int(low), int(high))


def _quotient(scope: Scope, kind: str, depth: int) -> Value | None:
    a = scope.expression(kind, depth)
    choices = scope.choices
    if choices.chance(25):
        b = scope.expression(kind, depth)
        # The least value divided by -1 overflows.
        if b.low <= -1 <= b.high and a.low == type_range(kind)[0]:
            return None
    else:
        number = choices.pick((2, 3, 4, 5, 7, 8, 16, 25))
        if kind[0] == "i" and choices.chance(20):
            number = -number
        b = constant(kind, number)
    if choices.chance(50):
        text = f"({a.text} {choices.pick(('//', '/'))} {b.text})"
        bound = max(abs(a.low), abs(a.high)) + 1
        low = -bound if kind[0] == "i" else 0
        least, greatest = type_range(kind)
        return Value(text, kind, max(low, least), min(bound, greatest))
    return Value(f"({a.text} % {b.text})", kind, 0, max(abs(b.low), abs(b.high)))


def _extremum(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, depth)
    fraction = _worse(a, b)
    if scope.choices.chance(50):
        text, low, high = f"hl.max({a.text}, {b.text})", max(a.low, b.low), max(a.high, b.high)
    else:
        text, low, high = f"hl.min({a.text}, {b.text})", min(a.low, b.low), min(a.high, b.high)
    return Value(text, kind, low, high, fraction)


def _worse(a: Value, b: Value) -> int | None:
    if a.fraction is None or b.fraction is None:
        return None
    return max(a.fraction, b.fraction)


def _clamp(scope: Scope, kind: str, depth: int) -> Value | None:
    a, limit = scope.expression(kind, depth), scope.choices.between(1, 100)
    low, high = constant(kind, 0), constant(kind, limit)
    text = f"hl.clamp({a.text}, {low.text}, {high.text})"
    return Value(text, kind, 0, limit, _worse(a, high))


def _solid(value: Value) -> str:
    """The text, as a whole expression: the wheel takes bare uses of Funcs here for Tuples."""
    if value.text.endswith("]"):
        return f"hl.cast({CONSTRUCTORS[value.kind]}, {value.text})"
    return value.text


def _select(scope: Scope, kind: str, depth: int) -> Value | None:
    condition = scope.condition(min(depth, 1))
    a, b = scope.expression(kind, depth), scope.expression(kind, depth)
    text = f"hl.select({condition}, {_solid(a)}, {_solid(b)})"
    values = [a, b]
    if scope.choices.chance(15):
        c, second = scope.leaf(kind), scope.condition(0)
        text = f"hl.select({condition}, {_solid(a)}, {second}, {_solid(c)}, {_solid(b)})"
        values.append(c)
    fraction = None if any(not v.exact for v in values) else max(v.fraction or 0 for v in values)
    return Value(text, kind, min(v.low for v in values), max(v.high for v in values), fraction)


def _mux(scope: Scope, kind: str, depth: int) -> Value | None:
    index = scope.expression("i32", min(depth, 1))
    if index.low == index.high and not scope.coordinates:
        return None
    if index.low == index.high:
        # A constant index picks its value at once, and the other Funcs may be unused.
        index = scope.coordinates[0]
    values = [scope.leaf(kind) for _ in range(scope.choices.between(2, 4))]
    fraction = None if any(not v.exact for v in values) else max(v.fraction or 0 for v in values)
    text = f"hl.mux({index.text}, [{', '.join(_solid(v) for v in values)}])"
    return Value(text, kind, min(v.low for v in values), max(v.high for v in values), fraction)


def _conversion(scope: Scope, kind: str, depth: int) -> Value | None:
    other = scope.choices.pick(INT_TYPES)
    value = scope.expression(other, depth)
    if scope.choices.chance(30):
        least, greatest = type_range(kind)
        low, high = (min(max(v, least), greatest) for v in (value.low, value.high))
        if bits(kind) < 64 and scope.choices.chance(50):
            return Value(f"hl.{kind}_sat({value.text})", kind, low, high)
        text = f"hl.saturating_cast({CONSTRUCTORS[kind]}, {value.text})"
        return Value(text, kind, low, high)
    return cast(value, kind)


def _from_float(scope: Scope, kind: str, depth: int) -> Value | None:
    source = scope.choices.pick(FLOAT_TYPES)
    value = scope.expression(source, depth)
    least, greatest = type_range(kind)
    if value.exact and (value.low < least or value.high > greatest):
        low, high = max(least, -100), min(greatest, 100)
        text = f"hl.clamp({value.text}, hl.{source}({float(low)}), hl.{source}({float(high)}))"
        value = Value(text, source, low, high, value.fraction)
    return cast(value, kind)


def _bitwise(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, depth)
    choices = scope.choices
    which = choices.below(4)
    if which == 3:
        low, high = -1 - a.high, -1 - a.low
        if kind[0] == "u":
            low, high = type_range(kind)
        return Value(f"(~{a.text})", kind, low, high)
    text = f"({a.text} {'&|^'[which]} {b.text})"
    if which == 0 and min(a.low, b.low) >= 0:
        return Value(text, kind, 0, min(a.high, b.high))
    size = max(abs(v) for v in (a.low, a.high, b.low, b.high))
    high = (1 << int(size).bit_length()) - 1
    return Value(text, kind, -high - 1 if min(a.low, b.low) < 0 else 0, high)


def _shift(scope: Scope, kind: str, depth: int) -> Value | None:
    a = scope.expression(kind, depth)
    n = scope.choices.between(1, 3)
    amount = constant(kind, n).text
    if scope.choices.chance(50):
        text = f"({a.text} >> {amount})"
        return Value(text, kind, int(a.low) >> n, int(a.high) >> n)
    return _int(f"({a.text} << {amount})", kind, int(a.low) << n, int(a.high) << n)


def _absolute(scope: Scope, kind: str, depth: int) -> Value | None:
    """abs and absd, whose results are unsigned, converted back."""
    signed = "i" + kind[1:]
    unsigned = "u" + kind[1:]
    a = scope.expression(signed, depth)
    if scope.choices.chance(50):
        size = max(abs(a.low), abs(a.high))
        return cast(Value(f"hl.abs({a.text})", unsigned, 0, size), kind)
    either = scope.choices.pick((signed, unsigned))
    a, b = scope.expression(either, depth), scope.expression(either, depth)
    size = max(abs(a.high - b.low), abs(b.high - a.low))
    return cast(Value(f"hl.absd({a.text}, {b.text})", unsigned, 0, size), kind)


def _saturating(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, depth)
    names = ("saturating_add", "saturating_sub", "halving_add", "rounding_halving_add")
    name = scope.choices.pick(names)
    least, greatest = type_range(kind)
    low, high = {
        "saturating_add": (a.low + b.low, a.high + b.high),
        "saturating_sub": (a.low - b.high, a.high - b.low),
        "halving_add": ((a.low + b.low) // 2, (a.high + b.high) // 2),
        "rounding_halving_add": ((a.low + b.low + 1) // 2, (a.high + b.high + 1) // 2),
    }[name]
    low, high = (min(max(v, least), greatest) for v in (low, high))
    return Value(f"hl.{name}({a.text}, {b.text})", kind, low, high)


def _widening(scope: Scope, kind: str, depth: int) -> Value | None:
    """A narrow operation in twice the width, used as such or narrowed again."""
    if bits(kind) < 16:
        return None
    narrow = f"{kind[0]}{bits(kind) // 2}"
    a, b = scope.expression(narrow, depth), scope.expression(narrow, depth)
    if scope.choices.chance(50):
        corners = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
        text = f"hl.widening_mul({a.text}, {b.text})"
        return wrapped(text, kind, int(min(corners)), int(max(corners)))
    text = f"hl.widening_add({a.text}, {b.text})"
    return wrapped(text, kind, int(a.low + b.low), int(a.high + b.high))


def _mixed(scope: Scope, kind: str, depth: int) -> Value | None:
    """Operands of two types: the operator converts them."""
    first, second = scope.choices.pick(INT_TYPES), scope.choices.pick(INT_TYPES)
    common = promoted(first, second)
    a, b = scope.expression(first, depth), scope.expression(second, depth)
    ca, cb = cast(a, common), cast(b, common)
    if ca is None or cb is None:
        return None
    if scope.choices.chance(40):
        text, low, high = f"hl.min({a.text}, {b.text})", min(ca.low, cb.low), max(ca.high, cb.high)
        return cast(Value(text, common, low, high), kind)
    text = f"({a.text} + {b.text})"
    total = _int(text, common, ca.low + cb.low, ca.high + cb.high)
    return None if total is None else cast(total, kind)


def _python_number(scope: Scope, kind: str, depth: int) -> Value | None:
    """A bare Python number on one side."""
    a, n = scope.expression(kind, depth), scope.choices.between(1, 5)
    if kind in FLOAT_TYPES:
        return _float(f"({a.text} * {n}.0)", kind, a.low * n, a.high * n, a.fraction)
    if scope.choices.chance(50):
        return _int(f"({n} + {a.text})", kind, a.low + n, a.high + n)
    return _int(f"({a.text} * {n})", kind, a.low * n, a.high * n)


def _bit_count(scope: Scope, kind: str, depth: int) -> Value | None:
    a = scope.expression(kind, depth)
    name = scope.choices.pick(("popcount", "count_leading_zeros"))
    if name == "count_leading_zeros":
        # Of zero it is undefined.
        return Value(f"hl.{name}({a.text} | {constant(kind, 1).text})", kind, 0, bits(kind))
    return Value(f"hl.{name}({a.text})", kind, 0, bits(kind))


def _lerp(scope: Scope, kind: str, depth: int) -> Value | None:
    if kind not in ("u8", "u16", "i16", "u32"):
        return None
    a, b = scope.expression(kind, depth), scope.expression(kind, min(depth, 1))
    if scope.choices.chance(30):
        weight = f"hl.f32({scope.choices.pick((0.25, 0.5, 0.75, 0.0, 1.0))})"
    else:
        weight = scope.expression(scope.choices.pick(("u8", "u16")), min(depth, 1)).text
    text = f"hl.lerp({a.text}, {b.text}, {weight})"
    return Value(text, kind, min(a.low, b.low) - 1, max(a.high, b.high) + 1)


def _reduce(scope: Scope, kind: str, depth: int) -> Value | None:
    return scope.reduction(scope, kind) if scope.reduction is not None else None


def _float(text: str, kind: str, low: float, high: float, fraction: int | None) -> Value | None:
    if max(abs(low), abs(high)) > 1e12:
        return None
    return Value(text, kind, low, high, fraction)


def _float_sum(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, depth)
    if scope.choices.chance(40):
        return _float(f"({a.text} - {b.text})", kind, a.low - b.high, a.high - b.low, _worse(a, b))
    return _float(f"({a.text} + {b.text})", kind, a.low + b.low, a.high + b.high, _worse(a, b))


def _float_product(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, min(depth, 1))
    corners = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    fraction = None if _worse(a, b) is None else (a.fraction or 0) + (b.fraction or 0)
    return _float(f"({a.text} * {b.text})", kind, min(corners), max(corners), fraction)


def _from_int(scope: Scope, kind: str, depth: int) -> Value | None:
    other = scope.choices.pick((*INT_TYPES, "f64" if kind == "f32" else "f32"))
    return cast(scope.expression(other, depth), kind)


def _halved(scope: Scope, kind: str, depth: int) -> Value | None:
    a = scope.expression(kind, depth)
    fraction = None if a.fraction is None else a.fraction + 1
    return _float(f"({a.text} / hl.{kind}(2.0))", kind, a.low / 2, a.high / 2, fraction)


def _rounded(scope: Scope, kind: str, depth: int) -> Value | None:
    a = scope.expression(kind, depth)
    if not a.exact:
        return None
    name = scope.choices.pick(("floor", "ceil", "trunc", "abs"))
    size = max(abs(a.low), abs(a.high)) + 1
    fraction = a.fraction if name == "abs" else 0
    return _float(f"hl.{name}({a.text})", kind, -size, size, fraction)


def _inexact(scope: Scope, kind: str, depth: int) -> Value | None:
    a, b = scope.expression(kind, depth), scope.expression(kind, min(depth, 1))
    which = scope.choices.below(3)
    size = max(abs(a.low), abs(a.high))
    if which == 0:
        return _float(f"({a.text} / (hl.abs({b.text}) + hl.{kind}(1.0)))", kind, -size, size, None)
    if which == 1:
        return _float(f"hl.sqrt(hl.abs({a.text}))", kind, 0, size + 1, None)
    return _float(f"hl.sin({a.text})", kind, -1, 1, None) if a.exact and size < 100 else None


INT_OPERATIONS = [
    (8, _sums),
    (4, _product),
    (4, _quotient),
    (3, _extremum),
    (2, _clamp),
    (4, _select),
    (1, _mux),
    (4, _conversion),
    (1, _from_float),
    (3, _bitwise),
    (2, _shift),
    (2, _absolute),
    (2, _saturating),
    (2, _widening),
    (2, _mixed),
    (2, _python_number),
    (1, _bit_count),
    (1, _lerp),
    (2, _reduce),
]
FLOAT_OPERATIONS = [
    (8, _float_sum),
    (4, _float_product),
    (3, _from_int),
    (3, _extremum),
    (3, _select),
    (2, _halved),
    (1, _clamp),
    (1, _python_number),
    (1, _rounded),
    (2, _inexact),
    (2, _reduce),
]
