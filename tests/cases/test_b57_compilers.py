"""B57: a compiler that is missing, not executable, or fails; CC that is wrong or has flags."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
{before}
import bayplan as hl
x = hl.Var("x")
f = hl.Func("f")
f[x] = x * 7
try:
    print("value", f.realize([4])[3])
except hl.BayplanError as error:
    print(type(error).__name__, error)
"""
NO_WHEEL = "sys.modules['ziglang'] = None; sys.meta_path.insert(0, type('No', (), {'find_spec': \
staticmethod(lambda name, path=None, target=None: (_ for _ in ()).throw(ImportError(name)) \
if name == 'ziglang' else None)}))"


def _run(tmp_path: Path, path: str, cc: str | None = None, wheel: bool = False) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "CC"}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "PATH": path,
        "BAYPLAN_CACHE_DIR": str(tmp_path / "cache"),
    }
    if cc is not None:
        environment["CC"] = cc
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before="" if wheel else NO_WHEEL)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _compiler() -> str:
    found = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    if found is None:
        pytest.skip("no C compiler")
    return found


def _script(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(mode)


def test_b57_no_compiler_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    text = _run(tmp_path, str(tmp_path / "empty"))
    assert text.startswith("NoCompiler")
    assert "gcc" in text and "clang" in text
    assert str(tmp_path / "empty") in text
    assert "CC" in text


def test_b57_a_file_that_is_not_executable_is_skipped(tmp_path: Path) -> None:
    real = _compiler()
    _script(tmp_path / "bad" / Path(real).name, "exit 1\n", mode=0o644)
    path = os.pathsep.join([str(tmp_path / "bad"), str(Path(real).parent)])
    assert "value 21" in _run(tmp_path, path)


def test_b57_a_folder_without_permission_is_skipped(tmp_path: Path) -> None:
    real = _compiler()
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    try:
        path = os.pathsep.join([str(closed), str(Path(real).parent)])
        assert "value 21" in _run(tmp_path, path)
    finally:
        closed.chmod(0o755)


def test_b57_a_compiler_that_fails_shows_its_command_and_its_words(tmp_path: Path) -> None:
    _script(tmp_path / "bin" / "cc", 'echo "the disk is on fire" >&2\nexit 3\n')
    text = _run(tmp_path, str(tmp_path / "bin"))
    assert text.startswith("CompileError")
    assert "the disk is on fire" in text
    assert str(tmp_path / "bin" / "cc") in text


def test_b57_cc_that_does_not_exist(tmp_path: Path) -> None:
    text = _run(tmp_path, os.environ["PATH"], cc=str(tmp_path / "nothing"))
    assert text.startswith("NoCompiler")
    assert "CC" in text and str(tmp_path / "nothing") in text


def test_b57_cc_with_a_flag(tmp_path: Path) -> None:
    assert "value 21" in _run(tmp_path, os.environ["PATH"], cc=f"{_compiler()} -m64")


def test_b57_the_import_runs_no_compiler(tmp_path: Path) -> None:
    _script(tmp_path / "bin" / "gcc", f'touch "{tmp_path}/ran"\nexit 1\n')
    done = subprocess.run(
        [sys.executable, "-c", "import bayplan"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
