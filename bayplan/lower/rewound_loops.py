"""Keeps iterations before the original start of a loop from doing more than warm up windows."""

from __future__ import annotations

from typing import Protocol

from bayplan.ir import build
from bayplan.ir.exprs import LE, Expr
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import StmtRewriter, free_variables, substitute
from bayplan.lower.scoped import strip_likely
from bayplan.lower.slide_function import Producers


class Needs(Protocol):
    """Answers what the production of a Func uses."""

    def depends(self, func: str, on: str) -> bool: ...


def guard_rewound_loop(
    loop: For,
    body: Stmt,
    needs: Needs,
    replaced: set[tuple[str, Expr]],
    first: Expr,
    starts: list[tuple[str, Expr]],
    producers: Producers,
) -> Stmt:
    """The body of a loop that now begins before its `min`.

    Args:
        loop: the loop as it was.
        body: its new body.
        needs: of the body.
        replaced: names and values of the lets that define what slides.
        first: where the loop begins now.
        starts: for Funcs that slide, the iteration in which their production begins.
        producers: of the statements inside.
    """
    return _Guard(loop, needs, replaced, first, dict(starts), producers)(body)  # type: ignore[no-any-return]


class _Guard(StmtRewriter):
    memoise = False

    def __init__(
        self,
        loop: For,
        needs: Needs,
        replaced: set[tuple[str, Expr]],
        first: Expr,
        starts: dict[str, Expr],
        producers: Producers,
    ) -> None:
        super().__init__()
        self.loop = loop
        self.variable = build.var(loop.name)
        self.needs = needs
        self.replaced = replaced
        self.first = first
        self.starts = starts
        self.producers = producers
        # The iterations from which on conditions around let this place run.
        self.guards: list[Expr] = []
        # Lets that hold a value as of the first original iteration in the iterations before it.
        self.steady: dict[str, Expr] = {loop.name: build.maximum(self.variable, loop.min)}
        # Where production begins, earliest first; from which of them on a steady let is the let.
        order = [*dict.fromkeys([first, *starts.values()]), loop.min]
        self.place = {start: i for i, start in enumerate(order)}
        self.same_from: dict[str, int] = {loop.name: self.place[loop.min]}

    def _start_of(self, func: str) -> Expr:
        """The iteration in which the production of a Func begins."""
        found = self.starts.get(func)
        if found is not None:
            return found
        warms_up = any(
            start is not self.loop.min and self.needs.depends(name, func)
            for name, start in self.starts.items()
        )
        return self.first if warms_up else self.loop.min

    def _warms_up_inside(self, body: Stmt) -> bool:
        """Whether a Func whose window begins before the original loop is produced in there."""
        return any(self._start_of(name) is not self.loop.min for name in self.producers.of(body))

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = strip_likely(node.condition)
        if type(condition) is LE and condition.b is self.variable:
            then_case = self._guarded(condition.a, node.then_case)
        else:
            then_case = self(node.then_case)
        else_case = None if node.else_case is None else self(node.else_case)
        return IfThenElse(node.condition, then_case, else_case)

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        if not node.is_producer:
            return self.rebuild(node)  # type: ignore[no-any-return]
        start = self._start_of(node.name)
        if start is self.first or start in self.guards or self._warms_up_inside(node.body):
            return self.rebuild(node)  # type: ignore[no-any-return]
        body = self._guarded(start, node.body)
        guarded = IfThenElse(build.le(start, self.variable), body)
        return ProducerConsumer(node.name, True, guarded)

    def _guarded(self, start: Expr, body: Stmt) -> Stmt:
        """The body, which runs only from `start` on."""
        outer = self.steady
        place = self.place.get(start, -1)
        self.steady = {n: e for n, e in outer.items() if self.same_from[n] > place}
        self.guards.append(start)
        result: Stmt = self(body)
        self.guards.pop()
        self.steady = outer
        return result

    def _begin_steady(self, name: str, value: Expr, least: int) -> None:
        """Let `name` have a steady let, which is the same from some iteration on."""
        used = [self.same_from[n] for n in free_variables(value) if n in self.steady]
        self.same_from[name] = max([least, *used])
        self.steady[name] = build.var(f"{name}.steady")

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        """Regions that do not slide are those of the first iteration until that is reached."""
        name = node.name
        value: Expr = node.value
        if (name, value) in self.replaced:
            return self._slid_region(node)
        steady = substitute(self.steady, value)
        saved = self.steady.pop(name, None)
        if steady is value:
            result = self._with_body(node, value)
        elif self._is_region_of_other(name):
            result = self._with_body(node, steady)
        else:
            # What else depends on the loop keeps its value, and has another for the regions.
            self._begin_steady(name, value, 0)
            result = self._with_body(node, value)
            del self.steady[name]
            result = LetStmt(f"{name}.steady", steady, result)
        if saved is not None:
            self.steady[name] = saved
        return result

    def _slid_region(self, node: LetStmt) -> Stmt:
        """The region of a Func that slides; for others it is the first one until it is made."""
        name = node.name
        saved = self.steady.pop(name, None)
        start = self.starts.get(name.split(".", 1)[0], self.first)
        if start is self.first:
            result = self._with_body(node, node.value)
        else:
            moved = {**self.steady, self.loop.name: build.maximum(self.variable, start)}
            others = substitute({self.loop.name: build.int32(0)}, node.value)
            self._begin_steady(name, others, self.place[start])
            result = self._with_body(node, node.value)
            del self.steady[name]
            result = LetStmt(f"{name}.steady", substitute(moved, node.value), result)
        if saved is not None:
            self.steady[name] = saved
        return result

    def _with_body(self, node: LetStmt, value: Expr) -> Stmt:
        body = self(node.body)
        if value is node.value and body is node.body:
            return node
        return LetStmt(node.name, value, body)

    def _is_region_of_other(self, name: str) -> bool:
        """Whether a let defines a region of a Func that the loop itself does not compute."""
        if not name.endswith((".min", ".max")) or ".s" not in name:
            return False
        return not self._owns_loop(name.split(".", 1)[0])

    def _owns_loop(self, func: str) -> bool:
        """Whether the loop computes the Func: its region moves with the loop."""
        return self.loop.name.startswith(f"{func}.s")
