"""The checker of storage plans: refuses a final program in which temporaries destroy one another.

It shares no code with the planner. It walks the final program, finds for each alias when its bytes
must be kept, and demands of any two that are kept at one position of one arena that their byte
ranges are apart, or that one takes over the bytes of the other element by element (in place).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bayplan.analysis.evaluate import Number, Unknown
from bayplan.ir.build import constant_value
from bayplan.ir.errors import PlanError
from bayplan.ir.stmts import Stmt
from bayplan.storage.check_in_output import InOutput
from bayplan.storage.check_in_place import InPlace
from bayplan.storage.check_numbers import Numbers, most, size_in_bytes, with_slot
from bayplan.storage.check_relations import Place, Relations
from bayplan.storage.check_samples import find_samples, refuses_all
from bayplan.storage.check_walk import Use, Walk

_DEFAULT_WORKERS: Final = 2
_MANY_WORKERS: Final = 19
"""Slabs have a slice for each worker; where no values are given, their number is varied too."""


def check_storage(
    stmt: Stmt,
    values: Mapping[str, Number] | None = None,
    workers: int = _DEFAULT_WORKERS,
) -> None:
    """Refuses a plan that is wrong, for tests and the debug setting.

    Args:
        stmt: the final statement.
        values: sizes and parameters of a call by name; all ranges are then numbers. Without
            them the check holds for all calls.
        workers: the most tasks of a parallel loop that run at once.

    Raises:
        PlanError: two temporaries that are needed together share bytes, one reaches beyond its
            arena or is not aligned, workers share bytes, or one is used outside of its life.
    """
    walk = Walk(stmt)
    if not any(use.arena for use in walk.uses):
        return
    samples = _Samples(stmt)
    try:
        _Check(stmt, walk, samples, values, workers).run()
        if values is None and any(use.parallel_loops() for use in walk.uses if use.arena):
            _Check(stmt, walk, samples, None, _MANY_WORKERS).run()
    except PlanError:
        # What no call comes to needs no proof, and could not be tried.
        if samples() or not refuses_all(stmt):
            raise


class _Samples:
    """Calls in which what cannot be proved is tried, found when they are asked for."""

    def __init__(self, stmt: Stmt) -> None:
        self.stmt = stmt
        self.found: list[Numbers] | None = None

    def __call__(self) -> list[Numbers]:
        if self.found is None:
            self.found = find_samples(self.stmt)
        return self.found


class _Range:
    """The bytes of an alias in its arena, as numbers or as the place in a Placement."""

    __slots__ = ("begin", "end", "kept", "place", "use")

    def __init__(self, use: Use, begin: int, end: int, place: Place | None = None) -> None:
        self.use = use
        self.begin = begin
        self.end = end
        self.place = place
        self.kept = use.kept()

    @property
    def constant(self) -> bool:
        """Whether it begins at a known byte, in all calls that matter."""
        return self.place is None or self.place.constant

    def describe(self, walk: Walk) -> str:
        first, end = self.kept
        what = f"of {self.use.name}"
        if self.place is None:
            what = f"[{self.begin}, {self.end}) {what}"
        return (
            f"{what}, kept from step {first} ({walk.leaves[first].describe()}) to step {end - 1} "
            f"({walk.leaves[end - 1].describe()})"
        )


def _is_slice_of_block(use: Use) -> bool:
    """Whether all that runs at once between the arena and an alias is blocks of a launch."""
    parallel = use.parallel_loops()
    return bool(parallel) and all(loop.over_blocks for loop in parallel)


class _Check:
    def __init__(
        self,
        stmt: Stmt,
        walk: Walk,
        samples: Callable[[], list[Numbers]],
        values: Mapping[str, Number] | None,
        workers: int,
    ) -> None:
        self.walk = walk
        self.numbers = Numbers(values or {}, workers)
        self.concrete = values is not None
        if self.concrete:
            samples = lambda: [self.numbers]
        self.samples = samples
        self.slices: dict[object, list[int]] = {}
        self.relations = Relations(samples)
        self.in_place = InPlace(walk, samples)
        self.in_output = InOutput(stmt, walk, self.in_place, samples, self.concrete)
        self.arena_bytes: dict[Use, int | None] = {}

    def run(self) -> None:
        """Checks each alias, then each arena."""
        members: dict[Use, list[_Range]] = {}
        outputs: dict[str, list[Use]] = {}
        for use in self.walk.uses:
            if use.arena is None:
                continue
            self._check_workers(use)
            if use.arena.node.alignment % use.node.alignment:
                raise PlanError(
                    f"{use.name} is to be aligned to {use.node.alignment} bytes, but {use.base} "
                    f"is aligned to {use.arena.node.alignment}"
                )
            if use.output and use.kept()[0] < use.kept()[1]:
                outputs.setdefault(use.output, []).append(use)
            found = self._range(use)
            if found is not None and found.kept[0] < found.kept[1]:
                members.setdefault(use.arena, []).append(found)
        for ranges in members.values():
            self._check_arena(ranges)
        for output, uses in outputs.items():
            self.in_output.check(output, uses)

    def _check_workers(self, use: Use) -> None:
        parallel = use.parallel_loops()
        if len(parallel) > 1 and not _is_slice_of_block(use):
            raise PlanError(
                f"{use.name} lies in {use.base} across the parallel loops "
                f"{' and '.join([loop.node.name for loop in parallel])}"
            )

    def _bytes_of_arena(self, use: Use) -> int | None:
        """The bytes of the arena, None where they are not known."""
        arena = use.arena
        if arena is None:
            return None
        if arena not in self.arena_bytes:
            try:
                found: int | None = self.numbers.bytes_of(arena.node, arena.scope, {})
            except Unknown:
                found = None
            self.arena_bytes[arena] = found
        return self.arena_bytes[arena]

    def _range(self, use: Use) -> _Range | None:
        """The bytes of an alias; None where it has none."""
        size = self._bytes_of_arena(use)
        try:
            found = self._number_range(use, size)
            if found is None or size is not None:
                return found
            known = self.relations.place_of(use)
            if known is not None and not use.parallel_loops():
                # Only the call knows how large the arena is.
                self.relations.check_place(use, known)
                return found
        except Unknown as unknown:
            if self.concrete:
                raise PlanError(f"the bytes of {use.name} depend on {unknown.what}") from None
            constant = self._constant_range(use, size)
            if constant is not None:
                return constant
        if _is_slice_of_block(use):
            self._try_slices(use)
            return None
        place = self.relations.place_of(use)
        if place is None:
            raise PlanError(f"the offset {use.offset} of {use.name} is of no known form")
        if use.parallel_loops() and place.slice_bytes is None:
            raise self._shared_by_workers(use)
        self.relations.check_place(use, place)
        return _Range(use, place.index if place.constant else 0, 0, place)

    def _constant_range(self, use: Use, arena_bytes: int | None) -> _Range | None:
        """The bytes of an alias of constant place and size, taken to be needed in any case."""
        assert use.offset is not None
        constants = [constant_value(e) for e in (use.offset, *use.node.extents)]
        if use.parallel_loops() or use.output or None in constants:
            return None
        offset, *extents = [int(c) for c in constants if c is not None]
        size = size_in_bytes(use.node.type.bytes(), use.node.padding, extents)
        self._check_offset(use, offset, size, arena_bytes)
        return _Range(use, offset, offset + size)

    def _number_range(self, use: Use, arena_bytes: int | None) -> _Range | None:
        assert use.offset is not None
        if use.output and self.numbers.value(use.in_output, use.scope):
            return None
        begin, end = -1, -1
        for loops in most(self.numbers.iterations(use)):
            size = self.numbers.bytes_of(use.node, use.scope, loops)
            offsets = self._offsets(use, loops)
            for offset in offsets:
                self._check_offset(use, offset, size, arena_bytes)
                if _is_slice_of_block(use):
                    self._check_blocks(use, offset, size, loops)
            offsets.sort()
            for low, high in zip(offsets, offsets[1:]):
                if size and high - low < size:
                    raise self._shared_by_workers(use, low, high, size)
            if size and offsets:
                begin = offsets[0] if begin < 0 else min(begin, offsets[0])
                end = max(end, offsets[-1] + size)
        return None if end < 0 else _Range(use, begin, end)

    def _try_slices(self, use: Use) -> None:
        """Tries the parts of a launch's blocks in calls, where these say how large they are."""
        numbers = self.numbers
        for sample in self.samples():
            self.numbers = sample
            try:
                assert use.arena is not None
                size = self.numbers.bytes_of(use.arena.node, use.arena.scope, {})
                self._number_range(use, size)
            except Unknown:
                continue
        self.numbers = numbers

    def _check_blocks(self, use: Use, offset: int, size: int, loops: Mapping[str, int]) -> None:
        """Refuses two blocks of a launch that have the same bytes."""
        blocks = {loop.node.name for loop in use.parallel_loops()}
        launch = (use, *[item for item in loops.items() if item[0] not in blocks])
        known = self.slices.setdefault((id(self.numbers), launch), [])
        for other in known:
            if size and abs(other - offset) < size:
                low, high = sorted([other, offset])
                raise self._shared_by_workers(use, low, high, size)
        known.append(offset)

    def _offsets(self, use: Use, loops: Mapping[str, int]) -> list[int]:
        """The offset, or one for each task of a parallel loop that runs at once."""
        assert use.offset is not None
        parallel = use.parallel_loops()
        if not parallel or _is_slice_of_block(use):
            return [self.numbers.value(use.offset, use.scope, loops)]
        count = self.numbers.value(parallel[0].node.extent, use.scope, loops)
        slots = range(max(0, min(count, self.numbers.workers)))
        return [self.numbers.value(use.offset, use.scope, with_slot(loops, k)) for k in slots]

    def _check_offset(self, use: Use, offset: int, size: int, arena_bytes: int | None) -> None:
        node = use.node
        if offset < 0 or (arena_bytes is not None and size and offset + size > arena_bytes):
            raise PlanError(
                f"the bytes [{offset}, {offset + size}) of {use.name} reach beyond the "
                f"{arena_bytes} bytes of {use.base}"
            )
        if offset % max(node.alignment, node.type.bytes()):
            raise PlanError(
                f"{use.name} is to be aligned to {max(node.alignment, node.type.bytes())} bytes, "
                f"but lies at {offset} in {use.base}"
            )

    def _shared_by_workers(self, use: Use, low: int = 0, high: int = 0, size: int = 0) -> PlanError:
        loop = use.parallel_loops()[0].node.name
        where = f": [{low}, {low + size}) and [{high}, {high + size})" if size else ""
        who = "blocks" if _is_slice_of_block(use) else "workers"
        return PlanError(f"two {who} of {loop} have the same bytes of {use.name}{where}")

    def _check_arena(self, ranges: list[_Range]) -> None:
        """Refuses ranges that overlap while both are kept."""
        ranges.sort(key=lambda r: r.kept)
        alive: list[_Range] = []
        for second in ranges:
            alive = [first for first in alive if first.kept[1] > second.kept[0]]
            for first in alive:
                self._check_pair(first, second)
            alive.append(second)

    def _check_pair(self, first: _Range, second: _Range) -> None:
        if first.place is not None and second.place is not None:
            if self.relations.ordered(first.place, second.place):
                return
            same = (
                first.place.placement is second.place.placement
                and first.place.index == second.place.index
            )
        elif first.place is None and second.place is None:
            same = first.begin == second.begin
        else:
            same = first.constant and second.constant and first.begin == second.begin
        if not same and self._lie_apart(first, second):
            return
        why = "they do not begin at the same byte"
        if same:
            why = self.in_place.why_not(first.use, second.use)
            if not why:
                return
        arena = first.use.base
        raise PlanError(
            f"bytes of {arena} are given to two temporaries at once: "
            f"{first.describe(self.walk)}; and {second.describe(self.walk)}. "
            f"One does not replace the other in place: {why}"
        )

    def _lie_apart(self, first: _Range, second: _Range) -> bool:
        """Whether the one that begins before the other ends there, if that is known of both.

        How long one is of which only the place is known is tried in sample calls.
        """
        if not (first.constant and second.constant):
            return False
        low, high = (first, second) if first.begin < second.begin else (second, first)
        if low.place is None:
            return low.end <= high.begin
        return self.relations.fits(low.use, high.begin - low.begin)
