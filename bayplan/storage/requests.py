"""What a planner of offsets is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.ir.errors import CapacityError


class Request:
    """Bytes that must keep their value for a while.

    Attributes:
        name: for messages.
        size_bytes: how many; 0 takes no room.
        begin, end: the life, a half-open interval of steps; empty where nothing touches the bytes.
        alignment: the offset must be a multiple of it.
        offset: the place where the bytes must lie, or None where the planner chooses.
    """

    __slots__ = ("alignment", "begin", "end", "name", "offset", "size_bytes")

    def __init__(
        self,
        name: str,
        size_bytes: int,
        begin: int,
        end: int,
        alignment: int = 1,
        offset: int | None = None,
    ) -> None:
        if size_bytes < 0:
            raise ValueError(f"{name!r} has a size of {size_bytes} bytes; the least is 0")
        if end < begin:
            raise ValueError(f"the life [{begin}, {end}) of {name!r} ends before it begins")
        if alignment < 1:
            raise ValueError(f"{name!r} has an alignment of {alignment}; the least is 1")
        if offset is not None and offset < 0:
            raise ValueError(f"{name!r} has the offset {offset}; the least is 0")
        if offset is not None and offset % alignment:
            raise ValueError(f"the offset {offset} of {name!r} is no multiple of {alignment}")
        self.name = name
        self.size_bytes = size_bytes
        self.begin = begin
        self.end = end
        self.alignment = alignment
        self.offset = offset

    def __repr__(self) -> str:
        text = f"Request({self.name!r}, {self.size_bytes}, {self.begin}, {self.end}"
        if self.alignment != 1:
            text += f", alignment={self.alignment}"
        if self.offset is not None:
            text += f", offset={self.offset}"
        return text + ")"


class Planned:
    """Where `plan_offsets` put the bytes of each request.

    Attributes:
        offsets: one a request, in the order of the requests.
        peak_bytes: the end of the highest one.
        floor_bytes: the largest sum of bytes alive at one step.
        least_bytes: no plan takes fewer; at least the floor, more where alignment, pinned offsets
            or a finished search say so.
        proven: no plan takes fewer bytes than this one.
    """

    __slots__ = ("floor_bytes", "least_bytes", "offsets", "peak_bytes", "proven")

    def __init__(
        self, offsets: Sequence[int], peak_bytes: int, floor_bytes: int, least_bytes: int
    ) -> None:
        self.offsets = tuple(offsets)
        self.peak_bytes = peak_bytes
        self.floor_bytes = floor_bytes
        self.least_bytes = least_bytes
        self.proven = peak_bytes <= least_bytes

    def __repr__(self) -> str:
        end = ", proven" if self.proven else f", least {self.least_bytes}"
        return f"Planned(peak {self.peak_bytes}, floor {self.floor_bytes}{end})"


def align_up(value: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment


def measure_peak(requests: Sequence[Request], offsets: Sequence[int]) -> int:
    """The end of the highest request; one of no bytes has none."""
    ends = [o + r.size_bytes for r, o in zip(requests, offsets) if r.size_bytes]
    return max(ends, default=0)


def check_pins(requests: Sequence[Request]) -> None:
    """Raises a CapacityError where two pinned requests that live together overlap."""
    pinned = [(r, r.offset) for r in requests if r.offset is not None and r.size_bytes]
    pinned.sort(key=lambda pair: pair[1])
    for i, (low, low_offset) in enumerate(pinned):
        for high, high_offset in pinned[i + 1 :]:
            if high_offset >= low_offset + low.size_bytes:
                break
            if low.begin < high.end and high.begin < low.end:
                raise CapacityError(
                    f"{low.name!r} is pinned to [{low_offset}, {low_offset + low.size_bytes}) and "
                    f"{high.name!r} to [{high_offset}, {high_offset + high.size_bytes}), and both "
                    f"are alive at t={max(low.begin, high.begin)}"
                )
