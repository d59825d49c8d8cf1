"""The runtime library seen from Python: contexts, calls, counters, the event log."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bayplan.runtime.devices import Devices

BP_ERROR: Final = -1
BP_OUT_OF_MEMORY: Final = -2
BP_CANCELLED: Final = -3

_MAX_ARGS: Final = 12


class _ArgValue(ctypes.Union):
    _fields_ = [
        ("i", ctypes.c_int64),
        ("u", ctypes.c_uint64),
        ("d", ctypes.c_double),
        ("s", ctypes.c_char_p),
        ("p", ctypes.c_void_p),
    ]


class _Arg(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int64), ("as_", _ArgValue)]

    def value(self) -> Any:
        kind = self.kind
        if kind == 0:
            return self.as_.i
        if kind == 1:
            return self.as_.u
        if kind in (2, 3):
            return self.as_.d
        if kind == 4:
            return (self.as_.s or b"").decode(errors="replace")
        return self.as_.p


class _Error(ctypes.Structure):
    _fields_ = [
        ("site", ctypes.c_void_p),
        ("index", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("args", _Arg * _MAX_ARGS),
    ]


class _Base(ctypes.Structure):
    _fields_ = [
        ("alloc", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
        ("print", ctypes.c_void_p),
        ("mark", ctypes.c_void_p),
        ("find_device", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("workers", ctypes.c_int32),
        ("cancelled", ctypes.c_int32),
        ("failed", ctypes.c_int32),
        ("error", _Error),
    ]


class Counts(ctypes.Structure):
    """What one call took from its allocator; bytes are those asked for.

    Attributes:
        allocations: successful and failed requests.
        releases: blocks given back.
        live_bytes: bytes not given back.
        peak_bytes: the largest sum of live bytes.
        system_calls: requests that had to go to the operating system.
    """

    _fields_ = [
        ("allocations", ctypes.c_int64),
        ("releases", ctypes.c_int64),
        ("live_bytes", ctypes.c_int64),
        ("peak_bytes", ctypes.c_int64),
        ("system_calls", ctypes.c_int64),
    ]


class Refusal(ctypes.Structure):
    """The pool of memory when it refused a request; all in bytes.

    Attributes:
        asked: what was asked for.
        used: of blocks in use, padding included.
        held: of blocks in use and of those kept for later calls.
        limit: of `held`; 0: none, so the system had no memory.
        from_check: the checking allocator refused, and there are no such numbers.
    """

    _fields_ = [
        ("asked", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("held", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("from_check", ctypes.c_int32),
    ]

    def __str__(self) -> str:
        limit = f"the limit is {self.limit}" if self.limit else "there is no limit but the system's"
        return (
            f"asked for {self.asked} bytes while {self.used} were used and {self.held} held; "
            f"{limit}"
        )


class MemoryRecord(ctypes.Structure):
    """`bp_memory`: the pool of memory at one moment."""

    _fields_ = [
        ("asked", ctypes.c_uint64),
        ("used", ctypes.c_uint64),
        ("kept", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("requests", ctypes.c_int64),
        ("refusals", ctypes.c_int64),
        ("system_calls", ctypes.c_int64),
    ]


class _Event(ctypes.Structure):
    _fields_ = [
        ("is_alloc", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("bytes", ctypes.c_int64),
        ("call", ctypes.c_int64),
        ("time_ns", ctypes.c_int64),
        ("name", ctypes.c_char_p),
        ("block", ctypes.c_void_p),
        ("marked", ctypes.c_int32),
    ]


WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)


class _Context(ctypes.Structure):
    _fields_ = [
        ("base", _Base),
        ("counts", Counts),
        ("call", ctypes.c_int64),
        ("log", ctypes.c_void_p),
        ("check", ctypes.c_void_p),
        ("write", ctypes.c_void_p),
        ("write_user", ctypes.c_void_p),
        ("refused", ctypes.c_int32),
        ("refusal", Refusal),
    ]


class Event:
    """The begin or end of a temporary's memory: name, bytes, thread, number of the call, time.

    Attributes:
        kind: "alloc" or "free"; for the arena that temporaries of the log lie in "take_arena" or
            "give_arena", so that no byte counts twice.
        marked: whether the program told it, which is built with the feature `profile`; else it is
            memory that was really taken or given back.
    """

    __slots__ = ("block", "call", "kind", "marked", "name", "size_bytes", "thread", "time_ns")

    def __init__(self, raw: _Event) -> None:
        self.kind = "alloc" if raw.is_alloc else "free"
        self.marked = bool(raw.marked)
        self.name: str = (raw.name or b"").decode()
        self.size_bytes: int = raw.bytes
        self.thread: int = raw.thread
        self.call: int = raw.call
        self.time_ns: int = raw.time_ns
        self.block: int = raw.block or 0

    def __repr__(self) -> str:
        return f"Event({self.kind} {self.name} {self.size_bytes} B, call {self.call})"


def _find_arenas(events: list[Event]) -> list[Event]:
    """The events, in which memory that marked temporaries lie in is called an arena."""
    if not any(event.marked for event in events):
        return events
    taken: dict[int, Event] = {}  # by the begin of the block
    arenas: dict[int, Event] = {}
    for event in events:
        if event.marked:
            for begin, block in taken.items():
                if begin <= event.block < begin + block.size_bytes:
                    block.kind = "take_arena"
                    arenas[begin] = block
                    break
        elif event.kind == "alloc":
            taken[event.block] = event
        else:
            taken.pop(event.block, None)
            if arenas.pop(event.block, None) is not None:
                event.kind = "give_arena"
    return events


_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {
    "bp_rt_context_new": (ctypes.c_void_p, []),
    "bp_rt_context_free": (None, [ctypes.c_void_p]),
    "bp_rt_call": (
        ctypes.c_int32,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32],
    ),
    "bp_rt_call_with_workspace": (
        ctypes.c_int32,
        [
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_uint64,
            ctypes.c_int32,
        ],
    ),
    "bp_rt_workspace_bytes": (
        ctypes.c_int64,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p],
    ),
    "bp_rt_set_num_threads": (ctypes.c_int32, [ctypes.c_int32]),
    "bp_rt_num_threads": (ctypes.c_int32, []),
    "bp_rt_busy_workers": (ctypes.c_int32, []),
    "bp_rt_trim": (ctypes.c_uint64, []),
    "bp_rt_kept_bytes": (ctypes.c_uint64, []),
    "bp_rt_system_calls": (ctypes.c_int64, []),
    "bp_rt_set_memory_limit": (ctypes.c_uint64, [ctypes.c_uint64]),
    "bp_rt_memory_statistics": (None, [ctypes.POINTER(MemoryRecord)]),
    "bp_log_new": (ctypes.c_void_p, []),
    "bp_log_free": (None, [ctypes.c_void_p]),
    "bp_log_count": (ctypes.c_int64, [ctypes.c_void_p]),
    "bp_log_events": (ctypes.POINTER(_Event), [ctypes.c_void_p]),
    "bp_check_new": (ctypes.c_void_p, [ctypes.c_int32, ctypes.c_int64]),
    "bp_check_free": (None, [ctypes.c_void_p]),
    "bp_check_counts": (None, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)]),
    "bp_format_error": (ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64]),
}


class Runtime:
    """The loaded runtime library, one in a process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self._devices: Devices | None = None
        for name, (result, args) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = args

    @property
    def devices(self) -> Devices:
        """The devices of this process, for programs with kernels."""
        if self._devices is None:
            from bayplan.runtime.devices import Devices

            self._devices = Devices(self.library)
        return self._devices

    def set_num_threads(self, threads: int) -> int:
        """Sets the threads of a parallel loop, caller included; 0: one a processor.

        Returns:
            The number that was set before.
        """
        return int(self.library.bp_rt_set_num_threads(threads))

    def num_threads(self) -> int:
        """Threads of a parallel loop, caller included."""
        return int(self.library.bp_rt_num_threads())

    def busy_workers(self) -> int:
        """Workers inside a parallel loop at this moment."""
        return int(self.library.bp_rt_busy_workers())

    def trim(self) -> int:
        """Gives kept memory back to the system; the bytes that were kept."""
        return int(self.library.bp_rt_trim())

    def kept_bytes(self) -> int:
        """Bytes kept for later calls."""
        return int(self.library.bp_rt_kept_bytes())

    def system_calls(self) -> int:
        """Memory requests of this process that went to the system."""
        return int(self.library.bp_rt_system_calls())

    def set_memory_limit(self, size_bytes: int) -> int:
        """Sets the most bytes that the pool holds, 0: no limit; the limit before."""
        return int(self.library.bp_rt_set_memory_limit(size_bytes))

    def memory(self) -> MemoryRecord:
        """The pool of memory at this moment."""
        record = MemoryRecord()
        self.library.bp_rt_memory_statistics(ctypes.byref(record))
        return record

    def new_context(self) -> Context:
        """A context for calls, one at a time."""
        return Context(self)


class Context:
    """What a call runs in: memory, workers, messages. One call at a time.

    Attributes:
        runtime: the library it belongs to.
        is_busy: a call runs in it, which perhaps prints and so runs Python again.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.is_busy = False
        self._library = runtime.library
        self._pointer: int | None = runtime.library.bp_rt_context_new()
        if not self._pointer:
            raise MemoryError("no memory for a context")
        self._raw = _Context.from_address(self._pointer)
        self._write: Any = None

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.log_events(False)
            self.check_allocations(False)
            self._library.bp_rt_context_free(self._pointer)
            self._pointer = None

    @property
    def pointer(self) -> int:
        """The address of the `bp_context`."""
        assert self._pointer is not None
        return self._pointer

    def call(self, entry: int, arguments: Any, *, interrupt: bool = False) -> int:
        """Runs the argv entry point of a program.

        Args:
            entry: address of `NAME_argv`.
            arguments: a ctypes array of pointers.
            interrupt: let SIGINT end the call; only on the main thread.

        Returns:
            0, or a negative result; then `failure` tells more.
        """
        self.is_busy = True
        try:
            return int(self._library.bp_rt_call(self._pointer, entry, arguments, int(interrupt)))
        finally:
            self.is_busy = False

    def call_with_workspace(
        self,
        entry: int,
        arguments: Any,
        address: int,
        size_bytes: int,
        *,
        interrupt: bool = False,
    ) -> int:
        """Runs the `NAME_with_workspace_argv` entry of a program: temporaries in given memory.

        Args:
            entry: its address.
            arguments: a ctypes array of pointers.
            address: of memory that nobody else uses during the call.
            size_bytes: of that memory.
            interrupt: let SIGINT end the call; only on the main thread.

        Returns:
            0, or a negative result; then `failure` tells more.
        """
        self.is_busy = True
        try:
            return int(
                self._library.bp_rt_call_with_workspace(
                    self._pointer, entry, arguments, address, size_bytes, int(interrupt)
                )
            )
        finally:
            self.is_busy = False

    def workspace_bytes(self, entry: int, arguments: Any) -> int:
        """Asks the `NAME_workspace_bytes_argv` entry of a program; runs nothing.

        Returns:
            The bytes of workspace that a call with these arguments needs, or a negative result;
            then `failure` tells more.
        """
        return int(self._library.bp_rt_workspace_bytes(self._pointer, entry, arguments))

    def refusal(self) -> Refusal | None:
        """The pool's numbers when it refused memory to the last call, None where it did not."""
        if not self._raw.refused or self._raw.refusal.from_check:
            return None
        return Refusal.from_buffer_copy(self._raw.refusal)

    def cancel(self) -> None:
        """Ends the running call at its next outer iteration; for other threads."""
        self._raw.base.cancelled = 1

    @property
    def cancelled(self) -> bool:
        """Whether the last call was asked to end."""
        return bool(self._raw.base.cancelled)

    def failure(self) -> tuple[int, tuple[Any, ...]] | None:
        """The index in the program's table of sites and the arguments of the last call's error."""
        error = self._raw.base.error
        if not error.site:
            return None
        return error.index, tuple([error.args[i].value() for i in range(error.count)])

    def failure_text(self) -> str:
        """The last call's error as a C caller sees it; "" where there was none."""
        room = self._library.bp_format_error(self._pointer, None, 0)
        if not room:
            return ""
        text = ctypes.create_string_buffer(room)
        self._library.bp_format_error(self._pointer, text, room)
        return text.value.decode(errors="replace")

    @property
    def counts(self) -> Counts:
        """A copy of the last call's counters."""
        return Counts.from_buffer_copy(self._raw.counts)

    def set_write(self, write: Callable[[str], Any] | None) -> None:
        """Sends printed lines to `write`; None: to file descriptor 1."""
        if write is None:
            self._write = None
            self._raw.write = None
            return

        def forward(_user: int, text: int, size: int) -> None:
            write(ctypes.string_at(text, size).decode(errors="replace"))

        self._write = WRITE(forward)
        self._raw.write = ctypes.cast(self._write, ctypes.c_void_p)

    def log_events(self, on: bool = True) -> None:
        """Starts an empty event log, or ends it."""
        if self._raw.log:
            self._library.bp_log_free(self._raw.log)
            self._raw.log = None
        if on:
            self._raw.log = self._library.bp_log_new()

    def events(self) -> list[Event]:
        """The logged allocations and releases in order."""
        log = self._raw.log
        if not log:
            return []
        count = self._library.bp_log_count(log)
        events = self._library.bp_log_events(log)
        return _find_arenas([Event(events[i]) for i in range(count)])

    def check_allocations(
        self, on: bool = True, *, flush_right: bool = False, fail_at: int = 0
    ) -> None:
        """Takes memory from the checking allocator: exact sizes between guard pages.

        Args:
            on: False goes back to the pooling allocator.
            flush_right: blocks end, instead of begin, at a guard page.
            fail_at: the number of the request that fails, from 1; 0: none.
        """
        if self._raw.check:
            self._library.bp_check_free(self._raw.check)
            self._raw.check = None
        if on:
            self._raw.check = self._library.bp_check_new(int(flush_right), fail_at)

    def check_counts(self) -> tuple[int, int, int]:
        """Requests, live blocks and bad releases that the checking allocator has seen."""
        out = (ctypes.c_int64 * 3)()
        if self._raw.check:
            self._library.bp_check_counts(self._raw.check, out)
        return out[0], out[1], out[2]
