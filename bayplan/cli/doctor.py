"""``bayplan doctor``: what is on this machine, and how to get what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from bayplan import settings
from bayplan.build.compilers import Compiler, find_compiler, list_compilers
from bayplan.cli.talk import show_json
from bayplan.ir.errors import BayplanError

SCHEMA = "bayplan.doctor/1"

_PROBE = "int bayplan_probe(int x) { return x + 1; }\n"


class Finding:
    """One line of the examination.

    Attributes:
        subject: What was looked for.
        state: ``ok``, ``missing`` (can be lived without) or ``broken``.
        text: What was found.
        advice: What to do about it, or an empty text.
    """

    __slots__ = ("advice", "state", "subject", "text")

    def __init__(self, subject: str, state: str, text: str, advice: str = "") -> None:
        self.subject = subject
        self.state = state
        self.text = text
        self.advice = advice


def examine(as_json: bool) -> int:
    """Carries out ``bayplan doctor``; returns the exit code: 1 when nothing can be run."""
    findings = [_look_at_python()]
    compilers, runnable = _look_at_compilers()
    findings += compilers
    findings += [_look_at_cache(), *_look_at_packages(), *_look_at_devices(), *_look_at_settings()]
    if as_json:
        keys = Finding.__slots__
        rows = [{key: getattr(finding, key) for key in keys} for finding in findings]
        show_json({"schema": SCHEMA, "can_run": runnable, "findings": rows})
    else:
        _print_findings(findings, runnable)
    return 0 if runnable else 1


def _print_findings(findings: list[Finding], runnable: bool) -> None:
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        print(f"{finding.state:<8} {finding.subject:<{width}}  {finding.text}")
        if finding.advice:
            print(f"{'':<8} {'':<{width}}  -> {finding.advice}")
    print()
    print("Programs can be compiled and run." if runnable else "No way to run a program was found.")


def _look_at_python() -> Finding:
    version = importlib.metadata.version("bayplan") if _is_installed("bayplan") else "not installed"
    text = (
        f"{platform.python_version()} ({sys.executable}), {platform.machine()} "
        f"{platform.system()}, bayplan {version}"
    )
    return Finding("Python", "ok", text)


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _look_at_compilers() -> tuple[list[Finding], bool]:
    """Tries the compiler that programs would be compiled with, and names the others."""
    findings = []
    chosen: Compiler | None = None
    runnable = False
    try:
        chosen = find_compiler()
    except BayplanError as error:
        findings.append(
            Finding("C compiler", "broken", error.message, error.hint or _how_to_get_a_compiler())
        )
    if chosen is not None:
        fault = try_compiler(chosen)
        runnable = fault is None
        findings.append(
            Finding(
                "C compiler",
                "ok" if fault is None else "broken",
                f"{_describe_compiler(chosen)}{'' if fault is None else ': ' + fault}",
                "" if fault is None else _how_to_get_a_compiler(),
            )
        )
    for other in list_compilers():
        if chosen is None or other.command != chosen.command:
            findings.append(Finding("", "ok", f"also {_describe_compiler(other)}"))
    return findings, runnable


def _how_to_get_a_compiler() -> str:
    return (
        "install gcc or clang (Debian: apt-get install gcc libc6-dev; macOS: xcode-select "
        "--install), or pip install 'bayplan[zig]', or set CC to a working compiler"
    )


def _describe_compiler(compiler: Compiler) -> str:
    return f"{shlex.join(compiler.command)} ({read_version(compiler)}), found by {compiler.origin}"


def read_version(compiler: Compiler) -> str:
    """The first line of what a compiler says about itself; a fault is a text, never an error."""
    flag = "version" if compiler.kind == "zig" else "--version"
    command = list(compiler.command)
    if compiler.kind == "zig" and command[-1] == "cc":
        command.pop()
    try:
        done = subprocess.run(
            [*command, flag], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not tell its version: {error}"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip() if lines else "version unknown"


def try_compiler(compiler: Compiler) -> str | None:
    """Compiles a one-line library; returns None when that works, else what went wrong."""
    with tempfile.TemporaryDirectory(prefix="bayplan-doctor-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text(_PROBE, "utf-8")
        command = [*compiler.command, "-shared", "-fPIC", "-O1", str(source)]
        try:
            done = subprocess.run(
                [*command, "-o", str(source.with_suffix(".so"))],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return f"cannot be started: {error}"
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            return f"fails with code {done.returncode}: {lines[0] if lines else 'no message'}"
    return None


def _look_at_cache() -> Finding:
    try:
        if settings.value("NO_CACHE"):
            return Finding("cache", "ok", "not used (BAYPLAN_NO_CACHE is set)")
    except settings.SettingError as error:
        return Finding("cache", "broken", str(error))
    import platformdirs

    folder = Path(settings.value("CACHE_DIR") or platformdirs.user_cache_path("bayplan"))
    advice = (
        "set BAYPLAN_CACHE_DIR to a folder that can be written; until then every process "
        "compiles anew"
    )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        entries = list(folder.glob("*.so"))
        size = sum(entry.stat().st_size for entry in entries)
    except OSError as error:
        return Finding("cache", "missing", f"{folder}: {error.strerror or error}", advice)
    from bayplan.view.storage_rows import format_bytes_short

    return Finding(
        "cache",
        "ok",
        f"{folder}: can be written, {len(entries)} programs, {format_bytes_short(size)}",
    )


def _look_at_packages() -> list[Finding]:
    findings = []
    for package, needed, advice in (
        ("numpy", True, "pip install numpy"),
        ("imageio", True, "pip install imageio"),
        ("halide", False, "pip install halide, to compare with it in the tests"),
        ("ziglang", False, "pip install 'bayplan[zig]', where there is no other C compiler"),
        ("scikit-image", False, "pip install 'bayplan[demo]', for the photograph of the demo"),
    ):
        if _is_installed(package):
            findings.append(Finding(package, "ok", importlib.metadata.version(package)))
        else:
            state = "broken" if needed else "missing"
            findings.append(Finding(package, state, "not installed", advice))
    return findings


def _look_at_devices() -> list[Finding]:
    """Looks for the loader libraries of devices; nothing runs on devices in this version."""
    from ctypes.util import find_library

    findings = []
    for subject, library in (("OpenCL loader", "OpenCL"), ("CUDA driver", "cuda")):
        found = find_library(library)
        text = f"{found} (not used: programs run on the CPU)" if found else "not found"
        findings.append(Finding(subject, "ok" if found else "missing", text))
    return findings


def _look_at_settings() -> list[Finding]:
    findings = []
    for setting in settings.SETTINGS.values():
        text = os.environ.get(setting.variable)
        if text is None:
            continue
        try:
            setting.parse(text)
        except settings.SettingError as error:
            findings.append(Finding("setting", "broken", str(error)))
        else:
            findings.append(Finding("setting", "ok", f"{setting.variable}={text}"))
    for name in settings.find_unknown():
        findings.append(
            Finding("setting", "broken", f"{name} means nothing", "see the page on settings")
        )
    return findings
