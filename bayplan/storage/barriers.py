"""Where the threads of a block wait for each other: as few barriers as the hazards allow.

A barrier stands as late as it can, right before the first step that must wait, where it serves
all hazards that are open. In a loop, what the iteration before left open counts too. As a barrier
that a later iteration asks for may make others needless, each is tried to be left out at the end,
and loops are tried with a barrier at each place to begin with.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir.build import block, int32
from bayplan.ir.exprs import Call, CallKind
from bayplan.ir.stmts import Evaluate, For, IfThenElse, Stmt
from bayplan.ir.types import INT32
from bayplan.storage.hazards import NEVER, Hazards
from bayplan.storage.kernel_steps import KernelSteps, Part, Step
from bayplan.storage.kernels import BARRIER
from bayplan.storage.memory_places import GLOBAL, SHARED

_MOST_TRIALS: Final = 32

# Of a step that was passed, by the outermost loop that went on since: the barriers passed last.
Open = dict[tuple[int, int], frozenset[int]]

_NONE: Final = frozenset[int]()


def insert_into(kernel: KernelSteps) -> Stmt:
    """The body of the kernel with its barriers."""
    fences = place_barriers(kernel)
    return _rebuild(kernel.top, fences)


def place_barriers(kernel: KernelSteps) -> dict[int, int]:
    """By number of the part that it stands before, the fence of each barrier."""
    placing = _Placing(kernel)
    best = placing.thin_out(placing.cover(frozenset()))
    trials = placing.places_in_loops() if best else []
    for place in trials[:_MOST_TRIALS]:
        other = placing.thin_out(placing.cover(frozenset([place])))
        if placing.cost(other) < placing.cost(best):
            best = other
    return placing.fences(best)


def _rebuild(part: Part, fences: dict[int, int]) -> Stmt:
    inner = [_rebuild(p, fences) for p in part.inner]
    olds = [p.stmt for p in part.inner]
    stmt = part.stmt
    if any(new is not old for new, old in zip(inner, olds, strict=True)):
        children = list(stmt.children())
        children[len(children) - len(inner) :] = inner
        stmt = stmt.with_children(children)  # type: ignore[assignment]
    fence = fences.get(part.number)
    if fence is None:
        return stmt
    call = Call(INT32, BARRIER, (int32(fence),), CallKind.INTRINSIC)
    return block([Evaluate(call), stmt])


class _Missing(Exception):
    """A hazard that no barrier covers, at a place where none is to be added."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.kinds = kinds


class _Placing:
    def __init__(self, kernel: KernelSteps) -> None:
        self.kernel = kernel
        self.hazards = Hazards(kernel)
        self.depths: dict[int, int] = {}
        self._note_depths(kernel.top, 0)
        self.barriers: set[int] = set()
        # Whether barriers are added where one is missed.
        self.adding = True
        # The kind of memory whose fences are looked for; 0: any.
        self.kind = 0
        self.found: dict[int, int] = {}
        self._now: Any = None
        self._walked: dict[Any, Open] = {}
        # Kinds of the hazards that barriers were added for.
        self.causes: dict[int, int] = {}

    def _note_depths(self, part: Part, depth: int) -> None:
        self.depths[part.number] = depth
        inner = depth + 1 if part.loop is not None else depth
        for p in part.inner:
            self._note_depths(p, inner)

    def places_in_loops(self) -> list[int]:
        """The parts in loops that do something themselves."""
        places: list[int] = []
        stack = [self.kernel.top]
        while stack:
            part = stack.pop()
            if part.step is not None and self.depths[part.number]:
                places.append(part.number)
            stack.extend(reversed(part.inner))
        return places

    def cost(self, barriers: frozenset[int]) -> tuple[int, ...]:
        """How many there are, in the innermost loops first."""
        most = max(self.depths.values(), default=0)
        counts = [0] * (most + 1)
        for place in barriers:
            counts[most - self.depths[place]] += 1
        return tuple(counts)

    def cover(self, first: frozenset[int]) -> frozenset[int]:
        """Barriers that cover all hazards, those of `first` among them."""
        self.barriers, self.adding, self.kind = set(first), True, 0
        self._run(self.kernel.top, {})
        return frozenset(self.barriers)

    def _add(self, part: Part, kinds: int) -> None:
        self.barriers.add(part.number)
        self.causes[part.number] = self.causes.get(part.number, 0) | kinds

    def thin_out(self, barriers: frozenset[int]) -> frozenset[int]:
        """Those of the barriers without which a hazard is open."""
        for place in sorted(barriers):
            fewer = barriers - {place}
            if self.is_enough(fewer):
                barriers = fewer
        return barriers

    def is_enough(self, barriers: frozenset[int]) -> bool:
        """Whether the barriers cover all hazards."""
        self.barriers, self.adding, self.kind = set(barriers), False, 0
        try:
            self._run(self.kernel.top, {})
        except _Missing:
            return False
        return True

    def fences(self, barriers: frozenset[int]) -> dict[int, int]:
        """The kinds of memory that each barrier has to cover."""
        self.barriers, self.adding = set(barriers), False
        self.found = {b: self.causes.get(b, 0) for b in barriers}
        for self.kind in (SHARED, GLOBAL):
            before: dict[int, int] = {}
            while before != self.found:
                before = dict(self.found)
                self._run(self.kernel.top, {})
        return self.found

    # The walk

    def _run(self, part: Part, state: Open) -> Open:
        if part.number in self.barriers:
            state = self._passed(part.number, state)
        if part.step is not None:
            state = self._meet(part, part.step, state)
        if isinstance(part.stmt, For) and part.loop is not None:
            return self._loop(part, state)
        if isinstance(part.stmt, IfThenElse):
            ways = [self._run(p, state) for p in part.inner]
            if part.stmt.else_case is None:
                ways.append(state)
            return _joined(ways)
        for p in part.inner:
            state = self._run(p, state)
        return state

    def _passed(self, barrier: int, state: Open) -> Open:
        """What is open behind a barrier."""
        if self.kind and not self.found[barrier] & self.kind:
            return dict.fromkeys(state, frozenset([barrier]))
        return {}

    def _meet(self, part: Part, step: Step, state: Open) -> Open:
        steps = self.kernel.steps
        for (number, carried), passed in state.items():
            kinds = self.hazards.between(steps[number], step, carried)
            if self.kind:
                if kinds & self.kind:
                    for barrier in passed:
                        self.found[barrier] |= self.kind
            elif kinds:
                if not self.adding:
                    raise _Missing(kinds)
                self._add(part, kinds)
                state = {}
                break
        return {**state, (step.number, NEVER): _NONE}

    def _loop(self, part: Part, state: Open) -> Open:
        (body,) = part.inner
        if self.adding:
            # What the loop needs whatever came before; then a barrier before it serves the rest.
            self._iterate(part, body, {})
            self.adding = False
            try:
                self._iterate(part, body, state)
            except _Missing as missing:
                self._add(part, missing.kinds)
                state = {}
            self.adding = True
        after = self._iterate(part, body, state)
        return after if part.runs else _joined([after, state])

    def _iterate(self, part: Part, body: Part, state: Open) -> Open:
        """What is open behind the loop; remembered while barriers and fences are the same."""
        now = (frozenset(self.barriers), self.kind, tuple(self.found.items()))
        if now != self._now:
            self._now, self._walked = now, {}
        key = (part.number, self.adding, frozenset(state.items()))
        found = self._walked.get(key)
        if found is None:
            walked = self._walked
            found = self._walk_iterations(part, body, state)
            if self._now == (frozenset(self.barriers), self.kind, tuple(self.found.items())):
                walked[key] = found
        return found

    def _walk_iterations(self, part: Part, body: Part, state: Open) -> Open:
        """Iterations are walked until nothing new comes."""
        depth = self.depths[part.number]
        entry = state
        while True:
            after = self._run(body, entry)
            carried: Open = {}
            for (number, loop), passed in after.items():
                inside = part.number in self.kernel.steps[number].loops
                key = (number, min(loop, depth) if inside else loop)
                carried[key] = carried.get(key, _NONE) | passed
            following = _joined([entry, carried])
            if following == entry:
                break
            entry = following
        left: Open = {}
        for (number, loop), passed in after.items():
            key = (number, NEVER if loop >= depth else loop)
            left[key] = left.get(key, _NONE) | passed
        return left


def _joined(ways: list[Open]) -> Open:
    result: Open = {}
    for way in ways:
        for key, passed in way.items():
            result[key] = result.get(key, _NONE) | passed
    return result
