"""The values of operators and functions are those of Halide, type by type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan

halide = pytest.importorskip("halide")

COUNT = 64
KINDS = {"i": "Int", "u": "UInt", "f": "Float"}
INTEGERS = [
    pytest.param(k, b, marks=pytest.mark.slow) if b in (16, 64) else (k, b)
    for k in ("Int", "UInt")
    for b in (8, 32, 16, 64)
]
NARROW = INTEGERS[0::4] + INTEGERS[2::4]
FLOATS = [("Float", 32), pytest.param("Float", 64, marks=pytest.mark.slow)]

Build = Callable[[Any, Any, Any], Any]

# Functions that can overflow int32 and int64, which has no defined result: on small values.
SMALL: dict[str, Build] = {
    "add": lambda hl, a, b: a + b,
    "sub": lambda hl, a, b: a - b,
    "mul": lambda hl, a, b: a * b,
    "neg": lambda hl, a, b: -a,
    "square": lambda hl, a, b: a**2,
    "literal": lambda hl, a, b: 3 * a + 7 - b,
    "shift left": lambda hl, a, b: a << 3,
}

EXACT: dict[str, Build] = {
    "div": lambda hl, a, b: a / b,
    "floordiv": lambda hl, a, b: a // b,
    "mod": lambda hl, a, b: a % b,
    "div by constant": lambda hl, a, b: a / 7,
    "mod by constant": lambda hl, a, b: a % 7,
    "min": lambda hl, a, b: hl.min(a, b),
    "max": lambda hl, a, b: hl.max(a, b),
    "clamp": lambda hl, a, b: hl.clamp(a, 3, 100),
    "compare": lambda hl, a, b: hl.select(a < b, 1, a <= b, 2, a == b, 3, a > b, 4, 5),
    "not equal": lambda hl, a, b: (a != b) & (a >= b),
    "or": lambda hl, a, b: (a > 5) | (b > 5),
    "xor": lambda hl, a, b: (a > 5) ^ (b > 5),
    "not": lambda hl, a, b: ~(a > 5),
    "absd": lambda hl, a, b: hl.absd(a, b),
    "select": lambda hl, a, b: hl.select(a > b, a, b),
    "mux": lambda hl, a, b: hl.mux(hl.i32(hl.clamp(a, 0, 5)), [a, b, b, a]),
    "u8": lambda hl, a, b: hl.u8_sat(a),
    "i16": lambda hl, a, b: hl.i16_sat(a),
    "u32": lambda hl, a, b: hl.u32_sat(a),
    "i64": lambda hl, a, b: hl.i64_sat(a),
    "bool": lambda hl, a, b: hl.cast(hl.Bool(), a),
    "to f32": lambda hl, a, b: hl.f32(a),
    "to f64": lambda hl, a, b: hl.f64(a),
    "likely": lambda hl, a, b: hl.min(hl.likely(a), b),
}

ON_INTEGERS: dict[str, Build] = {
    "and": lambda hl, a, b: a & b,
    "or": lambda hl, a, b: a | b,
    "xor": lambda hl, a, b: a ^ b,
    "not": lambda hl, a, b: ~a,
    "shift right": lambda hl, a, b: a >> 3,
    "variable shift": lambda hl, a, b: a >> (b & 7),
    "popcount": lambda hl, a, b: hl.popcount(a),
    "leading zeros": lambda hl, a, b: hl.count_leading_zeros(hl.max(a, 1)),
    "trailing zeros": lambda hl, a, b: hl.count_trailing_zeros(a | 1),
    "to u8": lambda hl, a, b: hl.u8(a),
    "to i16": lambda hl, a, b: hl.i16(a),
    "to u32": lambda hl, a, b: hl.u32(a),
    "to i64": lambda hl, a, b: hl.i64(a),
    "saturating add": lambda hl, a, b: hl.saturating_add(a, b),
    "saturating sub": lambda hl, a, b: hl.saturating_sub(a, b),
    "halving add": lambda hl, a, b: hl.halving_add(a, b),
    "halving sub": lambda hl, a, b: hl.halving_sub(a, b),
    "rounding halving add": lambda hl, a, b: hl.rounding_halving_add(a, b),
    "rounding shift right": lambda hl, a, b: hl.rounding_shift_right(a, 2),
    "mul shift right": lambda hl, a, b: hl.mul_shift_right(a, b, 5),
    "rounding mul shift right": lambda hl, a, b: hl.rounding_mul_shift_right(a, b, 5),
}

TO_ZERO: dict[str, Build] = {
    "div to zero": lambda hl, a, b: hl.div_round_to_zero(a, hl.select(b == 0, 3, b)),
    "mod to zero": lambda hl, a, b: hl.mod_round_to_zero(a, hl.select(b == 0, 3, b)),
}

WIDENING: dict[str, Build] = {
    "widening add": lambda hl, a, b: hl.widening_add(a, b),
    "widening sub": lambda hl, a, b: hl.widening_sub(a, b),
    "widening mul": lambda hl, a, b: hl.widening_mul(a, b),
    "widen right add": lambda hl, a, b: hl.widen_right_add(hl.widening_mul(a, b) / 2, b),
    "widening shift left": lambda hl, a, b: hl.widening_shift_left(a, 3),
    "concat bits": lambda hl, a, b: hl.concat_bits([a, b]),
    "lerp": lambda hl, a, b: hl.lerp(a, b, hl.cast(hl.UInt(8), a)),
    "float lerp": lambda hl, a, b: hl.lerp(a, b, hl.f32(0.25)),
    "lerp by a varying float": lambda hl, a, b: hl.lerp(a, b, hl.f32(hl.u8(b)) / 255.0),
    "lerp by uint16": lambda hl, a, b: hl.lerp(a, b, hl.u16(b)),
    "lerp by uint32": lambda hl, a, b: hl.lerp(a, b, hl.u32(b) * hl.u32(65537)),
}

ON_FLOATS: dict[str, Build] = {
    "mul": lambda hl, a, b: a * b,
    "div": lambda hl, a, b: a / b,
    "floor": lambda hl, a, b: hl.floor(a),
    "ceil": lambda hl, a, b: hl.ceil(a),
    "round": lambda hl, a, b: hl.round(a),
    "half ways": lambda hl, a, b: hl.round(hl.floor(a) + 0.5),
    "trunc": lambda hl, a, b: hl.trunc(a),
    "fract": lambda hl, a, b: hl.fract(a),
    "abs": lambda hl, a, b: hl.abs(a),
    "sqrt": lambda hl, a, b: hl.sqrt(hl.abs(a)),
    "sin": lambda hl, a, b: hl.sin(a),
    "cos": lambda hl, a, b: hl.cos(a),
    "tan": lambda hl, a, b: hl.tan(a / 50.0),
    "atan": lambda hl, a, b: hl.atan(a),
    "asin": lambda hl, a, b: hl.asin(a / 200.0),
    "acos": lambda hl, a, b: hl.acos(a / 200.0),
    "atan2": lambda hl, a, b: hl.atan2(a, b),
    "sinh": lambda hl, a, b: hl.sinh(a / 50.0),
    "cosh": lambda hl, a, b: hl.cosh(a / 50.0),
    "tanh": lambda hl, a, b: hl.tanh(a / 50.0),
    "exp": lambda hl, a, b: hl.exp(a / 10.0),
    "log": lambda hl, a, b: hl.log(hl.abs(a) + 0.5),
    "pow": lambda hl, a, b: hl.pow(hl.abs(a) + 0.5, b / 50.0),
    "cube": lambda hl, a, b: a**3,
    "hypot": lambda hl, a, b: hl.hypot(a, b),
    "is nan": lambda hl, a, b: hl.is_nan(a / b) | hl.is_inf(a / b) | hl.is_finite(a / b),
    "lerp": lambda hl, a, b: hl.lerp(a, b, hl.f32(0.25)),
    "to i32": lambda hl, a, b: hl.i32(a),
    "to u8": lambda hl, a, b: hl.u8(hl.abs(a)),
    "bits": lambda hl, a, b: hl.reinterpret(hl.UInt(a.type().bits()), a),
}

ON_FLOAT32: dict[str, Build] = {
    "erf": lambda hl, a, b: hl.erf(a / 50.0),
    "fast exp": lambda hl, a, b: hl.fast_exp(a / 20.0),
    "fast log": lambda hl, a, b: hl.fast_log(hl.abs(a) + 0.5),
    "fast pow": lambda hl, a, b: hl.fast_pow(hl.abs(a) + 0.5, b / 50.0),
}


def numpy_type(kind: str, bits: int) -> Any:
    return np.dtype(f"{kind.lower()}{bits}")


def samples(kind: str, bits: int, small: bool) -> tuple[Any, Any]:
    """Two arrays that meet in zeros, equal values and extremes."""
    rng = np.random.default_rng(bits)
    if kind == "Float":
        a = rng.uniform(-150, 150, COUNT).astype(numpy_type(kind, bits))
        b = rng.uniform(-150, 150, COUNT).astype(numpy_type(kind, bits))
        a[:4], b[:4] = [0, 1, -2.5, 3.5], [1, 1, 2, -3.5]
        return a, b
    info = np.iinfo(numpy_type(kind, bits))
    low, high = info.min, info.max
    if small and bits >= 32:
        low, high = max(low, -30000), 30000
    a = rng.integers(low, high, COUNT, numpy_type(kind, bits), endpoint=True)
    b = rng.integers(low, high, COUNT, numpy_type(kind, bits), endpoint=True)
    a[:6] = [low, high, low, high, 0, 1]
    b[:6] = [high, low, low, high, 0, 0]
    b[8:20] = rng.integers(0, 10, 12)
    return a, b


def as_buffer(hl: Any, array: Any) -> Any:
    """A Buffer of the elements; the wheel takes no array of uint64."""
    buffer = hl.Buffer(getattr(hl, KINDS[array.dtype.kind])(array.itemsize * 8), [COUNT])
    np.asarray(buffer)[...] = array
    return buffer


def define(hl: Any, table: dict[str, Build], a: Any, b: Any) -> Any:
    """A Func with one value for each entry of the table."""
    x = hl.Var("x")
    left, right = as_buffer(hl, a), as_buffer(hl, b)
    f = hl.Func("values")
    f[x] = tuple([build(hl, left[x], right[x]) for build in table.values()])
    return f


def realized(f: Any) -> list[Any]:
    outputs = f.realize([COUNT])
    return [np.array(o) for o in outputs]


def evaluated(f: Any) -> list[Any]:
    """The values by the reference evaluator."""
    from bayplan.reference import evaluate

    return [np.asarray(o) for o in evaluate(f, [0], [COUNT])]


def compare(table: dict[str, Build], kind: str, bits: int, small: bool, rtol: float = 1e-5) -> None:
    a, b = samples(kind, bits, small)
    expected = realized(define(halide, table, a, b))
    f = define(bayplan, table, a, b)
    for run in (evaluated, realized):
        check(table, a, b, run(f), expected, rtol)


def check(
    table: dict[str, Build], a: Any, b: Any, found: list[Any], expected: list[Any], rtol: float
) -> None:
    for name, ours, theirs in zip(table, found, expected, strict=True):
        assert ours.dtype == theirs.dtype, name
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol, 1e-6, err_msg=name)
        else:
            where = np.flatnonzero(ours != theirs)[:3]
            shown = [(a[i], b[i], ours[i], theirs[i]) for i in where]
            assert not len(where), f"{name}: (a, b, ours, Halide's) {shown}"


@pytest.mark.parametrize(("kind", "bits"), INTEGERS)
def test_arithmetic_on_integers(kind: str, bits: int) -> None:
    compare(SMALL, kind, bits, True)


@pytest.mark.parametrize(("kind", "bits"), INTEGERS)
def test_division_and_choices_on_integers(kind: str, bits: int) -> None:
    compare(EXACT, kind, bits, True)


@pytest.mark.parametrize(("kind", "bits"), INTEGERS)
def test_bits_and_fixed_point(kind: str, bits: int) -> None:
    table = dict(ON_INTEGERS)
    if bits == 64:
        # Halide computes these in 128 bits, which it then cannot generate code for.
        for name in [n for n in table if "mul" in n]:
            del table[name]
    compare(table, kind, bits, False)


@pytest.mark.parametrize(("kind", "bits"), INTEGERS)
def test_division_to_zero(kind: str, bits: int) -> None:
    compare(TO_ZERO, kind, bits, True)


@pytest.mark.parametrize(("kind", "bits"), NARROW)
def test_widening(kind: str, bits: int) -> None:
    compare(WIDENING, kind, bits, False)


@pytest.mark.parametrize(("kind", "bits"), FLOATS)
def test_floats(kind: str, bits: int) -> None:
    compare(ON_FLOATS, kind, bits, False)


def test_functions_of_float32() -> None:
    compare(ON_FLOAT32, "Float", 32, False, rtol=2e-4)


def test_float16() -> None:
    table = {name: build for name, build in EXACT.items() if "mod" not in name}
    table |= {name: SMALL[name] for name in ("add", "sub", "mul", "neg", "square")}
    table |= {name: ON_FLOATS[name] for name in ("floor", "round", "sqrt", "sin", "to i32", "bits")}
    compare(table, "Float", 16, False, rtol=2e-3)
