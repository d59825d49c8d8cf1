"""The measurement takes enough samples and never runs away."""

from __future__ import annotations

import time

from bayplan.cli.benchmark import measure


def test_short_calls_are_repeated() -> None:
    calls = []
    found = measure(lambda: calls.append(0), min_time=0.02)
    assert found.samples >= 3
    assert found.iterations == len(calls) > 100
    assert 0 < found.seconds < 1e-3
    assert found.accuracy >= 0


def test_the_best_sample_counts() -> None:
    found = measure(lambda: time.sleep(0.004), min_time=0.02)
    assert 0.004 <= found.seconds < 0.012
    assert found.samples >= 3


def test_a_slow_call_ends() -> None:
    begin = time.perf_counter()
    found = measure(lambda: time.sleep(0.05), min_time=0.01)
    assert time.perf_counter() - begin < 2
    assert found.samples >= 1
