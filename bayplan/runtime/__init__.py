"""The small C runtime of emitted programs: memory, workers, failure, messages.

An emitted program calls the runtime only through the hooks of its context (`bayplan.h`), so it
runs as well with hooks of the caller's own. The sources here are the default hooks: compiled once
into the cache for programs called from Python, and appended to a program that is built ahead of
time.
"""

from __future__ import annotations

from pathlib import Path

from bayplan.targets.header import read_device_header, read_emulated_header, read_header

_FOLDER = Path(__file__).parent

SOURCES = ("pool.c", "allocator.c", "check_alloc.c", "log.c", "messages.c", "context.c")


# What programs with kernels need besides; not in programs of the host.
DEVICE_HEADERS = ("device_pool.h", "device.h", "opencl.h", "cuda.h")
DEVICE_SOURCES = (
    "device_pool.c", "device.c", "device_buffers.c", "devices.c", "opencl_loader.c", "opencl.c",
    "cuda_loader.c", "cuda.c", "emulated.c",
)  # fmt: skip

# For programs that are built ahead of time and take no context.
AHEAD_SOURCES = ("default_context.c",)


def read_sources(*, ahead: bool = False, devices: bool = False) -> str:
    """The runtime as one C text for the compiler, its header included.

    Args:
        ahead: with the context of programs that take none.
        devices: with what programs with kernels need.
    """
    names = [*SOURCES, *(AHEAD_SOURCES if ahead else ())]
    if not devices:
        return _join(["runtime.h", *names])
    found = _join(["runtime.h", *DEVICE_HEADERS, *names, *DEVICE_SOURCES], read_emulated_header())
    return "#define BP_WITH_DEVICES 1\n" + found


def read_device_sources() -> str:
    """What a program with kernels needs besides the runtime, as one C text."""
    return _join(["runtime.h", *DEVICE_HEADERS, *DEVICE_SOURCES], read_emulated_header())


def _join(names: list[str], *headers: str) -> str:
    parts = [
        "#if !defined(_GNU_SOURCE)\n#define _GNU_SOURCE\n#endif\n",
        read_header(),
        read_device_header(),
        *headers,
        *[(_FOLDER / name).read_text() for name in names],
    ]
    lines = "\n".join(parts).splitlines()
    return "\n".join([line for line in lines if not line.startswith('#include "')]) + "\n"
