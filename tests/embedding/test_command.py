"""`bayplan compile` for other programs: files, arguments, targets, dependencies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = """
from weights import center


def build(hl):
    x = hl.Var("x")
    image = hl.ImageParam(hl.Float(32), 1, "image")
    gain = hl.Param(hl.Float(32), "gain")
    near, bright = hl.Func("near"), hl.Func("bright")
    near[x] = image[x] + image[x + 1] * center
    bright[x] = near[x] * gain + near[x + 1]
    near.compute_root()
    return bright
"""

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs `bayplan compile` on a program that imports a module of its own."""
    program = tmp_path / "my program.py"
    program.write_text(_PROGRAM)
    (tmp_path / "weights.py").write_text("center = 2.0\n")

    def run(*words: Any) -> subprocess.CompletedProcess[str]:
        call = [sys.executable, "-m", "bayplan", "compile", program, *words]
        return subprocess.run(
            [str(w) for w in call],
            capture_output=True,
            text=True,
            timeout=200,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )

    return run


def test_library_header_and_dependencies(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out" / "bright.a"
    done = command("--emit", "a,h", "-o", out, "--name", "bright", "--depfile", tmp_path / "d",
                   "--arguments", "image,gain", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["files"] == {"a": str(out), "h": str(out.with_suffix(".h"))}
    assert [name.partition("$")[0] for name in data["arguments"]] == ["image", "gain", "bright"]
    assert data["function"] == "bright" and data["workspace_bytes"] is None
    assert data["stack_bytes"] is None or 0 < data["stack_bytes"] < 8192
    assert out.read_bytes().startswith(b"!<arch>\n")
    rule = (tmp_path / "d").read_text()
    made, _, needed = rule.partition(": ")
    assert made.split() == [str(out), str(out.with_suffix(".h"))]
    files = [line.strip(" \\") for line in needed.splitlines()]
    assert str(tmp_path / "my program.py").replace(" ", "\\ ") in files
    assert str(tmp_path / "weights.py") in files
    assert any(f.endswith("bayplan/targets/bayplan.h") for f in files)
    assert not any("numpy" in f for f in files)


def test_texts_on_stdout(command: Command) -> None:
    done = command("--emit", "h", "--name", "f", "--target", "x86-64-linux-user_context")
    assert done.returncode == 0, done.stderr
    assert "int f(struct bp_context *ctx, float gain, bp_buffer_argument image_buffer" in (
        " ".join(done.stdout.split())
    )
    done = command("--emit", "runtime")
    assert "#pragma weak bp_default_context\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--emit", "a"], "a needs a file to go to; give -o"),
        (["--emit", "c", "--depfile", "d"], "--depfile speaks of files that are written"),
        (["--arguments", "image,bias"], "has no input bias; it has image, gain"),
        (["--arguments", "image"], "uses gain, which is not among the arguments of my_program"),
        (["--name", "9"], "'9' cannot be the name of a C function"),
        (["--target", "pdp11"], '"pdp11" does not name a target'),
    ],
)
def test_what_is_refused(command: Command, words: list[str], says: str) -> None:
    done = command(*words)
    assert done.returncode != 0 and done.stdout == ""
    assert says in done.stderr and "Traceback" not in done.stderr
