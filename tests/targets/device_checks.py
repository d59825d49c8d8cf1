"""The expressions that the C target is tested with, gathered in one kernel for a device."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.node import compilation
from bayplan.ir.types import BOOL, INT32, Float, Int, Type, UInt
from bayplan.ir.walk import Rewriter
from tests.targets import test_c_expressions as of_c
from tests.targets.interpret import evaluate
from tests.targets.kernels import CUDA, DeviceTarget, Program, blocks, stretch
from tests.targets.programs import dtype

LANES = [1, 3]
SIZE = of_c.SIZE
FLOATS = [Float(32), Float(64)]


class _IntoOne(Rewriter):
    """Loads of each case's arrays become loads of one array a type."""

    def __init__(self, begins: dict[str, tuple[str, int]]) -> None:
        super().__init__()
        self.begins = begins

    def rewrite_Load(self, e: E.Load) -> Any:
        name, begin = self.begins[e.name]
        index = self(e.index)
        offset = build.const(index.type, begin)
        predicate = None if e.predicate is None else self(e.predicate)
        return E.Load(e.type, name, build.add(index, offset), predicate)


class Cases:
    """What `check` of the C target's tests is replaced by: it gathers values.

    Attributes:
        expected: the value, what it must give, and how exactly, in the order of their stores.
    """

    def __init__(self) -> None:
        self.inputs: dict[Type, list[Any]] = {}
        self.counts: dict[Type, int] = {}
        self.stores: list[S.Stmt] = []
        self.expected: list[tuple[Type, int, E.Expr, list[Any], float]] = []

    def check(
        self, make: Any, types: list[Type], lanes_list: Any = None, *, small: bool = False,
        register_bytes: int = 64, tolerance: float = 0.0, seed: int = 0, positive: bool = False,
    ) -> None:
        """As `check` of the C target's tests, at few lane counts."""
        rng = random.Random(seed)
        memory: dict[str, list[Any]] = {}
        begins = {}
        for i, t in enumerate(types):
            data = [of_c.sample(t, rng, small) for _ in range(SIZE)]
            memory[f"in{i}"] = [abs(x) + 1 for x in data] if positive else data
            kept = self.inputs.setdefault(t, [])
            begins[f"in{i}"] = (f"in_{t}", len(kept))
            kept += memory[f"in{i}"]
        wanted = LANES if lanes_list is None else lanes_list
        for lanes in [n for n in LANES if n in wanted] or [min(wanted)]:
            loads = []
            for i, t in enumerate(types):
                index: E.Expr = build.int32(rng.randrange(SIZE - lanes))
                if lanes > 1:
                    index = E.Ramp(index, build.int32(1), lanes)
                loads.append(E.Load(t.with_lanes(lanes), f"in{i}", index))
            made = make(*loads)
            for value in made if isinstance(made, list) else [made]:
                self._store(value, _IntoOne(begins)(value), memory, tolerance)

    def add_lazy_choices(self) -> None:
        """Values of which one side is not to be computed: it lies far outside of its memory."""
        t = Float(32)
        data = [1.5, -2.0]
        begin = len(self.inputs.setdefault(t, []))
        self.inputs[t] += data
        zero = E.Load(INT32, "in_int32", build.int32(0))
        holds: E.Expr = E.GE(E.Mul(zero, zero), build.int32(0))
        far = E.Load(t, f"in_{t}", E.Add(zero, build.int32(1 << 29)))
        self.inputs.setdefault(INT32, [7])
        for condition, k in ((holds, 0), (E.Not(holds), 1)):
            near = E.Load(t, f"in_{t}", build.int32(begin + k))
            sides = (far, near) if k else (near, far)
            lazy = build.intrinsic(t, "if_then_else", condition, *sides)
            self._store(build.const(t, data[k]), lazy, {}, 0.0)

    def _store(self, value: E.Expr, moved: E.Expr, memory: Any, tolerance: float) -> None:
        t, lanes = value.type.element_of(), value.type.lane_count
        at = self.counts.get(t, 0)
        self.counts[t] = at + lanes
        index: E.Expr = build.int32(at)
        if lanes > 1:
            index = E.Ramp(index, build.int32(1), lanes)
        self.stores.append(S.Store(f"out_{t}", moved, index))
        self.expected.append((t, at, value, evaluate(value, memory), tolerance))

    def program(self, target: DeviceTarget) -> Program:
        """All stores in a kernel of one thread."""
        body = stretch((1,), S.IfThenElse(build.true(), build.block(self.stores)))
        return Program(blocks((1,), body), target)

    def arrays(self) -> dict[str, Any]:
        """The memories of the kernel."""
        arrays = {f"in_{t}": np.array(data, dtype(t)) for t, data in self.inputs.items()}
        for t, count in self.counts.items():
            arrays[f"out_{t}"] = np.zeros(count, dtype(t))
        return arrays

    def compare(self, result: dict[str, Any]) -> None:
        """Every value as the interpreter has it."""
        for t, at, value, want, tolerance in self.expected:
            got = result[f"out_{t}"][at : at + len(want)].tolist()
            of_c.compare(value, want, got, t, tolerance)


def gather(group: str, monkeypatch: pytest.MonkeyPatch) -> Cases:
    """The cases of a group; within `compilation()`."""
    cases = Cases()
    monkeypatch.setattr(of_c, "check", cases.check)
    GROUPS[group](cases)
    return cases


def _arithmetic(cases: Cases) -> None:
    for t in [*of_c.INTEGERS, *FLOATS]:
        of_c.test_arithmetic(t, 16)


def _division(cases: Cases) -> None:
    for t in of_c.INTEGERS:
        of_c.test_division_by_constants(t)
        of_c.test_division(t)
    for t in FLOATS:
        of_c.test_float_division(t)


def _casts(cases: Cases) -> None:
    for t in [*of_c.INTEGERS, *FLOATS, BOOL]:
        of_c.test_casts(t, 16)
    of_c.test_float_to_unsigned()
    for t in [*of_c.INTEGERS, Float(32)]:
        of_c.test_saturating_casts(t)


def _intrinsics(cases: Cases) -> None:
    names = ["absd", "saturating_add", "saturating_sub", "halving_add", "halving_sub",
             "rounding_halving_add", "bitwise_and", "bitwise_or", "bitwise_xor", "widening_add",
             "widening_mul", "widening_sub", "mul_shift_right"]  # fmt: skip
    for t in of_c.INTEGERS:
        for name in names:
            if not (name.startswith("widening") and t.width == 64):
                of_c.test_binary_intrinsics(t, name)
        of_c.test_shifts_and_bits(t)


def _choices(cases: Cases) -> None:
    for t in (UInt(8), Int(16), UInt(32), Int(64)):
        for op in (E.EQ, E.NE, E.LT, E.LE, E.GT, E.GE):
            of_c.test_masks(t, op)
    of_c.test_gathers_and_predicates()

    cases.add_lazy_choices()


def _vectors(cases: Cases) -> None:
    of_c.test_ramps_broadcasts_and_shuffles()
    for t in (UInt(8), Int(16), Float(32), Float(64)):
        for stride in (-1, 0, 2, 5):
            of_c.test_strided_loads(t, stride)

    def reduced(a: E.Expr) -> list[E.Expr]:
        if a.type.lane_count == 1:
            return [a]
        ops = [E.ReduceOp.ADD, E.ReduceOp.MIN, E.ReduceOp.MAX]
        bools = [E.ReduceOp.AND, E.ReduceOp.OR]
        test = E.GT(a, of_c.const(a, 1))
        found: list[E.Expr] = [E.VectorReduce(op, a, 1) for op in ops]
        return found + [E.VectorReduce(op, test, 1) for op in bools]

    for t in (UInt(8), Int(16), Int(32), Float(32), Float(64)):
        cases.check(reduced, [t], [3], tolerance=1e-3 if t.kind == "float" else 0)


def _bits(cases: Cases) -> None:
    """Fused and strict operations, float16, averages by weights."""

    def fused(a: E.Expr, b: E.Expr, c: E.Expr) -> list[E.Expr]:
        strict = E.Add(E.Mul(a, b), c)
        return [
            build.intrinsic(a.type, "strict_float", strict),
            build.intrinsic(a.type, "fma", a, b, c),
        ]

    for t in FLOATS:
        cases.check(fused, [t, t, t], small=True, tolerance=1e-6 if t.width == 32 else 1e-13)

    def halves(a: E.Expr, b: E.Expr) -> list[E.Expr]:
        return [
            E.Add(a, b), E.Mul(a, b), E.Select(E.LT(a, b), a, b),
            E.Cast(Float(32, a.type.lane_count), a), E.Cast(INT32.with_lanes(a.type.lane_count), a),
        ]  # fmt: skip

    cases.check(halves, [Float(16), Float(16)])

    def lerps(a: E.Expr, b: E.Expr, w: E.Expr) -> list[E.Expr]:
        return [build.intrinsic(a.type, "lerp", a, b, w)]

    for t in (UInt(8), Int(16), Float(32)):
        weight = t if t.kind == "float" else t.with_code("uint")
        cases.check(lerps, [t, t, weight], tolerance=1e-4 if t.kind == "float" else 0)


GROUPS: dict[str, Callable[[Cases], None]] = {
    "arithmetic": _arithmetic,
    "division": _division,
    "casts": _casts,
    "intrinsics": _intrinsics,
    "choices": _choices,
    "vectors": _vectors,
    "bits": _bits,
}

__all__ = ["CUDA", "GROUPS", "Cases", "compilation", "gather"]
