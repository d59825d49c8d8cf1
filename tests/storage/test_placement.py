"""The kept relation is right for all sizes and stays close to the floor when they drift."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.analysis.evaluate import Unknown, evaluate
from bayplan.driver.fast_search import search_packing_fast
from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind
from bayplan.ir.types import INT64
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.placement import Placement, find_relation, keep_placement
from bayplan.storage.plan_offsets import plan_offsets
from tests.storage.minimalloc import LETTERS, read_input
from tests.storage.overlaps import check_apart, sum_alive

Lives = list[tuple[int, int]]


@st.composite
def lives(draw: st.DrawFn, most: int = 12) -> Lives:
    result = []
    for _ in range(draw(st.integers(1, most))):
        begin = draw(st.integers(0, 8))
        result.append((begin, begin + draw(st.sampled_from([1, 1, 2, 3, 6, 0]))))
    return result


def check_place(placement: Placement, sizes: list[int]) -> int:
    """Everything `place` promises but its size; the bytes of the arena."""
    offsets, total = placement.place(sizes)
    check_apart(placement.lives, sizes, offsets)
    assert all(o % a == 0 for o, a in zip(offsets, placement.alignments))
    assert total == max([o + s for o, s in zip(offsets, sizes) if s], default=0)
    return total


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_sizes_are_apart(data: st.DataObject) -> None:
    of = data.draw(lives())
    count = len(of)
    size = st.integers(0, 50)
    alignments = data.draw(st.lists(st.sampled_from([1, 8, 12]), min_size=count, max_size=count))
    row = st.lists(size, min_size=count, max_size=count)
    hints = data.draw(st.lists(row, max_size=6))
    placement = keep_placement(of, alignments, hints)
    assert 1 <= len(placement.relations) <= 4
    for sizes in [*hints, *data.draw(st.lists(row, min_size=1, max_size=3))]:
        check_place(placement, sizes)
        # By each relation alone, too.
        for relation in placement.relations:
            check_place(Placement(of, alignments, [relation]), sizes)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_peak_over_floor_grows_at_most_by_the_spread_of_the_sizes(data: st.DataObject) -> None:
    of = data.draw(lives())
    count = len(of)
    ones = [1] * count
    hint = data.draw(st.lists(st.integers(1, 60), min_size=count, max_size=count))
    placement = keep_placement(of, ones, [hint])
    sizes = [data.draw(st.integers(-(-h // 2), 2 * h)) for h in hint]
    planned_peak, planned_floor = check_place(placement, hint), placement.measure_floor(hint)
    peak, floor = check_place(placement, sizes), placement.measure_floor(sizes)
    assert floor == max([sum_alive(of, sizes), *[s for s, (b, e) in zip(sizes, of) if b >= e]])
    # The least a and the greatest b with a * hint <= size <= b * hint, as fractions n/d.
    a = min([(s, h) for s, h in zip(sizes, hint)], key=lambda p: p[0] / p[1])
    b = max([(s, h) for s, h in zip(sizes, hint)], key=lambda p: p[0] / p[1])
    # peak / floor <= planned_peak / planned_floor * b / a, without division.
    assert peak * planned_floor * b[1] * a[0] <= planned_peak * floor * b[0] * a[1]
    # Grown together, not at all.
    for factor in (2, 7, 1000):
        grown = [factor * h for h in hint]
        assert check_place(placement, grown) == factor * planned_peak


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_left_out_of_a_relation_follows_from_the_rest(data: st.DataObject) -> None:
    of = data.draw(lives())
    hint = data.draw(st.lists(st.integers(1, 9), min_size=len(of), max_size=len(of)))
    relation = find_relation(of, plan_offsets_of(of, hint))
    place = {i: k for k, i in enumerate(relation.order)}
    under: list[set[int]] = [set() for _ in of]
    for i in relation.order:
        for j in relation.below[i]:
            under[i] |= under[j] | {j}
    for i in range(len(of)):
        for j in range(len(of)):
            together = max(of[i][0], of[j][0]) < min(of[i][1], of[j][1])
            if i != j and together:
                assert (j in under[i]) == (place[j] < place[i])
        # None of the direct ones lies below another one of them.
        assert not any(j in under[k] for j in relation.below[i] for k in relation.below[i])


def plan_offsets_of(of: Lives, sizes: list[int]) -> tuple[int, ...]:
    from bayplan.storage.requests import Request

    requests = [Request(str(i), s, b, e) for i, (s, (b, e)) in enumerate(zip(sizes, of))]
    return plan_offsets(requests).offsets


def test_no_bytes_take_no_room_and_push_nobody() -> None:
    # 1 lives with 0 and with 2, which do not live together.
    of = [(0, 2), (1, 4), (3, 5)]
    placement = keep_placement(of, [16, 16, 16], [[64, 64, 64]])
    offsets, total = placement.place([100, 0, 40])
    assert (offsets, total) == ([0, 0, 0], 100)
    assert placement.place([0, 0, 0]) == ([0, 0, 0], 0)


def test_sizes_that_do_not_fit_into_63_bits() -> None:
    placement = keep_placement([(0, 2), (1, 3)], [1, 1], [[1, 1]])
    assert placement.place([2**62, 2**62 - 1])[1] == 2**63 - 1
    with pytest.raises(OverflowError, match="9223372036854775808 bytes"):
        placement.place([2**62, 2**62])


def test_wrong_sizes_are_refused() -> None:
    placement = keep_placement([(0, 2), (1, 3)], [1, 1], [])
    with pytest.raises(ValueError, match="2 sizes are needed, not 1"):
        placement.place([1])
    with pytest.raises(ValueError, match="negative: -3"):
        placement.place([1, -3])


def test_nothing_to_place() -> None:
    assert keep_placement([], [], []).place([]) == ([], 0)


def test_different_hints_keep_different_relations() -> None:
    # Two short ones under a long one, or over it: what is best depends on who is big.
    of = [(0, 2), (1, 4), (3, 6), (5, 8), (0, 8)]
    hints = [[8, 1, 8, 1, 2], [1, 8, 1, 8, 2], [8, 8, 1, 1, 2], [8, 1, 8, 1, 2]]
    placement = keep_placement(of, [1] * 5, hints)
    assert len({relation.below for relation in placement.relations}) == len(placement.relations)
    for hint in hints:
        assert check_place(placement, hint) == sum_alive(of, hint)


def test_of_many_hints_the_relations_that_serve_them_best_are_kept() -> None:
    rng = random.Random(5)
    of = [(i // 2, i // 2 + rng.choice([1, 2, 3])) for i in range(14)]
    hints = [[rng.choice([1, 30]) * rng.randrange(1, 9) for _ in of] for _ in range(12)]
    placement = keep_placement(of, [1] * len(of), hints)
    assert len(placement.relations) == 4
    worst = 0.0
    for hint in hints:
        worst = max(worst, check_place(placement, hint) / sum_alive(of, hint))
    assert worst <= 1.15
    # The likeliest sizes come first and are served as well as they can be.
    assert check_place(placement, hints[0]) == plan_peak(of, hints[0])


def plan_peak(of: Lives, sizes: list[int]) -> int:
    offsets = plan_offsets_of(of, sizes)
    return max([o + s for o, s in zip(offsets, sizes)])


def test_published_inputs_whose_sizes_drift() -> None:
    rng = random.Random(2024)
    ratios = []
    for letter in LETTERS:
        requests = read_input(letter)
        of = [(r.begin, r.end) for r in requests]
        sizes = [r.size_bytes for r in requests]
        placement = keep_placement(
            of, [1] * len(of), [sizes], node_limit=150_000, search=search_packing_fast
        )
        for _ in range(5):
            sizes = [round(r.size_bytes * rng.uniform(0.75, 1.25)) for r in requests]
            total = check_place(placement, sizes)
            ratios.append(total / sum_alive(of, sizes))
    assert sum(ratios) / len(ratios) < 1.11


def test_sizes_that_no_call_has_are_not_known() -> None:
    """Hints and made-up calls may come to more bytes than there are."""
    placement = keep_placement([(0, 2), (1, 3)], [64, 64], [[100, 10]])
    sizes = [build.const(INT64, size) for size in (1 << 62, 1 << 62)]
    call = Call(INT64, "place_storage", tuple(sizes), CallKind.INTRINSIC, placement)
    with pytest.raises(Unknown, match="more than"):
        evaluate(call, {})
    with pytest.raises(Unknown, match="more than"):
        Numbers({}, 1).value(call, None)
