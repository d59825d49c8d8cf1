"""Times the applications, as ratios to the halide wheel: same source, schedule and arrays.

    python -m bench.apps [--json] [--threads 1,2] [APP ...]

Each number of threads runs in a process of its own, because the wheel reads its number of
threads once. Both sides run in turns and the best of many runs counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

import apps
from apps import harness
from bench.interleave import best_times

SCHEMA = "bayplan-bench-apps-1"


def measure(name: str, threads: int, seconds: float) -> dict[str, Any]:
    """Times one application in this process with both modules."""
    import halide

    import bayplan

    bayplan.set_num_threads(threads)
    sides = {}
    for title, hl in (("bayplan", bayplan), ("halide", halide)):
        app = harness.load(name, hl)
        arrays = harness.make_inputs(app, app.mins, app.extents)
        sides[title] = harness.Prepared(hl, app, arrays, app.mins, app.extents)
    times = best_times({title: side.run for title, side in sides.items()}, seconds=seconds)
    difference = harness.check_close(sides["halide"].app, sides["bayplan"].out, sides["halide"].out)
    return {
        "app": name,
        "threads": threads,
        "bayplan_ms": times["bayplan"] * 1e3,
        "halide_ms": times["halide"] * 1e3,
        "ratio": times["bayplan"] / times["halide"],
        "difference": difference,
    }


def _in_child(name: str, threads: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.apps", "--measure", name]
    command += ["--threads", str(threads), "--seconds", str(seconds)]
    done = subprocess.run(
        command,
        env={**os.environ, "HL_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"app": name, "threads": threads, "error": last}
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("apps", nargs="*", metavar="APP", help="names; all of them by default")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, comma-separated")
    parser.add_argument("--seconds", type=float, default=3.0, help="least time for each row")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", metavar="APP", help=argparse.SUPPRESS)
    return parser.parse_args()


def print_table(rows: list[dict[str, Any]]) -> None:
    """Prints the rows as a table on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Run time, best of many interleaved runs")
    for title in ("app", "threads", "bayplan ms", "halide ms", "ratio", "agrees"):
        table.add_column(title, justify="left" if title == "app" else "right")
    for row in rows:
        if "error" in row:
            table.add_row(row["app"], str(row["threads"]), "", "", "", row["error"])
            continue
        numbers = [f"{row[k]:.2f}" for k in ("bayplan_ms", "halide_ms", "ratio")]
        table.add_row(row["app"], str(row["threads"]), *numbers, row["difference"] or "yes")
    Console().print(table)


def main() -> int:
    """Runs the benchmark of the command line."""
    args = _arguments()
    if args.measure:
        print(json.dumps(measure(args.measure, int(args.threads), args.seconds)))
        return 0
    rows = []
    for name in args.apps or apps.NAMES:
        for threads in args.threads.split(","):
            print(f"{name}, {threads} threads", file=sys.stderr)
            rows.append(_in_child(name, int(threads), args.seconds))
    if args.json:
        print(json.dumps({"schema": SCHEMA, "rows": rows}, indent=2))
    else:
        print_table(rows)
    return 1 if any("error" in row or row.get("difference") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
