"""The exact search of the planner as compiled C, for inputs that Python is too slow for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from bayplan.storage.packing import Found, Packing, Search

# The search calls itself once or twice a request, and its memory grows with their square.
_MOST_REQUESTS = 4000
# Sums of a few numbers of this size are safe in 64 bits.
_MOST_UNITS = 2**60
# How often a search in its own thread is looked after.
_LOOK_UP_SECONDS = 0.02


def load_search() -> Search:
    """The compiled search, for `plan_offsets(search=...)`; compiles it now where need be.

    Raises:
        NoCompiler, CompileError: It could not be compiled.
    """
    _load()
    return search_packing_fast


def search_packing_fast(
    packing: Packing,
    capacity: int,
    rank: list[int],
    limit: int,
    stop: Callable[[], bool],
    jump: bool = False,
) -> Found:
    """The same as `storage.search.search_packing`, for `plan_offsets(search=...)`.

    With `jump` a failure goes straight back to what it rests on, so that nothing is refuted, and
    the answer says which requests were to blame.

    The C runs in a thread of its own, so that a time limit or an interrupt ends it.

    Raises:
        NoCompiler, CompileError: It could not be compiled.
        MemoryError: The search needs more memory than there is.
    """
    import threading

    count = len(packing.numbers)
    widest = sum(packing.sizes) + max(packing.alignments + packing.pins, default=0)
    if count > _MOST_REQUESTS or widest > _MOST_UNITS:
        return Found(None, False, limit)
    function = _load()
    offsets = (ctypes.c_int64 * max(1, count))()
    nodes = ctypes.c_int64(0)
    flag = ctypes.c_int32(0)
    blame = (ctypes.c_int64 * max(1, count))() if jump else None
    results: list[int] = []
    arguments = (
        count,
        packing.sections,
        _row(ctypes.c_int32, packing.begins),
        _row(ctypes.c_int32, packing.ends),
        _row(ctypes.c_int64, packing.sizes),
        _row(ctypes.c_int64, packing.alignments),
        _row(ctypes.c_int64, packing.pins),
        _row(ctypes.c_int32, rank),
        min(capacity, 2**62),
        min(limit, 2**62),
        ctypes.byref(flag),
        offsets,
        ctypes.byref(nodes),
        blame,
    )

    done = threading.Event()

    def work() -> None:
        results.append(function(*arguments))
        done.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while not done.wait(_LOOK_UP_SECONDS):
            if stop():
                flag.value = 1
    finally:
        flag.value = 1
        thread.join()
    result = results[0]
    if result == -2:
        raise MemoryError(f"the search for a packing of {count} requests ran out of memory")
    return Found(
        list(offsets)[:count] if result == 1 else None,
        result == 0,
        nodes.value,
        list(blame)[:count] if blame is not None else None,
    )


def _row(kind: Any, values: Sequence[int]) -> Any:
    return (kind * max(1, len(values)))(*values)


@cache
def _load() -> Any:
    from bayplan import storage
    from bayplan.build.compile_library import compile_library
    from bayplan.build.compilers import find_compiler
    from bayplan.build.flags import choose_flags

    source = Path(storage.__path__[0], "search.c").read_text()
    compiler = find_compiler()
    flags = [*choose_flags(compiler), "-O3"]
    path = compile_library(source, "bayplan_search", libraries=(), compiler=compiler, flags=flags)
    library = ctypes.CDLL(str(path))
    function = library.bp_search_packing
    function.restype = ctypes.c_int32
    i32, i64, pointer = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
    function.argtypes = [i32, i32, *[pointer] * 6, i64, i64, *[pointer] * 4]
    return function
