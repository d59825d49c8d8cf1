"""Integer operations of the language on numpy arrays, exact and wrapped to the result's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.ir.types import Type

Array = Any


def dtype_of(t: Type) -> Any:
    """The numpy dtype of an element type."""
    import numpy as np

    if t.is_bool():
        return np.dtype(bool)
    return np.dtype(f"{ {'int': 'i', 'uint': 'u', 'float': 'f'}[t.kind] }{t.width // 8}")


def divide(a: Array, b: Array) -> Array:
    """Quotient for which the remainder is never negative; 0 where b is 0."""
    import numpy as np

    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    # Rounding down leaves a negative remainder where b is negative: the quotient is one more.
    rest = a - quotient * safe
    quotient = np.where(rest < 0, quotient + 1, quotient)
    return np.where(b == 0, np.zeros_like(quotient), quotient).astype(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Remainder in [0, |b|); 0 where b is 0."""
    import numpy as np

    return np.where(b == 0, np.zeros_like(a), a - divide(a, b) * b).astype(a.dtype)


def convert(value: Array, t: Type) -> Array:
    """A conversion between element types: integers wrap, floats truncate toward zero."""
    import numpy as np

    dtype = dtype_of(t)
    if t.is_bool():
        return value != 0
    if t.kind == "float":
        return value.astype(dtype)
    if value.dtype.kind == "f":
        # By way of int64, which wraps to the narrow types; beyond it the result is unspecified.
        whole = np.trunc(np.nan_to_num(value))
        wide = np.uint64 if t.kind == "uint" and t.width == 64 else np.int64
        return whole.astype(wide).astype(dtype)
    return value.astype(dtype)


def exact(value: Array) -> Array:
    """The values as Python integers, which neither wrap nor round."""
    return value.astype(object)


def wrap(value: Array, t: Type) -> Array:
    """Python integers as an array of the type, modulo 2**bits."""
    import numpy as np

    low = int(t.min_value())
    size = 1 << t.width
    # Arithmetic on an array without dimensions gives a plain number.
    return np.asarray((value - low) % size + low, object).astype(dtype_of(t))


def saturate(value: Array, t: Type) -> Array:
    """Python integers as an array of the type, clamped to what it holds."""
    import numpy as np

    low, high = int(t.min_value()), int(t.max_value())
    clamp = np.frompyfunc(lambda v: min(max(v, low), high), 1, 1)
    return np.asarray(clamp(np.asarray(value, object)), object).astype(dtype_of(t))


def shift(a: Array, b: Array, left: bool) -> Array:
    """Python integers shifted by b bits; a negative b shifts the other way."""
    import numpy as np

    amount = b if left else -b
    forward = np.where(amount > 0, amount, 0)
    backward = np.where(amount < 0, -amount, 0)
    return np.asarray((a * _power(forward)) // _power(backward), object)


def _power(n: Array) -> Array:
    import numpy as np

    return np.asarray(np.frompyfunc(lambda k: 1 << min(int(k), 128), 1, 1)(n), object)


def _rounded_right(a: Array, b: Array) -> Array:
    return (a + _power(b) // 2) // _power(b)


def _each(function: Callable[[int], int], value: Array) -> Array:
    import numpy as np

    return np.frompyfunc(lambda k: function(int(k)), 1, 1)(value)


def bit_count(name: str, value: Array, t: Type) -> Array:
    """popcount, count_leading_zeros, count_trailing_zeros of the type's bits."""
    import numpy as np

    mask = (1 << t.width) - 1
    functions = {
        "popcount": lambda k: (k & mask).bit_count(),
        "count_leading_zeros": lambda k: t.width - (k & mask).bit_length(),
        "count_trailing_zeros": lambda k: ((k & -k).bit_length() - 1) if k & mask else t.width,
    }
    return np.asarray(_each(functions[name], exact(value)), dtype_of(t))


def lerp(zero: Array, one: Array, weight: Array, t: Type, weight_type: Type) -> Array:
    """Integer linear interpolation: weights span the type's range, the mean is rounded."""
    import numpy as np

    top = (1 << t.width) - 1
    low = int(t.min_value())
    if weight_type.kind == "float":
        wide = weight.astype(np.float64 if t.width == 32 else weight.dtype)
        w = exact(np.trunc(wide * wide.dtype.type(top)).astype(np.uint64))
    else:
        w = exact(weight) * top // ((1 << weight_type.width) - 1)
    total = (exact(zero) - low) * (top - w) + (exact(one) - low) * w
    # Dividing by 2**n - 1 with rounding, by two rounding shifts.
    half = (total + (1 << (t.width - 1))) >> t.width
    return wrap(((half + total + (1 << (t.width - 1))) >> t.width) + low, t)


# name -> exact result of Python integers; it then wraps to the result's type.
WRAPPING: dict[str, Callable[..., Array]] = {
    "abs": abs,
    "absd": lambda a, b: abs(a - b),
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: -1 - a,
    "shift_left": lambda a, b: shift(a, b, left=True),
    "shift_right": lambda a, b: shift(a, b, left=False),
    "widening_add": lambda a, b: a + b,
    "widening_sub": lambda a, b: a - b,
    "widening_mul": lambda a, b: a * b,
    "widening_shift_left": lambda a, b: shift(a, b, left=True),
    "widening_shift_right": lambda a, b: shift(a, b, left=False),
    "widen_right_add": lambda a, b: a + b,
    "widen_right_sub": lambda a, b: a - b,
    "widen_right_mul": lambda a, b: a * b,
    "halving_add": lambda a, b: (a + b) // 2,
    "halving_sub": lambda a, b: (a - b) // 2,
    "rounding_halving_add": lambda a, b: (a + b + 1) // 2,
    "rounding_shift_right": _rounded_right,
}
# The same, but results are clamped to the type.
SATURATING: dict[str, Callable[..., Array]] = {
    "saturating_add": lambda a, b: a + b,
    "saturating_sub": lambda a, b: a - b,
    "saturating_cast": lambda a: a,
    "mul_shift_right": lambda a, b, c: (a * b) // _power(c),
    "rounding_mul_shift_right": lambda a, b, c: _rounded_right(a * b, c),
}
