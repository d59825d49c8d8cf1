"""The C of every kind of expression gives what the interpreter gives, at many lane counts."""

from __future__ import annotations

import ctypes
import math
import random
from typing import Any

import numpy as np
import pytest

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.node import compilation
from bayplan.ir.types import BOOL, Float, Int, Type, UInt
from tests.targets.interpret import evaluate
from tests.targets.programs import argument, dtype, emit, make_buffer, run, store_all

INTEGERS = [f(bits) for f in (Int, UInt) for bits in (8, 16, 32, 64)]
LANES = [1, 3, 5, 8, 16, 32, 64]
SIZE = 256


def sample(t: Type, rng: random.Random, small: bool = False) -> Any:
    """A value of the type, often an extreme one."""
    if t.width == 1:
        return rng.randrange(2)
    if t.kind == "float":
        value = rng.choice([0.0, 1.0, -1.0, 0.5, rng.uniform(-100, 100), rng.uniform(-2, 2)])
        return t.wrap(value)
    low, high = int(t.min_value()), int(t.max_value())
    if small or t.width >= 32:
        low, high = max(low, -1000), min(high, 1000)
    return rng.choice([low, high, 0, 1, low + 1, rng.randint(low, high), rng.randint(low, high)])


def check(
    make: Any,
    types: list[Type],
    lanes_list: list[int] | None = None,
    *,
    small: bool = False,
    register_bytes: int = 64,
    tolerance: float = 0.0,
    seed: int = 0,
    positive: bool = False,
) -> None:
    """Compares C and interpreter for `make(*loads)` at all lane counts in one program."""
    rng = random.Random(seed)
    memory: dict[str, list[Any]] = {}
    with compilation():
        arguments, buffers, values = [], [], []
        for i, t in enumerate(types):
            data = [sample(t, rng, small) for _ in range(SIZE)]
            if positive:
                data = [abs(x) + 1 for x in data]
            memory[f"in{i}"] = data
            arguments.append(argument("input_buffer", f"in{i}", t))
            buffers.append(make_buffer(np.array(data, dtype(t)), t))
        for lanes in lanes_list or LANES:
            loads = []
            for i, t in enumerate(types):
                index: E.Expr = build.int32(rng.randrange(SIZE - lanes))
                if lanes > 1:
                    index = E.Ramp(index, build.int32(1), lanes)
                loads.append(E.Load(t.with_lanes(lanes), f"in{i}", index))
            made = make(*loads)
            values += made if isinstance(made, list) else [made]
        groups: dict[Type, list[E.Expr]] = {}
        for v in values:
            groups.setdefault(v.type.element_of(), []).append(v)
        stmts, outputs = [], []
        for k, (t, group) in enumerate(groups.items()):
            stmts.append(store_all(group, f"out{k}"))
            count = sum(v.type.lane_count for v in group)
            out = np.zeros(count, dtype(t))
            outputs.append((t, group, out))
            arguments.append(argument("output_buffer", f"out{k}", t))
            buffers.append(make_buffer(out, t))
        emission = emit(build.block(stmts), arguments, register_bytes)
        assert run(emission, buffers) == 0
        for t, group, out in outputs:
            at = 0
            for v in group:
                want = evaluate(v, memory)
                got = out[at : at + len(want)].tolist()
                at += len(want)
                compare(v, want, got, t, tolerance)


def compare(v: E.Expr, want: list[Any], got: list[Any], t: Type, tolerance: float) -> None:
    for k, (x, y) in enumerate(zip(want, got)):
        if t.kind == "float":
            if math.isnan(x):
                assert math.isnan(y), (str(v), k, x, y)
            elif math.isinf(x) or math.isinf(y):
                assert x == y, (str(v), k, x, y)
            else:
                assert abs(x - y) <= tolerance * max(1.0, abs(x)), (str(v), k, x, y)
        else:
            assert x == y, (str(v), k, x, y)


def const(e: E.Expr, value: Any) -> E.Expr:
    return build.const(e.type, value)


@pytest.mark.parametrize("t", [*INTEGERS, Float(32), Float(64)], ids=str)
@pytest.mark.parametrize("register_bytes", [16, 32, 64])
def test_arithmetic(t: Type, register_bytes: int) -> None:
    def make(a: E.Expr, b: E.Expr) -> list[E.Expr]:
        return [
            E.Add(a, b), E.Sub(a, b), E.Mul(a, b), E.Min(a, b), E.Max(a, b),
            E.Add(E.Mul(a, const(a, 3)), E.Sub(const(a, 2), b)),
            E.Select(E.LT(a, b), E.Sub(a, b), E.Add(a, const(a, 1))),
            E.Select(E.Or(E.EQ(a, b), E.Not(E.GE(a, const(a, 5)))), a, b),
        ]  # fmt: skip

    check(
        make,
        [t, t],
        register_bytes=register_bytes,
        small=t.width >= 32,
        tolerance=1e-5 if t.kind == "float" else 0,
    )


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_division_by_constants(t: Type) -> None:
    def make(a: E.Expr) -> list[E.Expr]:
        divisors = [1, 2, 3, 4, 5, 7, 8, 10, 16, 25, 100, 127]
        divisors += [-1, -2, -3] if t.kind == "int" else [200]
        return [f(a, const(a, d)) for d in divisors for f in (E.Div, E.Mod)]

    check(make, [t], [1, 3, 16, 32])


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_division(t: Type) -> None:
    check(lambda a, b: [E.Div(a, b), E.Mod(a, b)], [t, t], [1, 3, 8, 64])


@pytest.mark.parametrize("t", [Float(32), Float(64)], ids=str)
def test_float_division(t: Type) -> None:
    check(lambda a, b: [E.Div(a, b), E.Mod(a, b)], [t, t], positive=True, tolerance=1e-4)


@pytest.mark.parametrize("source", [*INTEGERS, Float(32), Float(64), BOOL], ids=str)
@pytest.mark.parametrize("register_bytes", [16, 64])
def test_casts(source: Type, register_bytes: int) -> None:
    def make(a: E.Expr) -> list[E.Expr]:
        targets = [*INTEGERS, Float(32), Float(64), BOOL]
        if source.kind == "float":
            targets = [t for t in targets if t.kind != "uint" or t is BOOL]
        return [E.Cast(t.with_lanes(a.type.lane_count), a) for t in targets]

    check(make, [source], small=True, register_bytes=register_bytes, tolerance=1e-6)


def test_float_to_unsigned() -> None:
    def make(a: E.Expr) -> list[E.Expr]:
        a = E.Max(a, const(a, 0))
        return [E.Cast(UInt(b, a.type.lane_count), a) for b in (8, 16, 32, 64)]

    check(make, [Float(32)])


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "name",
    ["absd", "saturating_add", "saturating_sub", "halving_add", "halving_sub",
     "rounding_halving_add", "bitwise_and", "bitwise_or", "bitwise_xor", "widening_add",
     "widening_mul", "widening_sub", "mul_shift_right"],
)  # fmt: skip
def test_binary_intrinsics(t: Type, name: str) -> None:
    if name.startswith("widening") and t.width == 64:
        pytest.skip("there is no 128-bit type")

    def make(a: E.Expr, b: E.Expr) -> list[E.Expr]:
        r = a.type
        if name == "absd":
            r = r.with_code("uint")
        elif name.startswith("widening"):
            r = r.widen().with_code("int") if name == "widening_sub" else r.widen()
        if name == "mul_shift_right":
            shifts = [t.width, t.width - 1, 3] if t.width < 64 else []
            return [
                build.intrinsic(r, n, a, b, const(E.Cast(UInt(t.width, r.lane_count), a), s))
                for s in shifts
                for n in ("mul_shift_right", "rounding_mul_shift_right")
            ] or [a]
        return [build.intrinsic(r, name, a, b)]

    check(make, [t, t], small=t.width == 64)


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_shifts_and_bits(t: Type) -> None:
    def make(a: E.Expr, n: E.Expr) -> list[E.Expr]:
        signed = E.Sub(E.Mod(n, const(n, t.width - 1)), const(n, t.width // 2))
        unsigned = E.Cast(a.type.with_code("uint"), E.Mod(n, const(n, t.width - 1)))
        calls = [
            build.intrinsic(a.type, s, a, k)
            for s in ("shift_left", "shift_right")
            for k in (signed, unsigned, const(n, 3))
        ]
        calls += [
            build.intrinsic(a.type, s, a)
            for s in ("bitwise_not", "popcount", "count_leading_zeros", "count_trailing_zeros")
        ]
        calls += [
            build.intrinsic(a.type, s, a, const(n, k))
            for s in ("rounding_shift_right",)
            for k in (1, 4)
        ]
        return calls

    check(make, [t, t.with_code("int")])


@pytest.mark.parametrize("source", [*INTEGERS, Float(32)], ids=str)
def test_saturating_casts(source: Type) -> None:
    def make(a: E.Expr) -> list[E.Expr]:
        if source.kind == "float":
            a = E.Mul(a, const(a, 1e8))
        return [
            build.intrinsic(t.with_lanes(a.type.lane_count), "saturating_cast", a) for t in INTEGERS
        ]

    check(make, [source], [1, 3, 16, 32])


@pytest.mark.parametrize("t", [UInt(8), Int(16), UInt(32), Int(64)], ids=str)
@pytest.mark.parametrize("op", [E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE])
def test_masks(t: Type, op: type) -> None:
    def make(a: E.Expr, b: E.Expr, p: E.Expr, q: E.Expr, x: E.Expr) -> list[E.Expr]:
        m = op(a, b)
        wide = [
            E.Select(E.And(m, p), const(v, 1), const(v, 0))
            for v in (E.Cast(UInt(w, a.type.lane_count), a) for w in (8, 16, 32, 64))
        ]
        return [
            m,
            E.And(m, p),
            E.Or(p, E.Not(m)),
            op(p, q),
            E.Select(m, p, q),
            E.Select(E.LT(x, const(x, 0.5)), a, b),
            E.Cast(a.type, m),
            E.And(m, E.GT(x, const(x, 0.0))),
            *wide,
        ]

    check(make, [t, t, BOOL, BOOL, Float(32)], [1, 3, 4, 16, 32])


def test_ramps_broadcasts_and_shuffles() -> None:
    def make(a: E.Expr) -> list[E.Expr]:
        n = a.type.lane_count
        if n == 1:
            return [a]
        rng = random.Random(n)
        picks = [tuple(rng.randrange(2 * n) for _ in range(m)) for m in (2, 3, n, 2 * n)]
        picks += [tuple(range(0, 2 * n, 2)), tuple(range(1, n)), tuple(range(2 * n))]
        picks += [tuple(i // 2 + i % 2 * n for i in range(2 * n)), tuple(range(n - 1, -1, -1))]
        vectors = (a, E.Add(a, const(a, 1)))
        shuffles: list[E.Expr] = [E.Shuffle(vectors, p) for p in picks if len(p) > 1]
        i = build.int32(7)
        ramp = E.Ramp(i, build.int32(3), n)
        return [
            *shuffles,
            E.Add(E.Cast(a.type, ramp), a),
            E.Broadcast(E.Cast(Int(16, n), a), 3),
            E.Ramp(E.Cast(Int(32, n), a), E.Broadcast(i, n), 4),
        ]

    for t in (UInt(8), Int(16), Float(32), Int(64)):
        check(make, [t], [1, 2, 3, 4, 8, 16, 24, 32, 64])


@pytest.mark.parametrize("t", [UInt(8), Int(16), Int(32), Float(32), Float(64)], ids=str)
def test_reductions(t: Type) -> None:
    def make(a: E.Expr) -> list[E.Expr]:
        n = a.type.lane_count
        ops = [E.ReduceOp.ADD, E.ReduceOp.MIN, E.ReduceOp.MAX]
        results = [E.VectorReduce(op, a, k) for op in ops for k in (1, 2, n // 2) if n % k == 0]
        bools = [
            E.VectorReduce(op, E.GT(a, const(a, 1)), k)
            for op in (E.ReduceOp.AND, E.ReduceOp.OR)
            for k in (1, n // 2)
            if n % k == 0
        ]
        return results + bools

    check(make, [t], [2, 4, 6, 8, 16, 32, 64], tolerance=1e-3 if t.kind == "float" else 0)


@pytest.mark.parametrize("stride", [-1, 0, 1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("t", [UInt(8), UInt(16), Float(32), Float(64)], ids=str)
def test_strided_loads(t: Type, stride: int) -> None:
    rng = random.Random(stride)

    def make(a: E.Expr) -> list[E.Expr]:
        n = a.type.lane_count
        if n == 1:
            return [a]
        span = abs(stride) * (n - 1) + 6
        base = build.int32(rng.randrange(max(1, SIZE - span)) + (span if stride < 0 else 0))
        if stride < 0:
            base = build.int32(span)
        loads = [
            E.Load(t.with_lanes(n), "in0", E.Ramp(base + k, build.int32(stride), n))
            for k in range(3)
        ]
        return [loads[0], E.Add(loads[1], loads[2])]

    lanes = [n for n in (1, 2, 3, 4, 8, 16, 32) if abs(stride) * n + 6 < SIZE]
    check(make, [t], lanes)


def test_gathers_and_predicates() -> None:
    def make(a: E.Expr, i: E.Expr, p: E.Expr) -> list[E.Expr]:
        n = a.type.lane_count
        index = E.Mod(E.Cast(Int(32, n), i), const(E.Cast(Int(32, n), i), SIZE))
        wide = E.Cast(Int(64, n), index)
        results = [E.Load(a.type, "in0", index), E.Load(a.type, "in0", wide)]
        if n > 1:
            ramp = E.Ramp(build.int32(3), build.int32(1), n)
            far = E.Select(p, index, const(index, 1 << 30))
            results += [
                E.Select(p, E.Load(a.type, "in0", ramp, p), const(a, 0)),
                E.Select(p, E.Load(a.type, "in0", far, p), const(a, 0)),
            ]
        return results

    for t in (UInt(8), Int(16), Float(32), Int(64), BOOL):
        check(make, [t, Int(32), BOOL], [1, 3, 4, 8, 16, 32])


@pytest.mark.parametrize("register_bytes", [16, 64])
@pytest.mark.parametrize("t", [UInt(8), Int(16), Float(32), Int(64), BOOL, Float(16)], ids=str)
def test_predicates_of_the_first_lanes(t: Type, register_bytes: int) -> None:
    def make(a: E.Expr, i: E.Expr) -> list[E.Expr]:
        n = a.type.lane_count
        if n == 1:
            return [a]
        # A bound that the compiler does not know, in and around the range of the ramp.
        bound = E.Load(Int(32), "in1", build.int32(n))
        limit = E.Add(E.Mod(bound, build.int32(n + 3)), build.int32(9))
        steps = E.Ramp(build.int32(10), build.int32(1), n)
        limits = E.Broadcast(limit, n)
        far = E.Broadcast(build.int32(2**31 - 1), n)
        low = E.Ramp(build.int32(-(2**31)), build.int32(1), n)
        predicates = [
            E.LE(steps, limits), E.LT(steps, limits), E.GE(limits, steps), E.GT(limits, steps),
            E.And(E.LT(steps, limits), E.LE(E.Ramp(limit, build.int32(1), n), limits)),
            E.And(E.LE(steps, E.Broadcast(build.int32(11), n)), E.GT(limits, steps)),
            E.LE(low, far), E.LE(steps, E.Broadcast(build.int32(-(2**31)), n)),
            E.LT(steps, E.Broadcast(build.int32(12), n)), E.Not(E.LT(steps, limits)),
        ]  # fmt: skip
        ramp = E.Ramp(build.int32(3), build.int32(1), n)
        name = E.Variable(BOOL.with_lanes(n), "p")
        results: list[E.Expr] = []
        for p in predicates:
            load = E.Load(a.type, "in0", ramp, name)
            results.append(E.Let("p", p, E.Select(name, load, const(a, 0))))
        return results

    check(make, [t, Int(32)], [1, 2, 3, 4, 8, 15, 16, 32], register_bytes=register_bytes)


@pytest.mark.parametrize("register_bytes", [16, 64])
@pytest.mark.parametrize("t", [UInt(8), Int(16), Float(32), Float(64), BOOL], ids=str)
def test_stores_of_the_first_lanes(t: Type, register_bytes: int) -> None:
    """A predicate that is bound by a statement and used by a load, a select and stores."""
    for n in (3, 8, 32):
        bound = E.Variable(Int(32), "bound")
        p = E.Variable(BOOL.with_lanes(n), "p")
        one = build.int32(1)
        value = E.Load(t.with_lanes(n), "in", E.Ramp(build.int32(0), one, n), p)
        other = E.Load(t.with_lanes(n), "in", E.Ramp(build.int32(0), one, n))
        ones = E.Broadcast(build.const(t, 1), n)
        body = build.block([
            S.Store("out", value, E.Ramp(build.int32(1), one, n), p),
            S.Store("picked", E.Select(p, other, ones), E.Ramp(build.int32(0), one, n)),
        ])
        steps, limit = E.Ramp(build.int32(0), one, n), E.Broadcast(bound, n)
        program = S.LetStmt("p", E.LT(steps, limit), body)
        emission = emit(
            program,
            [argument("input_buffer", "in", t), argument("scalar", "bound", Int(32)),
             argument("output_buffer", "out", t), argument("output_buffer", "picked", t)],
            register_bytes,
        )
        assert "store_first_" in emission.source
        for m in (-5, 0, 1, n // 2 + 1, n, 2**31 - 1):
            source = np.arange(n).astype(dtype(t)) + 1
            if t.width == 1:
                source[:] = 1
            out, picked = np.zeros(n + 2, dtype(t)), np.zeros(n, dtype(t))
            arrays = [make_buffer(x, t) for x in (source, out, picked)]
            assert run(emission, [arrays[0], ctypes.c_int32(m), *arrays[1:]]) == 0
            live = min(max(m, 0), n)
            assert out.tolist() == [0, *source[:live].tolist(), *[0] * (n - live + 1)]
            assert picked.tolist() == [*source[:live].tolist(), *[1] * (n - live)]


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "floor", "ceil", "sin", "cos"])
def test_maths(name: str) -> None:
    def make(a: E.Expr) -> list[E.Expr]:
        return [E.Call(a.type, name, (a,), E.CallKind.PURE_EXTERN)]

    for t in (Float(32), Float(64)):
        check(make, [t], [1, 3, 8, 16], positive=name in ("sqrt", "log"), tolerance=2e-6)


def test_exp_and_log_at_the_ends() -> None:
    edges = [
        0.0,
        -0.0,
        1.0,
        88.7,
        88.8,
        89.0,
        200.0,
        -87.0,
        -90.0,
        -103.0,
        -104.5,
        -200.0,
        float("inf"),
        float("-inf"),
        float("nan"),
        1e-40,
    ]
    t = Float(32)
    with compilation():
        load = E.Load(t.with_lanes(16), "in0", E.Ramp(build.int32(0), build.int32(1), 16))
        calls = [E.Call(load.type, n, (load,), E.CallKind.PURE_EXTERN) for n in ("exp", "log")]
        arguments = [argument("input_buffer", "in0", t), argument("output_buffer", "out", t)]
        emission = emit(store_all(calls), arguments)
    data = np.array(edges, np.float32)
    out = np.zeros(32, np.float32)
    assert run(emission, [make_buffer(data, t), make_buffer(out, t)]) == 0
    with np.errstate(all="ignore"):
        want = np.concatenate([np.exp(data), np.log(data)])
    np.testing.assert_allclose(out, want, rtol=2e-6, atol=1e-44)


def test_float16() -> None:
    def make(a: E.Expr, b: E.Expr) -> list[E.Expr]:
        return [
            E.Add(a, b),
            E.Mul(a, b),
            E.Select(E.LT(a, b), a, b),
            E.Cast(Float(32, a.type.lane_count), a),
        ]

    t = Float(16)
    rng = random.Random(1)
    memory = {f"in{i}": [t.wrap(rng.uniform(-300, 300)) for _ in range(64)] for i in range(2)}
    with compilation():
        values: list[E.Expr] = []
        for n in (1, 3, 8, 32):
            index: E.Expr = build.int32(5)
            index = index if n == 1 else E.Ramp(index, build.int32(1), n)
            loads = [E.Load(t.with_lanes(n), f"in{i}", index) for i in range(2)]
            values += [E.Cast(Float(16, n), v) for v in make(*loads)]
        out = np.zeros(sum(v.type.lane_count for v in values), np.float16)
        arguments = [
            argument("input_buffer", "in0", t),
            argument("input_buffer", "in1", t),
            argument("output_buffer", "out", t),
        ]
        emission = emit(store_all(values), arguments)
        inputs = [make_buffer(np.array(memory[f"in{i}"], np.float16), t) for i in range(2)]
        assert run(emission, [*inputs, make_buffer(out, t)]) == 0
        want = [x for v in values for x in evaluate(v, memory)]
    assert out.tolist() == want


def test_random_dags() -> None:
    """Shared subexpressions of mixed widths."""
    for seed in range(12):
        rng = random.Random(seed)

        def make(a: E.Expr, b: E.Expr, c: E.Expr, rng: random.Random = rng) -> list[E.Expr]:
            n = a.type.lane_count
            pool: list[E.Expr] = [a, b, c]
            for _ in range(25):
                x = rng.choice(pool)
                same = [y for y in pool if y.type is x.type]
                y = rng.choice(same)
                kind = rng.randrange(7)
                if kind < 3:
                    pool.append(rng.choice([E.Add, E.Sub, E.Min, E.Max])(x, y))
                elif kind == 3:
                    pool.append(E.Cast(rng.choice(INTEGERS[:3] + INTEGERS[4:7]).with_lanes(n), x))
                elif kind == 4:
                    u, v = rng.choice(pool), None
                    v = rng.choice([z for z in pool if z.type is u.type])
                    pool.append(E.Select(E.LT(u, v), x, y))
                elif kind == 5 and x.type.width <= 16:
                    pool.append(E.Mul(x, y))
                else:
                    pool.append(E.Div(x, const(x, rng.choice([2, 3, 5]))))
            return pool[-4:]

        # int32 must not overflow: signed 32-bit values are kept small by narrow inputs.
        check(make, [UInt(8), Int(16), UInt(16)], [1, 3, 16, 64], seed=seed)


def test_store_reads_before_it_writes() -> None:
    """A vector that is stored over what it was read from is read whole first."""
    t = UInt(16)
    with compilation():
        n = 128
        load = E.Load(t.with_lanes(n), "out", E.Ramp(build.int32(1), build.int32(1), n))
        body = S.Store("out", load, E.Ramp(build.int32(0), build.int32(1), n))
        back = E.Load(t.with_lanes(n), "out", E.Ramp(build.int32(0), build.int32(1), n))
        body2 = S.Store("out", back, E.Ramp(build.int32(3), build.int32(1), n))
        emission = emit(S.Block((body, body2)), [argument("output_buffer", "out", t)])
    out = np.arange(140, dtype=np.uint16)
    want = out.copy()
    want[0:128] = want[1:129].copy()
    want[3:131] = want[0:128].copy()
    assert run(emission, [make_buffer(out, t)]) == 0
    assert out.tolist() == want.tolist()
