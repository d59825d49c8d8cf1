"""Keeps iterations before the original start of a loop from doing more than warm up windows."""

from __future__ import annotations

from typing import Any, Protocol

from bayplan.ir import build
from bayplan.ir.exprs import LE, Expr
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import Rewriter, free_variables, substitute
from bayplan.lower.scoped import strip_likely
from bayplan.lower.slide_function import Producers


class Needs(Protocol):
    """Answers what the production of a Func uses."""

    def depends(self, func: str, on: str) -> bool: ...


def guard_rewound_loop(
    loop: For,
    body: Stmt,
    needs: Needs,
    slid: set[str],
    first: Expr,
    starts: list[tuple[str, Expr]],
    producers: Producers,
) -> Stmt:
    """The body of a loop that now begins before its `min`.

    Args:
        loop: the loop as it was.
        body: its new body.
        needs: of the body.
        slid: Funcs that slide along it.
        first: where the loop begins now.
        starts: for Funcs that slide, the iteration in which their production begins.
        producers: of the statements inside.
    """
    return _Guard(loop, needs, slid, first, dict(starts), producers)(body)  # type: ignore[no-any-return]


class _Guard(Rewriter):
    memoise = False

    def __init__(
        self,
        loop: For,
        needs: Needs,
        slid: set[str],
        first: Expr,
        starts: dict[str, Expr],
        producers: Producers,
    ) -> None:
        super().__init__()
        self.loop = loop
        self.variable = build.var(loop.name)
        self.needs = needs
        self.slid = slid
        self.first = first
        self.starts = starts
        self.producers = producers
        # The iterations from which on conditions around let this place run.
        self.guards: list[Expr] = []
        # Lets that hold a value as of the first original iteration in the iterations before it.
        self.steady: dict[str, Expr] = {loop.name: build.maximum(self.variable, loop.min)}

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

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
        guards = type(condition) is LE and condition.b is self.variable
        if guards:
            self.guards.append(condition.a)  # type: ignore[attr-defined]
        then_case = self(node.then_case)
        if guards:
            self.guards.pop()
        else_case = None if node.else_case is None else self(node.else_case)
        return IfThenElse(node.condition, then_case, else_case)

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        if not node.is_producer:
            return self.rebuild(node)  # type: ignore[no-any-return]
        start = self._start_of(node.name)
        if start is self.first or start in self.guards or self._warms_up_inside(node.body):
            return self.rebuild(node)  # type: ignore[no-any-return]
        condition = build.le(start, self.variable)
        self.guards.append(start)
        body = self(node.body)
        self.guards.pop()
        return ProducerConsumer(node.name, True, IfThenElse(condition, body))

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        """Regions that do not slide are those of the first iteration until that is reached."""
        name = node.name
        changes = not free_variables(node.value).isdisjoint(self.steady)
        func = name.split(".", 1)[0]
        region = name.endswith((".min", ".max")) and ".s" in name
        steady = substitute(self.steady, node.value) if changes else node.value
        saved = self.steady.pop(name, None)
        if not changes or not region or func in self.slid:
            body = self(node.body)
            result: Stmt = node if body is node.body else LetStmt(name, node.value, body)
        elif self._owns_loop(func):
            self.steady[name] = build.var(f"{name}.steady")
            body = self(node.body)
            del self.steady[name]
            result = LetStmt(f"{name}.steady", steady, LetStmt(name, node.value, body))
        else:
            result = LetStmt(name, steady, self(node.body))
        if saved is not None:
            self.steady[name] = saved
        return result

    def _owns_loop(self, func: str) -> bool:
        """Whether the loop computes the Func: its region moves with the loop."""
        return self.loop.name.startswith(f"{func}.s")
