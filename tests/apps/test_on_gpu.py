"""The dry parts of the script for a machine with a GPU: its commands, its times, its logs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import bayplan as hl
from bench import on_gpu


def test_the_steps_end_in_time_and_name_files_that_are_there() -> None:
    steps = on_gpu.list_steps()
    assert sum([step.seconds for step in steps]) <= on_gpu.LIMIT_S - 15
    files = [w for step in steps for w in step.words if w.startswith("tests/")]
    assert len(files) > 8
    assert all((on_gpu.ROOT / name).is_file() for name in files)


def test_the_tests_that_it_chooses_take_their_targets_from_the_list() -> None:
    files = {w for step in on_gpu.list_steps() for w in step.words if w.startswith("tests/")}
    for name in files:
        text = (on_gpu.ROOT / name).read_text()
        assert "from tests.devices.targets import TARGETS" in text, name


def test_programs_on_what_is_there() -> None:
    target = hl.Target("host-opencl")
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    assert on_gpu.run_programs("host-opencl") == 0


def test_how_steps_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        on_gpu.Step("fine", 20, sys.executable, "-c", "print('fine indeed')"),
        on_gpu.Step("bad", 20, sys.executable, "-c", "raise SystemExit(3)"),
        on_gpu.Step("empty", 20, sys.executable, "-c", "raise SystemExit(5)"),
        on_gpu.Step("slow", 1, sys.executable, "-c", "import time; time.sleep(60)"),
        on_gpu.Step("absent", 1, "no-such-program-anywhere"),
    ]
    assert on_gpu.run_all(steps, tmp_path) == {
        "fine": "passed",
        "bad": "failed: status 3",
        "empty": "no test",
        "slow": "late: stopped after 1 s",
        "absent": "not run: no no-such-program-anywhere",
    }
    assert "fine indeed" in capsys.readouterr().out


def test_dry(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["on_gpu", "--dry", "random"])
    assert on_gpu.main() == 0
    said = capsys.readouterr().out
    assert "--engines cuda,evaluator" in said and said.count("\n") == 1
