"""Typed expression texts with the interval of their values, so that programs stay defined.

What the languages leave undefined must not be generated: int32 and int64 overflow, float to
int conversion out of range, and whatever depends on float rounding (comparing or truncating an
inexact float). For this each text carries its interval; floats also carry how many
fractional bits they have, which tells whether they are exact in float32 whatever the order of
evaluation.
"""

from __future__ import annotations

INT_TYPES = ("i32", "u8", "u16", "i16", "i8", "u32", "i64", "u64")
FLOAT_TYPES = ("f32", "f64")
TYPES = (*INT_TYPES, "f32", "f32", "f64")
CONSTRUCTORS = {
    **{f"i{b}": f"hl.Int({b})" for b in (8, 16, 32, 64)},
    **{f"u{b}": f"hl.UInt({b})" for b in (8, 16, 32, 64)},
    "f32": "hl.Float(32)",
    "f64": "hl.Float(64)",
}
EXACT_LIMIT = 1 << 23


def bits(kind: str) -> int:
    """Width of a type in bits."""
    return int(kind[1:])


def type_range(kind: str) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    n = bits(kind)
    return (0, (1 << n) - 1) if kind[0] == "u" else (-(1 << (n - 1)), (1 << (n - 1)) - 1)


class Value:
    """An expression's text with its type and what is known about its value.

    Attributes:
        text: Python source that builds it, atomic enough to be an operand.
        kind: Its type, such as "i16".
        low: Least possible value.
        high: Greatest possible value.
        fraction: Fractional bits of a float that is exact; None for an inexact float.
    """

    __slots__ = ("fraction", "high", "kind", "low", "text")

    def __init__(
        self, text: str, kind: str, low: float, high: float, fraction: int | None = 0
    ) -> None:
        self.text = text
        self.kind = kind
        self.low = low
        self.high = high
        self.fraction = fraction
        if kind in FLOAT_TYPES and fraction is not None:
            if max(abs(low), abs(high)) * (1 << fraction) > EXACT_LIMIT:
                self.fraction = None

    @property
    def exact(self) -> bool:
        """Whether the value has no rounding in it."""
        return self.fraction is not None

    def __repr__(self) -> str:
        return f"Value({self.text!r}, {self.kind}, {self.low}..{self.high}, {self.fraction})"


def wrapped(text: str, kind: str, low: int, high: int) -> Value | None:
    """An integer result: wraps where the type wraps, None where overflow is undefined."""
    least, greatest = type_range(kind)
    if least <= low and high <= greatest:
        return Value(text, kind, low, high)
    if kind in ("i32", "i64"):
        return None
    return Value(text, kind, least, greatest)


def constant(kind: str, number: float) -> Value:
    """A constant of a type."""
    fraction = 2 if kind in FLOAT_TYPES else 0
    # hl.f32(2) of a Python int and hl.u8(3) are accepted alike by both modules.
    return Value(f"hl.{kind}({number})", kind, number, number, fraction)


def cast(value: Value, kind: str) -> Value | None:
    """A conversion between types, None where it is undefined or depends on rounding."""
    if kind == value.kind:
        return value
    text = f"hl.cast({CONSTRUCTORS[kind]}, {value.text})"
    if kind in FLOAT_TYPES:
        low, high = value.low, value.high
        if max(abs(low), abs(high)) > EXACT_LIMIT:
            return None
        fraction = value.fraction if value.kind in FLOAT_TYPES else 0
        return Value(text, kind, low, high, fraction)
    least, greatest = type_range(kind)
    if value.kind in FLOAT_TYPES:
        if not value.exact or value.low < least or value.high > greatest:
            return None
        low = int(value.low)
        if value.low < 0:
            # The wheel makes uint32(int32(f)) a uint32(f), which is undefined below 0.
            low = max(low - 1, least)
            text = f"hl.max({text}, hl.{kind}({low}))"
        return Value(text, kind, low, int(value.high))
    if least <= value.low and value.high <= greatest:
        return Value(text, kind, value.low, value.high)
    return Value(text, kind, least, greatest)


def promoted(a: str, b: str) -> str:
    """The type that two different types are converted to by a binary operator."""
    if a == b:
        return a
    if "f64" in (a, b):
        return "f64"
    if "f32" in (a, b):
        return "f32"
    if a[0] == b[0]:
        return a if bits(a) > bits(b) else b
    return f"i{max(bits(a), bits(b))}"
