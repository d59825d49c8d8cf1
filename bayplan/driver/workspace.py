"""Memory of the caller that one call places its temporaries in."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from bayplan.ir.errors import AliasError, BufferError
from bayplan.language.buffer import Buffer
from bayplan.lower.program import Argument
from bayplan.runtime.buffers import find_span


class Workspace:
    """The memory of an object with the buffer protocol, held for the time of a `with` block.

    While it is held its owner cannot resize it; then it is free again, also after an error.

    Attributes:
        address: of the first byte; 0 where there is none.
        size_bytes: how many there are.
    """

    __slots__ = ("_exported", "_view", "address", "size_bytes")

    def __init__(self, memory: Any) -> None:
        """Takes hold of the memory.

        Raises:
            BufferError: it is read-only, has gaps, or is no memory at all.
        """
        if isinstance(memory, Buffer):
            memory = memory.numpy_view()
        try:
            view = memoryview(memory)
        except TypeError:
            raise BufferError(
                f"a workspace is memory with the buffer protocol, not {type(memory).__name__}"
            ) from None
        if view.readonly or not view.c_contiguous:
            fault = "read-only" if view.readonly else "not contiguous"
            view.release()
            raise BufferError(f"the workspace is {fault} memory")
        self._view: memoryview | None = view
        self._exported: Any = None
        self.size_bytes = view.nbytes
        self.address = 0
        if self.size_bytes:
            self._exported = ctypes.c_char.from_buffer(view)
            self.address = ctypes.addressof(self._exported)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self._exported = None
        if self._view is not None:
            self._view.release()
            self._view = None

    def check_apart(self, arguments: Sequence[Argument], values: Sequence[Any]) -> None:
        """Refuses a workspace that shares bytes with an argument of the call.

        Raises:
            AliasError: it does.
        """
        end = self.address + self.size_bytes
        for argument, record in zip(arguments, values, strict=True):
            if not argument.is_buffer():
                continue
            first, last = find_span(record)
            if first < end and self.address < last:
                raise AliasError(
                    f"the workspace shares bytes with the buffer {argument.name}", argument.where
                )
