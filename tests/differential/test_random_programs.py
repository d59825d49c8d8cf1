"""Random programs under random schedules: all engines agree, and few schedules are illegal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples

from bayplan import settings
from tests.differential.choices import Choices
from tests.differential.compare import Judge, available
from tests.differential.generate import generate
from tests.differential.program import Program
from tests.differential.strategies import programs

PROGRAMS = settings.value("RANDOM_PROGRAMS")
SEEDS = PROGRAMS * 7 // 10
# Programs with many temporaries.
STORED = PROGRAMS * 2 // 10


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as judge:
        yield judge


@pytest.mark.parametrize(("count", "stored"), [(SEEDS, False), (STORED, True)])
def test_seeded_programs_agree(judge: Judge, count: int, stored: bool) -> None:
    counts: Counter[str] = Counter()
    failures = []
    for seed in range(count):
        verdict = judge.judge(generate(Choices.from_seed(seed), stored))
        counts[verdict.kind] += 1
        if verdict.kind == "differ":
            failures.append(f"seed {seed}: {verdict.message}")
    assert not failures, "\n".join(failures)
    # What the wheel refuses tests nothing.
    assert counts["illegal"] + counts["wheel"] <= count // 10, counts


@examples(
    max_examples=PROGRAMS - SEEDS - STORED,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_drawn_programs_agree(judge: Judge, program: Program) -> None:
    verdict = judge.judge(program)
    assert verdict.kind != "differ", verdict.message + "\n" + program.script()


def test_the_same_seed_gives_the_same_program() -> None:
    first, second = (generate(Choices.from_seed(7)).script() for _ in range(2))
    assert first == second


def test_the_engines_are_known() -> None:
    assert {"guarded", "planned", "evaluator"} <= set(available())
