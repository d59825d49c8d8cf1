"""Whether a temporary may live in the bytes of an output until that is stored there.

Shown here, or refused: where the alias's condition holds, the output is as large as the temporary
and has no gaps; it is not touched before it is stored in place of the temporary; from then on the
temporary is only read, by statements that store the output at the very element that they read; and
no element is stored twice, or not at all. A condition that is shown never to hold does no harm.

What cannot be proved is tried out in a few calls in which the condition holds. Where none is found,
it is tried in others, in which it is more than is needed: that the output has each element stored
once whatever its sizes, and that what is read is as far from what is stored as the condition says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bayplan.analysis.evaluate import Unknown
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.errors import PlanError
from bayplan.ir.exprs import (
    EQ,
    And,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Shuffle,
    StringImm,
    Variable,
    VectorReduce,
)
from bayplan.ir.node import Node
from bayplan.ir.stmts import Stmt, Store
from bayplan.ir.types import INT32, INT64
from bayplan.ir.walk import (
    Rewriter,
    free_variables,
    free_variables_of_stmt,
    iterate,
    replace_nodes,
    substitute,
)
from bayplan.storage.check_in_place import InPlace
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.check_once import NestOfDistance, NestOfStores, NoText, value_of_lane
from bayplan.storage.check_samples import find_samples
from bayplan.storage.check_walk import Leaf, Use, Walk

_FIELDS = ("min", "extent", "stride")
_OPAQUE = "call."
_POINTS = 12
_FAR = 1 << 20


class InOutput:
    """Judges the temporaries of one walk that may live in outputs.

    Args:
        stmt: what was walked.
        samples: gives the calls in which what cannot be proved is tried.
        one_call: whether that is the only call that matters.
    """

    def __init__(
        self,
        stmt: Stmt,
        walk: Walk,
        in_place: InPlace,
        samples: Callable[[], list[Numbers]],
        one_call: bool = False,
    ) -> None:
        self.stmt = stmt
        self.one_call = one_call
        self._calls: dict[Use, list[Numbers]] = {}
        self._dense_calls: dict[str, list[Numbers]] = {}
        self.walk = walk
        self.in_place = in_place
        self.samples = samples
        self.coinciding: dict[str, set[str]] = {}
        for node in iterate(stmt):
            if isinstance(node, Call) and node.name == "buffers_coincide":
                a, b = [arg.value for arg in node.args if isinstance(arg, StringImm)]
                self.coinciding.setdefault(a, set()).add(b)
                self.coinciding.setdefault(b, set()).add(a)

    def check(self, output: str, uses: Sequence[Use]) -> None:
        """Refuses temporaries that destroy the output, one another, or an input."""
        alive: list[Use] = []
        for use in sorted(uses, key=lambda u: u.kept()):
            if self.never_holds(use):
                continue
            why = _Judge(self, output, use).why_not()
            if why:
                raise PlanError(f"{use.name} may not live in the bytes of {output}: {why}")
            begin = use.kept()[0]
            alive = [other for other in alive if other.kept()[1] > begin]
            for other in alive:
                why = self.in_place.why_not(other, use)
                if why:
                    raise PlanError(
                        f"bytes of {output} are given to {other.name} and {use.name} at once: {why}"
                    )
            alive.append(use)

    def never_holds(self, use: Use) -> bool:
        """Whether the temporary lives in the output in no call that matters."""
        if self.one_call:
            return not self.calls(use)
        condition = self.in_place.expand(use.in_output, use.scope)
        return build.is_zero(simplify(condition))

    def calls(self, use: Use) -> list[Numbers]:
        """Sample calls in which the temporary lives in the output."""
        found = self._calls.get(use)
        if found is None:
            found = self._calls[use] = self._find_calls(use)
        return found

    def _find_calls(self, use: Use) -> list[Numbers]:
        found: list[Numbers] = []
        for numbers in self.samples():
            try:
                if numbers.value(use.in_output, use.scope):
                    found.append(numbers)
            except Unknown:
                continue
        if found or self.one_call:
            return found
        return find_samples(self.stmt, (use.in_output, use.scope))

    def dense_calls(self, output: str, dimensions: int) -> list[Numbers]:
        """Sample calls in which the output has no gaps, whatever its sizes are."""
        found = self._dense_calls.get(output)
        if found is None:
            known = free_variables_of_stmt(self.stmt)
            dense: list[Expr] = []
            stride: Expr = build.const(INT64, 1)
            for d in range(dimensions):
                given = Variable(INT32, f"{output}.stride.{d}")
                if given.name in known:
                    dense.append(build.eq(build.cast(INT64, given), stride))
                extent = Variable(INT32, f"{output}.extent.{d}")
                stride = build.mul(stride, build.cast(INT64, extent))
            found = find_samples(self.stmt, (build.conjunction(dense), None))
            self._dense_calls[output] = found
        return found


class _Judge:
    """Judges one temporary."""

    def __init__(self, outputs: InOutput, output: str, use: Use) -> None:
        self.outputs = outputs
        self.walk = outputs.walk
        self.output = output
        self.use = use
        condition = outputs.in_place.expand(use.in_output, use.scope)
        # What is 0 where the condition holds.
        self.zeros = [_narrow(e.a) - _narrow(e.b) for e in _conjuncts(condition)]
        self.extents = [_narrow(outputs.in_place.expand(e, use.scope)) for e in use.node.extents]
        self.fields: dict[str, Expr] = {}
        stride: Expr = build.int32(1)
        for d, extent in enumerate(self.extents):
            self.fields[f"{output}.stride.{d}"] = stride
            stride = build.mul(stride, extent)

    def why_not(self) -> str:
        """Why the temporary may not live in the output; "" where it may."""
        use, output = self.use, self.output
        if use.loops:
            return f"it is allocated in the loop {use.loops[-1].node.name}"
        if use.node.padding:
            return "it is larger than its elements"
        begin, end = use.kept()
        touches = self.walk.outside.get(output, [])
        first = min([self._span(at)[0] for at, _ in touches], default=-1)
        if first <= begin:
            return f"{output} is touched at step {first}"
        late = [at for at in use.writes if self._span(at)[1] > first]
        if late:
            return f"{use.name} is still written at step {late[0]}"
        if any(not writes and self._span(at)[0] < end for at, writes in touches):
            return f"{output} is read while {use.name} is kept"
        return (
            self._other_shape()
            or self._read_elsewhere([at for at in use.reads if self._span(at)[1] > first])
            or self._not_once([self.walk.leaves[at] for at, writes in touches if writes])
            or self._inputs_destroyed(begin)
        )

    def _span(self, at: int) -> tuple[int, int]:
        """The positions of all iterations of the loops that a position is in."""
        loops = self.walk.leaves[at].loops
        return (loops[0].begin, loops[0].end) if loops else (at, at + 1)

    def _other_shape(self) -> str:
        """Why the output may have another size, or gaps, where the condition holds."""
        stride: Expr = build.int32(1)
        for d, extent in enumerate(self.extents):
            known = [(f"{self.output}.extent.{d}", extent)]
            if d or self._is_strided():
                known.append((f"{self.output}.stride.{d}", stride))
            for name, wanted in known:
                if not self._follows(Variable(INT32, name) - wanted):
                    return f"{name} may be other than {wanted}"
            stride = build.mul(stride, extent)
        return ""

    def _is_strided(self) -> bool:
        """Whether the elements of a row may lie apart, as the program asks for their stride."""
        name = f"{self.output}.stride.0"
        leaves = [self.walk.leaves[at] for at, _ in self.walk.outside[self.output]]
        return any(
            name in free_variables(self.outputs.in_place.expand(leaf.node.index, leaf.scope))
            for leaf in leaves
            if isinstance(leaf.node, Store) and leaf.node.name == self.output
        )

    def _follows(self, distance: Expr) -> bool:
        """Whether it is 0 where the condition holds."""
        candidates = [distance]
        for zero in self.zeros:
            same = zero
            if distance.type.lane_count > 1:
                same = build.broadcast(zero, distance.type.lane_count)
            candidates += [distance - same, distance + same]
        return any(_is_zero(e) for e in candidates)

    def _read_elsewhere(self, reads: list[int]) -> str:
        """Why some statement that reads the temporary does not store the output just there."""
        for at in reads:
            leaf = self.walk.leaves[at]
            store = leaf.node
            if not isinstance(store, Store) or store.name != self.output:
                return f"it is read at step {at} by a statement that does not store {self.output}"
            why = self._other_element(leaf, self.use.name, self.fields, try_out=True)
            if why:
                return f"{why} at step {at}"
        return ""

    def _other_element(
        self, leaf: Leaf, read: str, fields: Mapping[str, Expr], *, try_out: bool
    ) -> str:
        """Why a statement may read another element of `read` than the one that it stores."""
        store = leaf.node
        assert isinstance(store, Store)
        for e in iterate(*store.children()):
            if isinstance(e, Variable) and e.name == read:
                return f"the address of {read} is taken"
            if isinstance(e, Shuffle | VectorReduce):
                return f"lanes of {read} go to other lanes of {store.name}"
            if not isinstance(e, Load) or e.name != read:
                continue
            distance = self._element(store.index, leaf, fields) - self._element(
                e.index, leaf, fields
            )
            if self._follows(distance):
                continue
            if not try_out or not self._is_same_in_calls(leaf, store.index, e.index):
                return f"{store.name} is stored at {store.index}, {read} is read at {e.index}"
        return ""

    def _element(self, index: Expr, leaf: Leaf, fields: Mapping[str, Expr]) -> Expr:
        found = _narrow(self.outputs.in_place.expand(index, leaf.scope))
        return substitute(fields, substitute(fields, found))

    def _is_same_in_calls(self, leaf: Leaf, store: Expr, read: Expr) -> bool:
        """Whether a statement reads just what it stores, in the sample calls."""
        calls = self.outputs.calls(self.use)
        if calls:
            return self._is_zero_in_calls(leaf, _wide(store) - _wide(read), calls)
        # The condition asks for 0 somewhere: the distance is that number in all other calls too,
        # with the strides that the condition asks for.
        distance = self._element(store, leaf, self.fields) - self._element(read, leaf, self.fields)
        for zero in self.zeros:
            given = _wide(substitute(self.fields, zero))
            if distance.type.lane_count > 1:
                given = build.broadcast(given, distance.type.lane_count)
            for difference in (_wide(distance) - given, _wide(distance) + given):
                if self._is_zero_in_calls(leaf, difference, self._dense_calls()):
                    return True
        return False

    def _is_zero_in_calls(self, leaf: Leaf, distance: Expr, calls: list[Numbers]) -> bool:
        """Whether it is 0 wherever a statement runs, in those of the calls that can be tried."""
        tried = False
        for numbers in calls:
            try:
                if NestOfDistance(leaf, distance, numbers).run(set()) is not None:
                    return False
                tried = True
            except (Unknown, NoText):
                continue
        return tried

    def _dense_calls(self) -> list[Numbers]:
        return self.outputs.dense_calls(self.output, len(self.extents))

    def _not_once(self, leaves: list[Leaf]) -> str:
        """Why the output may have an element that is stored twice or never."""
        flat = [
            _with_index(leaf, self._element(leaf.node.index, leaf, self.fields))
            for leaf in leaves
            if isinstance(leaf.node, Store)
        ]
        if len(flat) < len(leaves):
            return f"{self.output} is written by other statements than stores"
        proved = not self.outputs.in_place.stored_twice(flat, self.output, 0)
        calls = self.outputs.calls(self.use)
        tried = False
        for numbers in calls or self._dense_calls():
            try:
                why = self._not_once_in_call(leaves, numbers)
            except (Unknown, NoText):
                continue
            if why:
                return why
            tried = True
        return "" if proved or tried else f"{self.output} may be stored twice"

    def _not_once_in_call(self, leaves: list[Leaf], numbers: Numbers) -> str:
        """Why not, seen in one call.

        Raises:
            Unknown, NoText: it cannot be tried.
        """
        seen: set[int] = set()
        is_cut = False
        for leaf in leaves:
            nest = NestOfStores(leaf, 0, numbers)
            twice = nest.run(seen)
            if twice is not None:
                return f"element {twice} of {self.output} is stored twice"
            is_cut = is_cut or nest.is_cut
        size = 1
        for d in range(len(self.extents)):
            size *= numbers.value(Variable(INT32, f"{self.output}.extent.{d}"), None)
        if len(seen) < size and not is_cut:
            return f"only {len(seen)} elements of {self.output} are stored"
        return ""

    def _inputs_destroyed(self, begin: int) -> str:
        """Why an input that may be the same buffer can be read after it was overwritten."""
        use = self.use
        for parameter in sorted(self.outputs.coinciding.get(self.output, ())):
            late = [
                at for at, _ in self.walk.outside.get(parameter, []) if self._span(at)[1] > begin
            ]
            if not late:
                continue
            dimensions = range(len(self.extents))
            same: dict[str, Expr] = {
                f"{parameter}.{field}.{d}": Variable(INT32, f"{self.output}.{field}.{d}")
                for field in _FIELDS
                for d in dimensions
            }
            for at in late:
                leaf = self.walk.leaves[at]
                if not isinstance(leaf.node, Store) or leaf.node.name != use.name:
                    return f"{parameter} is read at step {at}, and may be the same buffer"
                why = self._other_element(leaf, parameter, {**same, **self.fields}, try_out=False)
                if why:
                    return f"{why} at step {at}, and may be the same buffer"
            stores = [self.walk.leaves[at] for at in use.writes]
            why = self.outputs.in_place.why_not_once(stores, use.name, 0)
            if why:
                return why
        return ""


def _is_zero(e: Expr) -> bool:
    """Whether an expression is 0 whatever its names stand for.

    Products of sums are not all multiplied out by the simplifier; two polynomials that agree at a
    few points drawn from many are the same.
    """
    if build.is_zero(simplify(e)):
        return True
    opaque: dict[Node, Node] = {
        n: Variable(n.type, f"{_OPAQUE}{i}") for i, n in enumerate(_calls(e))
    }
    e = replace_nodes(opaque, e)
    names = sorted(free_variables(e))
    draw = random.Random(1)
    try:
        for _ in range(_POINTS):
            numbers = Numbers({name: draw.randrange(-_FAR, _FAR) for name in names}, 1)
            if any(value_of_lane(e, lane, numbers) for lane in range(e.type.lane_count)):
                return False
    except Unknown:
        return False
    return True


def _wide(e: Expr) -> Expr:
    """The same number, with room for distances."""
    return build.cast(INT64.with_lanes(e.type.lane_count), e)


def _calls(e: Expr) -> list[Expr]:
    """The outermost scalar calls in an expression, such as what a C function was asked for."""
    found: dict[Expr, None] = {}
    waiting = [e]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.type.lane_count == 1:
            found[node] = None
        else:
            waiting += [c for c in node.children() if isinstance(c, Expr)]
    return list(found)


def _conjuncts(condition: Expr) -> list[EQ]:
    """The equations that hold where the condition does."""
    if isinstance(condition, And):
        return _conjuncts(condition.a) + _conjuncts(condition.b)
    return [condition] if isinstance(condition, EQ) and condition.a.type.kind == "int" else []


class _Narrow(Rewriter):
    """Leaves widths of integers out, so that sizes and indices can be compared."""

    def rewrite_Cast(self, node: Cast) -> Any:
        if node.type.kind == node.value.type.kind == "int" and node.type.width >= 32:
            return self(node.value)
        return self.rebuild(node)

    def rewrite_Const(self, node: Const) -> Any:
        small = node.type is INT64 and -(2**31) <= node.value < 2**31
        return Const(INT32, node.value) if small else node

    def rewrite_Variable(self, node: Variable) -> Any:
        return Variable(node.type, node.name)


def _narrow(e: Expr) -> Expr:
    found: Expr = _Narrow()(e)
    return found


def _with_index(leaf: Leaf, index: Expr) -> Leaf:
    store = leaf.node
    assert isinstance(store, Store)
    return Leaf(Store(store.name, store.value, index, store.predicate), leaf.loops, leaf.scope)


__all__ = ["InOutput"]
