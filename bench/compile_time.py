"""Times importing, lowering, emitting and compiling, each in a fresh process.

All are processor times, which a busy machine changes little.

python -m bench.compile_time [--json] [--rounds 3] [APP ...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import apps

SCHEMA = "bayplan-bench-compile-1"


def time_import(module: str) -> float:
    """Processor seconds that importing a module adds to starting Python."""
    source = (
        f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def processor_time() -> float:
    """Processor seconds of this process and of the children it has waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def measure(name: str) -> dict[str, Any]:
    """Times the steps from source to loaded code for one application, in this process."""
    import bayplan
    from apps import harness
    from bayplan.driver import CompiledPipeline, default_target, runtime

    runtime()
    start = processor_time()
    app = harness.load(name, bayplan)
    built = processor_time()
    compiled = CompiledPipeline([app.output.function()], default_target(), name)
    lowered = processor_time()
    compiled.load()
    loaded = processor_time()
    return {
        "app": name,
        "build_s": built - start,
        "lower_and_emit_s": lowered - built,
        "compile_s": loaded - lowered,
        "source_bytes": len(compiled.source),
    }


def measure_wheel(name: str) -> dict[str, Any]:
    """Times the wheel's compilation of one application, in this process."""
    import halide

    from apps import harness

    x = halide.Var("x")
    warm = halide.Func("warm")
    warm[x] = x
    warm.compile_jit()
    app = harness.load(name, halide)
    start = processor_time()
    app.output.compile_jit()
    return {"app": name, "halide_s": processor_time() - start}


def _child(what: str, name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-m", "bench.compile_time", what, name],
            env={**os.environ, "BAYPLAN_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"app": name, "error": last}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def _best(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The least of each time over several runs."""
    best = dict(rows[0])
    for row in rows[1:]:
        for key, value in row.items():
            if key.endswith("_s") and key in best:
                best[key] = min(best[key], value)
    return best


def print_table(report: dict[str, Any]) -> None:
    """Prints the report as tables on standard output."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"import bayplan: {report['import_s'] * 1e3:.0f} ms")
    table = Table(title="Processor seconds from source to loaded code")
    columns = ("build_s", "lower_and_emit_s", "compile_s", "halide_s", "source_bytes")
    table.add_column("app")
    for title in columns:
        table.add_column(title.removesuffix("_s").replace("_", " "), justify="right")
    for row in report["rows"]:
        if "error" in row:
            table.add_row(row["app"], row["error"])
            continue
        cells = [f"{row[c]:.3f}" if c.endswith("_s") else str(row[c]) for c in columns if c in row]
        table.add_row(row["app"], *cells)
    console.print(table)


def main() -> int:
    """Runs the benchmark of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("apps", nargs="*", metavar="APP", help="names; all of them by default")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each time")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", metavar="APP", help=argparse.SUPPRESS)
    parser.add_argument("--measure-wheel", metavar="APP", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure)))
        return 0
    if args.measure_wheel:
        print(json.dumps(measure_wheel(args.measure_wheel)))
        return 0
    rows = []
    for name in args.apps or apps.NAMES:
        print(name, file=sys.stderr)
        row = _best([_child("--measure", name) for _ in range(args.rounds)])
        row |= _best([_child("--measure-wheel", name) for _ in range(args.rounds)])
        rows.append(row)
    imports = min(time_import("bayplan") for _ in range(args.rounds * 2))
    report = {"schema": SCHEMA, "import_s": imports, "rows": rows}
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        print_table(report)
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
