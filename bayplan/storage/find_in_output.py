"""Which temporaries may live in the bytes of an output, until that is stored there.

Where each element of a temporary is read for the last time by the statement that stores the same
element of an output, the output's own bytes are enough for both. Whether elements are the same
depends on the output's sizes and strides, which only the call knows: so what is found is a
condition of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from bayplan.analysis.purity import is_pure, reads_memory
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import cast, conjunction, const, eq, is_zero, mul
from bayplan.ir.exprs import Expr, Load, Shuffle, Variable, VectorReduce
from bayplan.ir.node import Node
from bayplan.ir.stmts import AssertStmt, For, Store
from bayplan.ir.types import INT32, INT64, Type
from bayplan.ir.walk import free_variables, iterate, substitute
from bayplan.storage.index_sums import IndexSums, TooLong
from bayplan.storage.lives import Life, Lives
from bayplan.storage.places import Place, outward

_FIELDS = ("min", "extent", "stride")


class Output:
    """A buffer of the call that is written.

    Attributes:
        name: of its Stores.
        dimensions: how many sizes and strides it has.
        inputs: names of the inputs that it may be the same buffer as.
        stored_once: whether each element is stored once, and none is left as it was.
        any_stride: whether the stride of its first dimension is left to the call.
    """

    __slots__ = ("any_stride", "dimensions", "inputs", "name", "stored_once", "type")

    def __init__(
        self,
        name: str,
        type: Type,
        dimensions: int,
        inputs: Sequence[str],
        stored_once: bool,
        any_stride: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.dimensions = dimensions
        self.inputs = tuple(inputs)
        self.stored_once = stored_once
        self.any_stride = any_stride


class InOutput:
    """The bytes of an output that a temporary has where the condition holds in the call."""

    __slots__ = ("condition", "output")

    def __init__(self, output: str, condition: Expr) -> None:
        self.output = output
        self.condition = condition


def find_in_output(
    lives: Lives,
    chains: Iterable[Sequence[Life]],
    extents: Mapping[Life, tuple[Expr, ...]],
    outputs: Sequence[Output],
    outside: Sequence[tuple[str, Expr]],
    stored_once: Callable[[str], bool],
    allowed: Callable[[str], bool],
) -> dict[Life, InOutput]:
    """The temporaries of the call's scope that may live in an output.

    Args:
        lives: of the whole statement.
        chains: temporaries that take over each other's bytes in place, oldest first.
        extents: of each temporary, in names from outside.
        outputs: of the call.
        outside: the lets around the place where the call's arena is taken, outermost first.
        stored_once: whether the temporary of that name has each element stored at most once.
        allowed: whether its user lets it lie elsewhere than on the heap.
    """
    found: dict[Life, InOutput] = {}
    touches = _Touches(lives)
    taken: dict[str, list[tuple[int, int]]] = {}
    for whole in chains:
        chain = _allowed_end(whole, allowed)
        if not chain:
            continue
        for output in outputs:
            known = taken.setdefault(output.name, [])
            judge = _Judge(lives, touches, output, extents, outside, stored_once)
            members = judge.members(chain)
            if not members:
                continue
            begin, end = min([m.begin for m in members]), max([m.end for m in members])
            if all(end <= first or last <= begin for first, last in known):
                known.append((begin, end))
                found.update(members)
                break
    return found


def _allowed_end(chain: Sequence[Life], allowed: Callable[[str], bool]) -> Sequence[Life]:
    first = len(chain)
    while first and allowed(chain[first - 1].name):
        first -= 1
    return chain[first:]


class _Touch:
    """One leaf that touches a name, and the steps of all iterations of the loops around it."""

    __slots__ = ("begin", "end", "leaf", "place")

    def __init__(self, leaf: Node, place: Place | None, step: int) -> None:
        self.leaf = leaf
        self.place = place
        self.begin, self.end = step, step + 1
        for around in outward(place):
            if type(around.node) is For:
                self.begin, self.end = around.begin, around.end


class _Touches:
    """By name what touches it, in program order."""

    def __init__(self, lives: Lives) -> None:
        self._lives = lives
        self._by_name: dict[str, list[_Touch]] = {}

    def of(self, name: str) -> list[_Touch]:
        if not self._by_name:
            self._find()
        return self._by_name.get(name, [])

    def _find(self) -> None:
        lives = self._lives
        for step in sorted(lives.leaves):
            for leaf, place in zip(lives.leaves[step], lives.places[step], strict=True):
                touch = _Touch(leaf, place, step)
                names = {n.name for n in iterate(leaf) if isinstance(n, Load)}
                if isinstance(leaf, Store):
                    names.add(leaf.name)
                for name in names:
                    self._by_name.setdefault(name, []).append(touch)


class _Judge:
    """Judges the temporaries of a chain for one output."""

    def __init__(
        self,
        lives: Lives,
        touches: _Touches,
        output: Output,
        extents: Mapping[Life, tuple[Expr, ...]],
        outside: Sequence[tuple[str, Expr]],
        stored_once: Callable[[str], bool],
    ) -> None:
        self.lives = lives
        self.touches = touches
        self.output = output
        self.extents = extents
        self.outside = outside
        self.names = frozenset([name for name, _ in outside])
        self.stored_once = stored_once

    def members(self, chain: Sequence[Life]) -> dict[Life, InOutput]:
        """Those at the end of the chain that may live in the output, each with its condition."""
        last = chain[-1]
        if not self.output.stored_once or not self.output.dimensions or not self._fits(last):
            return {}
        try:
            distances = self._distances_of_stores(last)
        except TooLong:
            return {}
        if not distances:
            return {}
        conditions = {last: [*self._same_shape(last), *distances]}
        for older in reversed(chain[:-1]):
            if not self._fits(older) or not self._is_untouched(older.begin, older.end):
                break
            conditions[older] = self._same_shape(older)
        kept = self._without_inputs([m for m in chain if m in conditions], conditions)
        found = {}
        for member in kept:
            condition = simplify(conjunction(conditions[member]))
            if not is_zero(simplify(self._written_out(condition))):
                found[member] = InOutput(self.output.name, condition)
        return found

    def _written_out(self, condition: Expr) -> Expr:
        """The condition in terms of what the call is given, to see whether it can hold at all."""
        needed = set(free_variables(condition))
        lets = []
        for name, value in reversed(self.outside):
            if name in needed and is_pure(value) and not reads_memory(value):
                needed |= free_variables(value)
                lets.append((name, value))
        values: dict[str, Expr] = {}
        for name, value in reversed(lets):
            values[name] = substitute(values, value)
        return substitute(values, condition)

    def _fits(self, life: Life) -> bool:
        """Whether it is allocated once a call and its elements can be those of the output."""
        return (
            not life.loops
            and life.type is self.output.type
            and not life.node.padding
            and len(life.node.extents) == self.output.dimensions
        )

    def _is_untouched(self, begin: int, end: int) -> bool:
        return not any(
            t.begin < end and begin < t.end for t in self.touches.of(self.output.name)
        )

    def _distances_of_stores(self, old: Life) -> list[Expr]:
        """What must be 0 for `old` to be read where the output is stored; empty: not possible."""
        name = self.output.name
        # Nothing is there before, which `old` would destroy.
        begin = min([t.begin for t in self.touches.of(name)], default=-1)
        if begin <= old.begin:
            return []
        sums = IndexSums(self.names, self._strides(old))
        distances: dict[Expr, None] = {}
        for leaf, place in self._leaves(begin, old.end):
            if not isinstance(leaf, Store | AssertStmt | Expr):
                # Whatever else happens, such as a call, may touch any element.
                return []
            reads = [n for n in iterate(leaf) if isinstance(n, Load)]
            if any(n.name == name for n in reads):
                return []
            stores_output = isinstance(leaf, Store) and leaf.name == name
            if isinstance(leaf, Store) and leaf.name == old.name:
                return []
            if not any(n.name == old.name for n in reads):
                continue
            if not stores_output or not self._add(distances, sums, leaf, place, old.name):
                return []
        return [eq(d, 0) for d in distances]

    def _leaves(self, begin: int, end: int) -> Iterator[tuple[Node, Place | None]]:
        for step in range(begin, end):
            yield from zip(
                self.lives.leaves.get(step, []), self.lives.places.get(step, []), strict=True
            )

    def _add(
        self,
        distances: dict[Expr, None],
        sums: IndexSums,
        leaf: Node,
        place: Place | None,
        read: str,
    ) -> bool:
        """Notes how far the elements of `read` lie from the one that the statement stores."""
        assert isinstance(leaf, Store)
        for e in iterate(leaf):
            if isinstance(e, Shuffle | VectorReduce):
                # Lanes that change places are read after others have been stored.
                return False
            if isinstance(e, Load) and e.name == read:
                distance = sums.distance(leaf.index, e.index, place)
                if distance is None:
                    return False
                distances[distance] = None
        # Of two elements one is another than the one that is stored.
        return len(distances) == 1

    def _strides(self, life: Life) -> dict[str, Expr]:
        """The output's strides where it has the shape of the temporary."""
        found: dict[str, Expr] = {}
        stride: Expr = const(INT32, 1)
        for d, extent in enumerate(self.extents[life]):
            found[f"{self.output.name}.stride.{d}"] = stride
            stride = mul(stride, extent)
        return found

    def _same_shape(self, life: Life) -> list[Expr]:
        """That the output is as large as the temporary and has no gaps."""
        name = self.output.name
        conditions: list[Expr] = []
        stride: Expr = const(INT64, 1)
        for d, extent in enumerate(self.extents[life]):
            conditions.append(eq(Variable(INT32, f"{name}.extent.{d}"), extent))
            if d or self.output.any_stride:
                given = cast(INT64, Variable(INT32, f"{name}.stride.{d}"))
                conditions.append(eq(given, stride))
            stride = mul(stride, cast(INT64, extent))
        return conditions

    def _without_inputs(
        self, members: Sequence[Life], conditions: Mapping[Life, list[Expr]]
    ) -> Sequence[Life]:
        """The members but for those that would destroy an input that is the same buffer."""
        for i, first in enumerate(members):
            try:
                found = [self._distances_of_input(first, p) for p in self.output.inputs]
            except TooLong:
                continue
            if None not in found:
                for distances in found:
                    conditions[first].extend(distances or [])
                return members[i:]
        return []

    def _distances_of_input(self, first: Life, parameter: str) -> list[Expr] | None:
        """What must be 0 for an input to be read only where `first` is stored; None: it is not."""
        late = [t for t in self.touches.of(parameter) if t.end > first.begin]
        if not late:
            return []
        if not self.stored_once(first.name):
            return None
        fields = {
            f"{parameter}.{field}.{d}": Variable(INT32, f"{self.output.name}.{field}.{d}")
            for field in _FIELDS
            for d in range(self.output.dimensions)
        }
        sums = IndexSums(self.names, {**fields, **self._strides(first)})
        distances: dict[Expr, None] = {}
        for touch in late:
            leaf = touch.leaf
            if not isinstance(leaf, Store) or leaf.name != first.name:
                return None
            if not self._add(distances, sums, leaf, touch.place, parameter):
                return None
        return [eq(d, 0) for d in distances]


__all__ = ["InOutput", "Output", "find_in_output"]
