"""Several small buffers share one freed big one, and a capacity below the peak is refused."""

from __future__ import annotations

import pytest

from bayplan.ir.errors import CapacityError
from bayplan.storage.plan_offsets import plan_offsets
from bayplan.storage.requests import Request
from tests.storage.overlaps import check_apart, sum_alive

TABLE = [
    ("A", 800, 0, 6),
    ("A1", 800, 0, 2),
    ("B", 400, 2, 4),
    ("C", 400, 2, 4),
    ("D", 400, 3, 5),
    ("E", 800, 4, 6),
]
LIVES = [(begin, end) for _, _, begin, end in TABLE]
SIZES = [size for _, size, _, _ in TABLE]


def requests() -> list[Request]:
    return [Request(name, size, begin, end) for name, size, begin, end in TABLE]


def test_the_numbers_of_the_table() -> None:
    assert sum(SIZES) == 3600
    assert sum_alive(LIVES, SIZES) == 2000
    check_apart(LIVES, SIZES, [0, 800, 800, 1200, 1600, 800])


def test_the_plan_takes_2000_bytes() -> None:
    planned = plan_offsets(requests())
    assert (planned.peak_bytes, planned.floor_bytes, planned.proven) == (2000, 2000, True)
    check_apart(LIVES, SIZES, planned.offsets)


@pytest.mark.parametrize("capacity", [0, 1600, 1999])
def test_less_is_refused_with_the_peak_and_its_step(capacity: int) -> None:
    with pytest.raises(CapacityError, match="peak 2000 at t=3") as error:
        plan_offsets(requests(), capacity=capacity)
    assert f"capacity {capacity} is too small" in error.value.message
    assert "(A, B, C, D)" in error.value.message


def test_as_much_is_taken() -> None:
    planned = plan_offsets(requests(), capacity=2000)
    assert planned.peak_bytes == 2000
