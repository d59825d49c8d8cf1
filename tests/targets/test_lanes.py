"""Programs whose lanes exchange elements: on the emulated device, on PoCL, through nvcc."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from apps import harness
from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import MemoryType
from bayplan.ir.node import compilation
from bayplan.ir.types import INT32, Float, Int, Type, UInt
from bayplan.reference import evaluate
from tests.lower.lane_programs import PROGRAMS
from tests.targets.cuda_compilers import ARCHITECTURES, compile_by_nvcc
from tests.targets.kernel_cases import i32
from tests.targets.kernels import CUDA, Program, block_id, blocks, stretch, thread_id
from tests.targets.programs import dtype
from tests.targets.test_cuda import needs_nvcc
from tests.targets.test_emulated import SANITIZE, emulation

OPENCL = (
    "neighbours_uint16", "chain_with_idle_lanes", "each_lane_its_own", "several_rows", "tuples",
    "branches_that_lanes_take", "one_lane_for_all", "prefix_sums_by_unrolled_updates",
)  # fmt: skip
COMPILED = (
    "vectors_of_two", "butterfly", "table_in_registers", "branches_that_lanes_take",
    "prefix_sums_by_unrolled_updates", "chain_in_half_a_warp",
)  # fmt: skip
TYPES = [UInt(8), Int(8), UInt(16), Int(16), UInt(32), INT32, UInt(64), Int(64), Float(16),
         Float(32), Float(64)]  # fmt: skip
WAYS = {
    "warp_shuffle": lambda lane, n: (lane + n) % 24,
    "warp_shuffle_up": lambda lane, n: lane - n,
    "warp_shuffle_down": lambda lane, n: lane + n,
    "warp_shuffle_xor": lambda lane, n: lane ^ n,
}


@pytest.mark.parametrize(
    ("name", "target_text"),
    [*[(name, "cuda-emulated") for name in PROGRAMS], *[(name, "opencl") for name in OPENCL]],
)
def test_devices_agree_with_the_evaluator(
    name: str, target_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = hl.Target(target_text)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    program = PROGRAMS[name]
    mins = [0] * len(program.extents)
    want = np.asarray(evaluate(program.build(), mins, program.extents))
    got = np.asarray(program.build().realize(program.extents, target))
    np.testing.assert_array_equal(got, want)


class Exchanges:
    """A kernel in which 24 lanes of two warps exchange an element in a way, in each type."""

    def __init__(self, name: str, n: int) -> None:
        self.arrays: dict[str, Any] = {}
        self.want: dict[str, Any] = {}
        lane, warp = thread_id(), thread_id("y")
        index = E.Add(E.Mul(E.Add(E.Mul(block_id(), i32(2)), warp), i32(32)), lane)
        which: E.Expr = i32(n)
        if name == "warp_shuffle":
            which = build.mod(E.Add(lane, i32(n)), i32(24))
        stretches: list[S.Stmt] = []
        for t in TYPES:
            stretches.append(self._of_type(name, n, t, index, which))
        self.body = blocks((2,), build.block(stretches))

    def _of_type(self, name: str, n: int, t: Type, index: E.Expr, which: E.Expr) -> S.Stmt:
        lane = thread_id()
        place, given, own = f"out_{t}", f"in_{t}", f"own_{t}"
        call = E.Call(
            t, name, (E.Load(t, own, i32(0)), which, i32(24)), E.CallKind.INTRINSIC
        )
        shown = E.Variable(t, f"shown_{t}")
        exchange = S.LetStmt(shown.name, call, S.Store(place, shown, index))
        few = E.LT(lane, i32(24))
        fill = stretch((32, 2), S.Store(own, E.Load(t, given, index), i32(0)))
        use = stretch((32, 2), S.IfThenElse(few, exchange))
        rows = np.arange(4 * 32).reshape(4, 32) * 7 % 127
        self.arrays[given] = rows.astype(dtype(t))
        self.arrays[place] = np.zeros_like(self.arrays[given])
        self.want[place] = want = self.arrays[place].copy()
        for k in range(24):
            source = WAYS[name](k, n)
            own_value = not 0 <= source < 24
            want[:, k] = self.arrays[given][:, k if own_value else source]
        kind = MemoryType.Register
        return S.Allocate(own, t, kind, (i32(1),), build.true(), 0, build.block([fill, use]))


@pytest.mark.parametrize(("name", "n"), [("warp_shuffle", 5), ("warp_shuffle_up", 3),
                                         ("warp_shuffle_down", 9), ("warp_shuffle_xor", 4)])
def test_exchanges_of_all_types(name: str, n: int, tmp_path: Path) -> None:
    """Under the address sanitizer; lanes that ask for one which takes no part are not compared."""
    with compilation():
        case = Exchanges(name, n)
        result = emulation(tmp_path, SANITIZE).run(Program(case.body, CUDA), case.arrays)
    for place, want in case.want.items():
        for k in range(24):
            if 0 <= WAYS[name](k, n) < 24:
                np.testing.assert_array_equal(result[place][:, k], want[:, k])


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_exchanges_compile(architecture: str, tmp_path: Path) -> None:
    """Without warnings."""
    with compilation():
        for name in WAYS:
            text = Program(Exchanges(name, 3).body, CUDA).text
            said = compile_by_nvcc(text, tmp_path, architecture)
            assert not said, said


@needs_nvcc
@pytest.mark.parametrize("name", COMPILED)
def test_programs_compile(name: str, tmp_path: Path) -> None:
    text = hl.Pipeline(PROGRAMS[name].build()).device_source(hl.Target("host-cuda"))
    for architecture in ARCHITECTURES:
        said = compile_by_nvcc(text, tmp_path, architecture)
        assert not said, said


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")
def test_subgroups_compile(tmp_path: Path) -> None:
    """OpenCL for a device whose subgroups exchange elements, which PoCL's do not."""
    target = hl.Target("host-opencl-cl_subgroup_shuffle")
    source = tmp_path / "kernels.cl"
    for name in ("vectors_of_two", "neighbours_uint8", "butterfly", "table_in_registers"):
        text = hl.Pipeline(PROGRAMS[name].build()).device_source(target)
        assert "__kernel BP_WARPS" in text and "bp_shuffle" in text
        source.write_text(text)
        done = subprocess.run(
            ["clang", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-Xclang",
             "-cl-ext=+cl_khr_subgroup_shuffle", "-Wall", "-Werror", "-fsyntax-only", "-target",
             "spir64", str(source)],
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_recursive_filter_of_the_applications() -> None:
    """What is to be in global memory stays there; the tile that is transposed is the block's."""
    app = harness.load("iir_blur", hl, width=64, height=96, channels=2, gpu=True)
    source = hl.Pipeline(app.output).device_source(hl.Target("host-cuda"))
    source = re.sub(r"\$\d+", "", source)
    assert "__shfl" not in source and "of each thread" not in source
    for name in ("first_columns", "second_columns"):
        assert f"/* {name}: in {name.partition('_')[0]}_transposed.s0.kernel" in source, source
    assert source.count("of the block, 33 x 32") == 2


def test_halide_has_the_same_in_registers() -> None:
    """Where Halide spreads a temporary over lanes, it is spread here, over as many registers."""
    halide = pytest.importorskip("halide")
    theirs = _programs_of_halide(halide)
    target = halide.Target("host-cuda-cuda_capability_75")
    same = 0
    for name, program in theirs.items():
        try:
            text = _lowered_by_halide(halide, program.build(), target)
        except halide.HalideError:
            continue  # it refuses 64 bits, lanes that are guarded, single lanes
        form = r"allocate (\w+?)(?:\$\d+)?(?:\.\d+)*\[\w+ \* (\d+)\](?: in Register)?\n"
        found = re.findall(form, text)
        ours = PROGRAMS[name].registers
        for func, count in found:
            assert ours.get(func) == int(count), (name, found, ours)
            same += 1
    assert same >= 15


def _programs_of_halide(halide: Any) -> dict[str, Any]:
    """The same programs, made with Halide's names."""
    source = Path(PROGRAMS["butterfly"].build.__code__.co_filename).read_text()
    module = types.ModuleType("lane_programs_of_halide")
    halide_with_vars = types.SimpleNamespace(
        **{k: getattr(halide, k) for k in dir(halide) if k != "vars" and not k.startswith("__")},
        vars=lambda names: [halide.Var(n) for n in names.split()],
    )
    source = source.replace("import bayplan as hl", "hl = HALIDE")
    module.__dict__["HALIDE"] = halide_with_vars
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__name__, "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    programs: dict[str, Any] = module.__dict__["PROGRAMS"]
    return programs


def _lowered_by_halide(halide: Any, f: Any, target: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.stmt"
        form = halide.StmtOutputFormat.Text
        f.compile_to_conceptual_stmt(str(path), [], form, target)
        return path.read_text()
