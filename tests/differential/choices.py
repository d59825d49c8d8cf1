"""Where the generator's decisions come from: a seed, or hypothesis (whose failures shrink).

The generator asks only for numbers below a bound and puts the simplest answer at 0, so that a
shrinking engine arrives at simple programs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """A stream of decisions."""

    def __init__(self, below: Callable[[int], int]) -> None:
        self._below = below

    @classmethod
    def from_seed(cls, seed: int) -> Choices:
        """Decisions that depend on the seed alone."""
        return cls(random.Random(seed).randrange)

    def below(self, n: int) -> int:
        """A number in [0, n)."""
        return self._below(n) if n > 1 else 0

    def between(self, low: int, high: int) -> int:
        """A number in [low, high]; `low` is the simplest."""
        return low + self.below(high - low + 1)

    def near_zero(self, limit: int) -> int:
        """A number in [-limit, limit]; 0 is the simplest."""
        k = self.below(2 * limit + 1)
        return -(k // 2) if k % 2 == 0 else (k + 1) // 2

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        """True in so many cases of a hundred; False is simpler."""
        return self.below(100) >= 100 - percent

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """One of the (weight, option) pairs; the first is the simplest."""
        k = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            k -= weight
            if k < 0:
                return option
        raise AssertionError("unreachable")

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in some order; the given order is the simplest."""
        rest, out = list(items), []
        while rest:
            out.append(rest.pop(self.below(len(rest))))
        return out
