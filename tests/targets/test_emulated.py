"""CUDA kernels on the host: what they compute, and the faults of kernels that show there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import MemoryType
from bayplan.ir.node import compilation
from bayplan.ir.types import INT32, Float
from tests.targets.device_checks import GROUPS, gather
from tests.targets.kernel_cases import CASES, Case, i32, serial, stencil
from tests.targets.kernels import (
    CUDA,
    Emulation,
    Program,
    barrier,
    block_id,
    blocks,
    shared,
    stretch,
    thread_id,
)
from tests.targets.test_opencl import compare_maths, maths_case

SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
_COMPILERS = [c for c in ("g++", "clang++") if shutil.which(c)]

pytestmark = pytest.mark.skipif(not _COMPILERS, reason="no C++ compiler")


def emulation(folder: Path, flags: list[str] | None = None, compiler: str = "") -> Emulation:
    """The first compiler there is."""
    return Emulation(folder, flags or [], compiler or _COMPILERS[0])


@pytest.mark.parametrize("group", GROUPS)
def test_expressions(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with compilation():
        cases = gather(group, monkeypatch)
        program = cases.program(CUDA)
        cases.compare(emulation(tmp_path, ["-O0"]).run(program, cases.arrays()))


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_structure(make: Callable[[], Case], tmp_path: Path) -> None:
    """Under the address sanitizer: memories and the block's memory have exactly their bytes."""
    with compilation():
        case = make()
        run = emulation(tmp_path, SANITIZE)
        case.compare(run.run(case.program(CUDA), case.arrays, case.values))


@pytest.mark.parametrize("compiler", _COMPILERS)
@pytest.mark.parametrize(
    "flags",
    [["-O0"], ["-O3", "-fPIC"], ["-DBP_EMULATED_UCONTEXT"],
     [*SANITIZE, "-DBP_EMULATED_UCONTEXT"], SANITIZE],
    ids=" ".join,
)  # fmt: skip
def test_switches(compiler: str, flags: list[str], tmp_path: Path) -> None:
    """Both ways of changing stacks, at all levels of optimisation."""
    with compilation():
        case = stencil()
        run = emulation(tmp_path, flags, compiler)
        case.compare(run.run(case.program(CUDA), case.arrays, case.values))


def test_maths(tmp_path: Path) -> None:
    with compilation():
        body, arrays, want = maths_case()
        compare_maths(emulation(tmp_path).run(Program(body, CUDA), arrays), want)


def test_divergent_barriers(tmp_path: Path) -> None:
    """A barrier that a part of the block never comes to, or comes to elsewhere."""
    out = {"out": np.zeros(8, np.int32)}
    with compilation():
        some = E.LT(thread_id(), i32(3))
        store = S.Store("out", thread_id(), thread_id())
        ended = blocks((2,), stretch((8,), S.IfThenElse(some, build.block([barrier(), store]))))
        done = emulation(tmp_path).start(Program(ended, CUDA), out)
        assert done.returncode == 2
        assert "divergent barrier in block (0, 0, 0): thread (0, 0, 0) waits in line" in done.stderr
        assert "thread (3, 0, 0) has ended" in done.stderr
        split = S.IfThenElse(some, build.block([barrier(), store]), barrier())
        done = emulation(tmp_path, SANITIZE).start(
            Program(blocks((1,), stretch((8,), split)), CUDA), out)
        assert done.returncode == 2
        assert "thread (0, 0, 0) waits in line" in done.stderr
        assert "thread (3, 0, 0) waits in line" in done.stderr


def test_memory_without_values(tmp_path: Path) -> None:
    """Each block begins with memory in which every bit is set, not with what the last one left."""
    t = Float(32)
    with compilation():
        read = stretch((4,), S.Store("out", E.Load(t, "tile", thread_id()), thread_id()
                                     + block_id() * i32(4)))
        write = stretch((4,), S.Store("tile", build.const(t, 1.0), thread_id()))
        body = shared("tile", t, (4,), build.block([read, barrier(), write]))
        arrays = {"out": np.zeros(12, np.float32)}
        result = emulation(tmp_path).run(Program(blocks((3,), body), CUDA), arrays)
    assert np.isnan(result["out"]).all()


@pytest.mark.parametrize("flags", [["-O0"], SANITIZE], ids=" ".join)
def test_large_arrays_of_threads(flags: list[str], tmp_path: Path) -> None:
    """Many threads that wait, each with as many bytes of its own as kernels have."""
    count = 24
    with compilation():
        x, k = thread_id(), E.Variable(INT32, "k")
        total: E.Expr = i32(0)
        fills: list[S.Stmt] = []
        for i in range(count):
            fills.append(serial("k", 1024, S.Store(f"own{i}", E.Add(k, x), k)))
            total = E.Add(total, E.Load(INT32, f"own{i}", i32(i)))
        write = S.Store("tile", E.Add(total, i32(0)), x)
        inside = build.block([*fills, barrier(), write])
        for i in range(count):
            inside = S.Allocate(f"own{i}", INT32, MemoryType.Register, (i32(1024),), build.true(),
                                0, inside)
        read = stretch((64,), S.Store("out", E.Load(INT32, "tile", i32(63) - x), x))
        body = shared("tile", INT32, (64,), build.block([stretch((64,), inside), barrier(), read]))
        result = emulation(tmp_path, flags).run(
            Program(blocks((1,), body), CUDA), {"out": np.zeros(64, np.int32)})
    want = [sum(i + x for i in range(count)) for x in range(63, -1, -1)]
    assert result["out"].tolist() == want


@pytest.mark.parametrize("where", ["tile", "out"])
def test_accesses_outside(where: str, tmp_path: Path) -> None:
    """The address sanitizer sees an access behind the block's memory, or behind a buffer."""
    with compilation():
        index: dict[str, E.Expr] = {"tile": thread_id(), "out": thread_id()}
        index[where] = E.Add(thread_id(), i32(1))
        write = stretch((8,), S.Store("tile", thread_id(), index["tile"]))
        read = stretch((8,), S.Store("out", E.Load(INT32, "tile", thread_id()), index["out"]))
        body = shared("tile", INT32, (8,), build.block([write, barrier(), read]))
        done = emulation(tmp_path, SANITIZE).start(
            Program(blocks((1,), body), CUDA), {"out": np.zeros(8, np.int32)})
    assert "heap-buffer-overflow" in done.stderr


def test_a_missing_barrier_shows(tmp_path: Path) -> None:
    """Threads run to their next barrier one after the other: what misses one is wrong."""
    with compilation():
        write = stretch((8,), S.Store("tile", thread_id(), thread_id()))
        other = i32(7) - thread_id()
        read = stretch((8,), S.Store("out", E.Load(INT32, "tile", other), thread_id()))
        for stmts, right in (([write, barrier(), read], True), ([write, read], False)):
            body = shared("tile", INT32, (8,), build.block(stmts))
            result = emulation(tmp_path).run(
                Program(blocks((1,), body), CUDA), {"out": np.zeros(8, np.int32)})
            assert (result["out"].tolist() == list(range(7, -1, -1))) is right


_LANES = """
extern "C" __global__ void lanes(uint8_t *out_memory, const int64_t out_offset) {
    int32_t *const out = (int32_t *)(out_memory + out_offset);
    const int32_t x = (int32_t)threadIdx.x;
    out[x] = __shfl_down_sync(0xffffffffu, x, 1);
    out[40 + x] = __shfl_up_sync(0xffffffffu, x, 2u);
    out[80 + x] = __shfl_xor_sync(0xffffffffu, x, 3);
    out[120 + x] = __shfl_sync(0xffffffffu, x, 5, 8);
    int32_t total = 1;
    for (int32_t k = 16; k > 0; k /= 2) total += __shfl_xor_sync(0xffffffffu, total, k);
    out[160 + x] = total;
    out[200 + x] = (int32_t)__ballot_sync(0xffffffffu, x % 2);
    __syncwarp();
    out[240 + x] = __any_sync(0xffffffffu, x == 3) * 2 + __all_sync(0xffffffffu, x >= 32);
    __syncthreads();
}
BP_KERNELS(1) = { BP_KERNEL(lanes), };
"""


def test_lanes(tmp_path: Path) -> None:
    """Shuffles and votes of the lanes of a warp, also of one that is not full."""
    with compilation():
        # A program that only says how the kernel is called.
        body = blocks((1,), stretch((40,), S.Store("out", thread_id(), thread_id())))
        program = Program(body, CUDA)
    head = program.text[: program.text.index("/* The loops over blocks")]
    program.text = head + _LANES
    result = emulation(tmp_path, SANITIZE).run(program, {"out": np.zeros(280, np.int32)})["out"]
    x = np.arange(40)
    lane, first = x % 32, x // 32 * 32
    full = x < 32
    down = np.where(full & (lane < 31), x + 1, x)
    np.testing.assert_array_equal(result[:40][full], down[full])
    np.testing.assert_array_equal(result[40:80], np.where(lane >= 2, x - 2, x))
    np.testing.assert_array_equal(result[80:120], first + (lane ^ 3))
    np.testing.assert_array_equal(result[120:160][full], (first + lane // 8 * 8 + 5)[full])
    assert (result[160:200][full] == 32).all()
    assert (result[200:232] == np.int32(-1431655766)).all()
    assert (result[240:272] == 2).all() and (result[272:280] == 1).all()
