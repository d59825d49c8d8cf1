"""Compiles emitted programs to files for other programs: objects, static libraries, assembly."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayplan import settings
from bayplan.build.cache import cache_folder, make_key
from bayplan.build.compile_library import run_compiler
from bayplan.build.compilers import Compiler, find_compiler, find_cxx_compiler, search_path
from bayplan.build.flags import emitted_flags, emulation_flags
from bayplan.build.stack_use import StackUse, read_stack_use
from bayplan.ir.errors import CompileError, NoCompiler
from bayplan.language.target_names import TargetArch, TargetFeature, TargetOS

if TYPE_CHECKING:
    from bayplan.language.target import Target

_F = TargetFeature

# What processors with AVX2 have besides; all of them do.
_HASWELL: Final = ("-mbmi", "-mbmi2", "-mlzcnt", "-mpopcnt", "-mmovbe")
_SKYLAKE: Final = ("-mavx512f", "-mavx512cd", "-mavx512vl", "-mavx512bw", "-mavx512dq")
_CANNONLAKE: Final = (*_SKYLAKE, "-mavx512ifma", "-mavx512vbmi")
_ZEN4: Final = (*_CANNONLAKE, "-mavx512vbmi2", "-mavx512bf16", "-mavx512vnni", "-mavx512bitalg",
                "-mavx512vpopcntdq")  # fmt: skip
_X86: Final = {
    _F.SSE41: ("-msse4.1",),
    _F.AVX: ("-mavx",),
    _F.AVX2: ("-mavx2", *_HASWELL),
    _F.AVXVNNI: ("-mavxvnni",),
    _F.FMA: ("-mfma",),
    _F.FMA4: ("-mfma4",),
    _F.F16C: ("-mf16c",),
    _F.AVX512: ("-mavx512f", "-mavx512cd"),
    _F.AVX512_KNL: ("-mavx512f", "-mavx512cd"),
    _F.AVX512_Skylake: _SKYLAKE,
    _F.AVX512_Cannonlake: _CANNONLAKE,
    _F.AVX512_Zen4: _ZEN4,
    _F.AVX512_SapphireRapids: (*_ZEN4, "-mavx512fp16", "-mavxvnni"),
}


def target_flags(target: Target) -> list[str]:
    """Flags for the instructions that the features of a target name, and for no others."""
    flags: list[str] = []
    if target.arch is TargetArch.X86:
        for feature, words in _X86.items():
            if target.has_feature(feature):
                flags += [word for word in words if word not in flags]
    if target.os is TargetOS.NoOS:
        flags.append("-ffreestanding")
    return flags


def ahead_flags(compiler: Compiler, target: Target) -> list[str]:
    """All flags of a program that is compiled for a target."""
    own = shlex.split(settings.value("CFLAGS"))
    return [*emitted_flags(compiler), *target_flags(target), *own]


def check_reachable(target: Target, host: Target) -> None:
    """Refuses targets that the compiler of this machine makes no code for.

    `$CC` may name a cross compiler, so with it every target is left to the compiler.

    Raises:
        CompileError: another processor or system, and no `$CC`.
    """
    if os.environ.get("CC", "").strip():
        return
    same = (target.arch, target.bits) == (host.arch, host.bits)
    if not same or target.os not in (host.os, TargetOS.NoOS):
        raise CompileError(
            f"the target {target} is another machine than this one ({host}), and its objects need "
            "a cross compiler",
            hint="set CC to one, or write the C source and compile it there",
        )


def compile_object(source: str, name: str, target: Target, output: Path) -> list[StackUse]:
    """Writes the object file of an emitted program.

    Returns:
        The stack that each function takes; empty where the compiler does not say.
    """
    compiler = find_compiler()
    flags = ahead_flags(compiler, target)
    with tempfile.TemporaryDirectory(prefix="bayplan-") as folder:
        text = Path(folder) / f"{name}.c"
        text.write_text(source, "utf-8")
        made = text.with_suffix(".o")
        command = [*compiler.command, *flags, "-c", str(text), "-o", str(made)]
        _run(compiler, [*command, "-fstack-usage"], name)
        uses = text.with_suffix(".su")
        found = read_stack_use(uses.read_text("utf-8")) if uses.is_file() else []
        shutil.copyfile(made, output)
    return found


def _run(compiler: Compiler, command: list[str], name: str) -> None:
    try:
        run_compiler(command, name)
    except CompileError as error:
        # As in compile_library: gcc 12 crashes on some masks that its loop vectoriser makes.
        if "internal compiler error" not in error.message:
            raise
        run_compiler([*command, "-O1", "-fno-tree-loop-vectorize"], name)


def compile_assembly(source: str, name: str, target: Target, output: Path) -> None:
    """Writes the assembly of an emitted program."""
    compiler = find_compiler()
    flags = ahead_flags(compiler, target)
    with tempfile.TemporaryDirectory(prefix="bayplan-") as folder:
        text = Path(folder) / f"{name}.c"
        text.write_text(source, "utf-8")
        made = text.with_suffix(".s")
        _run(compiler, [*compiler.command, *flags, "-S", str(text), "-o", str(made)], name)
        shutil.copyfile(made, output)


def weak_runtime_source(part: str = "host") -> str:
    """The runtime for static libraries.

    Args:
        part: "host"; "devices", what programs with kernels need besides; or "all".

    Every symbol is weak: two libraries with the runtime link into one program, which then has one
    pool of workers and of memory, and a function of the program's own takes the place of ours.
    """
    from bayplan.runtime import read_device_sources, read_sources

    if part == "devices":
        text = read_device_sources()
    else:
        text = read_sources(ahead=True, devices=part == "all")
    names = sorted(set(re.findall(r"^(?!static|typedef|#)\w[\w *]*?\b(bp_\w+)\([^;{]*\{", text,
                                  re.MULTILINE)))  # fmt: skip
    return "\n".join([*[f"#pragma weak {name}" for name in names], text])


def compile_runtime(target: Target, output: Path, *, devices: bool = False) -> None:
    """Writes the object file of the runtime; compiled at the first use, then from the cache."""
    compiler = find_compiler()
    own = shlex.split(settings.value("CFLAGS"))
    # No instructions beyond the oldest processor's: it is shared by libraries of all targets.
    flags = [*emitted_flags(compiler), "-pthread", *own]
    source = weak_runtime_source("devices" if devices else "host")
    key = make_key(source, "\0".join(flags), compiler.identity())
    kept = cache_folder() / f"{key}.o"
    if not kept.is_file():
        with tempfile.TemporaryDirectory(prefix="tmp-", dir=cache_folder()) as folder:
            text = Path(folder) / "bayplan_runtime.c"
            text.write_text(source, "utf-8")
            made = text.with_suffix(".o")
            run_compiler(
                [*compiler.command, *flags, "-c", str(text), "-o", str(made)], "bayplan_runtime"
            )
            os.replace(made, kept)
    shutil.copyfile(kept, output)


def find_archiver() -> list[str]:
    """The command that makes static libraries: `$AR`, ar, llvm-ar, gcc-ar, else zig's.

    Raises:
        NoCompiler: there is none.
    """
    words = shlex.split(os.environ.get("AR", ""))
    if words:
        return words
    for name in ("ar", "llvm-ar", "gcc-ar"):
        path = search_path(name)
        if path is not None:
            return [path]
    compiler = find_compiler()
    if compiler.kind == "zig":
        return [*compiler.command[:-1], "ar"]
    raise NoCompiler(
        "no program that makes static libraries: looked for ar, llvm-ar, gcc-ar",
        hint="install binutils, or set AR",
    )


def make_archive(objects: Sequence[Path], output: Path) -> None:
    """Writes a static library of object files; the same objects give the same bytes."""
    with tempfile.TemporaryDirectory(prefix="bayplan-") as folder:
        made = Path(folder) / "library.a"
        run_compiler([*find_archiver(), "rcsD", str(made), *map(str, objects)], output.name)
        shutil.copyfile(made, output)


def compile_emulated_object(source: str, name: str, output: Path) -> None:
    """Writes the object file of emulated kernels, which make themselves known to the runtime."""
    compiler = find_cxx_compiler()
    flags = emulation_flags(compiler, shared=False)
    with tempfile.TemporaryDirectory(prefix="bayplan-") as folder:
        text = Path(folder) / f"{name}_kernels.cpp"
        text.write_text(source, "utf-8")
        made = text.with_suffix(".o")
        run_compiler([*compiler.command, *flags, "-c", str(text), "-o", str(made)], name)
        shutil.copyfile(made, output)


def compile_static_library(
    source: str,
    name: str,
    target: Any,
    output: Path,
    *,
    devices: bool = False,
    emulated: str = "",
) -> list[StackUse]:
    """Writes a static library of a program, with the runtime unless the target has no_runtime.

    Args:
        source: the emitted C.
        name: of the program.
        target: what it is made for.
        output: the file.
        devices: with what programs with kernels need.
        emulated: the C++ text of kernels that run on the host.

    Returns:
        The stack that each function of the program takes.
    """
    with tempfile.TemporaryDirectory(prefix="bayplan-") as folder:
        program = Path(folder) / f"{name}.o"
        uses = compile_object(source, name, target, program)
        objects = [program]
        if not target.has_feature(TargetFeature.NoRuntime) and target.os is not TargetOS.NoOS:
            objects.append(Path(folder) / "bayplan_runtime.o")
            compile_runtime(target, objects[-1])
            if devices:
                objects.append(Path(folder) / "bayplan_devices.o")
                compile_runtime(target, objects[-1], devices=True)
        if emulated:
            objects.append(Path(folder) / f"{name}_kernels.o")
            compile_emulated_object(emulated, name, objects[-1])
        make_archive(objects, output)
    return uses
