"""A child process that runs programs with one engine, so that a crash there is an answer too.

Engines: `halide` and `bayplan` run the scheduled program; `guarded` is bayplan without a storage
plan, each temporary of exactly the bytes asked for and flush against a guard page; `planned` is
bayplan with temporaries in arenas, plans checked, and guard pages around the arenas; `lives` the
same with code that checks the lives of temporaries as it runs; `opencl` and `emulated` run
schedules for a GPU, with all checks of plans and barriers; `evaluator` evaluates the same Funcs in
numpy and ignores the schedule.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import struct
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.differential.program import Program, prepare, run

LIMIT_S = 60.0

CHECKED: Final[dict[str, dict[str, str]]] = {
    "guarded": {"BAYPLAN_STORAGE_PLAN": "0"},
    "planned": {"BAYPLAN_STORAGE_PLAN": "1", "BAYPLAN_VERIFY": "1"},
    "lives": {"BAYPLAN_STORAGE_PLAN": "1", "BAYPLAN_VERIFY": "1"},
}
"""Engines that run with the checking allocator -> their settings."""

DEVICES: Final = {
    "opencl": "host-opencl",
    "emulated": "host-cuda-emulated",
    "cuda": "host-cuda",
}
"""Engines that run kernels -> their targets."""


class Answer:
    """What an engine made of a program.

    Attributes:
        outputs: The output arrays, None when there are none.
        error: The error's text, empty when there is none.
        refused: Whether the engine rejected the program, as against failing on it.
    """

    __slots__ = ("error", "outputs", "refused")

    def __init__(self, outputs: list[Any] | None, error: str = "", refused: bool = False) -> None:
        self.outputs = outputs
        self.error = error
        self.refused = refused


class Engine:
    """One engine in its own process, started again when it dies or hangs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    pipe.close()
            self.process = None

    def start(self, program: Program) -> None:
        """Hands a program over; `answer` waits for the outcome."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.differential.worker", self.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "HL_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        assert self.process.stdin is not None
        state = {name: getattr(program, name) for name in Program.__slots__}
        _send(self.process.stdin, state)

    def answer(self) -> Answer:
        """Waits for the outcome of the program that was started."""
        assert self.process is not None and self.process.stdout is not None
        try:
            reply = _receive(self.process.stdout, LIMIT_S)
        except TimeoutError:
            self.close()
            return Answer(None, f"{self.name}: no answer within {LIMIT_S:.0f} s")
        except EOFError:
            code = self.process.wait()
            self.close()
            return Answer(None, f"{self.name}: the process died with status {code}")
        return Answer(*reply)

    def run(self, program: Program) -> Answer:
        """Runs a program and waits."""
        self.start(program)
        return self.answer()


def _send(stream: Any, value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(struct.pack("<q", len(data)) + data)
    stream.flush()


def _receive(stream: Any, limit_s: float | None) -> Any:
    if limit_s is not None and not select.select([stream], [], [], limit_s)[0]:
        raise TimeoutError
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<q", head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def _evaluate(program: Program) -> list[Any]:
    import bayplan
    from bayplan.reference import evaluate

    func, _kept = prepare(program.with_schedule([]), bayplan)
    result = evaluate(func, program.mins, program.extents)
    return list(result) if isinstance(result, tuple) else [result]


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Other environment variables, which are put back at the end."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run_checked(program: Program, engine: str) -> list[Any]:
    """Runs with the checking allocator; blocks begin or end at a guard page, by the program."""
    import bayplan
    from bayplan import driver

    target = None
    if engine == "lives":
        host = bayplan.get_jit_target_from_environment()
        target = host.with_feature(bayplan.TargetFeature.ASAN)
    context = driver.context()
    context.check_allocations(flush_right=len(program.algorithm) % 2 == 0)
    try:
        with _environment(CHECKED[engine]):
            outputs = run(program, bayplan, target)
        _, live, bad = context.check_counts()
    finally:
        context.check_allocations(False)
    if live or bad:
        raise AssertionError(f"{live} temporaries were not released, {bad} wrongly")
    return outputs


def run_on_device(program: Program, engine: str) -> list[Any]:
    """Runs on a device of this machine, verifying what lowering makes."""
    import bayplan

    with _environment({"BAYPLAN_VERIFY": "1"}):
        return run(program, bayplan, bayplan.Target(DEVICES[engine]))


def _attempt(engine: str, program: Program) -> tuple[list[Any] | None, str, bool]:
    try:
        if engine == "evaluator":
            return _evaluate(program), "", False
        if engine in CHECKED:
            return run_checked(program, engine), "", False
        if engine in DEVICES:
            return run_on_device(program, engine), "", False
        return run(program, importlib.import_module(engine)), "", False
    except Exception as error:
        if engine == "halide" and type(error).__name__ == "HalideError":
            return None, str(error).strip(), True
        return None, traceback.format_exc(limit=-8), engine == "halide"


def main() -> None:
    """Answers programs from standard input until it ends."""
    sys.setrecursionlimit(20000)
    engine = sys.argv[1]
    # What engines print must not mix with the answers.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = sys.stdin.buffer
    while True:
        try:
            state = _receive(source, None)
        except EOFError:
            return
        program = Program()
        for name, value in state.items():
            setattr(program, name, value)
        _send(out, _attempt(engine, program))


if __name__ == "__main__":
    main()
