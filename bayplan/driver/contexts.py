"""The runtime of this process and the context that each thread's calls run in."""

from __future__ import annotations

import threading

from bayplan.runtime.binding import Context, Runtime

_local = threading.local()


def runtime() -> Runtime:
    """The runtime library of this process, compiled at its first use on this machine."""
    from bayplan.build.loading import load_runtime

    return load_runtime()


def _print(text: str) -> None:
    """What programs print goes where Python prints, also when that is not file descriptor 1."""
    import sys

    sys.stdout.write(text)


def context() -> Context:
    """This thread's context: memory and messages of the calls it makes.

    A call that prints can run Python code that calls again; that call gets a context of its own.
    """
    contexts: list[Context] | None = getattr(_local, "contexts", None)
    if contexts is None:
        contexts = _local.contexts = []
    for found in contexts:
        if not found.is_busy:
            return found
    made = runtime().new_context()
    made.set_write(_print)
    contexts.append(made)
    return made


def set_num_threads(threads: int) -> int:
    """Sets the threads of parallel loops, caller included; returns the number before."""
    return runtime().set_num_threads(threads)


def num_threads() -> int:
    """Threads of parallel loops, caller included."""
    return runtime().num_threads()
