"""Whether a Func is produced in all iterations of a loop up to the last one that produces it."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.monotonic import Monotonic, is_monotonic
from bayplan.ir.exprs import And, Expr
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import free_variables, substitute
from bayplan.lower.scoped import strip_likely
from bayplan.lower.slide_function import Producers

_IN_FIRST = (Monotonic.Constant, Monotonic.Decreasing)
_IN_LAST = (Monotonic.Constant, Monotonic.Increasing)


def has_gaps(loop: For, func: str, producers: Producers) -> bool:
    """Whether an iteration may produce the Func where an earlier one did not.

    A predicate of a reduction leaves iterations out, from anywhere in the loop. What the guard of a
    split leaves out is at the end.
    """
    return _Gaps(loop.name, func, producers).any(loop.body, {})


class _Gaps:
    def __init__(self, loop: str, func: str, producers: Producers) -> None:
        self.loop = loop
        self.func = func
        self.producers = producers

    def any(self, s: Any, lets: dict[str, Expr]) -> bool:
        """Whether there are gaps in a statement; `lets` are those that depend on the loop."""
        if self.func not in self.producers.of(s):
            return False
        if isinstance(s, ProducerConsumer) and s.is_producer and s.name == self.func:
            return False
        if isinstance(s, LetStmt):
            inner = {name: value for name, value in lets.items() if name != s.name}
            if self.loop in free_variables(s.value) or not free_variables(s.value).isdisjoint(lets):
                inner[s.name] = substitute(lets, s.value)
            return self.any(s.body, inner)
        if isinstance(s, IfThenElse) and self._in_branch(s, lets):
            return True
        found = False
        for child in s.children():
            if isinstance(child, Stmt):
                found = found or self.any(child, lets)
        return found

    def _in_branch(self, s: IfThenElse, lets: dict[str, Expr]) -> bool:
        condition = substitute(lets, s.condition)
        if self.func in self.producers.of(s.then_case) and not self._is(condition, _IN_FIRST):
            return True
        return (
            s.else_case is not None
            and self.func in self.producers.of(s.else_case)
            and not self._is(condition, _IN_LAST)
        )

    def _is(self, condition: Expr, ways: tuple[Monotonic, Monotonic]) -> bool:
        """Whether a condition changes with the loop in one of the ways."""
        condition = strip_likely(condition)
        if isinstance(condition, And) and ways is _IN_FIRST:
            return self._is(condition.a, ways) and self._is(condition.b, ways)
        return is_monotonic(condition, self.loop) in ways
