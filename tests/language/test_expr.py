"""Expressions: what converts to them, their text, and what is refused, with the user's line."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate

x, y = hl.vars("x y")


def test_python_numbers_as_exprs() -> None:
    assert hl.Expr(True).type() == hl.Bool()
    assert hl.Expr(3).type() == hl.Int(32)
    assert hl.Expr(2**31).type() == hl.Int(64)
    assert hl.Expr(1.5).type() == hl.Float(32)
    assert hl.Expr(np.uint8(3)).type() == hl.Int(32)
    assert hl.Expr(np.float64(0.5)).type() == hl.Float(32)
    assert hl.Expr(np.bool_(True)).type() == hl.Bool()
    assert hl.Expr(x).type() == hl.Int(32)
    with pytest.raises(hl.TypeMismatchError, match="does not fit int64"):
        hl.Expr(2**63)
    for wrong in ([1], (1, 2), {}, object()):
        with pytest.raises(TypeError, match="expected an Expr"):
            hl.Expr(wrong)


def test_numpy_scalars_on_the_left() -> None:
    u = hl.u8(x)
    for e in (np.int32(3) + u, np.uint8(3) * u, np.int64(3) - u):
        assert type(e) is hl.Expr and e.type() == hl.UInt(8)
    assert (np.float32(0.5) * u).type() == hl.Float(32)
    assert (np.float32(0.5) < hl.f32(x)).type() == hl.Bool()


def test_text() -> None:
    assert str(hl.Expr(x) + 3 * y) == "x + 3 * y"
    assert repr(hl.Expr(x)) == "<bayplan.Expr of type int32: x>"
    assert repr(hl.Expr()) == "<undefined bayplan.Expr>"


def test_no_truth_value() -> None:
    with pytest.raises(ValueError, match=r"no truth value.*`&`"):
        _ = x < 3 and y < 3
    with pytest.raises(ValueError, match=r"\(x < 3\)"):
        bool(x < 3)
    with pytest.raises(TypeError, match="unhashable"):
        hash(hl.Expr(x))


def test_what_operators_do_not_take() -> None:
    for wrong in ("abc", None, [1], (1, 2)):
        with pytest.raises(TypeError, match="unsupported operand"):
            hl.Expr(x) + wrong
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong - hl.Expr(x)  # type: ignore[operator]


def test_an_undefined_expr_is_refused_where_it_is_used() -> None:
    with pytest.raises(hl.DefinitionError, match="undefined Expr"):
        hl.Expr() + 1
    with pytest.raises(hl.DefinitionError, match="undefined Expr"):
        hl.sin(hl.Expr())


def test_literals_that_would_change_are_refused_at_the_users_line() -> None:
    with pytest.raises(hl.TypeMismatchError) as caught:
        hl.u8(x) + 300
    text = str(caught.value)
    assert "300" in text and "uint8" in text and "44" in text
    assert f"{__file__}:" in text
    assert isinstance(caught.value, hl.HalideError)


def test_floats_that_lose_digits_are_warned_about_at_the_users_line() -> None:
    with pytest.warns(RuntimeWarning, match=r"0\.1 .*float32") as caught:
        hl.Expr(x) * 0.1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hl.Expr(x) * 0.5
        hl.f32(0.1) * x
        hl.f64(0.1) * hl.f64(x)


def test_powers_are_products() -> None:
    assert str(hl.Expr(x) ** 2) == "x * x"
    assert str(hl.pow(x, 0)) == "1"
    assert (x**-1).type() == hl.Int(32)
    assert (x**0.5).type() == hl.Float(32)


def test_select_chains_and_tuples() -> None:
    e = hl.select(x == 0, 1, x == 1, 2, hl.u8(y))
    assert e.type() == hl.UInt(8)
    pair = hl.select(x < 3, (1, hl.f32(2)), (3, hl.f32(4)))
    assert isinstance(pair, tuple)
    assert [p.type() for p in pair] == [hl.Int(32), hl.Float(32)]
    assert len(hl.select((x < 3, y < 3), (1, 2), (3, 4))) == 2
    with pytest.raises(ValueError, match="condition and two values"):
        hl.select(x < 3, 1)
    with pytest.raises(ValueError, match="pairs of condition and value"):
        hl.select(x < 3, 1, x < 4, 2)
    with pytest.raises(hl.TypeMismatchError, match="same size"):
        hl.select(x < 3, (1, 2), (1, 2, 3))
    with pytest.raises(hl.TypeMismatchError, match="expected a Tuple"):
        hl.select(x < 3, (1, 2), 3)
    with pytest.raises(hl.TypeMismatchError, match=r"must be a bool: x has type int32"):
        hl.select(x, 1, 2)


def test_mux() -> None:
    assert hl.mux(x, [hl.u8(1), hl.u8(2)]).type() == hl.UInt(8)
    pair = hl.mux(x, [(1, hl.u8(2)), (3, hl.u8(4))])
    assert [p.type() for p in pair] == [hl.Int(32), hl.UInt(8)]
    f = hl.Func("f")
    f[x] = hl.mux(x, [10, 20, 30])
    assert evaluate(f, [0], [5]).tolist() == [10, 20, 30, 30, 30]
    with pytest.raises(hl.TypeMismatchError, match="int32 and uint8"):
        hl.mux(x, [1, hl.u8(2)])
    with pytest.raises(hl.DefinitionError, match="at least one"):
        hl.mux(x, [])


def test_tuples() -> None:
    t = hl.Tuple((x, hl.u8(y)))
    assert len(t) == 2 and t[1].type() == hl.UInt(8)
    assert [e.type() for e in t] == [hl.Int(32), hl.UInt(8)]
    assert len(hl.Tuple([x, y])) == 2
    f = hl.Func("f")
    f[x] = (x, hl.u8(x))
    assert len(hl.Tuple(f[x])) == 2
    with pytest.raises(hl.DefinitionError, match="at least one"):
        hl.Tuple(())


def test_bits_of_values() -> None:
    f = hl.Func("f")
    value = hl.u32(x) * hl.u32(0x01020304)
    f[x] = (
        hl.extract_bits(hl.UInt(8), value, 8),
        hl.concat_bits([hl.u8(x), hl.u8(2)]),
        hl.extract_bits(hl.UInt(8), hl.u8(x), 8),
    )
    byte, joined, beyond = evaluate(f, [1], [1])
    assert byte.tolist() == [3] and joined.tolist() == [0x0201] and beyond.tolist() == [0]
    with pytest.raises(hl.TypeMismatchError, match=r"32 of them, as a uint8, which has 8"):
        hl.reinterpret(hl.UInt(8), x)
    with pytest.raises(hl.DefinitionError, match="power of two"):
        hl.concat_bits([hl.u8(x)] * 3)


def test_a_cast_to_bool_keeps_the_lowest_bit() -> None:
    f = hl.Func("f")
    f[x] = hl.cast(hl.Bool(), x)
    assert evaluate(f, [0], [4]).tolist() == [False, True, False, True]
    assert str(hl.cast(hl.Bool(), 2)) == str(hl.Expr(False))


@pytest.mark.parametrize(
    "make",
    [
        lambda: hl.logical_not(x),
        lambda: hl.is_nan(x),
        lambda: hl.popcount(hl.f32(x)),
        lambda: hl.fast_exp(x),
        lambda: hl.erf(hl.f64(x)),
        lambda: hl.lerp(hl.f32(x), hl.f32(y), x),
        lambda: hl.lerp(hl.u8(x), hl.u8(y), 1.5),
        lambda: hl.clamp(hl.u8(x), 0, 300),
        lambda: hl.fma(x, y, x),
        lambda: hl.widening_add(hl.i64(x), y),
        lambda: hl.mul_shift_right(x, y, x),
        lambda: hl.random_uint(hl.u8(x)),
        lambda: hl.require(x, y),
        lambda: hl.print_when(x, y),
        lambda: hl.cast(hl.Handle(), x),
        lambda: hl.Expr(x) & hl.u32(y),
        lambda: hl.f32(x) << 1,
        lambda: hl.div_round_to_zero(hl.f32(x), y),
        lambda: hl.unsafe_promise_clamped(hl.u8(x), 0, 300),
    ],
)
def test_wrong_types_are_refused(make: Any) -> None:
    with pytest.raises(hl.TypeMismatchError):
        make()


def test_messages_take_strings() -> None:
    assert hl.print(x, "is", y).type() == hl.Int(32)
    assert hl.print_when(x > 3, x, "is large").type() == hl.Int(32)
    assert hl.require(x > 3, hl.u8(x), "too small:", x).type() == hl.UInt(8)


def test_copies_are_the_same_expr() -> None:
    e = hl.Expr(x) + 1
    assert copy.copy(e).node is e.node
    assert copy.deepcopy(e).node is e.node


def test_limits_of_types() -> None:
    assert str(hl.Int(8).max()) == str(hl.i8(127))
    assert hl.UInt(64).max().type() == hl.UInt(64)
    assert hl.Int(32).is_max(2**31 - 1) and hl.Int(32).is_min(-(2**31))
    assert hl.Type(hl.TypeCode.UInt, 8, 1) == hl.UInt(8)
    assert hl.UInt(8).with_code(hl.TypeCode.Int) == hl.Int(8)
    assert hl.Float(32).code() == hl.TypeCode.Float


RANDOM = """
import numpy as np
hl = __import__("{module}")
x, y = hl.vars("x y")
f = hl.Func("f")
f[x, y] = hl.random_float() + hl.random_float(7)
g = hl.Func("g")
g[x, y] = hl.random_uint()
r = hl.RDom([(0, 3)])
g[r, y] = g[r, y] + hl.random_uint(hl.Expr(3) + r)
if "{module}" == "bayplan":
    from bayplan.reference import evaluate
    run = lambda h: evaluate(h, [0, 0], [4, 2])
else:
    run = lambda h: np.array(h.realize([4, 2]))
print([run(h).tolist() for h in (f, g)])
"""


def test_random_numbers_are_those_of_halide() -> None:
    pytest.importorskip("halide")
    texts = []
    for module in ("bayplan", "halide"):
        program = RANDOM.replace("{module}", module)
        run = [sys.executable, "-c", program]
        texts.append(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    assert texts[0] == texts[1]


def test_random_numbers_differ_from_point_to_point_and_call_to_call() -> None:
    f = hl.Func("f")
    f[x, y] = (hl.random_float(), hl.random_float(), hl.random_float(3), hl.random_int())
    parts = evaluate(f, [0, 0], [50, 50])
    for part in parts[:3]:
        assert part.min() >= 0 and part.max() < 1 and 0.45 < part.mean() < 0.55
    assert len({part.tobytes() for part in parts}) == 4
    assert len(np.unique(parts[3])) > 2400
