"""Compilers, the cache and compiling, without and beyond the user's own environment."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from bayplan.build import cache
from bayplan.build.compile_library import compile_library
from bayplan.build.compilers import find_compiler, search_path
from bayplan.ir.errors import CompileError, NoCompiler

SOURCE = "__attribute__((visibility(\"default\"))) int answer(void) { return 42; }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    path = tmp_path / "cache"
    monkeypatch.setenv("BAYPLAN_CACHE_DIR", str(path))
    return path


def make_script(path: Path, text: str, mode: int = 0o755) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)


def test_files_that_cannot_run_are_skipped(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    make_script(tmp_path / "a" / "cc", "exit 0", 0o644)
    make_script(tmp_path / "b" / "cc", "exit 0")
    path = f"{tmp_path}/missing::{tmp_path}/a:{tmp_path}/b"
    assert search_path("cc", path) == f"{tmp_path}/b/cc"
    assert search_path("gcc", path) is None


def test_cc_may_hold_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_script(tmp_path / "mycc", "exit 0")
    monkeypatch.setenv("CC", f"{tmp_path}/mycc -m64 '-DX=a b'")
    assert find_compiler().command == (f"{tmp_path}/mycc", "-m64", "-DX=a b")
    monkeypatch.setenv("CC", f"{tmp_path}/missing")
    with pytest.raises(NoCompiler, match="CC="):
        find_compiler()


def test_a_failing_compiler_is_quoted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_script(tmp_path / "cc", "echo 'no room on the moon' >&2; exit 3")
    monkeypatch.setenv("CC", str(tmp_path / "cc"))
    with pytest.raises(CompileError, match=r"ended with 3(.|\n)*command: (.|\n)*no room"):
        compile_library(SOURCE, "answer")
    assert not list(folder.iterdir())


def test_entries_are_found_again_and_broken_ones_made_anew(folder: Path) -> None:
    path = compile_library(SOURCE, "answer")
    assert path.parent == folder and folder.stat().st_mode & 0o777 == 0o700
    made = path.stat().st_mtime_ns
    assert compile_library(SOURCE, "answer") == path
    assert path.stat().st_mtime_ns == made
    path.write_bytes(path.read_bytes()[:-100])
    assert compile_library(SOURCE, "answer") == path
    assert cache.find_entry(path.stem) == path
    assert compile_library(SOURCE + "\n", "answer") != path


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    monkeypatch.setenv("BAYPLAN_CACHE_DIR", str(closed))
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        assert compile_library(SOURCE, "answer").exists()


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("BAYPLAN_CACHE_DIR", str(blocked / "cache"))
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        first = compile_library(SOURCE, "answer")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_library(SOURCE, "answer") == first


def _compile(_: int) -> str:
    return str(compile_library(SOURCE, "answer"))


def test_processes_at_the_same_time(folder: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        paths = set(pool.map(_compile, range(8)))
    assert len(paths) == 1 and Path(paths.pop()).exists()
    assert not [p for p in folder.iterdir() if p.name.startswith("tmp-")]


def test_an_interrupt_ends_the_compiler(folder: Path, tmp_path: Path) -> None:
    make_script(tmp_path / "cc", f"echo $$ > {tmp_path}/pid; exec sleep 60")
    code = (
        "from bayplan.build.compile_library import compile_library\n"
        "try:\n    compile_library('int x;', 'x')\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "CC": str(tmp_path / "cc"), "BAYPLAN_CACHE_DIR": str(folder)},
    )
    until = time.monotonic() + 30
    while not (tmp_path / "pid").exists() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.1)
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=30)
    assert time.monotonic() - start < 5
    assert out.strip() == "interrupted"
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert not list(folder.iterdir())
