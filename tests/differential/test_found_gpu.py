"""Programs with kernels on which devices and the evaluator once disagreed, or that were refused.

Each runs as emulated kernels, and on OpenCL where there is a device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate
from tests.differential.worker import DEVICES

Build = Callable[[], tuple[hl.Func, list[int]]]


def _input(data: Any, kind: Any) -> hl.ImageParam:
    image = hl.ImageParam(kind, data.ndim, "data")
    image.set(hl.Buffer(data))
    return image


def _rows_that_a_formula_decides_about() -> tuple[hl.Func, list[int]]:
    """Which row is updated depends on a loop around the threads, by way of an intrinsic."""
    x, z, bx, tx, bz, tz = hl.vars("x z bx tx bz tz")
    f = hl.Func("f")
    r = hl.RDom([(0, 3), (0, 3)], "r")
    row = hl.clamp(hl.i32(hl.lerp(hl.u8(2), hl.u8(7), hl.cast(hl.UInt(16), r.x))), 2, 4)
    f[x, hl.Var("y"), z] = 0
    f[x, row, z] += z + r.y
    f.update(0).split(x, bx, tx, 3, hl.TailStrategy.GuardWithIf)
    f.update(0).split(z, bz, tz, 3, hl.TailStrategy.GuardWithIf)
    f.update(0).reorder(tx, tz, r.x, r.y, bx, bz).gpu_blocks(bx, bz).gpu_threads(tx, tz)
    return f, [14, 6, 4]


def _rows_that_floats_decide_about() -> tuple[hl.Func, list[int]]:
    x, b, t = hl.vars("x b t")
    f = hl.Func("f")
    r = hl.RDom([(0, 4)], "r")
    f[x, hl.Var("y")] = 0
    f[x, hl.clamp(hl.i32(hl.sqrt(hl.f32(r)) * 1.75), 0, 3)] += r + 1
    f.update(0).split(x, b, t, 5, hl.TailStrategy.GuardWithIf).reorder(t, r, b)
    f.update(0).gpu_blocks(b).gpu_threads(t)
    return f, [14, 4]


def _rows_that_data_decide_about() -> tuple[hl.Func, list[int]]:
    """Each thread stays in its own column, wherever the data have it go."""
    x, b, t = hl.vars("x b t")
    data = _input(np.arange(18, dtype=np.int32) * 7 % 5, hl.Int(32))
    f = hl.Func("f")
    r = hl.RDom([(0, 4)], "r")
    f[x, hl.Var("y")] = 0
    f[x, hl.clamp(data[x + r], 0, 3)] += r + 1
    f.update(0).split(x, b, t, 5, hl.TailStrategy.GuardWithIf).reorder(t, r, b)
    f.update(0).gpu_blocks(b).gpu_threads(t)
    return f, [14, 4]


def _loads_that_a_predicate_leaves_out() -> tuple[hl.Func, list[int]]:
    """Beyond what a split guards, an element would be one of another temporary."""
    x, y, b, t, yo, yi = hl.vars("x y b t yo yi")
    data = _input(np.arange(17 * 40, dtype=np.int32).reshape(40, 17) % 23, hl.Int(32))
    f1, f2, f3 = hl.Func("f1"), hl.Func("f2"), hl.Func("f3")
    f1[x, y] = hl.cast(hl.UInt(16), data[x, y] + x)
    f2[x, y] = f1[x, y] + hl.u16(1)
    f2[x, y] = hl.max(f2[x, y], f1[1, 2 * y])
    f3[x, y] = f2[x, y]
    f3.split(x, b, t, 4, hl.TailStrategy.GuardWithIf).gpu_blocks(b).gpu_threads(t)
    f2.update(0).split(y, yo, yi, 3, hl.TailStrategy.PredicateLoads).gpu_threads(x)
    f1.compute_at(f3, b)
    return f3, [16, 9]


def _one_element_of_a_block() -> tuple[hl.Func, list[int]]:
    """A temporary without dimensions, in blocks that a loop on the host may leave out."""
    x, y, t1, b, t = hl.vars("x y t1 b t")
    data = _input(np.arange(64, dtype=np.int32).reshape(8, 8), hl.Int(32))
    one, f = hl.Func("one"), hl.Func("f")
    one[()] = data[1, 2] + data[2, 1]
    f[x, y] = one[()] + data[x, y]
    f.bound(x, 0, 5).fuse(x, y, t1).split(t1, b, t, 2, hl.TailStrategy.GuardWithIf)
    f.gpu_blocks(b).gpu_threads(t)
    one.compute_at(f, b)
    return f, [5, 3]


def _one_thread_behind_a_branch() -> tuple[hl.Func, list[int]]:
    """Threads wait in a branch; behind it are conditions on which they differ."""
    x, y, b, t = hl.vars("x y b t")
    data = _input(np.arange(40 * 40, dtype=np.int32).reshape(40, 40) * 5 % 29, hl.Int(32))
    f0, f1, f2 = hl.Func("f0"), hl.Func("f1"), hl.Func("f2")
    f0[x, y] = hl.min(x, data[0, y + 1])
    f0[5, y] = f0[5, y] - 5
    f1[x, y] = hl.u8(6) + hl.cast(hl.UInt(8), f0[x, y]) / hl.u8(3)
    edge = hl.BoundaryConditions.mirror_interior(f1, [(0, 4), (0, 7)])
    lit = hl.max(f1[x, y], f1[x, y] / hl.u8(5) + hl.cast(hl.UInt(8), data[x + 3, 2 * y + 1]))
    two = hl.clamp(hl.i32(edge[x, y]), 2, 2)
    dim = hl.clamp(hl.cast(hl.UInt(16), edge[two, 2 * y]) * hl.cast(hl.UInt(16), y), 0, 31)
    f2[x, y] = hl.cast(hl.UInt(16), dim) + hl.cast(hl.UInt(16), lit)
    f2.split(x, b, t, 16, hl.TailStrategy.ShiftInwards).reorder(t, y, b).gpu_blocks(b)
    edge.store_at(f2, b).compute_at(f2, y)
    f0.compute_at(f2, b).gpu_threads(y).update(0).unscheduled()
    return f2, [29, 13]


def _loops_in_a_row() -> tuple[hl.Func, list[int]]:
    """Three loops in which threads wait follow each other."""
    x, y, yo, yi, b, t = hl.vars("x y yo yi b t")
    data = _input(np.arange(80, dtype=np.int32) * 5 % 29, hl.Int(32))
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = data[2 * x] + y
    f[x, y] += data[x + 3]
    g[x, y] = hl.clamp(f[x + 2, 0] + f[2 * x + 1, 2], 0, 59) * (y + 1)
    g.split(y, yo, yi, 3, hl.TailStrategy.ShiftInwards)
    g.split(yo, b, t, 5, hl.TailStrategy.GuardWithIf)
    g.gpu_blocks(b).gpu_threads(t).unroll(yi)
    f.update(0).gpu_threads(x, y)
    return g, [19, 10]


def _numbers_of_threads_in_pieces_of_a_host_loop() -> tuple[hl.Func, list[int]]:
    """Each piece has the kernel, and what its threads are counted by is bound around it."""
    x, y, b, t = hl.vars("x y b t")
    data = _input(np.arange(209 * 147, dtype=np.int32).reshape(147, 209) % 19, hl.Int(32))
    f0, f3, f4, f5 = hl.Func("f0"), hl.Func("f3"), hl.Func("f4"), hl.Func("f5")
    f0[x, y] = data[x + 95, y + 68]
    edge = hl.BoundaryConditions.constant_exterior(f0, 1, [(0, 3), (0, 6)])
    f3[x, y] = edge[hl.clamp(edge[x, y], 3, 12), y - 2] + edge[x, y]
    f4[x, y] = f3[x, y] * 2
    f5[x, y] = f4[x, y] + 1
    f5.parallel(y)
    f4.compute_at(f5, x).split(y, b, t, 4, hl.TailStrategy.RoundUp).reorder(x, t, b)
    f4.gpu_blocks(b).gpu_threads(t).store_in(hl.MemoryType.Heap)
    f3.compute_at(f4, t)
    edge.compute_at(f4, b).gpu_threads(x, y)
    f0.compute_root()
    return f5, [12, 7]


def _both_sides_of_a_size_that_moves() -> tuple[hl.Func, list[int]]:
    """The device's memory is as large as it gets in the loop, the host's in an arena inside."""
    x, y, b, t = hl.vars("x y b t")
    data = _input(np.arange(40 * 40, dtype=np.int32).reshape(40, 40) % 29, hl.Int(32))
    other, both, f = hl.Func("other"), hl.Func("both"), hl.Func("f")
    other[x, y] = data[x, y] * 2
    both[x, y] = data[x, y + 5]
    both[x, hl.clamp(hl.i32(hl.i16(2) + hl.i16(-5)), 1, 7)] += 3
    both[x, hl.clamp(data[x, 0] ^ -2, 0, 4)] += 5
    f[x, y] = both[x % 4, y / 2 + 1] + other[x / 2 + 2, y + 1]
    both.store_at(f, y).compute_at(f, x)
    both.update(0).split(x, b, t, 2).gpu_blocks(b)
    both.update(1).unscheduled()
    other.compute_at(f, y)
    return f, [12, 9]


def _a_life_that_ends_within_what_the_host_does() -> tuple[hl.Func, list[int]]:
    """The other value of the Tuple is stored after the first one's last use."""
    x, y = hl.vars("x y")
    f, g = hl.Func("f"), hl.Func("g")
    r1, r2 = hl.RDom([(1, 2)], "r1"), hl.RDom([(2, 1)], "r2")
    f[x, y] = (x, y)
    f[x, r1.x] = (f[x, r1.x - 1][0] + 1, f[x, r1.x - 1][1] + 2)
    f[x, r2.x] = (f[x, r2.x - 1][0] + 3, f[x, r2.x - 1][1] + 4)
    g[x] = f[x + 3, 2][1]
    f.update(0).gpu_blocks(x)
    f.update(1).unscheduled()
    return g, [5]


PROGRAMS: list[Build] = [
    _rows_that_a_formula_decides_about,
    _rows_that_floats_decide_about,
    _rows_that_data_decide_about,
    _loads_that_a_predicate_leaves_out,
    _one_element_of_a_block,
    _one_thread_behind_a_branch,
    _loops_in_a_row,
    _numbers_of_threads_in_pieces_of_a_host_loop,
    _both_sides_of_a_size_that_moves,
    _a_life_that_ends_within_what_the_host_does,
]


@pytest.mark.parametrize("device", sorted(DEVICES))
@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__.strip("_"))
def test_devices_agree_with_the_evaluator(
    build: Build, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = hl.Target(DEVICES[device])
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    func, extents = build()
    got = np.asarray(func.realize(extents, target))
    np.testing.assert_array_equal(got, evaluate(build()[0], [0] * len(extents), extents))


def test_threads_wait_behind_loops_and_branches_where_the_device_needs_it() -> None:
    """PoCL does, and only where another wait follows."""
    for build, more in ((_loops_in_a_row, 2), (_one_thread_behind_a_branch, 1)):
        opencl, cuda = [hl.Pipeline(build()[0]).device_source(hl.Target(t)) for t in
                        ("host-opencl", "host-cuda")]  # fmt: skip
        assert opencl.count("barrier(CLK_") == cuda.count("__syncthreads()") + more
