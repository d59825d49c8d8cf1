"""Packs requests into one arena: fast ways first, an exact search for what they leave open."""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.ir.errors import CapacityError
from bayplan.storage.first_fit import find_conflicts, first_fit, list_orders
from bayplan.storage.floor import find_floor
from bayplan.storage.repair import repair_order
from bayplan.storage.requests import Planned, Request, check_pins, measure_peak

# Work of the repair, in placed requests.
_REPAIR_STEPS = 20_000


def plan_offsets(
    requests: Sequence[Request],
    *,
    capacity: int | None = None,
    time_limit_s: float | None = None,
) -> Planned:
    """Chooses an offset for every request, so that none alive together share bytes.

    Always answers. The same requests give the same plan, unless a time limit ends the search.

    Args:
        requests: what to place.
        capacity: bytes of the arena; the first plan within it is taken. Without one the smallest
            plan is looked for.
        time_limit_s: ends the search; by default only a count of steps does.

    Raises:
        CapacityError: The capacity is below what any plan takes, or pinned requests overlap.
    """
    check_pins(requests)
    floor = find_floor(requests)
    if capacity is not None and floor.least_bytes > capacity:
        raise CapacityError(
            f"capacity {capacity} is too small: peak {floor.floor_bytes} at t={floor.step}"
        )
    target = floor.least_bytes if capacity is None else capacity
    conflicts = find_conflicts(requests)
    best: list[int] | None = None
    peak = 0
    orders = list_orders(requests)
    for order in orders:
        offsets = first_fit(requests, conflicts, order)
        here = measure_peak(requests, offsets)
        if best is None or here < peak:
            best, peak = offsets, here
        if peak <= target:
            break
    assert best is not None
    if peak > target:
        rounds = max(4, _REPAIR_STEPS // (len(requests) * len(orders) + 1))
        for order in orders:
            offsets, here = repair_order(requests, conflicts, order, target, rounds)
            if here < peak:
                best, peak = offsets, here
            if peak <= target:
                break
    return Planned(best, peak, floor.floor_bytes, floor.least_bytes)
