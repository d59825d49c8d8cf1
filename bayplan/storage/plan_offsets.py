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
# Nodes of a search that learns, and how much of what was learned the next one keeps.
_LEARNING_NODES = 3000
_FORGETTING = 0.9
# A round ends within this part of what can be gained.
_FINE = 128


def plan_offsets(
    requests: Sequence[Request],
    *,
    capacity: int | None = None,
    time_limit_s: float | None = None,
    node_limit: int | None = None,
    search: Search | None = None,
) -> Planned:
    """Chooses an offset for every request, so that none alive together share bytes.

    Always answers; `proven` tells whether no plan is smaller. The same requests give the same
    plan, unless a time limit ends the search.

    Args:
        requests: what to place.
        capacity: bytes of the arena; the first plan within it is taken, and where none was found
            the smallest that was. Without one the smallest plan is looked for.
        time_limit_s: ends the search.
        node_limit: ends the search after so many nodes; without any limit, about as many as take
            a quarter of a second in Python.
        search: a faster exact search than the one in Python.

    Raises:
        CapacityError: The capacity is below what any plan takes, or pinned requests overlap.
    """
    check_pins(requests)
    floor = find_floor(requests)
    if capacity is not None and floor.least_bytes > capacity:
        raise CapacityError(_describe_excess(floor, capacity))
    target = floor.least_bytes if capacity is None else capacity
    stop = _make_stop(time_limit_s)
    offsets = _place_fast(requests, target, stop)
    least = floor.least_bytes
    if measure_peak(requests, offsets) > target:
        packing = Packing(requests)
        if search is not None or len(packing.numbers) <= _MOST_IN_PYTHON:
            if node_limit is None:
                counted = _SEARCH_STEPS // (len(packing.numbers) + 1)
                node_limit = counted if time_limit_s is None else 1 << 62
            attempt = _Attempt(packing, search or search_packing, node_limit, stop)
            unit = packing.unit
            if capacity is not None:
                attempt.fit(capacity // unit)
            else:
                attempt.improve(-(-least // unit), -(-measure_peak(requests, offsets) // unit))
            least = max(least, attempt.refuted_to * unit)
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


def _make_stop(time_limit_s: float | None) -> Callable[[], bool]:
    if time_limit_s is None:
        return lambda: False
    from time import monotonic

    end = monotonic() + time_limit_s
    return lambda: monotonic() > end


def _place_fast(requests: Sequence[Request], target: int, stop: Callable[[], bool]) -> list[int]:
    """The best of several first-fit orders, each repaired where none reaches the target."""
    conflicts = find_conflicts(requests)
    best: list[int] = []
    peak = -1
    orders = list_orders(requests)
    rounds = max(1, _REPAIR_STEPS // (len(requests) * len(orders) + 1))
    for repairs in (0, rounds):
        for order in orders:
            if repairs:
                offsets, here = repair_order(requests, conflicts, order, target, repairs)
            else:
                offsets = first_fit(requests, conflicts, order)
                here = measure_peak(requests, offsets)
            if peak < 0 or here < peak:
                best, peak = offsets, here
            if peak <= target or stop():
                return best
    return best


class _Attempt:
    """Searches one packing within a limit of nodes or of time.

    All ranks are tried with few nodes before one is with many: who begins well is soon done, and
    who does not hardly ever is.

    Attributes:
        offsets: of the best packing found, in units.
        refuted_to: no packing takes fewer units.
        nodes_left: of the limit.
    """

    def __init__(
        self,
        packing: Packing,
        search: Search,
        node_limit: int,
        stop: Callable[[], bool],
    ) -> None:
        self.packing = packing
        self.search = search
        self.stop = stop
        self.offsets: list[int] | None = None
        self.refuted_to = 0
        self.nodes_left = node_limit
        self.learns = search is not search_packing
        # Of each request: how often it was where there was no room, and of how many searches.
        self.blame = [0.0] * len(packing.numbers)
        self.lessons = 0
        self.ranks: list[list[int]] = []
        for rank in packing.ranks:
            if rank not in self.ranks:
                self.ranks.append(rank)

    def _goes_on(self) -> bool:
        return self.nodes_left > 0 and not self.stop()

    def fit(self, capacity: int) -> None:
        """Looks for a packing within `capacity` units."""
        limit = _FIRST_ROUND
        while self._goes_on() and self._try_ranks(capacity, limit) is None:
            limit *= 4

    def improve(self, least: int, peak: int) -> None:
        """Looks for the smallest packing, which takes from `least` to `peak` units.

        Each round begins with the least that could be; where that is refuted or stays open, it
        halves what is between it and the best packing.
        """
        self.refuted_to = least
        limit = _FIRST_ROUND
        high = peak
        while self.refuted_to < high and self._goes_on():
            low = capacity = self.refuted_to
            open_ones = False
            while low < high and self._goes_on():
                answer = self._try_ranks(capacity, limit)
                if answer:
                    assert self.offsets is not None
                    ends = [o + s for o, s in zip(self.offsets, self.packing.sizes)]
                    high = max(least, *ends)
                else:
                    low = capacity + 1
                    open_ones = open_ones or answer is None
                if open_ones and (high - low) * _FINE < high:
                    # What is left is worth less than more nodes for the whole.
                    break
                capacity = (low + high) // 2
            limit *= 4

    def _try_ranks(self, capacity: int, limit: int) -> bool | None:
        """Whether there is a packing within `capacity` units; None where it stays open."""
        for rank in self.ranks:
            answer = self._try(capacity, rank, limit, False)
            if answer is not None or not self._goes_on():
                return answer
        # Where ranks fail, learning which requests are in the way is worth more effort than they.
        for _ in range(4 * len(self.ranks) * limit // _LEARNING_NODES if self.learns else 0):
            answer = self._try(capacity, self._learned_rank(), _LEARNING_NODES, True)
            if answer is not None or not self._goes_on():
                return answer
        return None

    def _try(self, capacity: int, rank: list[int], limit: int, jump: bool) -> bool | None:
        limit = min(limit, self.nodes_left)
        found = self.search(self.packing, capacity, rank, limit, self.stop, jump)
        self.nodes_left -= max(1, found.nodes)
        if found.blame:
            self.lessons += 1
            total = sum(found.blame) or 1
            self.blame = [_FORGETTING * a + b / total for a, b in zip(self.blame, found.blame)]
        if found.offsets is not None:
            self.offsets = found.offsets
            return True
        if found.refuted:
            self.refuted_to = max(self.refuted_to, capacity + 1)
            return False
        return None

    def _learned_rank(self) -> list[int]:
        """The requests that were most to blame come first; after a look at all ranks."""
        base = self.ranks[self.lessons % len(self.ranks)]
        if self.lessons < len(self.ranks):
            return base
        rank = [0] * len(base)
        key = [(-b, r) for b, r in zip(self.blame, base)]
        for place, i in enumerate(sorted(range(len(base)), key=key.__getitem__)):
            rank[i] = place
        return rank
