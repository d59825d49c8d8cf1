"""Requests in the form that exact searches take: sections, not steps; units, not bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import gcd

from bayplan.storage.floor import list_cliques
from bayplan.storage.requests import Request

# Ask for a packing within a capacity: the packing, the capacity, the rank of each request among
# candidates at the same offset, the most nodes, whether to stop, and whether it may jump, which
# finds more and proves nothing. The answer is of `Found`.
Search = Callable[["Packing", int, list[int], int, Callable[[], bool], bool], "Found"]


class Found:
    """What a search found.

    Attributes:
        offsets: of each request of the packing in units, or None.
        refuted: whether it is proved that there is no packing.
        nodes: how many were visited.
        blame: after jumps, how often each request of the packing was where there was no room.
    """

    __slots__ = ("blame", "nodes", "offsets", "refuted")

    def __init__(
        self,
        offsets: list[int] | None,
        refuted: bool,
        nodes: int,
        blame: list[int] | None = None,
    ) -> None:
        self.offsets = offsets
        self.refuted = refuted
        self.nodes = nodes
        self.blame = blame


class Packing:
    """The requests that take room and live, in the order of their births.

    Attributes:
        unit: divides all sizes, alignments and pinned offsets; everything below is in units.
        numbers: of each its place among the requests given.
        begins, ends: the sections of each life; a section lies between two births.
        sections: how many there are.
        sizes, alignments: in units.
        pins: the pinned offset, or -1.
        ranks: ways to order candidates, the most promising first.
    """

    __slots__ = (
        "alignments",
        "begins",
        "ends",
        "numbers",
        "pins",
        "ranks",
        "sections",
        "sizes",
        "unit",
    )

    def __init__(self, requests: Sequence[Request]) -> None:
        live = [i for i, r in enumerate(requests) if r.size_bytes and r.begin < r.end]
        live.sort(key=lambda i: requests[i].begin)
        self.numbers = live
        chosen = [requests[i] for i in live]
        births = sorted({r.begin for r in chosen})
        self.sections = len(births)
        self.begins = [bisect_left(births, r.begin) for r in chosen]
        self.ends = [bisect_left(births, r.end) for r in chosen]
        unit = 0
        for r in chosen:
            unit = gcd(unit, r.size_bytes, r.offset or 0)
            if r.alignment > 1:
                unit = gcd(unit, r.alignment)
        self.unit = unit = unit or 1
        self.sizes = [r.size_bytes // unit for r in chosen]
        self.alignments = [max(1, r.alignment // unit) for r in chosen]
        self.pins = [-1 if r.offset is None else r.offset // unit for r in chosen]
        self.ranks = _list_ranks(chosen)

    def spread(self, requests: Sequence[Request], offsets: Sequence[int]) -> list[int]:
        """Offsets in bytes of all requests, from those in units of the ones in the packing."""
        result = [r.offset or 0 for r in requests]
        for i, offset in zip(self.numbers, offsets):
            result[i] = offset * self.unit
        return result


def _list_ranks(chosen: Sequence[Request]) -> list[list[int]]:
    pressure = {id(r): r.size_bytes for r in chosen}
    for _, alive in list_cliques(chosen):
        total = sum([r.size_bytes for r in alive])
        for r in alive:
            pressure[id(r)] = max(pressure[id(r)], total)
    size = [r.size_bytes for r in chosen]
    life = [r.end - r.begin for r in chosen]
    area = [s * n for s, n in zip(size, life)]
    press = [pressure[id(r)] for r in chosen]
    births = sorted({r.begin for r in chosen})
    wide = [bisect_left(births, r.end) - bisect_left(births, r.begin) for r in chosen]
    keys: list[list[tuple[int, ...]]] = [
        [(-p, -n, -a) for p, n, a in zip(press, life, area)],
        [(-a,) for a in area],
        [(-n, -s) for n, s in zip(life, size)],
        [(-p, -a, -n) for p, a, n in zip(press, area, life)],
        [(-w, -s) for w, s in zip(wide, size)],
        [(-s, -n) for s, n in zip(size, life)],
    ]
    ranks = []
    for key in keys:
        rank = [0] * len(chosen)
        for place, i in enumerate(sorted(range(len(chosen)), key=key.__getitem__)):
            rank[i] = place
        ranks.append(rank)
    return ranks
