"""OpenCL C: kernels run by PoCL on the CPU and by Oclgrind, which sees races and wild accesses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import ScheduleError
from bayplan.ir.node import compilation
from bayplan.ir.types import INT32, Float
from bayplan.targets.c_writer import Binding, Pieces
from tests.targets.device_checks import GROUPS, gather
from tests.targets.kernel_cases import CASES, Case, counted, i32, shared_of_launch, stencil
from tests.targets.kernels import (
    OPENCL,
    OpenCLDevice,
    Program,
    blocks,
    stretch,
    thread_id,
)


@cache
def device(platform: str) -> OpenCLDevice:
    """The device of a platform; the test is skipped where there is none."""
    pytest.importorskip("pyopencl")
    try:
        return OpenCLDevice(platform)
    except Exception as error:  # the loader has its own errors
        pytest.skip(f"no OpenCL platform {platform}: {error}")


@pytest.mark.parametrize("group", GROUPS)
def test_expressions(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pocl = device("portable")
    with compilation():
        cases = gather(group, monkeypatch)
        cases.compare(pocl.run(cases.program(OPENCL), cases.arrays()))


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("platform", ["portable", "oclgrind"])
def test_structure(make: Callable[[], Case], platform: str) -> None:
    found = device(platform)
    with compilation():
        case = make()
        case.compare(found.run(case.program(OPENCL), case.arrays, case.values))


def test_memories_begin_at_offsets() -> None:
    pocl = device("portable")
    with compilation():
        case = stencil()
        offsets = {"in": 64, "out": 256}
        result = pocl.run(case.program(OPENCL), case.arrays, case.values, offsets)
        case.compare(result)


_MATHS: dict[str, Any] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": lambda x: np.arccosh(x + 1), "atanh": lambda x: np.arctanh(x / 2), "sqrt": np.sqrt,
    "exp": np.exp, "log": np.log, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "fast_exp": np.exp, "fast_log": np.log, "fast_sin": np.sin,
    "fast_cos": np.cos, "fast_atan": np.arctan, "fast_tanh": np.tanh,
    "fast_inverse": lambda x: 1 / x, "fast_inverse_sqrt": lambda x: 1 / np.sqrt(x),
    "is_nan": lambda x: x * 0, "is_inf": lambda x: x * 0, "is_finite": lambda x: x * 0 + 1,
    "pow": lambda x: np.power(x, x), "fast_pow": lambda x: np.power(x, x),
    "atan2": lambda x: np.arctan2(x, x * x), "fast_atan2": lambda x: np.arctan2(x, x * x),
    "hypot": lambda x: np.hypot(x, x * x), "erf": None,
}  # fmt: skip


def maths_case() -> tuple[S.For, dict[str, Any], dict[str, Any]]:
    """Every maths function of every float type on numbers between 0 and 1."""
    from math import erf

    from bayplan.ir.intrinsics import MATHS

    assert set(_MATHS) == MATHS
    stmts: list[S.Stmt] = []
    arrays, want = {}, {}
    count = 16
    for t, kind in ((Float(32), np.float32), (Float(64), np.float64)):
        x = (np.arange(count) / count + 1 / 32).astype(kind)
        arrays[f"in_{t}"] = x
        arrays[f"out_{t}"] = np.zeros(count * len(_MATHS), kind)
        expected = []
        for k, (name, function) in enumerate(_MATHS.items()):
            load: E.Expr = E.Load(t, f"in_{t}", thread_id())
            if name == "acosh":
                load = E.Add(load, build.const(t, 1))
            if name == "atanh":
                load = E.Div(load, build.const(t, 2))
            two = "pow" in name or name in ("atan2", "fast_atan2", "hypot")
            second = load if "pow" in name else E.Mul(load, load)
            args = (load, second) if two else (load,)
            result = t if not name.startswith("is_") else build.true().type
            call = E.Call(result, name, args, E.CallKind.PURE_EXTERN)
            value = E.Cast(t, call) if result is not t else call
            stmts.append(S.Store(f"out_{t}", value, thread_id() + i32(k * count)))
            wide = x.astype(np.float64)
            expected.append(function(wide) if function else np.array([erf(v) for v in wide]))
        want[f"out_{t}"] = np.concatenate(expected)
    return blocks((1,), stretch((count,), build.block(stmts))), arrays, want


def compare_maths(result: dict[str, Any], want: dict[str, Any]) -> None:
    """A few units in the last place, which the languages allow."""
    for name, expected in want.items():
        bound = 4e-6 if name.endswith("32") else 1e-14
        np.testing.assert_allclose(result[name], expected, rtol=bound, atol=bound / 10)


def test_maths() -> None:
    pocl = device("portable")
    with compilation():
        body, arrays, want = maths_case()
        compare_maths(pocl.run(Program(body, OPENCL), arrays), want)


def test_text() -> None:
    """What a reader looks for: names, spaces, barriers, one function."""
    with compilation():
        text = stencil().program(OPENCL).text
        for part in (
            "__local uint8_t shared_alloc[512] __attribute__((aligned(64)));",
            "__local float *const blur_x = (__local float *)(shared_alloc + 128);",
            "blur_x[thread_id_x] = ",
            "barrier(CLK_LOCAL_MEM_FENCE);",
            "__global const uint8_t *restrict in_memory, const int64_t in_offset",
        ):
            assert part in text, text
        assert text.count("__kernel") == 1
        assert "double" not in text and "__builtin" not in text
        dynamic = shared_of_launch().program(OPENCL)
        assert dynamic.kernel.dynamic and "__local float *const tile) {" in dynamic.text
        # What threads update together is not restrict.
        assert "__global uint8_t *out_memory" in counted().program(OPENCL).text


def test_vectors_of_the_host() -> None:
    """Lanes of vectors that the host has computed become parameters."""
    pocl = device("portable")
    vector, bools = INT32.with_lanes(3), build.true().type.with_lanes(3)
    scope = {
        "v": Binding("", "", Pieces(vector, [(0, 2, "v"), (2, 1, "v_last")])),
        "p": Binding("", "", Pieces(bools, [(0, 3, "p")], 32)),
        "q": Binding("", "", Pieces(bools, [], 0, "q_lanes")),
    }
    with compilation():
        v, p, q = E.Variable(vector, "v"), E.Variable(bools, "p"), E.Variable(bools, "q")
        zero = E.Broadcast(i32(0), 3)
        value = E.Add(E.Select(p, v, zero), E.Select(q, E.Mul(v, v), zero))
        body = S.Store("out", value, E.Ramp(i32(0), i32(1), 3))
        program = Program(blocks((1,), stretch((1,), body)), OPENCL, scope=scope)
        values = {"v": [5, 7], "v_last": 9, "p": [0, -1, -1], "q_lanes": 2}
        result = pocl.run(program, {"out": np.zeros(3, np.int32)}, values)
    assert result["out"].tolist() == [25, 7 + 49, 9]


@pytest.mark.parametrize("name", ["print", "require"])
def test_refusals(name: str) -> None:
    """What a kernel cannot do is refused with its name."""
    with compilation():
        call = E.Call(INT32, name, (i32(1), i32(2)), E.CallKind.INTRINSIC)
        body = blocks((1,), stretch((1,), S.Store("out", call, thread_id())))
        with pytest.raises(ScheduleError, match=r"f\.s0\.kernel"):
            Program(body, OPENCL)
        swap = S.Block((S.Store("a", E.Load(INT32, "b", i32(0)), i32(0)),
                        S.Store("b", E.Load(INT32, "a", i32(0)), i32(0))))
        body = blocks((1,), stretch((2,), S.Atomic("a", swap)))
        with pytest.raises(ScheduleError, match="a lock"):
            Program(body, OPENCL)


_UNDER_OCLGRIND = """
from bayplan.ir.node import compilation
from tests.targets.kernel_cases import CASES
from tests.targets.kernels import OPENCL, OpenCLDevice
device = OpenCLDevice("oclgrind")
with compilation():
    for make in CASES:
        case = make()
        program = case.program(OPENCL)
        program.text = program.text.replace(DROPPED, "")
        device.run(program, case.arrays, case.values)
print("all ran")
"""


@pytest.mark.parametrize("dropped", ["no such text", "barrier(CLK_LOCAL_MEM_FENCE);"])
def test_oclgrind(dropped: str, tmp_path: Path) -> None:
    """No races, no accesses outside of memory, in any of the kernels; without barriers it does."""
    pytest.importorskip("pyopencl")
    if shutil.which("oclgrind") is None:
        pytest.skip("no oclgrind")
    script = tmp_path / "run.py"
    script.write_text(f"DROPPED = {dropped!r}\n{_UNDER_OCLGRIND}")
    done = subprocess.run(
        ["oclgrind", "--data-races", "--uninitialized", sys.executable, str(script)],
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."}, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "all ran" in said, said[-3000:]
    if dropped.startswith("barrier"):
        assert "data race" in said
        return
    for fault in ("data race", "Invalid", "Uninitialized", "divergence"):
        assert fault not in said, said[-3000:]
