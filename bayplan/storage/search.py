"""Exact search for a packing within a capacity, in Python for small inputs.

The ideas are those published with MiniMalloc (Moffitt, ASPLOS 2024). Requests are placed one on
top of the others in the order of their offsets, so each lies at the highest end among those
already below it. What is cut away:

- canonical order: of equal offsets the lower rank comes first;
- dominance: nothing is placed at an offset under which another request would still fit;
- sections: between two births the bytes still to come must fit over the lowest place that any of
  them can get;
- parts: requests that no open request joins in time are searched apart;
- memory: an open set with the same lowest places has failed before.

`search.c` does the same, is some hundred times as fast, and can jump back from a failure to what it
rests on.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.storage.packing import Found, Packing

_PACKED, _NO_PACKING, _STOPPED = 1, 0, -1
_ABOVE_ALL = 1 << 200


def search_packing(
    packing: Packing,
    capacity: int,
    rank: list[int],
    limit: int,
    stop: Callable[[], bool],
    jump: bool = False,
) -> Found:
    """Looks for a packing within `capacity` units, for `plan_offsets`.

    Args:
        packing: what is placed.
        capacity: in units.
        rank: who comes first among candidates at the same offset; one number a request.
        limit: the most nodes that are visited.
        stop: asked at each node.
        jump: has no effect here; small inputs do not need it.
    """
    state = _State(packing, capacity, rank, limit, stop)
    result = state.search_all(list(range(len(packing.numbers))), 0, -1)
    offsets = state.offsets if result == _PACKED else None
    return Found(offsets, result == _NO_PACKING, state.nodes)


class _State:
    """A partial packing and the search from it."""

    def __init__(
        self,
        packing: Packing,
        capacity: int,
        rank: list[int],
        limit: int,
        stop: Callable[[], bool],
    ) -> None:
        self.packing = packing
        self.capacity = capacity
        self.rank = rank
        self.limit = limit
        self.stop = stop
        self.nodes = 0
        count = len(packing.numbers)
        self.offsets = [0] * count
        # Where each open request can lie at the lowest.
        self.lowest = [max(0, pin) for pin in packing.pins]
        self.failed: set[tuple[object, ...]] = set()

    def search_all(self, members: list[int], last: int, last_rank: int) -> int:
        """Searches each part apart; members are in the order of their births."""
        begins, ends = self.packing.begins, self.packing.ends
        q = 0
        while q < len(members):
            first, end = q, ends[members[q]]
            q += 1
            while q < len(members) and begins[members[q]] < end:
                end = max(end, ends[members[q]])
                q += 1
            result = self._search_part(members[first:q], last, last_rank)
            if result != _PACKED:
                return result
        return _PACKED

    def _search_part(self, members: list[int], last: int, last_rank: int) -> int:
        if self.nodes >= self.limit or self.stop():
            return _STOPPED
        self.nodes += 1
        lowest, rank = self.lowest, self.rank
        highest = self._find_highest(members, last)
        if highest < 0:
            return _NO_PACKING
        below = min([lowest[j] + self.packing.sizes[j] for j in members])
        allowed = [
            j for j in members if lowest[j] > last or (lowest[j] == last and rank[j] >= last_rank)
        ]
        order = (last, last_rank) if len(allowed) < len(members) else None
        key = (order, *[(j, lowest[j]) for j in members])
        if key in self.failed:
            return _NO_PACKING
        candidates = [j for j in allowed if lowest[j] < below and lowest[j] <= highest]
        candidates.sort(key=lambda j: (lowest[j], rank[j]))
        for i in candidates:
            saved = [lowest[j] for j in members]
            if self._put(i, members):
                rest = [j for j in members if j != i]
                result = self.search_all(rest, self.offsets[i], rank[i])
                if result != _NO_PACKING:
                    return result
            for j, low in zip(members, saved):
                lowest[j] = low
        self.failed.add(key)
        return _NO_PACKING

    def _find_highest(self, members: list[int], last: int) -> int:
        """The highest offset that leaves room for all that is to come; -1 where none does."""
        packing, lowest = self.packing, self.lowest
        first = packing.begins[members[0]]
        end = max([packing.ends[j] for j in members])
        level = [_ABOVE_ALL] * (end - first)
        to_come = [0] * (end - first)
        highest = _ABOVE_ALL
        for j in members:
            low, size = max(last, lowest[j]), packing.sizes[j]
            if packing.pins[j] >= 0:
                highest = min(highest, packing.pins[j])
            for k in range(packing.begins[j] - first, packing.ends[j] - first):
                to_come[k] += size
                if low < level[k]:
                    level[k] = low
        for low, bytes_to_come in zip(level, to_come):
            if bytes_to_come:
                if low + bytes_to_come > self.capacity:
                    return -1
                highest = min(highest, self.capacity - bytes_to_come)
        return highest

    def _put(self, i: int, members: list[int]) -> bool:
        """Places i; false where a pinned request no longer fits."""
        packing, lowest = self.packing, self.lowest
        begin, end = packing.begins[i], packing.ends[i]
        self.offsets[i] = lowest[i]
        top = lowest[i] + packing.sizes[i]
        for j in members:
            if j != i and lowest[j] < top and packing.begins[j] < end and begin < packing.ends[j]:
                if packing.pins[j] >= 0:
                    return False
                alignment = packing.alignments[j]
                lowest[j] = -(-top // alignment) * alignment
        return True
