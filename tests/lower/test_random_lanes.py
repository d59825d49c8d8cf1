"""Random programs for lanes agree with the evaluator, lane by lane and in several orders."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import bayplan as hl
from bayplan.reference import evaluate
from tests.lower.random_lanes import RandomLanes
from tests.storage.interpret_kernels import ORDERS
from tests.storage.interpret_values import Unsupported
from tests.storage.run_kernels import run_func_on_device


def run_one(seed: int, seen: Counter[str]) -> None:
    """Runs a program; a refused schedule counts as refused."""
    program = RandomLanes(seed)
    want = np.asarray(evaluate(program.output, [0, 0], program.extents))
    try:
        got, machine = run_func_on_device(
            program.output, [0, 0], program.extents, order=ORDERS[seed % 3], target="host-cuda"
        )
    except hl.ScheduleError as error:
        key = "refused" if "registers of a warp" in str(error) else "other"
        seen[key] += 1
        return
    except Unsupported:
        seen["unsupported"] += 1
        return
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {program.text}: {error}") from error
    np.testing.assert_array_equal(got, want, f"seed {seed}: {program.text}")
    seen["agree"] += 1
    seen["exchanges"] += machine.exchanges > 0


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_programs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYPLAN_VERIFY", "1")
    seen: Counter[str] = Counter()
    for seed in range(first, first + 10):
        run_one(seed, seen)
    assert seen["agree"] >= 4 and seen["exchanges"] >= 1, seen
