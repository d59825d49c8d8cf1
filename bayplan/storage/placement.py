"""A plan for sizes that only the call knows: who lies below whom is kept, numbers are not.

Lives, and so conflicts, are constant; sizes are not. Every packing orders the temporaries that are
alive together from the bottom to the top. That order is right for all sizes: the offset of each
temporary is the highest end of those below it. When all sizes lie between a and b times those the
packing was made for, the peak over the floor grows at most by b/a (alignment aside), and not at
all when they grow together.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.storage.floor import list_cliques
from bayplan.storage.packing import Search
from bayplan.storage.plan_offsets import plan_offsets
from bayplan.storage.requests import Planned, Request

__all__ = ["Placement", "Planned", "Relation", "Request", "keep_placement", "plan_offsets"]

_MOST_RELATIONS = 4
MOST_BYTES = 2**63 - 1


class Relation:
    """Who lies below whom.

    Attributes:
        order: numbers of the temporaries from the bottom to the top. Of two that are alive
            together the earlier one lies below.
        below: for each temporary those directly below it: alive together with it, and no third
            one in between, whatever the sizes.
    """

    __slots__ = ("below", "order")

    def __init__(self, order: Sequence[int], below: Sequence[Sequence[int]]) -> None:
        self.order = tuple(order)
        self.below = tuple([tuple(b) for b in below])


class Placement:
    """The kept plan of one arena; answers for any sizes.

    Attributes:
        count: how many temporaries.
        lives: of each the half-open interval of steps.
        alignments: of each the number its offset must be a multiple of.
        relations: the kept ones, the most promising first.
        cliques: the largest sets of temporaries that are alive together.
        grain: the greatest common divisor of the alignments.
    """

    __slots__ = ("alignments", "cliques", "count", "grain", "lives", "relations")

    def __init__(
        self,
        lives: Sequence[tuple[int, int]],
        alignments: Sequence[int],
        relations: Sequence[Relation],
    ) -> None:
        from math import gcd

        self.count = len(lives)
        self.lives = tuple(lives)
        self.alignments = tuple(alignments)
        self.relations = tuple(relations)
        self.grain = gcd(*self.alignments) or 1
        ones = _make_requests(self.lives, self.alignments, [1] * self.count)
        numbers = {id(r): i for i, r in enumerate(ones)}
        cliques = [[numbers[id(r)] for r in alive] for _, alive in list_cliques(ones)]
        cliques += [[i] for i, (begin, end) in enumerate(self.lives) if begin >= end]
        self.cliques = tuple([tuple(c) for c in cliques])

    def place(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """The offset of each temporary and the bytes of the arena, for the sizes of a call.

        The generated C does the same, so both give the same numbers.

        Raises:
            OverflowError: The bytes do not fit into 63 bits.
        """
        if len(sizes) != self.count:
            raise ValueError(f"{self.count} sizes are needed, not {len(sizes)}")
        if any(size < 0 for size in sizes):
            raise ValueError(f"a size is negative: {min(sizes)}")
        best, total = self._stack(self.relations[0], sizes)
        for relation in self.relations[1:]:
            offsets, here = self._stack(relation, sizes)
            if here < total:
                best, total = offsets, here
        floor = self.measure_floor(sizes)
        if total > MOST_BYTES or total - floor > floor * 3 // 20:
            offsets, here = self._first_fit(sizes)
            if here < total:
                best, total = offsets, here
        if max(total, floor) > MOST_BYTES:
            raise OverflowError(f"the temporaries take {total} bytes, more than {MOST_BYTES}")
        return best, total

    def measure_floor(self, sizes: Sequence[int]) -> int:
        """The largest sum of sizes alive together, each rounded up to the grain."""
        grain = self.grain
        return (
            max([sum([-(-sizes[i] // grain) for i in c]) for c in self.cliques], default=0) * grain
        )

    def _stack(self, relation: Relation, sizes: Sequence[int]) -> tuple[list[int], int]:
        """Longest paths over the relation."""
        if 0 in sizes:
            return self._stack_without_empty(relation, sizes)
        offsets = [0] * self.count
        total = 0
        for i in relation.order:
            end = max([offsets[j] + sizes[j] for j in relation.below[i]], default=0)
            alignment = self.alignments[i]
            offsets[i] = -(-end // alignment) * alignment
            total = max(total, offsets[i] + sizes[i])
        return offsets, total

    def _stack_without_empty(
        self, relation: Relation, sizes: Sequence[int]
    ) -> tuple[list[int], int]:
        """The same where some take no room, so that they may not push others up.

        What lies directly below then depends on who is there.
        """
        offsets = [0] * self.count
        total = 0
        placed: list[int] = []
        for i in relation.order:
            if not sizes[i]:
                continue
            begin, end = self.lives[i]
            top = 0
            for j in placed:
                if self.lives[j][0] < end and begin < self.lives[j][1]:
                    top = max(top, offsets[j] + sizes[j])
            alignment = self.alignments[i]
            offsets[i] = -(-top // alignment) * alignment
            total = max(total, offsets[i] + sizes[i])
            placed.append(i)
        return offsets, total

    def _first_fit(self, sizes: Sequence[int]) -> tuple[list[int], int]:
        """The biggest first, each at the lowest free place."""
        offsets = [0] * self.count
        total = 0
        placed: list[int] = []
        for i in sorted(range(self.count), key=lambda i: -sizes[i]):
            if not sizes[i]:
                break
            begin, end = self.lives[i]
            taken = [
                (offsets[j], offsets[j] + sizes[j])
                for j in placed
                if self.lives[j][0] < end and begin < self.lives[j][1]
            ]
            taken.sort()
            alignment = self.alignments[i]
            offset = 0
            for low, high in taken:
                if low >= offset + sizes[i]:
                    break
                if high > offset:
                    offset = -(-high // alignment) * alignment
            offsets[i] = offset
            total = max(total, offset + sizes[i])
            placed.append(i)
        return offsets, total


def keep_placement(
    lives: Sequence[tuple[int, int]],
    alignments: Sequence[int],
    hints: Sequence[Sequence[int]],
    *,
    node_limit: int | None = None,
    search: Search | None = None,
) -> Placement:
    """Plans for each hint and keeps who lies below whom.

    Args:
        lives: of each temporary the half-open interval of steps.
        alignments: of each the number its offset must be a multiple of.
        hints: lists of sizes that are likely, the likeliest first; without any, all are equal.
        node_limit, search: as for `plan_offsets`.
    """
    if not hints:
        hints = [[1] * len(lives)]
    relations: list[Relation] = []
    for hint in hints:
        # One that takes no room in the hint may well take some at the call.
        requests = _make_requests(lives, alignments, [max(1, size) for size in hint])
        planned = plan_offsets(requests, node_limit=node_limit, search=search)
        relation = find_relation(lives, planned.offsets)
        if all(relation.below != other.below for other in relations):
            relations.append(relation)
    if len(relations) > _MOST_RELATIONS:
        relations = _choose_relations(lives, alignments, relations, hints)
    return Placement(lives, alignments, relations)


def _choose_relations(
    lives: Sequence[tuple[int, int]],
    alignments: Sequence[int],
    relations: list[Relation],
    hints: Sequence[Sequence[int]],
) -> list[Relation]:
    """The few that together serve all hints best: one after the other, the first in any case."""
    excess: list[list[float]] = []
    for relation in relations:
        alone = Placement(lives, alignments, [relation])
        row = [(alone._stack(relation, hint)[1], alone.measure_floor(hint)) for hint in hints]
        excess.append([total / floor if floor else 1.0 for total, floor in row])
    chosen = [0]
    best = excess[0]
    while len(chosen) < _MOST_RELATIONS:
        sums = [sum([min(x, y) for x, y in zip(best, row)]) for row in excess]
        following = min([i for i in range(len(sums)) if i not in chosen], key=sums.__getitem__)
        chosen.append(following)
        best = [min(x, y) for x, y in zip(best, excess[following])]
    return [relations[i] for i in chosen]


def find_relation(lives: Sequence[tuple[int, int]], offsets: Sequence[int]) -> Relation:
    """The relation of a packing of sizes above 0: of two alive together, the lower lies below.

    What a path through others says already is left out.
    """
    order = sorted(range(len(lives)), key=lambda i: offsets[i])
    below: list[list[int]] = [[] for _ in lives]
    # Bit j of reached[i]: j lies somewhere below i.
    reached = [0] * len(lives)
    for place, i in enumerate(order):
        begin, end = lives[i]
        mask = 0
        for j in reversed(order[:place]):
            if lives[j][0] < end and begin < lives[j][1] and not mask >> j & 1:
                below[i].append(j)
                mask |= reached[j] | 1 << j
        reached[i] = mask
        below[i].sort()
    return Relation(order, below)


def _make_requests(
    lives: Sequence[tuple[int, int]], alignments: Sequence[int], sizes: Sequence[int]
) -> list[Request]:
    return [
        Request(str(i), size, begin, end, alignment)
        for i, ((begin, end), alignment, size) in enumerate(zip(lives, alignments, sizes))
    ]
