"""Lower bounds of a plan: what no packing can beat."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from bayplan.storage.requests import Request, align_up


class Floor:
    """The largest sum of bytes alive at one step.

    Attributes:
        floor_bytes: that sum.
        step: the first step with it.
        names: who is alive then.
        least_bytes: what a plan takes at least: the same sum with what alignment costs between
            two neighbours, and the ends of pinned requests.
    """

    __slots__ = ("floor_bytes", "least_bytes", "names", "step")

    def __init__(self, floor_bytes: int, step: int, names: list[str], least_bytes: int) -> None:
        self.floor_bytes = floor_bytes
        self.step = step
        self.names = names
        self.least_bytes = least_bytes


def find_floor(requests: Sequence[Request]) -> Floor:
    """Finds where most bytes are alive together, for `plan_offsets` and its messages.

    A request whose life is empty conflicts with nobody, but an arena must still hold it.
    """
    best, best_step, best_alive = 0, 0, list(requests[:0])
    least = 0
    for step, alive in list_cliques(requests):
        total = sum([r.size_bytes for r in alive])
        if total > best:
            best, best_step, best_alive = total, step, alive
        least = max(least, _least_of(alive))
    for r in requests:
        if r.size_bytes > best:
            best, best_step, best_alive = r.size_bytes, r.begin, [r]
        if r.size_bytes:
            least = max(least, (r.offset or 0) + r.size_bytes)
    return Floor(best, best_step, [r.name for r in best_alive], max(best, least))


def list_cliques(requests: Sequence[Request]) -> list[tuple[int, list[Request]]]:
    """The largest sets of requests that are alive together, each with its first step.

    A set is whole just before one of its members dies; so only steps at which somebody is born
    and after which somebody dies before the next birth are listed. Requests of no bytes or no
    life are in none.
    """
    live = sorted([r for r in requests if r.size_bytes and r.begin < r.end], key=_begin_of)
    cliques: list[tuple[int, list[Request]]] = []
    alive: list[Request] = []
    step = 0
    for r in live:
        if any(a.end <= r.begin for a in alive):
            cliques.append((step, alive))
            alive = [a for a in alive if a.end > r.begin]
        alive = [*alive, r]
        step = r.begin
    if alive:
        cliques.append((step, alive))
    return cliques


def _begin_of(r: Request) -> int:
    return r.begin


def _least_of(alive: list[Request]) -> int:
    """Bytes that requests alive together take at least, one above the other."""
    common = 0
    for r in alive:
        common = gcd(common, r.alignment)
    if common <= 1:
        return sum([r.size_bytes for r in alive])
    padded = [align_up(r.size_bytes, common) for r in alive]
    # The topmost one needs no padding behind it.
    return sum(padded) - max([p - r.size_bytes for p, r in zip(padded, alive)])
