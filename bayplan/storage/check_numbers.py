"""Sizes and offsets as Python numbers, for the checker: names are looked up where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from bayplan.analysis.evaluate import Number, Unknown, evaluate
from bayplan.ir.exprs import Call, Const, Expr, Variable
from bayplan.ir.intrinsics import STORAGE
from bayplan.ir.node import Node
from bayplan.ir.stmts import Allocate
from bayplan.ir.walk import free_variables
from bayplan.storage.check_walk import Scope, Use

_MOST_COMBINATIONS: Final = 2048
_CALLS: Final = frozenset([*STORAGE, "callee_lines"])
_SLOT: Final = "worker_slot()"


class Numbers:
    """Evaluates expressions of one statement for one call.

    Attributes:
        values: of what comes from outside.
        workers: the most tasks of a parallel loop that run at once.
    """

    def __init__(self, values: Mapping[str, Number], workers: int) -> None:
        self.values = values
        self.workers = workers
        self._memo: dict[tuple[Any, Expr], Number] = {}
        self._loops_of: dict[tuple[Any, Expr], frozenset[str]] = {}
        self._placed: dict[int, tuple[tuple[int, ...], tuple[list[int], int]]] = {}
        self._calling: dict[Node, bool] = {}

    def value(self, e: Expr, scope: Scope | None, loops: Mapping[str, int] | None = None) -> int:
        """The number that `e` is in that scope.

        Args:
            loops: values of the loop variables it depends on, and of `worker_slot()`.

        Raises:
            Unknown: it depends on data, or on a name that has no value.
        """
        return int(self._number(e, scope, loops or {}))

    def _number(self, e: Expr, scope: Scope | None, loops: Mapping[str, int]) -> Number:
        if type(e) is Const:
            return e.value
        key = (scope, e)
        if loops and _SLOT not in loops and loops.keys().isdisjoint(self.loop_names(e, scope)):
            loops = {}
        constant = not loops
        if constant and key in self._memo:
            return self._memo[key]
        known: dict[str, Number] = {}
        for name in free_variables(e):
            binding = None if scope is None else scope.find(name)
            if binding is None:
                if name in self.values:
                    known[name] = self.values[name]
            elif binding.value is not None:
                if binding.value.type.kind != "handle":
                    known[name] = self._number(binding.value, binding.outer, loops)
            elif name in loops:
                known[name] = loops[name]
        found = evaluate(self._without_storage_calls(e, scope, loops), known)
        if constant:
            self._memo[key] = found
        return found

    def _without_storage_calls(
        self,
        e: Expr,
        scope: Scope | None,
        loops: Mapping[str, int],
        memo: dict[Node, Node] | None = None,
    ) -> Expr:
        """The expression with numbers in place of what only a plan calls."""
        if not self._calls_storage(e):
            return e
        memo = {} if memo is None else memo
        found = memo.get(e)
        if found is None:
            if isinstance(e, Call) and e.is_intrinsic(e.name) and e.name in _CALLS:
                found = Const(e.type, self._storage_call(e, scope, loops))
            else:
                children = [
                    self._without_storage_calls(c, scope, loops, memo)  # type: ignore[arg-type]
                    for c in e.children()
                ]
                same = all(x is y for x, y in zip(children, e.children(), strict=True))
                found = e if same else e.with_children(children)
            memo[e] = found
        return found  # type: ignore[return-value]

    def _calls_storage(self, e: Node) -> bool:
        """Whether any part of an expression is what only a plan calls."""
        found = self._calling.get(e)
        if found is None:
            found = isinstance(e, Call) and e.is_intrinsic(e.name) and e.name in _CALLS
            for child in e.children():
                if found:
                    break
                found = self._calls_storage(child)
            self._calling[e] = found
        return found

    def _storage_call(self, e: Call, scope: Scope | None, loops: Mapping[str, int]) -> int:
        if e.name == "worker_slot":
            if _SLOT not in loops:
                raise Unknown("worker_slot() outside of a parallel loop")
            return loops[_SLOT]
        if e.name == "placed_offset":
            placed = self._placed.get(id(e.target))
            if placed is None:
                raise Unknown("the offset of a placement that was not made")
            return placed[1][0][self.value(e.args[0], scope, loops)]
        if e.name == "largest_over":
            return self._largest_over(e, scope, loops)
        args = [self.value(a, scope, loops) for a in e.args]
        if e.name == "callee_lines":
            found: int = e.target.workspace_lines(args, self.workers)
            return found
        if e.name == "size_in_bytes":
            return size_in_bytes(args[0], args[1], args[2:])
        if e.name == "parallel_slots":
            return max(0, min(args[0], self.workers))
        if e.name == "place_storage":
            sizes = tuple(args)
            known = self._placed.get(id(e.target))
            if known is None or known[0] != sizes:
                try:
                    known = sizes, e.target.place(sizes)
                except (OverflowError, ValueError) as error:
                    raise Unknown(str(error)) from None
                self._placed[id(e.target)] = known
            return known[1][1]
        raise Unknown(f"the value of {e.name}")

    def _largest_over(self, e: Call, scope: Scope | None, loops: Mapping[str, int]) -> int:
        loop, low, extent, value = e.args
        name = loop.name if isinstance(loop, Variable) else loop.value  # type: ignore[attr-defined]
        first, count = self.value(low, scope, loops), self.value(extent, scope, loops)
        inner = Scope(name, None, None, scope)
        if count > _MOST_COMBINATIONS:
            # Some of the iterations would give too little, and all would take too long.
            raise Unknown(f"the largest value over {name}")
        at = range(first, first + count)
        return max([self.value(value, inner, {**loops, name: i}) for i in at], default=0)

    def bytes_of(self, node: Allocate, scope: Scope | None, loops: Mapping[str, int]) -> int:
        """The bytes that an allocation needs in that scope."""
        if not self._is_needed(node, scope, loops):
            return 0
        extents = [self.value(e, scope, loops) for e in node.extents]
        return size_in_bytes(node.type.bytes(), node.padding, extents)

    def _is_needed(self, node: Allocate, scope: Scope | None, loops: Mapping[str, int]) -> bool:
        try:
            return bool(self.value(node.condition, scope, loops))
        except Unknown:
            return True

    def loop_names(self, e: Expr, scope: Scope | None) -> frozenset[str]:
        """The loops that an expression depends on, also by way of lets."""
        key = (scope, e)
        found = self._loops_of.get(key)
        if found is None:
            found = frozenset()
            for name in free_variables(e):
                binding = None if scope is None else scope.find(name)
                if binding is None:
                    continue
                if binding.value is None:
                    found = found | {name}
                elif binding.value.type.kind != "handle":
                    found = found | self.loop_names(binding.value, binding.outer)
            self._loops_of[key] = found
        return found

    def iterations(self, use: Use) -> Iterator[dict[str, int]]:
        """Values of the loop variables that size and offset depend on: all, if they are few."""
        names: frozenset[str] = frozenset()
        for e in (*use.node.extents, use.node.condition, use.offset):
            if e is not None:
                names = names | self.loop_names(e, use.scope)
        ordered: list[Scope] = []
        scope = use.scope
        while scope is not None:
            if scope.loop is not None and scope.name in names:
                ordered.append(scope)
            scope = scope.outer
        for loops in self._nest(list(reversed(ordered)), {}):
            if self._is_reached(use.scope, loops):
                yield loops

    def _is_reached(self, scope: Scope | None, loops: Mapping[str, int]) -> bool:
        """Whether the program comes there, as far as that can be told."""
        while scope is not None:
            try:
                if scope.name == "" and scope.value is not None:
                    if not self.value(scope.value, scope.outer, loops):
                        return False
                elif scope.loop is not None and scope.name not in loops:
                    if self.value(scope.loop.extent, scope.outer, loops) <= 0:
                        return False
            except Unknown:
                pass
            scope = scope.outer
        return True

    def _nest(self, loops: list[Scope], known: dict[str, int]) -> Iterator[dict[str, int]]:
        if not loops:
            yield known
            return
        node, scope = loops[0].loop, loops[0].outer
        assert node is not None
        # Bounds of an inner loop may depend on loops that the size itself does not depend on.
        try:
            first = self.value(node.min, scope, known)
            count = self.value(node.extent, scope, known)
        except Unknown:
            if not self.loop_names(node.min, scope) | self.loop_names(node.extent, scope):
                raise
            return
        step = max(1, count // 64)
        at = sorted({*range(first, first + count, step), first + count - 1}) if count > 0 else []
        for i in at:
            yield from self._nest(loops[1:], {**known, loops[0].name: i})


def size_in_bytes(element_bytes: int, padding: int, extents: Sequence[int]) -> int:
    """(product of extents + padding) * element bytes; 0 where an extent is."""
    count = 1
    for extent in extents:
        count *= max(0, extent)
    return (count + padding) * element_bytes if count else 0


def with_slot(loops: Mapping[str, int], slot: int) -> dict[str, int]:
    """The values of loop variables, and which of the workers runs."""
    return {**loops, _SLOT: slot}


def most(iterations: Iterator[dict[str, int]]) -> list[dict[str, int]]:
    """The first of many."""
    return list(islice(iterations, _MOST_COMBINATIONS))


__all__ = ["Numbers", "Unknown", "most", "size_in_bytes", "with_slot"]
