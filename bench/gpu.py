"""Counts what kernels take in shared memory and in barriers, and times them, without a GPU too.

    python -m bench.gpu [--json] [--target host-opencl] [--seconds 1] [ROW ...]

Every figure of "here" is measured now, on the device of the target (PoCL where pyopencl's wheel and
pocl-binary-distribution are installed). Figures of "elsewhere" are what other compilers were
measured with, but for `camera_pipe`, whose bytes are read from the halide wheel's program.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bayplan as hl
from apps import blur, harness
from apps.kernels import NAMES as KERNELS
from bayplan.reference import evaluate
from bench import gpu_programs
from bench.compile_time import processor_time
from bench.interleave import best_times
from bench.promises import Row, add_arguments, parse, run_rows

SCHEMA = "bayplan-bench-gpu-1"
APPS: list[tuple[str, dict[str, Any]]] = [
    *[("blur", {"gpu": which}) for which in blur.GPU_SCHEDULES],
    *[(name, {"gpu": True}) for name in ("unsharp", "harris", "camera_pipe", "iir_blur")],
    *[(f"kernels.{name}", {}) for name in KERNELS],
]


def _count_wrong(build: gpu_programs.Shape, target: hl.Target) -> tuple[int, int]:
    func, extents = build()
    want = np.asarray(evaluate(build()[0], [0] * len(extents), extents))
    got = np.asarray(func.realize(extents, target))
    return int(np.count_nonzero(got != want)), got.size


def _arena(func: hl.Func, extents: list[int], target: hl.Target) -> Any:
    (arena,) = [a for a in func.storage(extents, target=target).arenas if a.kernel]
    return arena


def _shape(build: gpu_programs.Shape, elsewhere: str, most: int, target: hl.Target) -> Row:
    """Wrong values and bytes of a block."""
    wrong, size = _count_wrong(build, target)
    func, extents = build()
    arena = _arena(func, extents, target)
    return {
        "elsewhere": elsewhere,
        "here": f"{wrong:,} of {size:,} wrong, {arena.bytes:,} B, floor {arena.floor_bytes:,} B",
        "bytes": arena.bytes,
        "met": wrong == 0 and arena.bytes <= most,
    }


def around_a_loop(args: argparse.Namespace) -> Row:
    """A value made before a serial loop of the block, two stages computed in it"""
    build = gpu_programs.around_a_loop
    return _shape(build, "3,072 of 4,096 wrong", 768, args.device)


def bytes_and_words(args: argparse.Namespace) -> Row:
    """17 uint8, then 4 uint32, then a third that shares with both"""
    return _shape(gpu_programs.bytes_and_words, "4 of 64 wrong", 50, args.device)


def eight_of_which_three_live(args: argparse.Namespace) -> Row:
    """8 Funcs of 512 B, at most 3 live, one outlives a younger one"""
    return _shape(gpu_programs.eight_of_which_three_live, "2,048 B", 1536, args.device)


def one_big_and_three_small(args: argparse.Namespace) -> Row:
    """2,048 B dead, then 3 x 512 B live"""
    return _shape(gpu_programs.one_big_and_three_small, "3,072 B", 2560, args.device)


def pyramids(args: argparse.Namespace) -> Row:
    """Pyramids of 10 levels, u8 u16 u32: growing or shrinking, of constant or run-time sizes"""
    ratios: dict[str, float] = {}
    wrong = 0
    for kind in (hl.MemoryType.GPUShared, hl.MemoryType.Heap):
        for growing in (True, False):
            for run_time in (False, True):
                n = hl.Param(hl.Int(32), "n")
                n.set(16)
                base = n if run_time else 16
                func = gpu_programs.make_pyramid(growing, kind, base)
                arena = _arena(func, [64], args.device)
                words = [str(kind).rpartition(".")[2], "growing" if growing else "shrinking",
                         "run-time" if run_time else "constant"]  # fmt: skip
                ratios[" ".join(words)] = arena.bytes / gpu_programs.floor_bytes(growing, 16)
                plain = gpu_programs.make_pyramid(growing, kind, 16)
                want = np.asarray(evaluate(plain, [0], [64]))
                wrong += int(np.count_nonzero(np.asarray(func.realize([64], args.device)) != want))
    return {
        "elsewhere": "-",
        "here": f"peak / floor {min(ratios.values()):g} to {max(ratios.values()):g} "
        f"in {len(ratios)} programs, {wrong} values wrong",
        "ratios": ratios,
        "met": wrong == 0 and set(ratios.values()) == {1.0},
    }


def barriers(args: argparse.Namespace) -> Row:
    """Barriers: straight line; three stages in a loop of the block; the same without sharing"""
    builds: list[tuple[Callable[[], Any], int]] = [
        (gpu_programs.straight_line, 3),
        (lambda: gpu_programs.three_stages(True), 3),
        (lambda: gpu_programs.three_stages(False), 2),
    ]
    counts = [gpu_programs.count_barriers(build()[0]) for build, _ in builds]
    wrong = sum([_count_wrong(build, args.device)[0] for build, _ in builds])
    return {
        "elsewhere": "-",
        "here": f"{counts[0]} where the reads need 2; {counts[1]}; {counts[2]}; {wrong} wrong",
        "counts": counts,
        "met": counts == [count for _, count in builds] and wrong == 0,
    }


def measure_wheel() -> int | None:
    """Shared bytes of a block of camera_pipe in the halide wheel's program; None without it."""
    try:
        import halide
    except ImportError:
        return None
    app = harness.load("camera_pipe", halide, gpu=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "camera_pipe.stmt"
        given = [*app.inputs.values(), *app.params.values()]
        target = halide.Target("host-cuda")
        app.output.compile_to_conceptual_stmt(
            str(path), given, halide.StmtOutputFormat.Text, target
        )
        text = path.read_text()
    found = re.findall(r"allocate \S+\[u?\w+?(\d+) \* (\d+)\] in GPUShared", text)
    return sum([int(bits) // 8 * int(count) for bits, count in found])


def measure_camera_pipe(target: hl.Target) -> tuple[int, int]:
    """Shared bytes of a block of camera_pipe here, and the least that any plan could take."""
    app = harness.load("camera_pipe", hl, gpu=True)
    arrays = harness.make_inputs(app, app.mins, app.extents)
    harness.Prepared(hl, app, arrays, app.mins, app.extents)
    report = hl.Pipeline(app.output).storage(list(app.extents), target=target)
    (arena,) = [a for a in report.arenas if a.kind == "gpu_shared"]
    return arena.bytes, arena.floor_bytes


def camera_pipe(args: argparse.Namespace) -> Row:
    """camera_pipe: shared bytes of a block"""
    wheel = measure_wheel()
    bytes, floor = measure_camera_pipe(args.device)
    return {
        "elsewhere": "no wheel" if wheel is None else f"{wheel:,} B",
        "here": f"{bytes:,} B, floor {floor:,} B",
        "bytes": bytes,
        "met": None if wheel is None else bytes < wheel,
    }


def names(args: argparse.Namespace) -> Row:
    """camera_pipe: Funcs under their own names in the readable program and the device's text"""
    from bayplan import driver

    app = harness.load("camera_pipe", hl, gpu=True)
    funcs = ("denoised", "deinterleaved", "g_r", "g_b", "demosaiced", "corrected", "curved")
    readable = driver.lowered_text(app.output._final_functions(), args.device)
    text = str(hl.Pipeline(app.output).device_source(args.device))
    counts = [
        # Funcs of the same name that were made before give the later ones a number.
        sum([re.search(rf"(?m)^\s*{f}([$_]\d+)?\[.*\] = ", where) is not None for f in funcs])
        for where in (readable, text)
    ]
    return {
        "elsewhere": "one merged name",
        "here": f"{counts[0]} and {counts[1]} of {len(funcs)}",
        "met": counts == [len(funcs)] * 2,
    }


def lowering_time(args: argparse.Namespace) -> Row:
    """camera_pipe: processor seconds of lowering and emitting, and of the wheel's lowering"""
    from bayplan.driver import CompiledPipeline

    times = []
    for _ in range(3):
        app = harness.load("camera_pipe", hl, gpu=True)
        began = processor_time()
        CompiledPipeline([app.output.function()], args.device, "camera_pipe")
        times.append(processor_time() - began)
    elsewhere = "no wheel"
    began = processor_time()
    if measure_wheel() is not None:
        elsewhere = f"{processor_time() - began:.2f} s with the text"
    return {"elsewhere": elsewhere, "here": f"{min(times):.2f} s", "seconds": min(times),
            "met": None}  # fmt: skip


def run_times(args: argparse.Namespace) -> Row:
    """Run times of the schedules for a GPU, arrays on the host before and after"""
    times: dict[str, float] = {}
    for name, arguments in APPS:
        app = importlib.import_module(f"apps.{name}").build(hl, **arguments)
        prepared = harness.Prepared(
            hl, app, harness.make_inputs(app, app.mins, app.extents), app.mins, app.extents
        )

        def call(app: harness.App = app, prepared: harness.Prepared = prepared) -> None:
            prepared.out_buffer.set_host_dirty()
            app.output.realize(prepared.out_buffer, args.device)
            prepared.out_buffer.copy_to_host()

        call()
        title = " ".join([name, *[str(v) for v in arguments.values() if v is not True]])
        times |= best_times({title: call}, rounds=2, seconds=args.seconds)
    here = ", ".join([f"{name} {t * 1e3:.1f} ms" for name, t in times.items()])
    return {"elsewhere": "-", "here": here, "times": times, "met": None}


ROWS: dict[str, Callable[[argparse.Namespace], Row]] = {
    f.__name__: f
    for f in (
        around_a_loop, bytes_and_words, eight_of_which_three_live, one_big_and_three_small,
        pyramids, barriers, camera_pipe, names, lowering_time, run_times,
    )
}  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser, ROWS)
    parser.add_argument("--target", default="host-opencl", help="that the kernels run on")
    parser.add_argument("--seconds", type=float, default=1.0, help="least time of a timed program")
    args = parse(parser, ROWS)
    args.device = hl.Target(args.target)
    if not hl.host_supports_target_device(args.device):
        parser.error(f"no device for {args.target}; `bayplan doctor` says what was looked for")
    return args


def main() -> int:
    """Runs the benchmark of the command line."""
    args = _arguments()
    head = {"schema": SCHEMA, "target": args.target}
    return run_rows(ROWS, args, f"Kernels, {args.target}", head)


if __name__ == "__main__":
    sys.exit(main())
