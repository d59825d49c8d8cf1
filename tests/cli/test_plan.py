"""``bayplan plan``, as a user meets it."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.cli import main
from bayplan.cli.plan import SCHEMA
from tests.storage.minimalloc import CAPACITY, FOLDER
from tests.storage.overlaps import check_apart

Command = Callable[..., subprocess.CompletedProcess[str]]


def call(*words: object) -> int:
    """Runs the command line in this process; the exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    code = end.value.code
    assert isinstance(code, int)
    return code


def check_file(text: str, capacity: int) -> list[dict[str, str]]:
    rows = list(csv.DictReader(text.splitlines()))
    lives = [(int(r["lower"]), int(r["upper"])) for r in rows]
    sizes = [int(r["size"]) for r in rows]
    offsets = [int(r["offset"]) for r in rows]
    check_apart(lives, sizes, offsets)
    assert max([o + s for o, s in zip(offsets, sizes)]) <= capacity
    return rows


def test_offsets_go_to_stdout_and_talk_to_stderr(command: Command) -> None:
    done = command("plan", FOLDER / "input.12.csv", "--capacity", 12)
    assert done.returncode == 0, done.stderr
    rows = check_file(done.stdout, 12)
    assert [r["id"] for r in rows] == ["b1", "b2", "b3", "b4", "b5"]
    assert done.stdout.startswith("id,lower,upper,size,offset\n")
    assert "5 buffers in 12 bytes" in done.stderr and "no plan is smaller" in done.stderr


def test_a_published_input_within_its_capacity(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    given = FOLDER / f"K.{CAPACITY}.csv"
    done = command("plan", given, "--capacity", CAPACITY, "-o", out)
    assert done.returncode == 0, done.stderr
    rows = check_file(out.read_text(), CAPACITY)
    # Line for line what was given, and the offset behind it.
    lines = given.read_text().splitlines()
    assert [line.rsplit(",", 1)[0] for line in out.read_text().splitlines()] == lines
    assert len(rows) == 454
    assert done.stdout.endswith(f"-> {out}\n") and done.stderr == ""


def test_alignment_and_pinned_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some.csv"
    file.write_text(
        "offset, size,id,lower,upper,alignment\n64,10,a,0,4,\n,7,b,1,3,16\n,3,c,2,5,16\n"
    )
    assert call("plan", file) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0] == "offset,size,id,lower,upper,alignment"
    rows = check_file(text, 74)
    assert rows[0]["offset"] == "64"
    assert all(int(r["offset"]) % 16 == 0 for r in rows[1:])


def test_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert call("plan", FOLDER / "input.12.csv", "--json", "-o", out) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == SCHEMA
    assert (data["peak_bytes"], data["floor_bytes"], data["proven"]) == (12, 12, True)
    assert data["capacity"] is None and data["fits"] is True
    written = check_file(out.read_text(), 12)
    assert [b["offset"] for b in data["buffers"]] == [int(r["offset"]) for r in written]


def test_a_capacity_below_the_floor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    assert call("plan", FOLDER / "input.12.csv", "--capacity", 11, "-o", out) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "capacity 11 is too small: peak 12 at t=0 (b1, b3, b5)" in said.err
    assert not out.exists()


def test_a_capacity_that_no_packing_keeps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # The two pinned ones leave two holes of 4 bytes, which are no place for 8.
    file = tmp_path / "holes.csv"
    file.write_text("id,lower,upper,size,offset\na,0,4,2,4\nb,0,4,2,10\nc,2,4,8,\n")
    assert call("plan", file, "--capacity", 19, "--json") == 1
    said = capsys.readouterr()
    assert "no plan fits: every one takes at least 20 bytes" in said.err
    data = json.loads(said.out)
    assert (data["fits"], data["peak_bytes"], data["least_bytes"]) == (False, 20, 20)


def test_no_time_is_an_answer_too(capsys: pytest.CaptureFixture[str]) -> None:
    file = FOLDER / f"I.{CAPACITY}.csv"
    assert call("plan", file, "--capacity", CAPACITY, "--time-limit", 0) == 1
    assert "no plan was found in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "the file is empty"),
        ("id,lower,upper\n", 1, "no column 'size'"),
        ("id,lower,upper,size,colour\n", 1, "unknown column 'colour'"),
        ("id,lower,upper,size,size\n", 1, "'size' stands there twice"),
        ("id,lower,upper,size\na,0,1,2\n\nb,0,1\n", 4, "3 cells on this line; the header has 4"),
        ("id,lower,upper,size\na,0,1,2.5\n", 2, "size is '2.5', which is no whole number"),
        ("id,lower,upper,size\na,0,1,-2\n", 2, "'a' has a size of -2 bytes"),
        ("id,lower,upper,size\na,3,1,2\n", 2, "the life [3, 1) of 'a' ends before it begins"),
        ("id,lower,upper,size\na,0,1,2\na,1,2,2\n", 3, "'a' stands on line 2 already"),
        ("id,lower,upper,size,alignment\na,0,1,2,0\n", 2, "'a' has an alignment of 0"),
        ("id,lower,upper,size,alignment,offset\na,0,1,2,4,2\n", 2, "no multiple of 4"),
    ],
)
def test_a_faulty_file(
    text: str, line: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "faulty.csv"
    file.write_text(text)
    assert call("plan", file) == 1
    said = capsys.readouterr().err
    assert "BP-M011" in said and says in said
    assert f"at {file}:{line}" in said


def test_no_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call("plan", tmp_path / "none.csv") == 2
    assert "No such file" in capsys.readouterr().err


def test_from_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("id,lower,upper,size\na,0,2,5\n"))
    assert call("plan", "-") == 0
    assert capsys.readouterr().out == "id,lower,upper,size,offset\na,0,2,5,0\n"
