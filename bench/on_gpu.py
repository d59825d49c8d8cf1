"""One run on a machine with an NVIDIA GPU: tests, random programs, compute-sanitizer, a bench.

    python -m bench.on_gpu [--out FOLDER] [--wheels FOLDER] [--dry] [STEP ...]

It ends within ten minutes, whatever happens: each step has a time of its own, and the next one
starts when it is over. It wants a C compiler, the CUDA driver, and NVRTC or nvcc. Python packages
that the machine lacks are taken from a folder of wheels.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LIMIT_S: Final = 600
TARGET: Final = "host-cuda"
# What the tests and the bench import.
MODULES: Final = (
    "numpy", "pytest", "hypothesis", "click", "rich", "platformdirs", "imageio", "PIL",
)  # fmt: skip
_CASES: Final = ("b03_runtime_tiles", "b11_kernels", "b19_kernels_own_shared",
                 "b31_dynamic_shared", "b39_kinds")  # fmt: skip


class Step:
    """One command of the run.

    Attributes:
        name: of the step and of its log.
        words: of the command; the first one is looked for in $PATH.
        seconds: it may take at most.
    """

    __slots__ = ("name", "seconds", "words")

    def __init__(self, name: str, seconds: int, *words: str) -> None:
        self.name = name
        self.seconds = seconds
        self.words = [*words]

    def missing(self) -> str:
        """The program that would be run and is not there; empty where it is."""
        return "" if shutil.which(self.words[0]) else self.words[0]


def _tests(name: str, seconds: int, *files: str) -> Step:
    chosen = f"{TARGET} and not emulated"
    return Step(name, seconds, sys.executable, "-m", "pytest", "-q", "--maxfail=5", "-k",
                chosen, *files)  # fmt: skip


def list_steps() -> list[Step]:
    """All steps, the most telling ones first."""
    python = sys.executable
    programs = [python, "-m", "bench.on_gpu", "--programs"]
    sanitizer = ["compute-sanitizer", "--error-exitcode", "3", "--tool"]
    return [
        Step("doctor", 30, python, "-m", "bayplan", "doctor"),
        Step("programs", 60, *programs),
        _tests("apps", 110, "tests/apps/test_gpu_apps.py"),
        _tests(
            "cases", 80, "tests/storage/test_device_shapes.py", "tests/storage/test_device_plan.py",
            *[f"tests/cases/test_{case}.py" for case in _CASES],
        ),
        _tests("forms", 60, "tests/targets/test_kernel_programs.py"),
        Step("random", 100, python, "-m", "tests.differential.long", "--gpu", "--engines",
             "cuda,evaluator", "--seeds", "0:300", "--jobs", str(os.cpu_count() or 1),
             "--no-shrink"),
        Step("bench", 50, python, "-m", "bench.gpu", "--target", TARGET, "--seconds", "0.2"),
        Step("racecheck", 40, *sanitizer, "racecheck", *programs),
        Step("memcheck", 40, *sanitizer, "memcheck", *programs),
    ]  # fmt: skip


def run_programs(target_text: str) -> int:
    """Runs the shapes of `bench.gpu_programs` on the device; the number of wrong ones."""
    import numpy as np

    import bayplan as hl
    from bayplan.reference import evaluate
    from bench import gpu_programs

    builds = [build for build, _ in gpu_programs.SHAPES]
    builds += [gpu_programs.straight_line, lambda: gpu_programs.fill_at(10),
               lambda: gpu_programs.three_stages(True)]  # fmt: skip
    bad = 0
    for build in builds:
        func, extents = build()
        want = np.asarray(evaluate(build()[0], [0] * len(extents), extents))
        got = np.asarray(func.realize(extents, hl.Target(target_text)))
        wrong = int(np.count_nonzero(got != want))
        print(f"{func.name()}: {wrong} of {want.size} wrong", flush=True)
        bad += wrong > 0
    return bad


def _install(wheels: Path, folder: Path) -> None:
    """Unpacks wheels where the steps import from."""
    found = [str(path) for path in sorted(wheels.glob("*.whl"))]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target"]
    subprocess.run([*pip, str(folder), *found], check=True)


def run_step(step: Step, out: Path, seconds: float) -> str:
    """Runs a step into its log; says how it went: passed, failed, late or not run."""
    if step.missing():
        return f"not run: no {step.missing()}"
    with (out / f"{step.name}.log").open("wb") as log:
        process = subprocess.Popen(
            step.words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        )  # fmt: skip
        try:
            status = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"late: stopped after {seconds:.0f} s"
    # pytest ends with 5 where no test was chosen: without the device.
    return "passed" if status == 0 else "no test" if status == 5 else f"failed: status {status}"


def _tail(path: Path, lines: int) -> str:
    if not path.exists():
        return ""
    text = path.read_text(errors="replace").replace("\r", "\n").splitlines()
    return "\n".join([f"    {line}" for line in text[-lines:]])


def run_all(steps: list[Step], out: Path) -> dict[str, str]:
    """Runs the steps one after the other; how each went."""
    began, went = time.monotonic(), {}
    for step in steps:
        left = LIMIT_S - 15 - (time.monotonic() - began)
        if left < 5:
            went[step.name] = "not run: no time left"
            continue
        went[step.name] = run_step(step, out, min(step.seconds, left))
        seconds = time.monotonic() - began
        print(f"== {step.name}: {went[step.name]} (at {seconds:.0f} s)", flush=True)
        short = step.name not in ("doctor", "bench") and went[step.name] == "passed"
        print(_tail(out / f"{step.name}.log", 2 if short else 40), flush=True)
    return went


def main() -> int:
    """Runs the steps of the command line."""
    names = [step.name for step in list_steps()]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(names)}; or all")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "on_gpu", help="for the logs")
    parser.add_argument("--wheels", type=Path, help="folder of wheels that the machine lacks")
    parser.add_argument("--dry", action="store_true", help="print the commands and end")
    parser.add_argument("--programs", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--target", default=TARGET, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.programs:
        return 1 if run_programs(args.target) else 0
    steps = [s for s in list_steps() if s.name in (args.steps or names)]
    if args.dry:
        for step in steps:
            print(f"{step.name} ({step.seconds} s): {' '.join(step.words)}")
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if args.wheels is not None:
            _install(args.wheels, Path(folder))
            sys.path.append(folder)
        lacking = [m for m in MODULES if importlib.util.find_spec(m) is None]
        if lacking:
            print(f"missing: {', '.join(lacking)}; give their wheels with --wheels FOLDER")
            return 2
        went = run_all(steps, args.out)
    print("\n".join([f"{name}: {how}" for name, how in went.items()]))
    return 0 if all(how == "passed" or how.startswith("not run") for how in went.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
