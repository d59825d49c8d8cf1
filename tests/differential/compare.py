"""Runs one program with every engine there is and says where they disagree."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from typing import Any

from tests.differential.program import Program
from tests.differential.worker import DEVICES, Answer, Engine

RTOL = 1e-5
# Halide 21 trims a loop of f = min(f, e) to where e lies below the *first* value of f, so that
# the last such e is kept instead of the least. So do its inline reductions, whose argmin then is
# not even in the domain.
_TRIMMED = re.compile(
    r"^(f\d+)\[(.*?)\] = .*hl\.(min|max)\(\1\[\2\](\[\d\])?, .*\br\d+\."
    r"|\bhl\.(argmin|argmax|minimum|maximum)\(r\d+, "
)
# What users are told when a schedule or the size of an input is at fault.
_REFUSAL = re.compile(r"^bayplan\.\S*\.(ScheduleError|BoundsError): ", re.MULTILINE)
_FOR_GPUS = re.compile(r"gpu_|GPUShared")


class Verdict:
    """The outcome of one program.

    Attributes:
        kind: "agree", "illegal" (the wheel refuses the schedule; or a device does, and the host
            refuses what is left of it there), "wheel" (the wheel contradicts itself, or has a known
            fault, and the others agree) or "differ".
        message: For people.
    """

    __slots__ = ("kind", "message")

    def __init__(self, kind: str, message: str = "") -> None:
        self.kind = kind
        self.message = message


class Judge:
    """Holds the engines and compares what they say."""

    def __init__(self, engines: list[str] | None = None) -> None:
        names = engines if engines is not None else available()
        self.engines = {name: Engine(name) for name in names}
        self.host = Engine("bayplan")

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *exc: object) -> None:
        for engine in (*self.engines.values(), self.host):
            engine.close()

    def judge(self, program: Program) -> Verdict:
        """Runs the program everywhere at once, then compares."""
        for engine in self.engines.values():
            engine.start(program)
        answers = {name: engine.answer() for name, engine in self.engines.items()}
        wheel = answers.get("halide")
        if wheel is not None and wheel.outputs is None:
            return Verdict("illegal", wheel.error)
        verdict = _compare(program, answers)
        if (
            verdict.kind == "differ"
            and wheel is not None
            and self._is_wheels_fault(program, answers)
        ):
            return Verdict("wheel", verdict.message)
        if verdict.kind == "differ" and self._is_refused_on_host(program, answers):
            return Verdict("illegal", verdict.message)
        return verdict

    def _is_refused_on_host(self, program: Program, answers: dict[str, Answer]) -> bool:
        """Whether a device refuses the schedule for what has nothing to do with the device.

        The host's schedules are compared with the wheel's.
        """
        refusals = {m for name in DEVICES if name in answers for m in _refusals(answers[name])}
        if not refusals:
            return False
        lines = [line for line in program.schedule if not _FOR_GPUS.search(line)]
        return refusals <= set(_refusals(self.host.run(program.with_schedule(lines))))

    def _is_wheels_fault(self, program: Program, answers: dict[str, Answer]) -> bool:
        others = {name: a for name, a in answers.items() if name != "halide"}
        if "evaluator" not in others or _compare(program, others).kind == "differ":
            return False
        if any(_TRIMMED.search(line) for line in program.algorithm):
            return True
        plain = self.engines["halide"].run(program.with_schedule([]))
        if plain.outputs is None:
            return False
        return _compare(program, {**others, "halide": plain}).kind == "agree"

    def minimize(self, program: Program) -> Program:
        """Leaves out schedule lines as long as the engines still disagree."""

        def differs(candidate: Program) -> bool:
            return self.judge(candidate).kind == "differ"

        return drop_lines(program, differs)


def available() -> list[str]:
    """The engines that are installed."""
    names = ["guarded", "planned"]
    if importlib.util.find_spec("bayplan.reference") is not None:
        names.append("evaluator")
    if importlib.util.find_spec("halide") is not None:
        names.append("halide")
    return names


def _refusals(answer: Answer) -> list[str]:
    """The kind of error with which users are told what they did wrong; none if it is another."""
    return _REFUSAL.findall(answer.error)


def _compare(program: Program, answers: dict[str, Answer]) -> Verdict:
    for name, answer in answers.items():
        if answer.outputs is None:
            return Verdict("differ", f"{name} fails: {answer.error}")
    reference = "halide" if "halide" in answers else "evaluator"
    want = answers.get(reference)
    if want is None or want.outputs is None:
        return Verdict("agree")
    for name, answer in answers.items():
        assert answer.outputs is not None
        for i, exact in enumerate(program.exact):
            message = difference(answer.outputs[i], want.outputs[i], exact)
            if message:
                return Verdict("differ", f"{name} against {reference}, value {i}: {message}")
    return Verdict("agree")


def difference(got: Any, want: Any, exact: bool) -> str:
    """How two arrays differ, empty if they do not."""
    import numpy as np

    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if exact:
        bad = ~((got == want) | ((got != got) & (want != want)))
    else:
        atol = RTOL * float(np.max(np.abs(want), initial=0.0))
        bad = ~np.isclose(got, want, rtol=RTOL, atol=atol, equal_nan=True)
    count = int(np.count_nonzero(bad))
    if not count:
        return ""
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{count} of {bad.size} differ, at {where[::-1]} {got[where]!r} not {want[where]!r}"


def drop_lines(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Removes schedule lines, in ever smaller pieces, while the program still fails."""
    lines = list(program.schedule)
    size = max(len(lines) // 2, 1)
    while size >= 1 and lines:
        i, changed = 0, False
        while i < len(lines):
            candidate = program.with_schedule(lines[:i] + lines[i + size :])
            if fails(candidate):
                lines = candidate.schedule
                changed = True
            else:
                i += size
        if size == 1 and not changed:
            break
        size = max(size // 2, 1)
    return program.with_schedule(lines)
