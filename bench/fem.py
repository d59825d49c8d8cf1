"""Times the finite-element kernels beside the halide wheel and numpy.einsum.

    python -m bench.fem [--json] [--threads 1] [--seconds 1] [DEGREE ...]

For each degree the program that was built for it and the one that serves every degree, on about
as many cells as make 300,000 nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from apps import harness
from apps.fem import hex_laplacian
from bench.interleave import best_times

SCHEMA = "bayplan-bench-fem-1"
NODES = 300_000


def einsum_laplacian(arrays: dict[str, Any]) -> Any:
    """The operator as one expression of numpy for each derivative."""
    import numpy as np

    u, g, b, d = (arrays[name] for name in ("u", "G", "B", "D"))
    axes = ((b, b, d), (b, d, b), (d, b, b))
    slope = [np.einsum("ezyx,cz,by,ax->ecba", u, *f, optimize=True) for f in axes]
    flux = [sum([g[:, m] * s for m, s in zip(row, slope)]) for row in hex_laplacian.METRIC]
    back = [np.einsum("ecba,cz,by,ax->ezyx", f, *a, optimize=True) for f, a in zip(flux, axes)]
    return sum(back)


def operations(degree: int, cells: int) -> int:
    """Floating-point operations of the contractions."""
    n, q = degree + 1, degree + 2
    return 4 * cells * (2 * q * n**3 + 3 * q**2 * n**2 + 3 * q**3 * n)


def measure(degree: int, seconds: float) -> dict[str, Any]:
    """Times one degree on all sides, in turns."""
    import bayplan

    modules = {"bayplan": bayplan}
    try:
        import halide

        modules["halide"] = halide
    except ImportError:
        pass
    cells = max(2, NODES // (degree + 1) ** 3)
    extents = (degree + 1,) * 3 + (cells,)
    sides: dict[str, Any] = {}
    for title, hl in modules.items():
        for known, label in ((degree, title), (None, f"{title}, any degree")):
            app = hex_laplacian.build(hl, degree=known)
            arrays = harness.make_inputs(app, app.mins, extents)
            sides[label] = harness.Prepared(hl, app, arrays, app.mins, extents).run
    sides["einsum"] = lambda: einsum_laplacian(arrays)
    times = best_times(sides, rounds=3, seconds=seconds)
    work = operations(degree, cells)
    return {
        "degree": degree,
        "cells": cells,
        "ms": {label: t * 1e3 for label, t in times.items()},
        "gflops": {label: work / t / 1e9 for label, t in times.items()},
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Prints the rows as a table on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Laplacian of hexahedra: milliseconds, best of many interleaved runs")
    labels = list(rows[0]["ms"])
    for title in ("degree", "cells", *labels, "GFlop/s"):
        table.add_column(title, justify="right")
    for row in rows:
        times = [f"{row['ms'][label]:.2f}" for label in labels]
        best = f"{row['gflops']['bayplan']:.1f}"
        table.add_row(str(row["degree"]), str(row["cells"]), *times, best)
    Console().print(table)


def main() -> int:
    """Runs the benchmark of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("degrees", nargs="*", type=int, default=[2, 4, 8, 16, 32, 48])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="least time of each row")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    # Both read their number of threads once, when they first run.
    os.environ["HL_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(args.threads)
    import bayplan

    bayplan.set_num_threads(args.threads)
    rows = []
    for degree in args.degrees:
        print(f"degree {degree}", file=sys.stderr)
        rows.append(measure(degree, args.seconds))
    if args.json:
        print(json.dumps({"schema": SCHEMA, "rows": rows}, indent=2))
    else:
        print_table(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
