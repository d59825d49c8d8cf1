"""Runs many random programs and reports those on which the engines disagree.

python -m tests.differential.long --seeds 0:5000 --jobs 2
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from pathlib import Path

from tests.differential.choices import Choices
from tests.differential.compare import Judge
from tests.differential.generate import generate

Result = tuple[int, str, str, str]


def _work(task: tuple[range, list[str] | None, bool, bool, bool]) -> list[Result]:
    """Judges a range of seeds; gives (seed, kind, message, script) for each."""
    seeds, engines, shrink, stored, gpu = task
    results: list[Result] = []
    with Judge(engines) as judge:
        for seed in seeds:
            program = generate(Choices.from_seed(seed), stored or (gpu and seed % 2 == 1), gpu)
            verdict = judge.judge(program)
            script = ""
            if verdict.kind == "differ":
                small = judge.minimize(program) if shrink else program
                verdict = judge.judge(small)
                script = small.script()
            results.append((seed, verdict.kind, verdict.message, script))
    return results


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:300", help="range of seeds, as FIRST:END")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--engines",
        help="comma-separated, of bayplan, guarded, planned, lives, evaluator, halide; with --gpu "
        "of opencl, emulated, cuda, evaluator",
    )
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--stored", action="store_true", help="programs with many temporaries")
    parser.add_argument("--gpu", action="store_true", help="schedules for a GPU")
    parser.add_argument("--out", type=Path, help="folder for the scripts of failures")
    parser.add_argument("--stop-after", type=int, default=0, help="stop after so many failures")
    return parser.parse_args()


def report(results: list[Result], counts: Counter[str], out: Path | None) -> None:
    """Prints the failures among the results and writes their scripts."""
    for seed, kind, message, script in results:
        counts[kind] += 1
        if kind != "differ":
            continue
        print(f"seed {seed}: {message}", flush=True)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            text = f"# seed {seed}: " + message.replace("\n", "\n# ") + "\n" + script
            (out / f"seed_{seed}.py").write_text(text)
        else:
            print(script, flush=True)


def main() -> int:
    """Runs the seeds of the command line; 1 if any program differs."""
    args = _arguments()
    first, end = (int(part) for part in args.seeds.split(":"))
    engines = args.engines.split(",") if args.engines else None
    if args.gpu and engines is None:
        engines = ["opencl", "evaluator"]
    step = 10
    tasks = [
        (range(i, min(i + step, end)), engines, not args.no_shrink, args.stored, args.gpu)
        for i in range(first, end, step)
    ]
    counts: Counter[str] = Counter()
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for results in pool.imap_unordered(_work, tasks):
            report(results, counts, args.out)
            done = sum(counts.values())
            rate = done / (time.monotonic() - began)
            print(
                f"\r{done} of {end - first}, {dict(counts)}, {rate:.1f}/s", file=sys.stderr, end=""
            )
            if args.stop_after and counts["differ"] >= args.stop_after:
                break
    print(f"\nseeds {first}:{end}: {dict(counts)}", flush=True)
    return 1 if counts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
