"""Programs with kernels under Oclgrind: no races, no accesses astray, no unwritten values."""

from __future__ import annotations

import pytest

from bench import gpu_programs
from tests.targets import oclgrind

pytestmark = pytest.mark.skipif(oclgrind.find_oclgrind() is None, reason="no Oclgrind")

QUICK = ("blur_slide", "kernels.histogram", "around_a_loop", "bytes_and_words", "fill_at_10",
         "three_stages", "seed_5")  # fmt: skip
PROGRAMS = [*oclgrind.list_programs(), *[f"seed_{seed}" for seed in oclgrind.find_seeds()]]
# Name, and how many barriers its kernel has.
BARRIERS = [("fill_at_10", 2), ("straight_line", 3), ("three_stages", 3), ("bytes_and_words", 3)]


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS]
)
def test_nothing_is_reported(name: str) -> None:
    done = oclgrind.start([name])
    ran, rest = list(oclgrind.read_reports(done.stdout))
    assert done.returncode == 0, done.stdout[-3000:]
    assert ran == (name, "", "")
    assert rest == ("", "", "")


def test_what_is_quick_is_in_the_list() -> None:
    assert set(QUICK) <= set(PROGRAMS)


@pytest.mark.parametrize(
    ("name", "barrier"),
    [
        pytest.param(name, k, marks=[] if name == "fill_at_10" else [pytest.mark.slow])
        for name, count in BARRIERS
        for k in range(count)
    ],
)
def test_a_missing_barrier_is_reported(name: str, barrier: int) -> None:
    """The test of the test: a text of kernels without one of its barriers."""
    done = oclgrind.start([name], drop=barrier)
    assert done.returncode == 0, done.stdout[-3000:]
    reports = [report for _, _, report in oclgrind.read_reports(done.stdout)]
    assert "data race" in reports[0]


def test_how_many_barriers_there_are_to_miss() -> None:
    builds = {build.__name__: build for build, _ in gpu_programs.SHAPES}
    builds |= {"fill_at_10": lambda: gpu_programs.fill_at(10),
               "three_stages": lambda: gpu_programs.three_stages(True),
               "straight_line": gpu_programs.straight_line}  # fmt: skip
    for name, count in BARRIERS:
        assert gpu_programs.count_barriers(builds[name]()[0]) == count, name


def test_a_value_nobody_has_written_is_reported() -> None:
    done = oclgrind.start(["unwritten"])
    ((_, _, report), _) = oclgrind.read_reports(done.stdout)
    assert "Uninitialized" in report
