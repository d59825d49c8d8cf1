"""Tries a program under several schedules and keeps the fastest one that fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bayplan.ir.errors import DeviceLimitError, OutOfDeviceMemory, OutOfMemory
from bayplan.ir.source import user_line

_REFUSALS = (DeviceLimitError, OutOfDeviceMemory, OutOfMemory)


class Trial:
    """One choice that was tried.

    Attributes:
        choice: what `build` was given.
        seconds: of the fastest call, None where it did not run.
        reason: why it did not run, such as "65536 > 49152"; "" where it did.
    """

    __slots__ = ("choice", "reason", "seconds")

    def __init__(self, choice: Any, seconds: float | None, reason: str) -> None:
        self.choice = choice
        self.seconds = seconds
        self.reason = reason

    def __repr__(self) -> str:
        return f"Trial({self.choice!r}: {_outcome(self)})"


class Tuning:
    """What `tune` found.

    Attributes:
        trials: every choice, in the order given.
        best: the fastest one.
    """

    __slots__ = ("best", "trials")

    def __init__(self, trials: Sequence[Trial], best: Trial) -> None:
        self.trials = tuple(trials)
        self.best = best

    def __str__(self) -> str:
        return _table(self.trials)


def tune(
    build: Callable[[Any], Any],
    choices: Iterable[Any],
    sizes: Sequence[int],
    target: Any = None,
    *,
    repeats: int = 5,
) -> Tuning:
    """Runs a program under each choice; those that do not fit the device or its memory are skipped.

    Args:
        build: makes the scheduled Func for a choice, such as the edge of a tile.
        choices: what to try.
        sizes: extents of the output.
        target: what to run on; None: this machine.
        repeats: timed calls of each choice, after one that compiles.

    Raises:
        DeviceLimitError: no choice fits; the message has the reason of each.
        ValueError: there are no choices.
        BayplanError: a choice fails for another reason than its size.
    """
    trials = [_try(build(choice), choice, sizes, target, repeats) for choice in choices]
    if not trials:
        raise ValueError("tune() was given nothing to choose from")
    timed = [(trial.seconds, i) for i, trial in enumerate(trials) if trial.seconds is not None]
    if not timed:
        raise DeviceLimitError(f"no choice fits:\n{_table(trials)}", user_line())
    return Tuning(trials, trials[min(timed)[1]])


def _try(func: Any, choice: Any, sizes: Sequence[int], target: Any, repeats: int) -> Trial:
    from bayplan.language.buffer import Buffer

    given = [] if target is None else [target]
    best: float | None = None
    try:
        outputs = [Buffer(t, list(sizes)) for t in func.types()]
        destination = outputs[0] if len(outputs) == 1 else outputs
        func.realize(destination, *given)
        for _ in range(max(repeats, 1)):
            begin = time.perf_counter()
            func.realize(destination, *given)
            for output in outputs:
                output.device_sync()
            seconds = time.perf_counter() - begin
            best = seconds if best is None else min(best, seconds)
    except _REFUSALS as error:
        return Trial(choice, None, _reason(error))
    return Trial(choice, best, "")


def _reason(error: Any) -> str:
    """The bytes of shared memory that are needed and that there are, else the message."""
    numbers = [n for n in error.numbers if isinstance(n, int)]
    if "shared memory" in error.message and len(numbers) >= 2:
        return f"{numbers[0]} > {numbers[1]}"
    return str(error.message)


def _outcome(trial: Trial) -> str:
    if trial.seconds is None:
        return f"does not fit: {trial.reason}"
    return f"{trial.seconds * 1e3:.3f} ms"


def _table(trials: Sequence[Trial]) -> str:
    names = [str(trial.choice) for trial in trials]
    width = max([len(name) for name in names])
    return "\n".join(
        [f"  {n:<{width}}  {_outcome(t)}" for n, t in zip(names, trials, strict=True)]
    )
