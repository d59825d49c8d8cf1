"""Random programs under random GPU schedules: kernels agree with the evaluator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import bayplan as hl
from bayplan import settings
from tests.differential.choices import Choices
from tests.differential.compare import Judge
from tests.differential.generate import generate
from tests.differential.program import Program
from tests.differential.worker import DEVICES

# Two of three programs of the host's test.
COUNT = settings.value("RANDOM_PROGRAMS") * 2 // 3


def _program(seed: int) -> Program:
    """Every other program has many temporaries."""
    return generate(Choices.from_seed(seed), stored=seed % 2 == 1, gpu=True)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    if not hl.host_supports_target_device(hl.Target(DEVICES["opencl"])):
        pytest.skip("no OpenCL device")
    with Judge(["opencl", "evaluator"]) as judge:
        yield judge


def test_seeded_gpu_programs_agree(judge: Judge) -> None:
    counts: Counter[str] = Counter()
    failures = []
    for seed in range(COUNT):
        verdict = judge.judge(_program(seed))
        counts[verdict.kind] += 1
        if verdict.kind == "differ":
            failures.append(f"seed {seed}: {verdict.message}")
    assert not failures, "\n".join(failures)
    # Few are refused, on the host too.
    assert counts["agree"] >= 0.97 * COUNT, counts


def test_schedules_have_kernels() -> None:
    """What is drawn are blocks, threads in them, and stages of the host beside them."""
    words: Counter[str] = Counter()
    wanted = ("gpu_blocks", "gpu_threads", "compute_at", "GPUShared")
    for seed in range(100):
        lines = "\n".join(_program(seed).schedule)
        words.update(w for w in wanted if w in lines)
    assert words["gpu_blocks"] > 60 and words["gpu_threads"] > 50, words
    assert words["compute_at"] > 30 and words["GPUShared"] > 5, words
