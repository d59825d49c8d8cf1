"""Whether one temporary may take over the bytes of another element by element.

Shown here, or refused: while both are kept, the old one is only read, in statements that store the
new one at the very index that they read, and no two executions of such statements, nor two lanes
of one, store to the same element. Then each element is read for the last time by the statement
that replaces it, in whatever order iterations run. That no element is stored twice is proved from
the indices, or else tried out in a few calls (`check_once`); the planner's reasons are not asked.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.analysis.evaluate import Unknown
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.ir import build
from bayplan.ir.exprs import Broadcast, Expr, Load, Ramp, Shuffle, Variable, VectorReduce
from bayplan.ir.node import Node
from bayplan.ir.stmts import Store
from bayplan.ir.walk import free_variables, iterate, substitute
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.check_once import find_repeated
from bayplan.storage.check_walk import Leaf, Scope, Use, Walk


class InPlace:
    """Judges pairs of one walk.

    Args:
        samples: gives the calls in which what cannot be proved is tried.
    """

    def __init__(self, walk: Walk, samples: Callable[[], list[Numbers]]) -> None:
        self.walk = walk
        self.samples = samples
        self._expanded: dict[tuple[Scope | None, Node], Node] = {}

    def why_not(self, a: Use, b: Use) -> str:
        """Why neither may take over the bytes of the other; "" where that is safe.

        Both begin at the same byte.
        """
        old, new = (a, b) if a.kept() <= b.kept() else (b, a)
        if old.node.type.bytes() != new.node.type.bytes():
            return f"elements of {old.name} and {new.name} have different sizes"
        begin = max(old.kept()[0], new.kept()[0])
        end = min(old.kept()[1], new.kept()[1])
        written = [at for at in old.writes if begin <= at < end]
        if written:
            return f"{old.name} is still written at step {written[0]}"
        if any(at < begin for at in new.reads):
            return f"{new.name} is read before step {begin}"
        late = [at for at in old.reads if at >= end]
        if late:
            return f"{old.name} is still read at step {late[0]}"
        stores = [at for at in new.writes if begin <= at < end]
        if not stores:
            return f"{new.name} is not written while {old.name} is kept"
        for at in old.reads:
            if begin <= at < end:
                why = self._read_elsewhere(self.walk.leaves[at], old, new)
                if why:
                    return f"{why} at step {at}"
        depth = min(len(old.loops), len(new.loops))
        leaves = [self.walk.leaves[at] for at in stores]
        return self.why_not_once(leaves, new.name, depth)

    def why_not_once(self, leaves: list[Leaf], name: str, depth: int) -> str:
        """Why these statements may store an element twice; "" where none does.

        Args:
            depth: loops further out than so many run for one iteration.
        """
        why = self.stored_twice(leaves, name, depth)
        return self._try_out(leaves, name, depth) if why else ""

    def _try_out(self, leaves: list[Leaf], name: str, depth: int) -> str:
        """Why not, found in sample calls, where the proof fails."""
        try:
            element = find_repeated(leaves, depth, self.samples())
        except Unknown as unknown:
            return f"{unknown.what} cannot be found without running the program"
        return "" if element is None else f"element {element} of {name} is stored twice"

    def _read_elsewhere(self, leaf: Leaf, old: Use, new: Use) -> str:
        """Why the statement that reads `old` is not one that replaces just what it reads."""
        store = leaf.node
        if not isinstance(store, Store) or store.name != new.name:
            return f"{old.name} is read by a statement that does not store {new.name}"
        for e in iterate(*store.children()):
            if isinstance(e, Load) and e.name == old.name and e.index is not store.index:
                return (
                    f"{new.name} is stored at {store.index} by a statement that reads {old.name} "
                    f"at {e.index}"
                )
            if isinstance(e, Variable) and e.name == old.name:
                return f"the address of {old.name} is taken"
            if isinstance(e, Shuffle | VectorReduce) and _reads(e, old.name):
                # Vectors are stored piece by piece, and a lane of a later piece is read here.
                return f"lanes of {old.name} go to other lanes of {new.name}"
        return ""

    def stored_twice(self, leaves: list[Leaf], name: str, depth: int) -> str:
        """Why it is not proved that these statements store each element once at most."""
        digits: list[_Digit] = []
        base: Expr | None = None
        for leaf in leaves:
            found = self._digits(leaf, depth)
            if found is None:
                return f"the index of {name} is no sum of loop variables times steps"
            start, own = found
            if base is None:
                base, digits = start, own
            elif base is not start or not _join(digits, own):
                return f"several statements store {name}, perhaps the same element"
        return "" if _are_apart(digits) else f"an element of {name} may be stored twice"

    def _digits(self, leaf: Leaf, depth: int) -> tuple[Expr, list[_Digit]] | None:
        """The index as a base plus a sum of counted steps, one a loop and one a lane."""
        store = leaf.node
        assert isinstance(store, Store)
        index = self.expand(store.index, leaf.scope)
        digits: list[_Digit] = []
        while index.type.lane_count > 1:
            if type(index) is not Ramp:
                return None
            step = index.stride
            while type(step) is Broadcast:
                step = step.value
            if step.type.lane_count > 1:
                return None
            digits.append(_Digit("", simplify(step), None, build.like(step, index.lanes)))
            index = index.base
        loops = leaf.loops[depth:]
        names = frozenset([loop.node.name for loop in loops])
        zero = build.const(index.type, 0)
        for loop in loops:
            variable = Variable(index.type, loop.node.name)
            after = substitute({loop.node.name: variable + 1}, index)
            step = simplify(after - index)
            if not free_variables(step).isdisjoint(names):
                return None
            low, extent = [self.expand(e, leaf.scope) for e in (loop.node.min, loop.node.extent)]
            if not (free_variables(low) | free_variables(extent)).isdisjoint(names):
                return None
            digits.append(_Digit(loop.node.name, step, simplify(low), simplify(extent)))
        start = simplify(substitute(dict.fromkeys(names, zero), index))
        return start, digits

    def expand(self, e: Expr, scope: Scope | None) -> Expr:
        """The expression with lets written out, as far as they do not depend on data."""
        key = (scope, e)
        found = self._expanded.get(key)
        if found is None:
            if type(e) is Variable:
                binding = None if scope is None else scope.find(e.name)
                value = None if binding is None else binding.value
                found = e
                if value is not None and not any(type(n) is Load for n in iterate(value)):
                    assert binding is not None
                    found = self.expand(value, binding.outer)
            else:
                children = [self.expand(c, scope) for c in e.children()]  # type: ignore[arg-type]
                same = all(x is y for x, y in zip(children, e.children(), strict=True))
                found = e if same else e.with_children(children)
            self._expanded[key] = found
        return found  # type: ignore[return-value]


class _Digit:
    """One counted step of an index: `count` values, `step` elements apart.

    Attributes:
        loop: name of the loop that counts; "" for lanes.
        low: where the loop begins; None for lanes.
    """

    __slots__ = ("count", "loop", "low", "step")

    def __init__(self, loop: str, step: Expr, low: Expr | None, count: Expr) -> None:
        self.loop = loop
        self.step = step
        self.low = low
        self.count = count


def _reads(e: Expr, name: str) -> bool:
    return any(isinstance(n, Load) and n.name == name for n in iterate(e))


def _join(digits: list[_Digit], other: list[_Digit]) -> bool:
    """Makes the digits count for both, if one goes on where the other ends in just one loop."""
    if len(digits) != len(other):
        return False
    changed: tuple[int, _Digit] | None = None
    for i, (a, b) in enumerate(zip(digits, other, strict=True)):
        if a.loop != b.loop or a.step is not b.step:
            return False
        if a.low is b.low and a.count is b.count:
            continue
        if changed is not None or a.low is None or b.low is None:
            return False
        # Loops that were partitioned: the second goes on at or after the end of the first.
        if not can_prove(build.le(a.low + a.count, b.low)):
            return False
        changed = i, _Digit(a.loop, a.step, a.low, simplify(b.low + b.count - a.low))
    if changed is None:
        return False
    digits[changed[0]] = changed[1]
    return True


def _are_apart(digits: list[_Digit]) -> bool:
    """Whether no two combinations of counts reach the same element: a number system."""
    rest = [d for d in digits if not build.is_const(d.count, 1)]
    if not rest:
        return True
    waiting = [(_positive(d.step), d.count) for d in rest]
    reach: Expr = build.like(waiting[0][0], 1)  # elements in which the smaller digits stay
    while waiting:
        found = -1
        for i, (step, _) in enumerate(waiting):
            if can_prove(build.le(reach, step)) and (
                found < 0 or can_prove(build.le(step, waiting[found][0]))
            ):
                found = i
        if found < 0:
            return False
        step, count = waiting.pop(found)
        reach = simplify(build.add(build.mul(step, build.sub(count, 1)), reach))
    return True


def _positive(step: Expr) -> Expr:
    value = build.constant_value(step)
    return step if value is None else build.like(step, abs(int(value)))


__all__ = ["InPlace"]
