"""What the report says of kernels is what devices see: launches, grids, bytes, barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from apps import camera_pipe
from bayplan.driver.compile import compile_pipeline
from bayplan.driver.contexts import runtime
from bayplan.ir.printer import print_node
from bayplan.reference import evaluate
from bayplan.storage.lives import find_lives
from bench.gpu_programs import make_pyramid
from tests.devices.programs import EMULATED, OPENCL, Blur, emulated

STAGES = ("denoised", "deinterleaved", "g_r", "g_b", "demosaiced", "corrected", "curved")


def launches_in_a_loop() -> tuple[hl.Func, list[int]]:
    """A kernel in a loop of the host, whose grid grows from launch to launch."""
    x, y, xi = hl.vars("x y xi")
    part, out = hl.Func("part"), hl.Func("out")
    part[x, y] = x * 3 + y
    out[x, y] = part[x, y] + part[x + 16 * y, y]
    part.compute_at(out, y).gpu_tile(x, xi, 16)
    return out, [100, 7]


def own_arrays() -> tuple[hl.Func, list[int]]:
    """Two temporaries of a thread, one in the other's loops."""
    x, y, xi = hl.vars("x y xi")
    outer, inner, out = hl.Func("outer"), hl.Func("inner"), hl.Func("out")
    outer[x, y] = hl.i16(x + y)
    inner[x, y] = hl.i32(outer[x, y]) * 2 + outer[x, y + 1]
    out[x, y] = inner[x, y] + inner[x, y + 1] + outer[x, y]
    out.bound(y, 0, 6).split(x, x, xi, 16).reorder(y, xi, x).gpu_blocks(x).gpu_threads(xi)
    for stage in (outer, inner):
        stage.compute_at(out, xi).store_in(hl.MemoryType.Register)
    return out, [64, 6]


def two_shared() -> tuple[hl.Func, list[int]]:
    """Two temporaries in shared memory, one made from the other, with a loop of the block."""
    x, xi, xo = hl.vars("x xi xo")
    r = hl.RDom([(0, 4)], "r")
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x] = hl.i32(x) * 5
    second[x] = first[x] + first[x + 3]
    out[x] = 0
    out[x] += second[x + r] + second[x + r + 1]
    out.gpu_tile(x, xi, 32)
    out.update().split(x, xo, xi, 32).reorder(xi, r, xo).gpu_blocks(xo).gpu_threads(xi)
    first.compute_at(out, xo).gpu_threads(x)
    second.compute_at(out, r).gpu_threads(x)
    return out, [96]


def loop_in_pieces() -> tuple[hl.Func, list[int]]:
    """A kernel in a loop of the host that is cut into its first, middle and last iterations."""
    x, y, xi = hl.vars("x y xi")
    image = hl.Buffer(np.arange(64 * 9, dtype=np.int32).reshape(9, 64), name="image")
    edge = hl.BoundaryConditions.repeat_edge(image)
    above, wide, part, out = [hl.Func(name) for name in ("above", "wide", "part", "out")]
    above[x, y] = edge[x, y - 1] + edge[x, y + 1]
    wide[x, y] = above[x, y] + above[x + 1, y]
    part[x, y] = wide[x, y] + wide[x + 1, y]
    out[x, y] = part[x, y] + part[x + 1, y]
    part.compute_at(out, y).gpu_tile(x, xi, 16)
    above.compute_at(part, x).gpu_threads(x)
    wide.compute_at(part, x).store_in(hl.MemoryType.Heap).gpu_threads(x)
    return out, [64, 9]


PROGRAMS = [loop_in_pieces, launches_in_a_loop, own_arrays, two_shared]


@contextmanager
def device_for(target: hl.Target) -> Iterator[Any]:
    """A device of the target whose launches are recorded, or the test is left out."""
    if target is EMULATED:
        with emulated() as device:
            yield device
        device.close()
        return
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    device = runtime().devices.find("opencl")
    device.record_launches()
    yield device
    device.record_launches(0)


@pytest.mark.parametrize("target", [EMULATED, OPENCL], ids=str)
@pytest.mark.parametrize("make", PROGRAMS)
def test_launches_are_those_that_the_device_records(make: Any, target: hl.Target) -> None:
    out, sizes = make()
    report = hl.Pipeline(out).storage(sizes, target=target)
    with device_for(target) as device:
        out.realize(sizes, target)
        launches = device.launches()
    assert sum([k.launches for k in report.kernels]) == len(launches) > 0
    for kernel in report.kernels:
        mine = [launch for launch in launches if launch.kernel == kernel.function]
        assert kernel.exact and kernel.launches == len(mine)
        assert kernel.blocks == max([launch.blocks for launch in mine])
        assert {launch.threads for launch in mine} == {kernel.threads}
        assert {launch.shared_bytes for launch in mine} == {kernel.shared_bytes}


def test_a_loop_of_the_host_launches_in_each_iteration() -> None:
    out, sizes = launches_in_a_loop()
    report = hl.Pipeline(out).storage(sizes, target=EMULATED)
    kernel = report.kernel("part")
    assert kernel is report.kernel(kernel.name) is report.kernel(kernel.function)
    # The last of them reads 16 * 6 elements further.
    assert kernel.launches == 7 and kernel.blocks == (13, 1, 1) and kernel.threads == (16, 1, 1)
    assert f"{report.pipeline}.extent[0]" in kernel.blocks_formula[0]
    assert kernel.threads_formula == ("16", "1", "1")
    with pytest.raises(KeyError, match=r"no kernel .*nothing.*; there are: part.*\.s0\.kernel"):
        report.kernel("nothing")


@pytest.mark.parametrize("target", [EMULATED, OPENCL], ids=str)
@pytest.mark.parametrize("kind", [hl.MemoryType.Heap, hl.MemoryType.GPUShared])
def test_the_device_counts_what_was_planned(kind: hl.MemoryType, target: hl.Target) -> None:
    pyramid = make_pyramid(True, kind, 16)
    blur = Blur()
    blur_pipeline = hl.Pipeline(blur.blur_y)
    calls = [
        (pyramid.storage([64], target=target), lambda: pyramid.realize([64], target)),
        (blur_pipeline.storage(blur.sizes, target=target), lambda: blur.check(target)),
    ]
    assert calls[1][0].device_bytes > 0
    assert (calls[0][0].device_bytes > 0) == (kind is hl.MemoryType.Heap)
    with device_for(target) as device:
        for report, call in calls:
            device.reset_most()
            call()
            memory = device.memory()
            assert memory.most_temporaries == report.device_bytes
            assert memory.temporaries == 0


def test_slices_of_blocks() -> None:
    report = make_pyramid(True, hl.MemoryType.Heap, 16).storage([64], target=EMULATED)
    (kernel,) = report.kernels
    (arena,) = [a for a in report.arenas if a.name == kernel.device]
    assert kernel.slice_bytes == arena.stride_bytes and not kernel.shared
    assert kernel.slice_floor_bytes == arena.floor_bytes
    assert report.device_bytes == kernel.blocks[0] * kernel.slice_bytes
    assert set(kernel.temporaries) == {t.name for t in report}
    assert {t.kernel for t in report} == {kernel.name}


def test_kernels_of_a_loop_in_pieces_have_titles_of_their_own() -> None:
    out, sizes = loop_in_pieces()
    report = hl.Pipeline(out).storage(sizes, target=EMULATED)
    assert [kernel.launches for kernel in report.kernels] == [1, 7, 1]
    assert len({kernel.name for kernel in report.kernels}) == 3
    for kernel in report.kernels:
        mine = [t for t in report if t.kernel == kernel.name]
        assert len(mine) == len(kernel.temporaries) == 2
        assert all(kernel.life_begin <= t.life_begin < kernel.life_end for t in mine)
        assert {t.arena for t in mine} == {kernel.shared or mine[0].name, kernel.device}
    # Arenas of blocks are no temporaries.
    assert {t.func.partition("$")[0] for t in report} == {"above", "wide", "part"}


def test_pieces_that_a_call_leaves_out_are_not_checked_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a piece needs has no bytes in a call in which its loop does not run."""
    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    out, sizes = loop_in_pieces()
    got = np.asarray(out.realize(sizes, EMULATED))
    monkeypatch.setenv("BAYPLAN_VERIFY", "0")
    np.testing.assert_array_equal(got, np.asarray(evaluate(loop_in_pieces()[0], [0, 0], sizes)))


def test_arrays_of_threads() -> None:
    out, sizes = own_arrays()
    report = hl.Pipeline(out).storage(sizes, target=EMULATED)
    (kernel,) = report.kernels
    assert {t.arena for t in report} == {"thread"}
    # Both are in scope together: seven and eight rows, or fewer where only a few are kept.
    assert kernel.register_bytes == sum([t.bytes for t in report]) > 0
    assert kernel.register_bytes <= 2 * 8 + 4 * 7
    assert kernel.shared_bytes == 0 and kernel.barriers == ()


@pytest.mark.parametrize("make", PROGRAMS)
def test_steps_and_barriers_are_those_of_the_program(make: Any) -> None:
    out, sizes = make()
    report = hl.Pipeline(out).storage(sizes, target=EMULATED)
    compiled = compile_pipeline(hl.Pipeline(out)._final_functions(), EMULATED)
    for kernel in report.kernels:
        begin, end = find_lives(compiled.program.readable).kernels[kernel.name]
        assert end - begin == kernel.life_end - kernel.life_begin
        for barrier in kernel.barriers:
            assert kernel.life_begin < barrier.step < kernel.life_end or barrier.loops
        for temporary in report:
            if temporary.kernel == kernel.name:
                assert kernel.life_begin <= temporary.life_begin
                assert temporary.life_end <= kernel.life_end
    count = compiled.device_source.partition("__global__")[2].count("__syncthreads()")
    assert count == sum([len(k.barriers) for k in report.kernels])


def test_a_barrier_in_a_loop_of_the_block_says_so() -> None:
    out, sizes = two_shared()
    report = hl.Pipeline(out).storage(sizes, target=EMULATED)
    kernel = report.kernels[-1]
    inside = [b for b in kernel.barriers if b.loops]
    assert inside and all(b.fence == "shared" for b in kernel.barriers)
    assert all("r" in b.loops[-1] for b in inside)
    assert f"in each {report.pipeline}.update(0).r" in str(report)


def test_what_was_not_given_is_noted() -> None:
    x, xi = hl.vars("x xi")
    made, out = hl.Func("made"), hl.Func("out")
    made[x] = x * 2
    out[x] = made[x] + made[x + 1]
    out.gpu_tile(x, xi, 16)
    made.compute_at(out, x).store_in(hl.MemoryType.Stack).gpu_threads(x)
    with pytest.warns(RuntimeWarning, match="made: asked Stack"):
        report = hl.Pipeline(out).storage([64], target=EMULATED)
    (kernel,) = report.kernels
    assert kernel.notes == (
        f"{report['made'].name}: asked Stack, got GPUShared: the threads of a block share it",
    )
    assert f"    {kernel.notes[0]}" in str(report).splitlines()


def test_a_program_without_kernels_has_none() -> None:
    x = hl.Var("x")
    f = hl.Func("f")
    f[x] = x
    report = hl.Pipeline(f).storage([8])
    assert report.kernels == () and "kernel" not in str(report)


def _camera() -> hl.Pipeline:
    app = camera_pipe.build(hl, gpu=True)
    for name, param in app.params.items():
        param.set(app.values[name])
    return hl.Pipeline(app.output)


def test_the_camera_keeps_the_names_of_its_stages_to_the_end() -> None:
    pipeline = _camera()
    compiled = compile_pipeline(pipeline._final_functions(), OPENCL)
    text = print_node(compiled.program.readable)
    (plan,) = [k for k in compiled.program.plan.kernels if k.shared is not None]
    arena = plan.shared.name
    names = {name.partition("$")[0]: name for name in plan.members}
    assert set(names) == set(STAGES)
    source = compiled.device_source.split("processed", 1)[1]
    for name in names.values():
        assert f"allocate {name}" in text
        # Its own name on its loads and its stores, in both programs; the arena has none.
        for program, name_there in ((text, name), (source, re.sub(r"\W", "_", name))):
            own = rf"(?<![\w$.]){re.escape(name_there)}\["
            accesses = len(re.findall(own, program))
            stores = len(re.findall(rf"^\s*{own}[^=\n]*\] = ", program, re.M))
            assert accesses > stores > 0, name_there
    # Aliases are not resolved, and barriers stand between the stages.
    assert text.count(f"offset_pointer({arena}") == len(STAGES)
    assert text.count(f"{arena}[") == text.count(f"allocate {arena}[uint8 * {plan.shared.bytes}")
    report = pipeline.storage([112, 24, 3], target=OPENCL)
    barriers = report.kernel("processed").barriers
    assert text.count("gpu_thread_barrier(1)") == len(barriers) == 6
    assert source.count("barrier(CLK_LOCAL_MEM_FENCE)") == 6


def test_the_report_of_the_camera() -> None:
    report = _camera().storage([112, 24, 3], target=OPENCL)
    assert [k.func.partition("$")[0] for k in report.kernels] == [
        "matrix", "curve", "strength", "processed"
    ]  # fmt: skip
    kernel = report.kernel("processed")
    assert kernel.blocks == (2, 2, 1) and kernel.launches == 1
    # Fewer than side by side, and no plan could take less.
    side_by_side = sum([t.bytes for t in report if t.kernel == kernel.name])
    assert kernel.shared_bytes == kernel.shared_floor_bytes < side_by_side
    steps = [barrier.step for barrier in kernel.barriers]
    for name in kernel.temporaries:
        stage = report[name]
        # What is stored is read behind a barrier.
        assert any(stage.life_begin < step < stage.life_end for step in steps)


def test_memory_that_each_task_has_on_the_device() -> None:
    """As much as all tasks at once would take; how many do is a matter of luck."""
    x, y, yo, yi, u, v = hl.vars("x y yo yi u v")
    a, b, d = hl.Func("a"), hl.Func("b"), hl.Func("d")
    a[x, y] = x * y
    b[x, y] = a[x, y] + a[x + 1, y]
    d[x, y] = b[x, y] + 1
    d.split(y, yo, yi, 8).parallel(yo)
    for f in (a, b):
        f.compute_at(d, yo).gpu_tile(x, y, u, v, 8, 4)
    one, two = [d.storage([64, 64], target=EMULATED, workers=n) for n in (1, 2)]
    # Rows of 65 and 64 elements, of 8 rows each; both are there while b is made of a.
    assert one.device_bytes == 4 * 8 * (65 + 64) and two.device_bytes == 2 * one.device_bytes
    assert one.exact and not two.exact
