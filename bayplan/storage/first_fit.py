"""First fit: each request in turn at the lowest place that is free during its life."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.storage.requests import Request


def find_conflicts(requests: Sequence[Request]) -> list[list[int]]:
    """For each request the numbers of those that may not share bytes with it."""
    conflicts: list[list[int]] = [[] for _ in requests]
    live = [i for i, r in enumerate(requests) if r.size_bytes and r.begin < r.end]
    live.sort(key=lambda i: requests[i].begin)
    open_ones: list[int] = []
    for i in live:
        begin = requests[i].begin
        open_ones = [j for j in open_ones if requests[j].end > begin]
        for j in open_ones:
            conflicts[i].append(j)
            conflicts[j].append(i)
        open_ones.append(i)
    return conflicts


def first_fit(
    requests: Sequence[Request], conflicts: list[list[int]], order: Sequence[int]
) -> list[int]:
    """Offsets of all requests, placed in the order given; pinned ones stand before all others."""
    placed: list[tuple[int, int] | None] = [None] * len(requests)
    offsets = [0] * len(requests)
    for i, r in enumerate(requests):
        if r.offset is not None:
            offsets[i] = r.offset
            placed[i] = (r.offset, r.offset + r.size_bytes)
    for i in order:
        r = requests[i]
        if r.offset is not None or not r.size_bytes:
            continue
        taken = [p for j in conflicts[i] if (p := placed[j]) is not None]
        taken.sort()
        size, alignment = r.size_bytes, r.alignment
        offset = 0
        for begin, end in taken:
            if begin >= offset + size:
                break
            if end > offset:
                offset = -(-end // alignment) * alignment
        offsets[i] = offset
        placed[i] = (offset, offset + size)
    return offsets


def list_orders(requests: Sequence[Request]) -> list[list[int]]:
    """Orders that have proved good on programs and on published problems, best known first.

    Equal keys keep the order of the requests, so the same problem always gives the same plan.
    """
    numbers = range(len(requests))
    pressure = _find_pressure(requests)

    def sort(key: list[tuple[int, ...]]) -> list[int]:
        return sorted(numbers, key=lambda i: key[i])

    size = [r.size_bytes for r in requests]
    life = [r.end - r.begin for r in requests]
    return [
        sort([(-s,) for s in size]),
        sort([(-n, -s) for n, s in zip(life, size)]),
        sort([(-n * s,) for n, s in zip(life, size)]),
        sort([(-p, -n * s) for p, n, s in zip(pressure, life, size)]),
        sort([(-p, -s) for p, s in zip(pressure, size)]),
        sort([(-p, -n) for p, n in zip(pressure, life)]),
        sort([(-s, -n) for s, n in zip(size, life)]),
        sort([(r.begin, -s) for r, s in zip(requests, size)]),
        sort([(r.begin, -n) for r, n in zip(requests, life)]),
        sort([(-r.end, -s) for r, s in zip(requests, size)]),
        sort([(r.end, -s) for r, s in zip(requests, size)]),
        sort([(-r.begin, -s) for r, s in zip(requests, size)]),
    ]


def _find_pressure(requests: Sequence[Request]) -> list[int]:
    """For each request the largest sum of bytes alive at one step of its life."""
    from bayplan.storage.floor import list_cliques

    pressure = {id(r): r.size_bytes for r in requests}
    for _, alive in list_cliques(requests):
        total = sum([r.size_bytes for r in alive])
        for r in alive:
            pressure[id(r)] = max(pressure[id(r)], total)
    return [pressure[id(r)] for r in requests]
