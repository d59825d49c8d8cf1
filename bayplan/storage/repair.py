"""Repair of a first-fit order: what sticks out moves to the front, and all is placed again."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.storage.first_fit import first_fit
from bayplan.storage.requests import Request, measure_peak


def repair_order(
    requests: Sequence[Request],
    conflicts: list[list[int]],
    order: Sequence[int],
    target_bytes: int,
    rounds: int,
) -> tuple[list[int], int]:
    """Offsets and peak of the best of the plans that moving to the front leads to.

    Args:
        requests: what is placed.
        conflicts: of `find_conflicts`.
        order: where to begin.
        target_bytes: what ends above it sticks out; a plan that ends below it is good enough.
        rounds: how many times something is moved.
    """
    order = list(order)
    offsets = first_fit(requests, conflicts, order)
    peak = measure_peak(requests, offsets)
    best = (offsets, peak)
    seen = {tuple(order)}
    for _ in range(rounds):
        if best[1] <= target_bytes:
            break
        limit = max(target_bytes, 0)
        out = [i for i in order if offsets[i] + requests[i].size_bytes > limit]
        # All that sticks out, or only the highest when all of it has been tried.
        moved = _to_front(order, out)
        if tuple(moved) in seen:
            top = max(out, key=lambda i: offsets[i] + requests[i].size_bytes)
            moved = _to_front(order, [top])
            if tuple(moved) in seen:
                break
        order = moved
        seen.add(tuple(order))
        offsets = first_fit(requests, conflicts, order)
        peak = measure_peak(requests, offsets)
        if peak < best[1]:
            best = (offsets, peak)
    return best


def _to_front(order: list[int], front: list[int]) -> list[int]:
    chosen = set(front)
    return [*front, *[i for i in order if i not in chosen]]
