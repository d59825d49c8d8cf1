"""The small C runtime of emitted programs: memory, workers, failure, messages.

An emitted program calls the runtime only through the hooks of its context (`bayplan.h`), so it
runs as well with hooks of the caller's own. The sources here are the default hooks: compiled once
into the cache for programs called from Python, and appended to a program that is built ahead of
time.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.targets.header import read_header

SOURCES = ("pool.c", "allocator.c", "check_alloc.c", "log.c", "messages.c", "context.c")


# The pool of device memory: for runtimes of devices, so not in programs of the host.
DEVICE_SOURCES = ("device_pool.h", "device_pool.c")

# For programs that are built ahead of time and take no context.
AHEAD_SOURCES = ("default_context.c",)


def read_sources(*, ahead: bool = False) -> str:
    """The runtime as one C text for the compiler, its header included.

    Args:
        ahead: with the context of programs that take none.
    """
    folder = Path(__file__).parent
    parts = [
        "#if !defined(_GNU_SOURCE)\n#define _GNU_SOURCE\n#endif\n",
        read_header(),
        (folder / "runtime.h").read_text(),
        *[(folder / name).read_text() for name in (*SOURCES, *(AHEAD_SOURCES if ahead else ()))],
    ]
    lines = "\n".join(parts).splitlines()
    own = ('#include "bayplan.h"', '#include "runtime.h"')
    return "\n".join([line for line in lines if line not in own]) + "\n"
