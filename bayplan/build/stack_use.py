"""How much stack an emitted program takes: the frames that compilers report, along its calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from bayplan.ir.errors import InternalError

# A call leaves its return address, and what it takes to align it.
_CALL_BYTES: Final = 16
_COMMENT_OR_STRING: Final = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# What is called, and what is handed to a hook that calls it.
_MENTION: Final = re.compile(r"\b(\w+)\(|, (\w+_task)\b")
_BEGIN: Final = re.compile(r"(\w+)\([^()]*\) \{$")


class StackUse:
    """Bytes of stack that one function of a program takes.

    Attributes:
        function: its name.
        size_bytes: of its frame, as the compiler says.
        is_bounded: the compiler knows the size; false only for arrays of variable length.
    """

    __slots__ = ("function", "is_bounded", "size_bytes")

    def __init__(self, function: str, size_bytes: int, is_bounded: bool) -> None:
        self.function = function
        self.size_bytes = size_bytes
        self.is_bounded = is_bounded


def read_stack_use(text: str) -> list[StackUse]:
    """What a compiler wrote for `-fstack-usage`."""
    found = []
    for line in text.splitlines():
        where, size, how = line.split("\t")
        function = where.rsplit(":", 1)[-1]
        found.append(StackUse(function, int(size), how == "static" or "bounded" in how))
    return found


def measure_stack(
    source: str, entries: Iterable[str], uses: Sequence[StackUse]
) -> int | None:
    """The most stack that a call of one of the entries takes, hooks not counted.

    A task of a parallel loop counts as called where it is handed to the hook. No function of an
    emitted program calls itself.

    Args:
        source: the emitted C.
        entries: names of functions.
        uses: the frames that the compiler reported.

    Returns:
        None where the compiler did not report, or does not know a size.
    """
    if not uses or not all(use.is_bounded for use in uses):
        return None
    frames: dict[str, int] = {}
    for use in uses:
        # gcc splits functions: f.part.0, f.constprop.1.
        name = use.function.partition(".")[0]
        frames[name] = frames.get(name, 0) + use.size_bytes + _CALL_BYTES
    mentions = find_mentions(source)
    depths: dict[str, int | None] = {}

    def depth(name: str) -> int:
        known = depths.get(name, -1)
        if known is None:
            raise InternalError(f"the emitted function {name} calls itself")
        if known >= 0:
            return known
        depths[name] = None
        # A function that was inlined has no frame; what it calls is called by its caller.
        inner = [depth(callee) for callee in mentions[name]]
        found = depths[name] = frames.get(name, 0) + max(inner, default=0)
        return found

    return max([depth(entry) for entry in entries if entry in mentions], default=0)


def find_mentions(source: str) -> dict[str, list[str]]:
    """The functions of an emitted program, each with the other ones that it names."""
    bodies: dict[str, list[str]] = {}
    current: list[str] | None = None
    head = ""
    for line in _COMMENT_OR_STRING.sub("", source).splitlines():
        if current is not None:
            if line == "}":
                current = None
            else:
                current.append(line)
            continue
        # The head of a function may stand on several lines.
        head = f"{head} {line}" if line.startswith(" ") else line
        begin = _BEGIN.search(head)
        if begin is not None:
            current = bodies.setdefault(begin[1], [])
    known = set(bodies)
    found = {}
    for name, lines in bodies.items():
        words = {a or b for a, b in _MENTION.findall("\n".join(lines))}
        found[name] = sorted(words & known)
    return found
