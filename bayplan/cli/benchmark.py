"""Measures a call as RunGen's ``--benchmarks=all`` does: the best of several samples."""

from __future__ import annotations

import time
from collections.abc import Callable

# A sample is repeated until the third best is this close to the best, or the time is up.
_ACCURACY = 0.03
_LEAST_SAMPLES = 3


class Measurement:
    """The outcome of ``measure``.

    Attributes:
        seconds: Time of one call in the fastest sample.
        samples: Number of samples taken.
        iterations: Calls in all samples together.
        accuracy: How far the third best sample lies above the best, as a fraction.
    """

    __slots__ = ("accuracy", "iterations", "samples", "seconds")

    def __init__(self, seconds: float, samples: int, iterations: int, accuracy: float) -> None:
        self.seconds = seconds
        self.samples = samples
        self.iterations = iterations
        self.accuracy = accuracy


def measure(call: Callable[[], object], min_time: float = 0.1) -> Measurement:
    """Times a call for ``bayplan run --benchmarks=all``.

    Args:
        call: What to time; it has run once already, so that nothing is compiled here.
        min_time: Seconds that the samples should take together at least; four times as much is
            never exceeded by more than one sample.

    Returns:
        The fastest sample and how far it can be trusted.
    """
    repeat, total, iterations = 1, 0.0, 0
    samples: list[float] = []
    while True:
        begin = time.perf_counter()
        for _ in range(repeat):
            call()
        spent = time.perf_counter() - begin
        total += spent
        iterations += repeat
        # Short samples are dominated by the clock: make them longer and start again.
        if spent < min_time / 10 and total < min_time:
            grow = min_time / 10 / max(spent, 1e-9)
            repeat = max(repeat + 1, int(repeat * min(grow, 100.0)))
            samples.clear()
            continue
        samples.append(spent / repeat)
        best = sorted(samples)[:_LEAST_SAMPLES]
        accuracy = best[-1] / best[0] - 1.0
        enough = len(samples) >= _LEAST_SAMPLES and total >= min_time
        if (enough and accuracy <= _ACCURACY) or total >= 4 * min_time:
            return Measurement(best[0], len(samples), iterations, accuracy)
