"""Temporaries of a warp: where they live, what lanes exchange, and that it is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.ir.node import compilation
from bayplan.ir.printer import print_node
from bayplan.lower.pipeline import lower
from bayplan.reference import evaluate
from tests.lower.lane_programs import GUARD, PROGRAMS, ROUND_UP, stencil, stencil_in_lanes
from tests.storage.interpret_kernels import ORDERS
from tests.storage.run_kernels import run_func_on_device

x, y, xi, yi, xo, u = hl.vars("x y xi yi xo u")
CUDA = hl.Target("host-cuda")


def source_of(f: Any, target: Any = CUDA) -> str:
    """The text of its kernels, with the names that the user gave."""
    text: str = hl.Pipeline(f).device_source(target)
    return re.sub(r"\$\d+", "", text[text.index("/* The loops over") :])


def readable(f: Any, target: Any = CUDA) -> str:
    """The lowered program."""
    with compilation():
        text = print_node(lower([f.function()], target, f.name()).readable)
    return re.sub(r"\$\d+", "", text)


def refused(f: Any) -> str:
    """The schedule's error."""
    with pytest.raises(hl.ScheduleError) as caught:
        source_of(f)
    return re.sub(r"\$\d+", "", str(caught.value))


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_temporaries_live(name: str) -> None:
    program = PROGRAMS[name]
    text = source_of(program.build())
    found = re.findall(r"/\* ([\w.]+): of each thread, (\d+) ", text)
    assert {n: int(count) for n, count in found} == program.registers
    assert re.findall(r"/\* ([\w.]+): of the block", text) == program.shared
    ways = set(re.findall(r"__shfl(?:_(\w+))?_sync\(", text))
    assert ways == program.exchanges
    if not program.shared:
        assert "__syncthreads" not in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_lanes_come_together(name: str) -> None:
    """Each lane by itself up to where they exchange something, in one order or another."""
    program = PROGRAMS[name]
    extents = program.extents
    want = np.asarray(evaluate(program.build(), [0] * len(extents), extents))
    order = ORDERS[list(PROGRAMS).index(name) % len(ORDERS)]
    got, machine = run_func_on_device(
        program.build(), [0] * len(extents), extents, order=order, target="host-cuda"
    )
    np.testing.assert_array_equal(got, want)
    assert (machine.exchanges > 0) == bool(program.exchanges)


@pytest.mark.parametrize("name", ["neighbours", "chain_with_idle_lanes", "each_lane_its_own"])
def test_without_exchanges(name: str) -> None:
    """OpenCL here has none: shared memory, but for what lanes keep to themselves."""
    program = PROGRAMS[name]
    text = source_of(program.build(), hl.Target("host-opencl"))
    shared = re.findall(r"/\* ([\w.]+): (?:of the block|in )", text)
    own = re.findall(r"/\* ([\w.]+): of each thread", text)
    if name == "each_lane_its_own":
        assert (shared, own) == ([], ["f"])
    else:
        assert not own and set(program.registers) <= set(shared)


def test_readable_program() -> None:
    """Exchanges and registers are shown under the Func's name."""
    lines = [line.strip() for line in readable(PROGRAMS["neighbours"].build()).splitlines()]
    assert any(line.startswith("allocate f[int32 * 2] in Register") for line in lines), lines
    shown = [line for line in lines if "warp_shuffle" in line]
    assert len(shown) == 4, shown
    assert shown[0].startswith("let f.shuffled = warp_shuffle_")


def _refusal_of_shifted_stores() -> Any:
    f, g = stencil()
    g.split(x, x, xi, 32).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, hl.TailStrategy.ShiftInwards).gpu_lanes(xi)
    f.store_in(hl.MemoryType.Register)
    return g


def _refusal_of_one_lane() -> Any:
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = x * 3 + y
    g[x, y] = f[x, y] + 1
    g.split(x, x, xi, 32).split(y, y, yi, 2).reorder(xi, yi, x, y)
    g.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    f.compute_at(g, yi).store_in(hl.MemoryType.Register)
    return g


@pytest.mark.parametrize("build", [_refusal_of_shifted_stores, _refusal_of_one_lane])
def test_what_is_refused(build: Callable[[], Any]) -> None:
    """Asked Register, and a lane stores what another one holds: names Func, index and line."""
    text = refused(build())
    assert "f is to be in the registers of a warp's lanes, and element " in text
    assert "of it is or may be another lane's" in text
    assert "test_lower_warp_shuffles.py" in text or "lane_programs.py" in text


def test_notes() -> None:
    """What moved says so: in the storage report, and as a warning where a kind was asked for."""
    f, g = stencil()
    g.split(x, x, xi, 32).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, hl.TailStrategy.ShiftInwards).gpu_lanes(xi)
    f.store_in(hl.MemoryType.Stack)
    with compilation():
        program = lower([g.function()], CUDA, "g")
        (warning,) = [w for w in program.warnings if f.name() in w]
        choice = program.kinds[f.name()]
    assert "asked Stack, got GPUShared: element" in warning
    assert choice.asked is hl.MemoryType.Stack and "another lane's" in choice.why


def test_heap_stays_heap() -> None:
    """A heap temporary above lanes is a slice of global memory, whatever lanes do with it."""
    f, g = stencil()
    g.split(x, x, xi, 32, ROUND_UP).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).split(x, xo, xi, 32, ROUND_UP).gpu_lanes(xi).store_in(hl.MemoryType.Heap)
    text = source_of(g)
    assert "of each thread" not in text and "__shfl" not in text
    assert "f: in " in text and "of the block" not in text


def test_exchanges_between_barriers() -> None:
    """A barrier stands where shared memory needs one, none for registers."""
    f, g = stencil()
    h = hl.Func("h")
    h[x, y] = g[x, y] + g[x, y + 1]
    h.split(x, x, xi, 32, ROUND_UP).split(y, y, yi, 4).reorder(xi, yi, x, y)
    h.gpu_blocks(x, y).gpu_threads(yi).gpu_lanes(xi)
    g.compute_at(h, x).split(x, xo, xi, 32, ROUND_UP).gpu_threads(y).gpu_lanes(xi)
    f.compute_at(g, y).split(x, xo, xi, 32, ROUND_UP).unroll(xo).gpu_lanes(xi)
    text = source_of(h)
    assert text.count("__syncthreads();") == 1 and "__shfl" in text
    want = np.asarray(evaluate(h, [0, 0], [64, 8]))
    for order in ORDERS:
        got, _ = run_func_on_device(h, [0, 0], [64, 8], order=order, target="host-cuda")
        np.testing.assert_array_equal(got, want)


def test_guards_are_cut() -> None:
    """No exchange stands inside of a branch that lanes take differently."""
    f, g = stencil()
    g.split(x, x, xi, 24, GUARD).gpu_blocks(x, y).gpu_lanes(xi)
    f.compute_at(g, x).gpu_lanes(x)
    text = source_of(g)
    depth = 0
    for line in text.splitlines():
        if "__shfl" in line:
            assert not depth, text
        if line.lstrip().startswith("if ("):
            depth += 1
        elif line.strip() == "}" and depth:
            depth -= 1
    assert "__shfl" in text


def test_large_temporaries_are_shared() -> None:
    """Registers are not for what would not fit; asked, up to 4 KiB a lane."""
    for kind, in_registers in ((hl.MemoryType.Auto, False), (hl.MemoryType.Register, True)):
        f, g = hl.Func("f"), hl.Func("g")
        f[x, y] = x + y
        g[x, y] = f[x, y] + f[x, y + 1]
        g.split(x, x, xi, 32).split(y, y, yi, 99).reorder(xi, yi, x, y)
        g.gpu_blocks(x, y).gpu_lanes(xi)
        f.compute_at(g, x).store_in(kind).reorder(x, y).gpu_lanes(x)
        text = source_of(g)
        assert ("f: of each thread, 100 int32" in text) == in_registers
        assert ("of the block" in text) != in_registers


def test_narrow_types_are_widened() -> None:
    for t, shown in ((hl.UInt(8), "uint32_t"), (hl.Int(16), "uint32_t"), (hl.Int(64), "uint64_t")):
        text = source_of(stencil_in_lanes(t))
        form = rf"__shfl_down_sync\(0xffffffffu, \({shown}\)f(_\d+)?\[0\], [12]\)"
        assert re.search(form, text), text
