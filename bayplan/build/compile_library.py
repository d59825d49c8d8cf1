"""Compiles C or C++ text to a shared library through the cache."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from bayplan.build.cache import (
    cache_folder,
    find_entry,
    make_key,
    processor_identity,
    seal,
    store_entry,
)
from bayplan.build.compilers import Compiler, find_compiler
from bayplan.build.flags import choose_flags
from bayplan.ir.errors import CompileError

_LOOK_UP_SECONDS = 0.25
_STDERR_LIMIT = 8000


def compile_library(
    source: str,
    name: str,
    *,
    libraries: tuple[str, ...] = ("-lm",),
    compiler: Compiler | None = None,
    flags: list[str] | None = None,
    suffix: str = ".c",
) -> Path:
    """The shared library of a C text, compiled unless the cache has it.

    Args:
        source: the whole C text.
        name: for the names of files and messages.
        libraries: flags behind the source.
        compiler: by default the one `find_compiler` finds.
        flags: by default those `choose_flags` chooses.
        suffix: of the file of the text.

    Raises:
        NoCompiler: There is no compiler.
        CompileError: The compiler failed; the message has the command and what it said.
    """
    if compiler is None:
        compiler = find_compiler()
    if flags is None:
        flags = choose_flags(compiler)
    key = make_key(
        source, "\0".join(flags), "\0".join(libraries), compiler.identity(), processor_identity()
    )
    found = find_entry(key)
    if found is not None:
        return found
    folder = Path(tempfile.mkdtemp(prefix="tmp-", dir=cache_folder()))
    try:
        text = folder / f"{_file_name(name)}{suffix}"
        text.write_text(source)
        library = folder / f"{_file_name(name)}.so"
        end = [str(text), "-o", str(library), *libraries]
        try:
            run_compiler([*compiler.command, *flags, *end], name)
        except CompileError as error:
            # gcc 12 crashes on some masks that are partly constant, and on some that its loop
            # vectoriser makes: -O1 without that vectoriser has neither.
            if "internal compiler error" not in error.message:
                raise
            plain = ("-O1", "-fno-tree-loop-vectorize")
            run_compiler([*compiler.command, *flags, *plain, *end], name)
        if not library.exists():
            raise CompileError(
                f"the C compiler reported success on {name!r} but wrote nothing\n"
                f"  command: {shlex.join([*compiler.command, *flags, *end])}"
            )
        seal(library)
        return store_entry(key, library, text)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _file_name(name: str) -> str:
    return "".join([c if c.isalnum() or c in "_-" else "_" for c in name])[:60] or "program"


def run_compiler(command: list[str], name: str) -> None:
    """Runs a compiler to its end; when interrupted, ends it and all that it started.

    Raises:
        CompileError: It could not be started, or it failed.
    """
    process = _start(command, name)
    try:
        stderr = _wait(process)
    except BaseException:
        _kill_group(process)
        raise
    if process.returncode != 0:
        text = stderr.decode(errors="replace").strip()
        if len(text) > _STDERR_LIMIT:
            text = text[:_STDERR_LIMIT] + "\n..."
        how = (
            f"died by signal {-process.returncode}"
            if process.returncode < 0
            else f"ended with {process.returncode}"
        )
        raise CompileError(
            f"the C compiler {how} on {name!r}\n  command: {shlex.join(command)}\n{text}"
        )


def _start(command: list[str], name: str) -> subprocess.Popen[bytes]:
    # An interrupt between the start of the child and the assignment would lose the child.
    main = threading.current_thread() is threading.main_thread()
    if main:
        old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CompileError(
            f"the C compiler could not be started on {name!r}: {error}\n"
            f"  command: {shlex.join(command)}"
        ) from None
    finally:
        if main:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)


def _wait(process: subprocess.Popen[bytes]) -> bytes:
    """What the process writes to stderr until its end.

    Looks up now and then: a signal that another thread received does not end the waiting.
    """
    while True:
        try:
            return process.communicate(timeout=_LOOK_UP_SECONDS)[1]
        except subprocess.TimeoutExpired:
            continue


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    process.wait()
    if process.stderr is not None:
        process.stderr.close()
