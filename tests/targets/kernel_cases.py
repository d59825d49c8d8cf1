"""Kernels whose structure is tried on every device, with what numpy says they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.types import BOOL, INT32, INT64, Float, Int, Type, UInt
from tests.targets.kernels import (
    TITLE,
    DeviceTarget,
    Program,
    alias,
    barrier,
    block_id,
    blocks,
    shared,
    stretch,
    thread_id,
)
from tests.targets.programs import dtype

N = E.Variable(INT32, "n")
FLOAT = Float(32)


class Case:
    """A kernel and what it is run with.

    Attributes:
        body: the loop over blocks.
        arrays: of the memories.
        values: of the scalars.
        want: arrays after the call, of those that change.
        scalars: types of the scalars.
        tables: constant ones.
        tolerance: of floats.
    """

    def __init__(
        self, body: S.For, arrays: dict[str, Any], want: dict[str, Any],
        values: dict[str, Any] | None = None, scalars: dict[str, Type] | None = None,
        tables: Any = (), tolerance: float = 0.0,
    ) -> None:
        self.body = body
        self.arrays = arrays
        self.want = want
        self.values = values or {}
        self.scalars = scalars or dict.fromkeys(self.values, INT32)
        self.tables = tables
        self.tolerance = tolerance

    def program(self, target: DeviceTarget) -> Program:
        """The kernel in the device's language."""
        made = Program(self.body, target, self.scalars, self.tables)
        for given in (made.kernel.memories, made.kernel.scalars):
            names = [g[-1] for g in given]
            assert len(set(names)) == len(names), names
        return made

    def compare(self, result: dict[str, Any]) -> None:
        """The arrays are as they should be."""
        for name, want in self.want.items():
            if self.tolerance:
                np.testing.assert_allclose(result[name], want, rtol=self.tolerance)
            else:
                np.testing.assert_array_equal(result[name], want)


def i32(value: int) -> E.Expr:
    """A constant."""
    return build.int32(value)


def serial(name: str, extent: Any, body: S.Stmt) -> S.Stmt:
    """A loop from 0 on."""
    size = extent if isinstance(extent, E.Expr) else i32(extent)
    return S.For(name, i32(0), size, ForKind.Serial, Partition.Auto, body)


def stencil() -> Case:
    """A tile of a blur in memory of the block, an arena with one alias."""
    tile, size = 16, 64
    x = block_id() * i32(tile) + thread_id()
    t = thread_id()
    source = E.Load(FLOAT, "in", x)
    root = E.Call(FLOAT, "sqrt", (source,), E.CallKind.PURE_EXTERN)
    first = stretch((tile + 2,), S.ProducerConsumer(
        "blur_x", True, S.Store("blur_x", E.Add(source, root), t)))
    taps = [E.Load(FLOAT, "blur_x", E.Add(t, i32(k)) if k else t) for k in range(3)]
    total = E.Add(E.Add(taps[0], taps[1]), taps[2])
    second = stretch((tile + 2,), S.IfThenElse(
        E.LT(t, i32(tile)), S.Store("out", total, x)))
    body = build.block([first, barrier(), second])
    arena = f"{TITLE}.shared_alloc"
    body = shared(arena, UInt(8), (512,), alias("blur_x", FLOAT, tile + 2, arena, 128, body))
    a = np.arange(size + 2, dtype=np.float32)
    v = a + np.sqrt(a)
    want = (v[:-2] + v[1:-1]) + v[2:]
    return Case(blocks((build.div(N, i32(tile)),), body),
                {"in": a, "out": np.zeros(size, np.float32)}, {"out": want}, {"n": size},
                tolerance=1e-6)


def shared_of_launch() -> Case:
    """The threads of a block turn their part around in memory whose size the launch says."""
    x = block_id() * N + thread_id()
    first = stretch((N,), S.Store("tile", E.Load(FLOAT, "in", x), thread_id()))
    other = N - i32(1) - thread_id()
    second = stretch((N,), S.Store("out", E.Load(FLOAT, "tile", other), x))
    body = shared("tile", FLOAT, (N,), build.block([first, barrier(), second]))
    a = np.arange(120, dtype=np.float32)
    want = a.reshape(5, 24)[:, ::-1].ravel()
    return Case(blocks((i32(5),), body), {"in": a, "out": np.zeros_like(a)}, {"out": want},
                {"n": 24})


def grid_of_three_dimensions() -> Case:
    """Blocks and threads in x, y and z, each of whose numbers is told apart."""
    index: E.Expr = i32(0)
    for axis, size in (("z", 2), ("y", 3), ("x", 4)):
        index = index * i32(size) + block_id(axis)
    for axis, size in (("z", 2), ("y", 2), ("x", 5)):
        index = index * i32(size) + thread_id(axis)
    body = stretch((5, 2, 2), S.Store("out", index, index))
    count = 4 * 3 * 2 * 5 * 2 * 2
    return Case(blocks((4, 3, 2), body), {"out": np.zeros(count, np.int32)},
                {"out": np.arange(count, dtype=np.int32)})


def loop_around_barriers() -> Case:
    """A sum by halves: a serial loop and a branch, the same for all threads, with barriers in."""
    t, k = thread_id(), E.Variable(INT32, "step")
    half = build.intrinsic(INT32, "shift_right", i32(32), k)
    load = stretch((32,), S.Store("part", E.Load(INT32, "in", block_id() * i32(32) + t), t))
    low, high = E.Load(INT32, "part", t), E.Load(INT32, "part", E.Add(t, half))
    add = stretch((32,), S.IfThenElse(E.LT(t, half), S.Store("part", E.Add(low, high), t)))
    step = S.IfThenElse(E.LE(k, i32(5)), build.block([add, barrier()]))
    loop = S.For("step", i32(1), i32(6), ForKind.Serial, Partition.Auto, step)
    last = stretch((32,), S.IfThenElse(
        E.EQ(t, i32(0)), S.Store("out", E.Load(INT32, "part", i32(0)), block_id())))
    body = shared("part", INT32, (32,), build.block([load, barrier(), loop, last]))
    a = np.arange(96, dtype=np.int32) ** 2 % 1009
    return Case(blocks((3,), body), {"in": a, "out": np.zeros(3, np.int32)},
                {"out": a.reshape(3, 32).sum(1).astype(np.int32)})


def given_once() -> Case:
    """What several stretches, loops and branches use is handed over once."""
    x = block_id() * i32(8) + thread_id()
    k = E.Variable(INT32, "k")
    value = E.Add(E.Load(INT32, "in", x), N)
    first = stretch((8,), S.IfThenElse(E.LT(x, N), S.Store("out", value, x)))
    more = E.Add(E.Load(INT32, "out", x), E.Mul(N, E.Load(INT32, "in", x)))
    loop = serial("k", 3, stretch((8,), S.IfThenElse(
        E.LT(E.Add(x, k), N), S.Store("out", more, x))))
    a = np.arange(24, dtype=np.int32)
    want = np.where(a < 21, a + 21, 0)
    for step in range(3):
        want = np.where(a + step < 21, want + 21 * a, want)
    return Case(blocks((3,), build.block([first, loop])), {"in": a, "out": np.zeros_like(a)},
                {"out": want.astype(np.int32)}, {"n": 21})


def own_arrays() -> Case:
    """An array of each thread's own, written and read in loops."""
    x = block_id() * i32(8) + thread_id()
    k = E.Variable(INT32, "k")
    fill = serial("k", 4, S.Store("taps", E.Load(FLOAT, "in", E.Add(x, k)), k))
    total: E.Expr = E.Load(FLOAT, "taps", i32(3))
    for i in (2, 1, 0):
        total = E.Add(total, E.Load(FLOAT, "taps", i32(i)))
    inside = build.block([fill, S.Store("out", total, x)])
    body = stretch((8,), S.Allocate(
        "taps", FLOAT, MemoryType.Register, (i32(4),), build.true(), 0, inside))
    a = np.arange(67, dtype=np.float32)
    want = ((a[3:] + a[2:-1]) + a[1:-2]) + a[:-3]
    return Case(blocks((8,), body), {"in": a, "out": np.zeros(64, np.float32)}, {"out": want})


def part_of_global_memory() -> Case:
    """Each block has a slice of an arena in global memory, found by a 64-bit offset."""
    arena = f"{TITLE}.global_alloc"
    x = block_id() * i32(16) + thread_id()
    first = stretch((16,), S.Store("temp", E.Cast(INT64, x), thread_id()))
    other = E.Load(INT64, "temp", i32(15) - thread_id())
    second = stretch((16,), S.Store("out", other, x))
    offset = E.Add(E.Mul(E.Cast(INT64, block_id()), build.const(INT64, 192)),
                   build.const(INT64, 64))
    body = alias("temp", INT64, 16, arena, offset, build.block([first, barrier(2), second]))
    want = np.arange(64, dtype=np.int64).reshape(4, 16)[:, ::-1].ravel()
    return Case(blocks((4,), body),
                {arena: np.zeros(4 * 192, np.uint8), "out": np.zeros(64, np.int64)},
                {"out": want})


def vectors_of_lanes() -> Case:
    """Vectors in a thread: a let, a store over what was read, a store under a mask."""
    n = 4
    one = i32(1)
    begin = thread_id() * i32(8)
    ramp = E.Ramp(begin, one, n)
    v = E.Variable(INT32.with_lanes(n), "v")
    load = E.Load(INT32.with_lanes(n), "data", E.Ramp(E.Add(begin, one), one, n))
    moved = S.Store("data", load, ramp)
    mask = E.LT(E.Ramp(thread_id(), one, n), E.Broadcast(i32(5), n))
    masked = S.Store("out", E.Mul(v, v), ramp, mask)
    value = E.Load(INT32.with_lanes(n), "data", ramp)
    inside = S.LetStmt("v", value, build.block([moved, masked]))
    data = np.arange(64, dtype=np.int32)
    after, out = data.copy(), np.full(64, -1, np.int32)
    for t in range(8):
        b = 8 * t
        after[b : b + n] = data[b + 1 : b + 1 + n]
        for k in range(n):
            if t + k < 5:
                out[b + k] = data[b + k] ** 2
    return Case(blocks((1,), stretch((8,), inside)),
                {"data": data, "out": np.full(64, -1, np.int32)}, {"data": after, "out": out})


def scalars_of_all_types() -> Case:
    """Parameters of every type, a bool and a float16 among them."""
    types = [Int(8), Int(16), INT32, INT64, UInt(8), UInt(16), UInt(32), UInt(64), Float(32),
             Float(64), Float(16), BOOL]  # fmt: skip
    values: dict[str, Any] = {}
    total: E.Expr = build.const(Float(64), 0.0)
    for i, t in enumerate(types):
        values[f"s{i}"] = True if t is BOOL else i + 1
        scalar = E.Variable(t, f"s{i}")
        total = E.Add(total, E.Cast(Float(64), scalar))
    body = stretch((1,), S.Store("out", total, i32(0)))
    return Case(blocks((1,), body), {"out": np.zeros(1, np.float64)},
                {"out": np.array([sum(range(1, 12)) + 1.0])}, values,
                {f"s{i}": t for i, t in enumerate(types)})


def words_of_the_languages() -> Case:
    """Funcs and variables with names that mean something to a device's compiler."""
    names = ["kernel", "half", "threadIdx", "barrier", "float4", "local", "min", "warpSize",
             "shared_memory", "atomicAdd", "get_local_id", "restrict", "uchar", "popcount",
             "sqrtf", "sqrt", "swap_u8_global", "here", "rint", "erff"]
    body: S.Stmt = S.Store("out", E.Load(INT32, names[-1], i32(0)), thread_id())
    for before, name in reversed(list(zip(names, names[1:]))):
        value = E.Add(E.Load(INT32, before, i32(0)), i32(1))
        bits = build.intrinsic(INT32, "popcount", E.Min(value, i32(1000)))
        root = E.Call(FLOAT, "sqrt", (E.Cast(FLOAT, bits * bits),), E.CallKind.PURE_EXTERN)
        total = E.Add(E.Cast(INT32, root), E.Load(INT32, before, i32(0)))
        body = S.Allocate(name, INT32, MemoryType.Register, (i32(1),), build.true(), 0,
                          build.block([S.Store(name, total, i32(0)), body]))
    body = S.Allocate(names[0], INT32, MemoryType.Register, (i32(1),), build.true(), 0,
                      build.block([S.Store(names[0], thread_id(), i32(0)), body]))
    want = []
    for x in range(4):
        for _ in names[1:]:
            x += bin(min(x + 1, 1000)).count("1")
        want.append(x)
    return Case(blocks((1,), stretch((4,), body)), {"out": np.zeros(4, np.int32)},
                {"out": np.array(want, np.int32)})


def constant_tables() -> Case:
    """A table of the program, with infinities."""
    data = np.array([1.5, -2.0, np.inf, -np.inf, 3e-40, 0.1], np.float32)
    table = _table("weights", data)
    body = stretch((6,), S.Store("out", E.Load(FLOAT, "weights", thread_id()), thread_id()))
    return Case(blocks((1,), body), {"out": np.zeros(6, np.float32)}, {"out": data},
                tables=[table])


def _table(name: str, data: Any) -> Any:
    class Given:
        """What the emitter reads of a table."""

        where = None
        type = FLOAT

        def elements(self) -> Any:
            return data

        def extents(self) -> list[int]:
            return [len(data)]

    given: Any = Given()
    given.name = name
    return given


# Atomic updates


def _update(name: str, make: Callable[[E.Expr], E.Expr], t: Type, index: E.Expr) -> S.Stmt:
    return S.Atomic(name, S.Store(name, make(E.Load(t, name, index)), index))


def counted() -> Case:
    """A histogram in memory of the block, added to one in global memory."""
    x = block_id() * i32(32) + thread_id()
    t = UInt(32)
    bin_of = E.Cast(INT32, E.Load(UInt(8), "in", x))
    one = build.const(t, 1)
    clear = stretch((32,), S.IfThenElse(E.LT(thread_id(), i32(16)), S.Store(
        "local", build.const(t, 0), thread_id())))
    count = stretch((32,), _update("local", lambda v: E.Add(v, one), t, bin_of))
    mine = E.Load(t, "local", thread_id())
    give = stretch((32,), S.IfThenElse(E.LT(thread_id(), i32(16)), _update(
        "out", lambda v: E.Add(mine, v), t, thread_id())))
    body = shared("local", t, (16,), build.block([clear, barrier(), count, barrier(), give]))
    rng = np.random.default_rng(1)
    a = rng.integers(0, 16, 32 * 6).astype(np.uint8)
    want = np.bincount(a, minlength=16).astype(np.uint32)
    return Case(blocks((6,), body), {"in": a, "out": np.zeros(16, np.uint32)}, {"out": want})


def updates_of_all_types() -> Case:
    """Sums, extremes, products and bits of elements of every width, by many threads."""
    stmts: list[S.Stmt] = []
    arrays: dict[str, Any] = {}
    want: dict[str, Any] = {}
    threads = 24
    t0 = thread_id()
    types = [f(b) for f in (Int, UInt) for b in (8, 16, 32, 64)] + [
        Float(16), Float(32), Float(64)]
    for t in types:
        x = E.Cast(t, t0)
        # Sums of int32 must not overflow, nor products.
        factor = 1 if t.kind == "float" else 2 if t.kind == "int" and t.width >= 32 else 3
        operations: dict[str, Callable[..., E.Expr]] = {
            "add": lambda v, x=x: E.Add(v, x),
            "sub": lambda v, x=x: E.Sub(v, x),
            "min": lambda v, x=x: E.Min(v, x),
            "max": lambda v, x=x: E.Max(x, v),
            "mul": lambda v, t=t, c=factor: E.Mul(v, build.const(t, c)),
        }
        if t.kind != "float":
            operations["xor"] = lambda v, x=x, t=t: build.intrinsic(t, "bitwise_xor", v, x)
        kind = dtype(t)
        name = f"a_{t}"
        # The begin of each array is not that of a word.
        arrays[name] = np.array([100, 100, 5, 5, 1, 77, 9], kind)
        after = arrays[name].copy()
        for k, (_, make) in enumerate(operations.items()):
            stmts.append(_update(name, make, t, i32(k)))
        values = np.arange(threads)
        with np.errstate(over="ignore"):
            after[0] = (100 + values.sum()) if t.kind == "float" else np.array(
                100 + values.sum()).astype(kind)
            after[1] = np.array(100 - values.sum()).astype(kind)
            after[2] = min(5, 0)
            after[3] = threads - 1
            after[4] = 1 if t.kind == "float" else np.array(
                pow(factor, threads, 1 << t.width)).astype(f"u{t.bytes()}").astype(kind)
            if t.kind != "float":
                after[5] = 77 ^ int(np.bitwise_xor.reduce(values))
        want[name] = after
    return Case(blocks((1,), stretch((threads,), build.block(stmts))), arrays, want)


def updates_under_conditions() -> Case:
    """The element decides whether it is changed, and a value is named in between."""
    x = block_id() * i32(16) + thread_id()
    load = E.Load(INT32, "out", i32(0))
    condition = E.LT(load, x)
    greatest = S.Atomic("out", S.IfThenElse(condition, S.Store("out", x, i32(0))))
    old = E.Variable(INT32, "old")
    named = S.LetStmt("old", E.Load(INT32, "out", i32(1)), S.Store(
        "out", E.Add(E.Mul(old, i32(1)), E.Add(x, i32(1))), i32(1)))
    # Both the index and the old value have names, in either order.
    at = E.Variable(INT32, "at")
    place = E.Select(E.LT(x, i32(32)), i32(2), i32(3))
    element = E.Load(INT32, "out", at)
    product = S.Store("out", E.Max(old, x), at)
    inner = S.LetStmt("at", place, S.LetStmt("old", element, product))
    direct = S.LetStmt("old", E.Load(INT32, "out", place), S.LetStmt("at", place, product))
    body = stretch((16,), build.block([
        greatest, S.Atomic("out", named), S.Atomic("out", inner), S.Atomic("out", direct)]))
    return Case(blocks((4,), body), {"out": np.zeros(4, np.int32)},
                {"out": np.array([63, 64 * 65 // 2, 31, 63], np.int32)})


CASES: list[Callable[[], Case]] = [
    stencil, shared_of_launch, grid_of_three_dimensions, loop_around_barriers, given_once,
    own_arrays, part_of_global_memory, vectors_of_lanes, scalars_of_all_types,
    words_of_the_languages, constant_tables, counted, updates_of_all_types,
    updates_under_conditions,
]  # fmt: skip
