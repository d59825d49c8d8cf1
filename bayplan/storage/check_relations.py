"""Offsets that only the call knows: the checker proves that the kept relations order them.

An alias's offset is then the i-th of a Placement, for a worker's arena plus its slot times the
bytes of one slice. Two of one Placement never share bytes if a path in each of its relations joins
them and it takes them for alive together, whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bayplan.analysis.evaluate import Unknown
from bayplan.analysis.facts import Facts
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.ir import build
from bayplan.ir.build import constant_value
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import Add, Call, Cast, Div, Expr, Load, Max, Mul, Select, Variable
from bayplan.ir.node import Node
from bayplan.ir.walk import iterate
from bayplan.storage.check_numbers import Numbers, most, with_slot
from bayplan.storage.check_walk import Scope, Use


class Place:
    """Where an alias lies: the i-th of a placement, or at a constant offset.

    Attributes:
        placement: None where the offset is constant.
        index: which temporary of the placement; the constant offset where there is none.
        slice_bytes: what its slot is multiplied by; None where it has no slot.
    """

    __slots__ = ("index", "placement", "slice_bytes")

    def __init__(self, placement: Any, index: int, slice_bytes: Expr | None) -> None:
        self.placement = placement
        self.index = index
        self.slice_bytes = slice_bytes

    @property
    def constant(self) -> bool:
        """Whether it is at the same offset in all calls, for all workers."""
        return self.placement is None and self.slice_bytes is None


class Relations:
    """Proofs about placements of one statement."""

    def __init__(self, find_samples: Callable[[], list[Numbers]]) -> None:
        self._find_samples = find_samples
        self._expanded: dict[tuple[Any, Node], Node] = {}
        self._reached: dict[int, list[list[int]]] = {}

    def expand(self, e: Expr, scope: Scope | None) -> Expr:
        """The expression with lets written out, as far as they do not depend on data."""
        key = (scope, e)
        found = self._expanded.get(key)
        if found is None:
            if type(e) is Variable:
                binding = None if scope is None else scope.find(e.name)
                if binding is None or binding.value is None or _reads(binding.value):
                    found = e
                else:
                    found = self.expand(binding.value, binding.outer)
            else:
                children = [self.expand(c, scope) for c in e.children()]  # type: ignore[arg-type]
                same = all(x is y for x, y in zip(children, e.children(), strict=True))
                found = e if same else e.with_children(children)
            self._expanded[key] = found
        return found  # type: ignore[return-value]

    def place_of(self, use: Use) -> Place | None:
        """Where the alias lies, None if its offset has another form."""
        assert use.offset is not None
        placed: Call | None = None
        slice_bytes: Expr | None = None
        constant = 0
        terms = [self.expand(use.offset, use.scope)]
        while terms:
            term = terms.pop()
            if type(term) is Add:
                terms += [term.b, term.a]
            elif isinstance(term, Call) and term.name == "placed_offset" and placed is None:
                placed = term
            elif type(term) is Mul and slice_bytes is None and _is_slot(term.a):
                slice_bytes = term.b
            elif type(term) is Mul and slice_bytes is None and _is_slot(term.b):
                slice_bytes = term.a
            else:
                value = constant_value(term)
                if value is None:
                    return None
                constant += int(value)
        if placed is None:
            return Place(None, constant, slice_bytes)
        index = constant_value(placed.args[0])
        if index is None or constant:
            return None
        return Place(placed.target, int(index), slice_bytes)

    def check_place(self, use: Use, place: Place) -> None:
        """Refuses an alias that is not as large, or not as aligned, as its arena holds it."""
        arena = use.arena
        assert arena is not None
        given: Expr = arena.node.extents[0]
        if place.placement is not None:
            given = self._given(use, place)
        elif place.index:
            given = build.sub(given, place.index)
            if place.index % use.node.alignment or place.index < 0:
                raise PlanError(f"{use.name} is not aligned at {place.index} in {use.base}")
        if not self._is_proved(use, place, self.expand(given, arena.scope)):
            self._compare_sizes(use, place, given)

    def _given(self, use: Use, place: Place) -> Expr:
        """The bytes that the placement of the arena is asked to keep for the alias."""
        arena = use.arena
        assert arena is not None
        made = self.expand(arena.node.extents[0], arena.scope)
        calls = [n for n in iterate(made) if isinstance(n, Call) and n.name == "place_storage"]
        calls = [call for call in calls if call.target is place.placement]
        if not calls:
            raise PlanError(
                f"{use.name} lies in {arena.name}, but its offset is of another arena's placement"
            )
        alignment = place.placement.alignments[place.index]
        if alignment % use.node.alignment:
            raise PlanError(
                f"{use.name} is to be aligned to {use.node.alignment} bytes, but its offset is a "
                f"multiple of {alignment} only"
            )
        return calls[0].args[place.index]

    def _is_proved(self, use: Use, place: Place, given: Expr) -> bool:
        """Whether the bytes kept are at least those that the alias takes, by the expressions."""
        if isinstance(given, Max):
            return self._is_proved(use, place, given.a) or self._is_proved(use, place, given.b)
        if isinstance(given, Select):
            in_output = self.expand(use.in_output, use.scope)
            if use.output and given.condition is in_output:
                return self._is_proved(use, place, given.false_value)
            return (
                constant_value(given.false_value) == 0
                and self._is_proved(use, place, given.true_value)
                and self._holds_at(use, given.condition)
            )
        if place.slice_bytes is not None:
            return self._holds_slices(use, place.slice_bytes, given)
        if isinstance(given, Call) and given.name == "size_in_bytes":
            return self._holds_elements(use, given)
        node = use.node
        if len(node.extents) == 1 and node.type.bytes() == 1 and not node.padding:
            return _plain(given) is _plain(self.expand(node.extents[0], use.scope))
        return False

    def _holds_elements(self, use: Use, given: Call) -> bool:
        node = use.node
        element_bytes, padding, *extents = given.args
        if constant_value(element_bytes) != node.type.bytes():
            return False
        if int(constant_value(padding) or 0) < node.padding or len(extents) != len(node.extents):
            return False
        needed = [self.expand(e, use.scope) for e in node.extents]
        return all(_plain(a) is _plain(b) for a, b in zip(needed, extents, strict=True))

    def _holds_slices(self, use: Use, slice_bytes: Expr, given: Expr) -> bool:
        """Whether there is a slice for each worker, none shorter than what the alias takes."""
        loop = use.parallel_loops()[0].node
        if not isinstance(given, Mul):
            return False
        slots, piece = given.a, given.b
        while isinstance(slots, Cast):
            slots = slots.value
        if not isinstance(slots, Call) or slots.name != "parallel_slots":
            return False
        if _plain(slots.args[0]) is not _plain(self.expand(loop.extent, use.scope)):
            return False
        if _plain(piece) is not _plain(slice_bytes):
            return False
        return _is_rounded_up(piece, self.expand(use.node.extents[0], use.scope), use)

    def _holds_at(self, use: Use, condition: Expr) -> bool:
        """Whether a condition holds wherever the program comes to the alias."""
        facts = Facts()
        facts.assume(simplify(self.expand(use.node.condition, use.scope)))
        scope = use.scope
        while scope is not None:
            if scope.loop is not None:
                extent = self.expand(scope.loop.extent, scope.outer)
                facts.assume(simplify(build.ge(extent, 1)))
            elif scope.name == "" and scope.value is not None:
                facts.assume(simplify(self.expand(scope.value, scope.outer)))
            scope = scope.outer
        return can_prove(simplify(condition), facts)

    def _compare_sizes(self, use: Use, place: Place, expression: Expr) -> None:
        """Compares what a placement is given for an alias with what it takes, in samples."""
        arena = use.arena
        assert arena is not None
        for numbers in self._find_samples():
            try:
                if use.output and numbers.value(use.in_output, use.scope):
                    continue
                given = numbers.value(expression, arena.scope)
                for loops in most(numbers.iterations(use)):
                    needed = _needed_bytes(numbers, use, place, loops)
                    if needed > given:
                        raise PlanError(
                            f"{use.name} takes {needed} bytes, but {given} are kept for it in "
                            f"{arena.name} where {_describe(numbers.values, loops)}"
                        )
            except Unknown:
                continue

    def fits(self, use: Use, given: int) -> bool:
        """Whether the alias takes at most so many bytes, in the samples that it is known in."""
        tried = False
        for numbers in self._find_samples():
            try:
                for loops in most(numbers.iterations(use)):
                    if numbers.bytes_of(use.node, use.scope, loops) > given:
                        return False
                    tried = True
            except Unknown:
                continue
        return tried

    def ordered(self, a: Place, b: Place) -> bool:
        """Whether a path joins the two in each relation, and they count as alive together."""
        placement = a.placement
        if placement is None or placement is not b.placement or a.index == b.index:
            return False
        (begin, end), (other_begin, other_end) = (
            placement.lives[a.index],
            placement.lives[b.index],
        )
        if not (begin < other_end and other_begin < end):
            return False
        reached = self._reached.get(id(placement))
        if reached is None:
            reached = [_close(relation) for relation in placement.relations]
            self._reached[id(placement)] = reached
        for below in reached:
            if not (below[a.index] >> b.index & 1 or below[b.index] >> a.index & 1):
                return False
        return True


def _close(relation: Any) -> list[int]:
    """For each temporary the set of all that lie below it, as bits; a cycle is refused."""
    count = len(relation.below)
    below = [0] * count
    state = [0] * count
    for root in range(count):
        stack = [root]
        while stack:
            i = stack[-1]
            if state[i] == 0:
                state[i] = 1
                for j in relation.below[i]:
                    if state[j] == 1:
                        raise PlanError(f"the kept relation has a cycle through {i} and {j}")
                    if state[j] == 0:
                        stack.append(j)
            else:
                stack.pop()
                if state[i] == 1:
                    state[i] = 2
                    for j in relation.below[i]:
                        below[i] |= below[j] | 1 << j
    return below


def _needed_bytes(numbers: Numbers, use: Use, place: Place, loops: Mapping[str, int]) -> int:
    one = numbers.bytes_of(use.node, use.scope, loops)
    if place.slice_bytes is None:
        return one
    loop = use.parallel_loops()[0].node
    count = numbers.value(loop.extent, use.scope, loops)
    slots = max(0, min(count, numbers.workers))
    piece = numbers.value(place.slice_bytes, use.scope, with_slot(loops, 0))
    if piece % use.node.alignment:
        raise PlanError(
            f"{use.name} is to be aligned to {use.node.alignment} bytes, "
            f"but each worker of {loop.name} has {piece} bytes"
        )
    if piece < one:
        raise PlanError(
            f"each worker of {loop.name} has {piece} bytes of {use.base}, "
            f"but {use.name} takes {one}"
        )
    return slots * piece


def _is_rounded_up(piece: Expr, needed: Expr, use: Use) -> bool:
    """Whether it is the bytes needed, up to a multiple of what aligns each worker's part."""
    fixed, least = constant_value(piece), constant_value(needed)
    if fixed is not None and least is not None:
        return fixed >= least and int(fixed) % use.node.alignment == 0
    if not isinstance(piece, Mul) or not isinstance(piece.a, Div):
        return False
    factor, divisor, total = piece.b, piece.a.b, piece.a.a
    step = constant_value(factor)
    if step is None or constant_value(divisor) != step or int(step) % use.node.alignment:
        return False
    if not isinstance(total, Add) or total.a is not needed:
        return False
    return constant_value(total.b) == step - 1


def _plain(e: Expr) -> Expr:
    while type(e) is Cast:
        e = e.value
    return simplify(e)


def _is_slot(e: Expr) -> bool:
    while type(e) is Cast:
        e = e.value
    return isinstance(e, Call) and e.name == "worker_slot"


def _reads(e: Expr) -> bool:
    return any(type(n) is Load for n in iterate(e))


def _describe(values: Mapping[str, Any], loops: Mapping[str, int]) -> str:
    known = {**values, **loops}
    return ", ".join([f"{name} = {known[name]}" for name in sorted(known)]) or "all is constant"
