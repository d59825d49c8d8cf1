"""Packs requests into one arena: fast ways first, an exact search for what they leave open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bayplan.ir.errors import CapacityError
from bayplan.storage.first_fit import find_conflicts, first_fit, list_orders
from bayplan.storage.floor import Floor, find_floor
from bayplan.storage.packing import Packing, Search
from bayplan.storage.repair import repair_order
from bayplan.storage.requests import Planned, Request, check_pins, measure_peak
from bayplan.storage.search import search_packing

# Work of the repair, in placed requests.
_REPAIR_STEPS = 20_000
# Work of a search without a time limit, in members looked at; about a quarter of a second.
_SEARCH_STEPS = 60_000
# The search in Python calls itself once or twice a request.
_MOST_IN_PYTHON = 200
# Nodes of the first try with each rank; each further round has four times as many.
_FIRST_ROUND = 50


def plan_offsets(
    requests: Sequence[Request],
    *,
    capacity: int | None = None,
    time_limit_s: float | None = None,
    search: Search | None = None,
) -> Planned:
    """Chooses an offset for every request, so that none alive together share bytes.

    Always answers; `proven` tells whether no plan is smaller. The same requests give the same
    plan, unless a time limit ends the search.

    Args:
        requests: what to place.
        capacity: bytes of the arena; the first plan within it is taken, and where none was found
            the smallest that was. Without one the smallest plan is looked for.
        time_limit_s: ends the search; by default a count of steps does.
        search: a faster exact search than the one in Python.

    Raises:
        CapacityError: The capacity is below what any plan takes, or pinned requests overlap.
    """
    check_pins(requests)
    floor = find_floor(requests)
    if capacity is not None and floor.least_bytes > capacity:
        raise CapacityError(_describe_excess(floor, capacity))
    target = floor.least_bytes if capacity is None else capacity
    offsets = _place_fast(requests, target)
    least = floor.least_bytes
    if measure_peak(requests, offsets) > target:
        packing = Packing(requests)
        if search is not None or len(packing.numbers) <= _MOST_IN_PYTHON:
            attempt = _Attempt(packing, search or search_packing, time_limit_s)
            if capacity is not None:
                attempt.fit(capacity // packing.unit, attempt.nodes_left)
                # What was refuted is refuted for every capacity below the next unit.
                least = max(least, attempt.refuted_to * packing.unit)
            else:
                least = attempt.improve(least, measure_peak(requests, offsets))
            if attempt.offsets is not None:
                offsets = packing.spread(requests, attempt.offsets)
    peak = measure_peak(requests, offsets)
    return Planned(offsets, peak, floor.floor_bytes, min(least, peak))


def _describe_excess(floor: Floor, capacity: int) -> str:
    text = f"capacity {capacity} is too small: peak {floor.floor_bytes} at t={floor.step}"
    names = floor.names[:8] + (["..."] if len(floor.names) > 8 else [])
    if names:
        text += f" ({', '.join(names)})"
    if floor.least_bytes > floor.floor_bytes:
        text += f"; with alignment and pinned offsets at least {floor.least_bytes}"
    return text


def _place_fast(requests: Sequence[Request], target: int) -> list[int]:
    """The best of several first-fit orders, each repaired where none reaches the target."""
    conflicts = find_conflicts(requests)
    best: list[int] = []
    peak = -1
    orders = list_orders(requests)
    rounds = max(4, _REPAIR_STEPS // (len(requests) * len(orders) + 1))
    for repairs in (0, rounds):
        for order in orders:
            if repairs:
                offsets, here = repair_order(requests, conflicts, order, target, repairs)
            else:
                offsets = first_fit(requests, conflicts, order)
                here = measure_peak(requests, offsets)
            if peak < 0 or here < peak:
                best, peak = offsets, here
            if peak <= target:
                return best
    return best


class _Attempt:
    """Searches one packing within a limit of nodes or of time.

    Attributes:
        offsets: of the best packing found, in units.
        refuted_to: no packing takes fewer units.
        nodes_left: of the limit.
    """

    def __init__(self, packing: Packing, search: Search, time_limit_s: float | None) -> None:
        self.packing = packing
        self.search = search
        self.offsets: list[int] | None = None
        self.refuted_to = 0
        self.stop: Callable[[], bool] = lambda: False
        self.nodes_left = _SEARCH_STEPS // (len(packing.numbers) + 1)
        if time_limit_s is not None:
            from time import monotonic

            end = monotonic() + time_limit_s
            self.stop = lambda: monotonic() > end
            self.nodes_left = 1 << 62

    def fit(self, capacity: int, nodes: int) -> bool | None:
        """Whether there is a packing within `capacity` units; None where it stays open.

        All ranks are tried with few nodes before one is with many: who begins well is soon done,
        and who does not hardly ever is.
        """
        ranks: list[list[int]] = []
        for rank in self.packing.ranks:
            if rank not in ranks:
                ranks.append(rank)
        limit = _FIRST_ROUND
        while nodes > 0:
            for rank in ranks:
                limit = min(limit, nodes)
                found = self.search(self.packing, capacity, rank, limit, self.stop)
                nodes -= max(1, found.nodes)
                self.nodes_left -= max(1, found.nodes)
                if found.offsets is not None:
                    self.offsets = found.offsets
                    return True
                if found.refuted:
                    self.refuted_to = max(self.refuted_to, capacity + 1)
                    return False
                if nodes <= 0 or self.stop():
                    return None
            limit *= 4
        return None

    def improve(self, least_bytes: int, peak_bytes: int) -> int:
        """Looks for the smallest packing; the answer is a number of bytes that all take.

        Begins with the least that could be; where that is refuted or stays open, halves what is
        between it and the best packing.
        """
        unit = self.packing.unit
        high = -(-peak_bytes // unit)
        # Everything below it is refuted, or has been given up.
        low = self.refuted_to = -(-least_bytes // unit)
        capacity = low
        while low < high and self.nodes_left > 0 and not self.stop():
            share = self.nodes_left // 3 + 1
            if self.fit(capacity, share):
                assert self.offsets is not None
                ends = [o + s for o, s in zip(self.offsets, self.packing.sizes)]
                high = max(low, *ends)
            else:
                low = max(low, capacity + 1)
            capacity = (low + high) // 2
            if capacity >= high:
                break
        return self.refuted_to * unit
