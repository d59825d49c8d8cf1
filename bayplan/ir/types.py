"""Element types of values and buffers: signed, unsigned, float, bool and handle, with lanes."""

from __future__ import annotations

import struct
from typing import Final


class Type:
    """An element type: kind, bits and vector lanes. Interned: equal types are the same object.

    Attributes:
        kind: "int", "uint", "float" or "handle".
        width: bits of one lane (1 for bool).
        lane_count: number of vector lanes, 1 for a scalar.
    """

    __slots__ = ("_hash", "kind", "lane_count", "width")

    kind: str
    width: int
    lane_count: int
    _hash: int
    _table: dict[tuple[str, int, int], Type] = {}

    def __new__(cls, kind: str, width: int, lane_count: int = 1) -> Type:
        key = (kind, width, lane_count)
        found = cls._table.get(key)
        if found is None:
            if (kind, width) not in _LEGAL:
                raise ValueError(f"there is no type {kind}{width}")
            found = object.__new__(cls)
            found.kind = str(kind)
            found.width = width
            found.lane_count = lane_count
            found._hash = hash(key)
            found = cls._table.setdefault(key, found)
        return found

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> tuple[type[Type], tuple[str, int, int]]:
        return (Type, (self.kind, self.width, self.lane_count))

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: object) -> Type:
        return self

    # The queries under Halide's names.

    def bits(self) -> int:
        """Bits of one lane."""
        return self.width

    def bytes(self) -> int:
        """Bytes one lane takes in memory (a bool takes one)."""
        return (self.width + 7) // 8

    def lanes(self) -> int:
        """Number of vector lanes; 1 for a scalar."""
        return self.lane_count

    def is_bool(self) -> bool:
        """Whether this is an unsigned integer of one bit."""
        return self.width == 1

    def is_int(self) -> bool:
        """Whether this is a signed integer."""
        return self.kind == "int"

    def is_uint(self) -> bool:
        """Whether this is an unsigned integer (a bool is one)."""
        return self.kind == "uint"

    def is_int_or_uint(self) -> bool:
        """Whether this is an integer of either sign."""
        return self.kind in ("int", "uint")

    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "float"

    def is_bfloat(self) -> bool:
        """Whether this is a bfloat type; never, there is none here."""
        return False

    def is_handle(self) -> bool:
        """Whether this is an opaque pointer."""
        return self.kind == "handle"

    def is_scalar(self) -> bool:
        """Whether this has one lane."""
        return self.lane_count == 1

    def is_vector(self) -> bool:
        """Whether this has more than one lane."""
        return self.lane_count > 1

    def code(self) -> str:
        """The kind as a word: "int", "uint", "float" or "handle"."""
        return self.kind

    def with_lanes(self, lanes: int) -> Type:
        """The same element type with another number of lanes."""
        return Type(self.kind, self.width, lanes)

    def with_bits(self, bits: int) -> Type:
        """The same kind and lanes with another width."""
        return Type(self.kind, bits, self.lane_count)

    def with_code(self, kind: str) -> Type:
        """The same width and lanes with another kind."""
        return Type(kind, self.width, self.lane_count)

    def element_of(self) -> Type:
        """The scalar type of one lane."""
        return self if self.lane_count == 1 else Type(self.kind, self.width)

    def widen(self) -> Type:
        """The same kind at twice the width."""
        return Type(self.kind, self.width * 2, self.lane_count)

    def narrow(self) -> Type:
        """The same kind at half the width."""
        return Type(self.kind, self.width // 2, self.lane_count)

    def min_value(self) -> int | float:
        """The least value of one lane as a Python number (-inf for floats)."""
        if self.kind == "int":
            return -(1 << (self.width - 1))
        if self.kind == "float":
            return float("-inf")
        return 0

    def max_value(self) -> int | float:
        """The greatest value of one lane as a Python number (inf for floats)."""
        if self.kind == "int":
            return int((1 << (self.width - 1)) - 1)
        if self.kind == "float":
            return float("inf")
        return int((1 << self.width) - 1)

    def can_represent(self, other: Type | int | float) -> bool:
        """Whether each value of `other` (a type or one number) is a value of this type."""
        if isinstance(other, Type):
            return self._can_represent_type(other)
        if isinstance(other, float):
            return self.wrap(other) == other
        if self.kind == "float":
            return self.wrap(float(other)) == other
        return self.min_value() <= other <= self.max_value()

    def _can_represent_type(self, other: Type) -> bool:
        if self is other:
            return True
        if self.lane_count != other.lane_count:
            return False
        if self.kind == "int":
            return (other.kind == "int" and other.width <= self.width) or (
                other.kind == "uint" and other.width < self.width
            )
        if self.kind == "uint":
            return other.kind == "uint" and other.width <= self.width
        if self.kind == "float":
            digits = {16: 11, 32: 24, 64: 53}[self.width]
            if other.kind == "float":
                return other.width <= self.width
            return other.kind != "handle" and other.width <= digits
        return False

    def wrap(self, value: int | float) -> int | float:
        """The value of one lane that storing `value` in this type keeps.

        Integers wrap modulo 2**bits; floats are rounded to nearest; a float that becomes an
        integer is truncated toward zero first. Bool keeps whether the value is nonzero.
        """
        if self.kind == "float":
            return _round_float(float(value), self.width)
        if self.width == 1:
            return 1 if value else 0
        whole = int(value) & ((1 << self.width) - 1)
        if self.kind == "int" and whole >> (self.width - 1):
            whole -= 1 << self.width
        return whole

    def __str__(self) -> str:
        name = "bool" if self.width == 1 else f"{self.kind}{self.width}"
        if self.kind == "handle":
            name = "handle"
        return name if self.lane_count == 1 else f"{name}x{self.lane_count}"

    def __repr__(self) -> str:
        return f"<bayplan.Type {self}>"


_LEGAL: Final = frozenset(
    [("int", 8), ("int", 16), ("int", 32), ("int", 64)]
    + [("uint", 1), ("uint", 8), ("uint", 16), ("uint", 32), ("uint", 64)]
    + [("float", 16), ("float", 32), ("float", 64), ("handle", 64)]
)

_FLOAT_FORMAT: Final = {16: "<e", 32: "<f"}


def _round_float(value: float, width: int) -> float:
    if width == 64:
        return value
    fmt = _FLOAT_FORMAT[width]
    try:
        return float(struct.unpack(fmt, struct.pack(fmt, value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def Int(bits: int, lanes: int = 1) -> Type:
    """A signed integer type of 8, 16, 32 or 64 bits."""
    return Type("int", bits, lanes)


def UInt(bits: int, lanes: int = 1) -> Type:
    """An unsigned integer type of 1, 8, 16, 32 or 64 bits."""
    return Type("uint", bits, lanes)


def Float(bits: int, lanes: int = 1) -> Type:
    """A floating-point type of 16, 32 or 64 bits."""
    return Type("float", bits, lanes)


def Bool(lanes: int = 1) -> Type:
    """The type of truth values: an unsigned integer of one bit, one byte in memory."""
    return Type("uint", 1, lanes)


def Handle() -> Type:
    """The type of an opaque pointer."""
    return Type("handle", 64)


INT32: Final = Int(32)
INT64: Final = Int(64)
UINT64: Final = UInt(64)
BOOL: Final = Bool()
FLOAT32: Final = Float(32)
