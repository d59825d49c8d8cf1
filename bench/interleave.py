"""Times several functions in turns, so that a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def best_times(
    functions: Mapping[str, Callable[[], Any]], *, rounds: int = 30, seconds: float = 3.0
) -> dict[str, float]:
    """The best time of each function, in seconds.

    Args:
        functions: Called in turns, round after round.
        rounds: The least number of rounds.
        seconds: The least time to go on.
    """
    for function in functions.values():
        function()
    best = dict.fromkeys(functions, float("inf"))
    began = time.perf_counter()
    done = 0
    while done < rounds or time.perf_counter() - began < seconds:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
        done += 1
    return best
