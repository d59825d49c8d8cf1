"""Counts and times what the storage plan is for, beside the halide wheel where it can be counted.

    python -m bench.storage [--json] [--threads 2] [--seconds 3] [--minimalloc FOLDER] [ROW ...]

Each row is measured, those of the wheel too: its programs are built ahead of time and linked with
a malloc that counts. Where the wheel has nothing to compare with, the figure is a known one, or
the dash stands.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apps
from apps import fem, harness
from bench import storage_programs
from bench.interleave import best_times
from bench.promises import Row, add_arguments, parse, run_rows

SCHEMA = "bayplan-bench-storage-1"
ROOT = Path(__file__).resolve().parent.parent
PLANS = ROOT / "tests" / "data" / "minimalloc"
CAPACITY = 1 << 20



class Call:
    """One application, called twice: what each call took.

    Attributes:
        app: The application.
        arrays: Its inputs.
        first, second: Counters of the two calls.
        report: The storage report of the call.
    """

    def __init__(self, app: harness.App, extents: tuple[int, ...] | None = None) -> None:
        import bayplan
        from bayplan import driver

        self.app = app
        self.extents = extents or app.extents
        self.arrays = harness.make_inputs(app, app.mins, self.extents)
        prepared = harness.Prepared(bayplan, app, self.arrays, app.mins, self.extents)
        bayplan.memory.trim()
        prepared.run()
        self.first = driver.context().counts
        prepared.run()
        self.second = driver.context().counts
        self.report = bayplan.Pipeline(app.output).storage(prepared.out_buffer)


def _wheel(app: harness.App, extents: tuple[int, ...], threads: int) -> str:
    """Mallocs and bytes of the wheel's program, or why there are none."""
    from bench.wheel_mallocs import count_mallocs

    try:
        arrays = harness.make_inputs(app, app.mins, extents)
        mallocs, peak = count_mallocs(app, arrays, app.mins, extents, threads)
    except (ImportError, RuntimeError, OSError) as error:
        return f"not counted: {error}"
    return f"{mallocs:,} mallocs, {peak:,} B"


def _both(build: Callable[[Any], harness.App]) -> tuple[Call, harness.App | None]:
    import bayplan

    call = Call(build(bayplan))
    try:
        import halide
    except ImportError:
        return call, None
    return call, build(halide)


def _counted(call: Call, wheel: harness.App | None, threads: int, most_bytes: int) -> Row:
    elsewhere = _wheel(wheel, call.extents, threads) if wheel else "no wheel"
    first, second = call.first, call.second
    return {
        "elsewhere": elsewhere,
        "here": f"{second.peak_bytes:,} B, {first.system_calls} system allocations, "
        f"then {second.system_calls}",
        "bytes": second.peak_bytes,
        "met": second.peak_bytes <= most_bytes and second.system_calls == 0,
    }


def row_stages(args: argparse.Namespace) -> Row:
    """7 stages of one row of 1,000 float32, 1,000 rows"""
    call, wheel = _both(storage_programs.row_stages)
    return _counted(call, wheel, args.threads, 8000 + 64)


def second_call(args: argparse.Namespace) -> Row:
    """A second call of each application"""
    import importlib

    import bayplan

    modules = [*[f"apps.{n}" for n in apps.NAMES], *[f"apps.fem.{n}" for n in fem.NAMES]]
    counts = {}
    for module in modules:
        call = Call(importlib.import_module(module).build(bayplan))
        counts[module.rpartition(".")[2]] = call.second.system_calls
    used = {name: n for name, n in counts.items() if n}
    return {
        "elsewhere": "as many mallocs as the first",
        "here": f"0 system allocations in {len(counts)} applications" if not used else str(used),
        "met": not used,
    }


def dead_then_three(args: argparse.Namespace) -> Row:
    """2,048 B dead, then 3 x 512 B live"""
    call, wheel = _both(storage_programs.dead_then_three)
    row = _counted(call, wheel, args.threads, 2560)
    row["elsewhere"] += "; 3,072 B where only whole blocks are used again"
    return row


def pointwise_chain(args: argparse.Namespace) -> Row:
    """10 pointwise stages of full size"""
    call, wheel = _both(storage_programs.pointwise_chain)
    size = 4 * call.extents[0] * call.extents[1]
    row = _counted(call, wheel, args.threads, size)
    row["here"] = f"{call.second.peak_bytes / size:g} buffer beside the result"
    return row


def camera_pipe(args: argparse.Namespace) -> Row:
    """camera_pipe, 2560 x 1920, 2 workers"""
    import bayplan

    before = bayplan.set_num_threads(2)
    try:
        call, wheel = _both(lambda hl: harness.load("camera_pipe", hl))
    finally:
        bayplan.set_num_threads(before)
    return _counted(call, wheel, 2, 235_072)


def near_the_floor(args: argparse.Namespace) -> Row:
    """stencil_chain, iir_blur, local pyramid: peak / floor of the same schedule"""
    import bayplan

    ratios, wheels = {}, []
    builds: dict[str, Callable[[Any], harness.App]] = {
        "stencil_chain": lambda hl: harness.load("stencil_chain", hl),
        "iir_blur": lambda hl: harness.load("iir_blur", hl),
        "local_pyramid": storage_programs.local_pyramid,
    }
    for name, build in builds.items():
        report = Call(build(bayplan)).report
        ratios[name] = report.peak_bytes / report.floor_bytes
        try:
            import halide
        except ImportError:
            continue
        app = build(halide)
        wheels.append(_wheel(app, app.extents, args.threads))
    return {
        "elsewhere": "; ".join(wheels) or "no wheel",
        "here": ", ".join([f"{r:.4f}" for r in ratios.values()]),
        "ratios": ratios,
        "met": max(ratios.values()) <= 1.02,
    }


def average_chain(args: argparse.Namespace) -> Row:
    """12 four-neighbour averages, 3840 x 2160 float32: time in the steady state"""
    import bayplan

    modules = {"bayplan": bayplan}
    try:
        import halide

        modules["halide"] = halide
    except ImportError:
        pass
    sides = {}
    for title, hl in modules.items():
        app = storage_programs.average_chain(hl)
        arrays = harness.make_inputs(app, app.mins, app.extents)
        sides[title] = harness.Prepared(hl, app, arrays, app.mins, app.extents)
    times = best_times({t: s.run for t, s in sides.items()}, rounds=10, seconds=args.seconds)
    here = f"{times['bayplan'] * 1e3:.1f} ms"
    if "halide" not in times:
        return {"elsewhere": "no wheel", "here": here, "met": None}
    difference = harness.check_close(app, sides["bayplan"].out, sides["halide"].out)
    ratio = times["bayplan"] / times["halide"]
    return {
        "elsewhere": f"{times['halide'] * 1e3:.1f} ms",
        "here": f"{here}, ratio {ratio:.2f}{'; ' + difference if difference else ''}",
        "ratio": ratio,
        "met": ratio <= 0.5 and difference is None,
    }


def minimalloc(args: argparse.Namespace) -> Row:
    """MiniMalloc's 11 inputs within 1,048,576"""
    from bayplan.driver.fast_search import search_packing_fast
    from bayplan.storage.plan_offsets import plan_offsets
    from bayplan.storage.requests import Request

    files = sorted(args.minimalloc.glob("*.1048576.csv"))
    if not files:
        return {
            "elsewhere": "its own solver",
            "here": "not measured: no inputs; give --minimalloc FOLDER",
            "met": None,
        }
    peaks, began = {}, time.perf_counter()
    for path in files:
        with path.open() as lines:
            requests = [
                Request(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"]))
                for r in csv.DictReader(lines)
            ]
        planned = plan_offsets(
            requests, capacity=CAPACITY, time_limit_s=120, search=search_packing_fast
        )
        peaks[path.name[0]] = planned.peak_bytes
    fit = sum(p <= CAPACITY for p in peaks.values())
    return {
        "elsewhere": "its own solver",
        "here": f"{fit} of {len(files)} in {time.perf_counter() - began:.1f} s",
        "peaks": peaks,
        "met": fit == len(files),
    }


def hex_laplacian(args: argparse.Namespace) -> Row:
    """Laplacian of hexahedra, degree 48: temporaries of one cell"""
    import bayplan
    from apps.fem import hex_laplacian as program

    app = program.build(bayplan, degree=48, cells=2)
    report = bayplan.Pipeline(app.output).storage(list(app.extents), workers=1)
    cell = sum([t.bytes for t in report if t.per_worker and t.kind == "heap"])
    arena = max([a.bytes for a in report.arenas if a.scope not in ("call", "thread")])
    elsewhere = "no wheel"
    try:
        import halide

        elsewhere = _wheel(program.build(halide, degree=48, cells=1), (49, 49, 49, 1), 1)
    except ImportError:
        pass
    return {
        "elsewhere": elsewhere,
        "here": f"{cell / 2**20:.1f} MiB in all, {arena:,} B taken: {arena / cell:.1%}",
        "share": arena / cell,
        "met": arena / cell <= 0.41,
    }


def element_mass(args: argparse.Namespace) -> Row:
    """Element matrices of degree 32, 4 workers"""
    import bayplan
    from apps.fem import element_mass as program

    before = bayplan.set_num_threads(4)
    try:
        call = Call(program.build(bayplan))
    finally:
        bayplan.set_num_threads(before)
    local = next(t for t in call.report if t.func.split("$")[0] == "local")
    stack = call.report.stack_bytes
    return {
        "elsewhere": "9,487,368 B on the stack: a crash",
        "here": f"{local.bytes:,} B on the {local.kind}, {stack:,} B of stack, "
        f"{call.second.peak_bytes:,} B taken, then {call.second.system_calls} system allocations",
        "met": local.kind == "heap" and stack < 65_536 and call.second.system_calls == 0,
    }


ROWS: dict[str, Callable[[argparse.Namespace], Row]] = {
    f.__name__: f
    for f in (
        row_stages, second_call, dead_then_three, pointwise_chain, camera_pipe, near_the_floor,
        average_chain, minimalloc, hex_laplacian, element_mass,
    )
}  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_arguments(parser, ROWS)
    parser.add_argument("--threads", type=int, default=2, help="of parallel loops")
    parser.add_argument("--seconds", type=float, default=3.0, help="least time of the timed row")
    parser.add_argument("--minimalloc", type=Path, default=PLANS, help="folder of its inputs")
    return parse(parser, ROWS)


def main() -> int:
    """Runs the benchmark of the command line."""
    args = _arguments()
    # The wheel reads its number of threads once, when it first runs a parallel loop.
    os.environ["HL_NUM_THREADS"] = str(args.threads)
    import bayplan

    bayplan.set_num_threads(args.threads)
    return run_rows(ROWS, args, "Storage of temporaries", {"schema": SCHEMA})


if __name__ == "__main__":
    sys.exit(main())
