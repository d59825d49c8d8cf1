"""A check of plans that shares nothing with the planner: every pair, every step."""

from __future__ import annotations

from collections.abc import Sequence


def check_apart(
    lives: Sequence[tuple[int, int]], sizes: Sequence[int], offsets: Sequence[int]
) -> None:
    """No two that are alive at one step share a byte."""
    for i in range(len(lives)):
        for j in range(i):
            together = max(lives[i][0], lives[j][0]) < min(lives[i][1], lives[j][1])
            if together and sizes[i] and sizes[j]:
                below = offsets[i] + sizes[i] <= offsets[j]
                above = offsets[j] + sizes[j] <= offsets[i]
                assert below or above, (i, j, lives[i], lives[j], sizes[i], sizes[j])


def sum_alive(lives: Sequence[tuple[int, int]], sizes: Sequence[int]) -> int:
    """The largest sum of bytes alive at one step, step by step."""
    steps = {begin for begin, _ in lives}
    sums = [sum([s for (b, e), s in zip(lives, sizes) if b <= t < e]) for t in steps]
    return max(sums, default=0)
