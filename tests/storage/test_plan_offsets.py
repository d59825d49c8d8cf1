"""Plans of offsets: apart, aligned, pinned, no smaller than they can be."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.driver.fast_search import search_packing_fast
from bayplan.ir.errors import CapacityError
from bayplan.storage.packing import Packing
from bayplan.storage.plan_offsets import plan_offsets
from bayplan.storage.requests import Planned, Request
from bayplan.storage.search import search_packing
from tests.storage.minimalloc import CAPACITY, LETTERS, read_input
from tests.storage.overlaps import check_apart, sum_alive


def check_plan(requests: list[Request], planned: Planned) -> None:
    """Everything a plan promises, found again from nothing but its offsets."""
    lives = [(r.begin, r.end) for r in requests]
    sizes = [r.size_bytes for r in requests]
    check_apart(lives, sizes, planned.offsets)
    for r, offset in zip(requests, planned.offsets):
        assert offset >= 0 and offset % r.alignment == 0
        assert r.offset is None or offset == r.offset
    ends = [offset + size for offset, size in zip(planned.offsets, sizes) if size]
    assert planned.peak_bytes == max(ends, default=0)
    assert planned.floor_bytes == max([sum_alive(lives, sizes), *sizes], default=0)
    assert planned.floor_bytes <= planned.least_bytes <= planned.peak_bytes
    assert planned.proven == (planned.least_bytes == planned.peak_bytes)


def smallest_peak(requests: list[Request]) -> int:
    """Over all orders: each as low as it can lie among those before it.

    Any packing can be let sink in the order of its offsets, so one of these is the smallest.
    """
    best = None
    pinned = [r for r in requests if r.offset is not None]
    for order in permutations([r for r in requests if r.offset is None]):
        placed = [(r.offset or 0, r) for r in pinned]
        for r in order:
            places = [0, *[o + other.size_bytes for o, other in placed]]
            for offset in sorted([-(-p // r.alignment) * r.alignment for p in places]):
                if all(
                    offset + r.size_bytes <= o
                    or o + other.size_bytes <= offset
                    or min(r.end, other.end) <= max(r.begin, other.begin)
                    or not r.size_bytes
                    or not other.size_bytes
                    for o, other in placed
                ):
                    placed.append((offset, r))
                    break
        peak = max([o + r.size_bytes for o, r in placed if r.size_bytes], default=0)
        best = peak if best is None else min(best, peak)
    assert best is not None
    return best


@st.composite
def problems(draw: st.DrawFn, most: int, pins: bool = False) -> list[Request]:
    requests = []
    for i in range(draw(st.integers(0, most))):
        begin = draw(st.integers(0, 6))
        end = begin + draw(st.sampled_from([1, 1, 2, 3, 5, 0]))
        alignment = draw(st.sampled_from([1, 1, 4, 6]))
        size = draw(st.integers(0, 12))
        offset = None
        if pins and draw(st.integers(0, 4)) == 0:
            offset = alignment * draw(st.integers(0, 4))
        requests.append(Request(f"t{i}", size, begin, end, alignment, offset))
    return requests


@given(problems(6, pins=True))
@settings(max_examples=300, deadline=None)
def test_a_small_plan_is_the_smallest(requests: list[Request]) -> None:
    try:
        planned = plan_offsets(requests)
    except CapacityError as error:
        assert "pinned" in error.message
        return
    check_plan(requests, planned)
    assert planned.proven
    assert planned.peak_bytes == smallest_peak(requests)


@given(problems(40))
@settings(max_examples=60, deadline=None)
def test_a_big_plan_is_right_and_always_the_same(requests: list[Request]) -> None:
    planned = plan_offsets(requests)
    check_plan(requests, planned)
    assert plan_offsets(requests).offsets == planned.offsets


@given(problems(8, pins=True), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_both_searches_visit_the_same_nodes(requests: list[Request], capacity: int) -> None:
    packing = Packing(requests)
    for rank in packing.ranks[:2]:
        slow = search_packing(packing, capacity, rank, 400, lambda: False)
        fast = search_packing_fast(packing, capacity, rank, 400, lambda: False)
        assert (slow.offsets, slow.refuted, slow.nodes) == (fast.offsets, fast.refuted, fast.nodes)


@given(problems(8), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_a_capacity_is_kept_or_refuted(requests: list[Request], capacity: int) -> None:
    smallest = plan_offsets(requests)
    try:
        planned = plan_offsets(requests, capacity=capacity)
    except CapacityError as error:
        assert smallest.peak_bytes > capacity
        assert f"capacity {capacity} " in error.message
        return
    check_plan(requests, planned)
    assert (planned.peak_bytes <= capacity) == (smallest.peak_bytes <= capacity)
    if planned.peak_bytes > capacity:
        assert planned.least_bytes > capacity


def test_pins_that_overlap_are_refused() -> None:
    requests = [Request("a", 8, 0, 4, offset=0), Request("b", 8, 3, 5, offset=4)]
    with pytest.raises(CapacityError, match=r"'a' is pinned to \[0, 8\) and 'b' to \[4, 12\)") as e:
        plan_offsets(requests)
    assert "t=3" in e.value.message


def test_four_dead_bytes_are_shared_by_three_that_live_after_them() -> None:
    requests = [Request("big", 2048, 0, 2)]
    requests += [Request(f"small{i}", 512, 1 + i, 5) for i in range(3)]
    planned = plan_offsets(requests)
    assert planned.peak_bytes == 2560 and planned.proven


def test_requests_that_cannot_be_are_refused() -> None:
    for bad in ((-1, 0, 1), (1, 1, 0), (1, 0, 1, 0), (1, 0, 1, 4, 2), (1, 0, 1, 4, -4)):
        with pytest.raises(ValueError, match="'x'"):
            Request("x", *bad)


@pytest.mark.parametrize("letter", LETTERS)
def test_published_inputs_without_a_search(letter: str) -> None:
    requests = read_input(letter)
    planned = plan_offsets(requests)
    check_plan(requests, planned)
    assert not planned.proven
    assert planned.peak_bytes < 1.36 * planned.floor_bytes


@pytest.mark.parametrize("letter", [c for c in LETTERS if c != "I"])
def test_published_inputs_fit(letter: str) -> None:
    requests = read_input(letter)
    planned = plan_offsets(
        requests, capacity=CAPACITY, time_limit_s=120, search=search_packing_fast
    )
    check_plan(requests, planned)
    assert planned.peak_bytes <= CAPACITY


@pytest.mark.slow
def test_the_hardest_published_input_fits() -> None:
    test_published_inputs_fit("I")


def test_a_search_that_jumps_proves_nothing() -> None:
    # Two pinned ones leave holes of 4 units, which are no place for 8.
    requests = [Request("a", 2, 0, 4, offset=4), Request("b", 2, 0, 4, offset=10)]
    requests += [Request("c", 8, 2, 4), Request("d", 4, 0, 4)]
    packing = Packing(requests)
    exact = search_packing_fast(packing, 9, packing.ranks[0], 1000, lambda: False)
    assert exact.refuted and exact.offsets is None and exact.blame is None
    jumping = search_packing_fast(packing, 9, packing.ranks[0], 1000, lambda: False, True)
    assert jumping.offsets is None and jumping.blame is not None


@given(problems(10, pins=True), st.integers(0, 60))
@settings(max_examples=150, deadline=None)
def test_what_is_found_by_jumping_is_a_packing(requests: list[Request], capacity: int) -> None:
    packing = Packing(requests)
    found = search_packing_fast(packing, capacity, packing.ranks[0], 400, lambda: False, True)
    exact = search_packing_fast(packing, capacity, packing.ranks[0], 4000, lambda: False)
    if found.refuted:
        assert exact.offsets is None
    if found.offsets is None:
        return
    assert not exact.refuted
    lives = list(zip(packing.begins, packing.ends))
    check_apart(lives, packing.sizes, found.offsets)
    assert all(o + s <= capacity for o, s in zip(found.offsets, packing.sizes))
    assert all(o % a == 0 for o, a in zip(found.offsets, packing.alignments))
    assert all(pin in (-1, o) for o, pin in zip(found.offsets, packing.pins))
