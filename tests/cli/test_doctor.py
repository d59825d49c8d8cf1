"""The doctor finds what is there, says what to do, and never fails itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.build.compilers import Compiler
from bayplan.cli.doctor import read_version, try_compiler

Command = Callable[..., subprocess.CompletedProcess[str]]


def read(done: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, str]]]:
    data = json.loads(done.stdout)
    assert data["schema"] == "bayplan.doctor/1"
    subjects: dict[str, list[dict[str, str]]] = {}
    for finding in data["findings"]:
        subjects.setdefault(finding["subject"], []).append(finding)
    return subjects


def fake_compiler(folder: Path, body: str, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return path


def test_a_working_machine_ends_with_0(command: Command, tmp_path: Path) -> None:
    done = command("doctor", BAYPLAN_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Programs can be compiled and run." in done.stdout
    assert f"{tmp_path / 'cache'}: can be written, 0 programs" in done.stdout
    assert done.stderr == ""


def test_a_missing_cc_is_named_and_ends_with_1(command: Command) -> None:
    done = command("doctor", "--json", CC="/nowhere/cc -m64")
    assert done.returncode == 1
    (compiler, *_) = read(done)["C compiler"]
    assert compiler["state"] == "broken"
    assert "/nowhere/cc" in compiler["text"] and "CC" in compiler["advice"]


def test_a_compiler_that_fails_is_told_with_its_words(command: Command, tmp_path: Path) -> None:
    path = fake_compiler(tmp_path / "bin", "echo 'cc: out of luck' >&2; exit 3")
    done = command("doctor", "--json", CC=str(path))
    assert done.returncode == 1
    (compiler, *_) = read(done)["C compiler"]
    assert "fails with code 3: cc: out of luck" in compiler["text"]


def test_without_a_way_to_run_it_says_how_to_get_one(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_compiler(tmp_path / "bin", "exit 0", mode=0o644)
    done = command("doctor", PATH=str(tmp_path / "bin"), CC="")
    if done.returncode == 0:
        assert "ziglang wheel" in done.stdout
    else:
        assert done.returncode == 1
        assert "No way to run a program was found." in done.stdout
        assert str(tmp_path / "bin") in done.stdout and "install gcc or clang" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs folder permissions")
def test_an_unwritable_cache_is_told_and_not_fatal(command: Command, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = command("doctor", "--json", BAYPLAN_CACHE_DIR=str(blocked / "cache"))
    assert done.returncode == 0
    (cache,) = read(done)["cache"]
    assert cache["state"] == "missing"
    assert str(blocked) in cache["text"] and "BAYPLAN_CACHE_DIR" in cache["advice"]


def test_settings_are_listed_and_misspelt_ones_told(command: Command) -> None:
    done = command("doctor", "--json", BAYPLAN_VERIFY="1", BAYPLAN_VERFIY="1", BAYPLAN_NO_CACHE="7")
    found = {finding["text"]: finding["state"] for finding in read(done)["setting"]}
    assert found["BAYPLAN_VERIFY=1"] == "ok"
    assert found["BAYPLAN_VERFIY means nothing"] == "broken"
    assert found["BAYPLAN_NO_CACHE='7': expected 1 or 0"] == "broken"


def test_probes_survive_what_cannot_be_started(tmp_path: Path) -> None:
    gone = Compiler((str(tmp_path / "gone"),), "cc", "CC")
    assert "does not tell its version" in read_version(gone)
    fault = try_compiler(gone)
    assert fault is not None and "cannot be started" in fault
    silent = Compiler((str(fake_compiler(tmp_path / "bin", "exit 0")),), "cc", "CC")
    assert read_version(silent) == "version unknown"


def test_kernels_on_the_cpu_need_a_compiler_of_cpp(command: Command) -> None:
    data = json.loads(command("doctor", "--json").stdout)
    (finding,) = [f for f in data["findings"] if f["subject"] == "emulated CUDA"]
    assert finding["state"] == "ok" and finding["text"].startswith("compiled with ")
