"""What `bench.gpu` counts is as promised, and its table says when something is not."""

from __future__ import annotations

import argparse
import json

import pytest

import bayplan as hl
from bench import gpu
from bench.promises import Row, measure

TARGET = "host-opencl"


@pytest.fixture
def arguments() -> argparse.Namespace:
    target = hl.Target(TARGET)
    if not hl.host_supports_target_device(target):
        pytest.skip(f"no device for {target}")
    return argparse.Namespace(device=target, target=TARGET, seconds=0.01)


def test_camera_pipe_takes_its_floor_and_less_than_the_wheel() -> None:
    bytes, floor = gpu.measure_camera_pipe(hl.Target(TARGET))
    assert bytes == floor == 9744
    pytest.importorskip("halide")
    wheel = gpu.measure_wheel()
    assert wheel is not None
    assert bytes < wheel
    # What was measured when this was written; a newer wheel may do better.
    assert wheel <= 2 * 7370


def test_every_func_has_its_own_name(arguments: argparse.Namespace) -> None:
    assert gpu.names(arguments)["met"]


@pytest.mark.parametrize("row", [n for n in gpu.ROWS if n not in ("run_times", "names")])
def test_rows(row: str, arguments: argparse.Namespace) -> None:
    measured = measure(row, gpu.ROWS[row], arguments)
    assert not measured.get("error"), measured["here"]
    assert measured["met"] in ((None,) if row == "lowering_time" else (True, None)), measured
    if row not in ("lowering_time", "camera_pipe"):
        assert measured["met"] is True


def test_an_error_is_part_of_its_row(arguments: argparse.Namespace) -> None:
    def fail(args: argparse.Namespace) -> Row:
        """Fails"""
        raise ValueError("no such thing")

    row = measure("fail", fail, arguments)
    assert row["error"] and row["met"] is False and row["here"] == "ValueError: no such thing"


def test_json(
    arguments: argparse.Namespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu", "--json", "barriers"])
    assert gpu.main() == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == gpu.SCHEMA and said["rows"][0]["counts"] == [3, 3, 2]
