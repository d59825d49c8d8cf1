"""Loads compiled programs and the runtime into this process."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bayplan.build.cache import drop_entry
from bayplan.build.compile_library import compile_library
from bayplan.build.compilers import find_compiler
from bayplan.build.flags import choose_flags
from bayplan.ir.errors import InternalError
from bayplan.targets.c_names import sanitise

if TYPE_CHECKING:
    from bayplan.runtime.binding import Runtime


class LoadedProgram:
    """A compiled program in this process.

    Attributes:
        name: of the program, as C spells it.
        entry: address of its `NAME_argv` function, for `Context.call`.
        workspace_bytes_entry: address of `NAME_workspace_bytes_argv`, None where it has none.
        workspace_entry: address of `NAME_with_workspace_argv`, None where it has none.
        path: the library's file.
        library: keeps the code loaded.
    """

    __slots__ = ("entry", "library", "name", "path", "workspace_bytes_entry", "workspace_entry")

    def __init__(self, name: str, path: Path, library: ctypes.CDLL) -> None:
        self.name = name
        self.path = path
        self.library = library
        entry = _find_address(library, f"{name}_argv")
        if entry is None:
            raise InternalError(f"the library {path} has no entry point {name}_argv")
        self.entry: int = entry
        self.workspace_bytes_entry = _find_address(library, f"{name}_workspace_bytes_argv")
        self.workspace_entry = _find_address(library, f"{name}_with_workspace_argv")


def _find_address(library: ctypes.CDLL, symbol: str) -> int | None:
    try:
        function = getattr(library, symbol)
    except AttributeError:
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


def load_program(source: str, name: str) -> LoadedProgram:
    """Compiles the emitted text `source`, or finds it in the cache, and loads it.

    Raises:
        NoCompiler: There is no compiler.
        CompileError: The compiler failed.
    """
    symbol = sanitise(name)
    path, library = _load(source, symbol, ("-lm",))
    return LoadedProgram(symbol, path, library)


def _load(source: str, name: str, libraries: tuple[str, ...]) -> tuple[Path, ctypes.CDLL]:
    path = compile_library(source, name, libraries=libraries)
    try:
        return path, ctypes.CDLL(str(path))
    except OSError:
        # Whole, yet not for this machine: a cache shared with another one. Make it anew.
        drop_entry(path.stem)
        path = compile_library(source, name, libraries=libraries)
        return path, ctypes.CDLL(str(path))


_runtime: Runtime | None = None


def load_runtime() -> Runtime:
    """The runtime of this process; compiled at the first use on this machine."""
    global _runtime
    if _runtime is None:
        import os

        from bayplan import settings
        from bayplan.runtime import read_sources
        from bayplan.runtime.binding import Runtime

        compiler = find_compiler()
        flags = [*choose_flags(compiler), "-pthread", "-fvisibility=default"]
        path = compile_library(
            read_sources(devices=True),
            "bayplan_runtime",
            compiler=compiler,
            flags=flags,
            libraries=("-ldl",) if sys.platform == "linux" else (),
        )
        _runtime = Runtime(ctypes.CDLL(str(path)))
        threads = settings.value("NUM_THREADS")
        if threads is None:
            text = os.environ.get("HL_NUM_THREADS", "")
            threads = int(text) if text.isdigit() else 0
        _runtime.set_num_threads(threads)
        limit = settings.value("MEMORY_LIMIT")
        if limit is not None and limit > 0:
            _runtime.set_memory_limit(limit)
    return _runtime
