"""Splits loops so that what is likely is certain in the middle part.

Conditions, selects, minima and maxima that are marked `likely` are solved for the loop variable.
Where all of them hold the loop runs a body without them; before and after it runs the body as it
is. So boundary conditions and guards of tails cost nothing in the steady state.

The parts at the ends are not split again, nor are loops inside them: their share of the time is
small, and code would grow with the power of the nesting depth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.analysis.bounder import Bounder
from bayplan.analysis.facts import Facts, without_likely
from bayplan.analysis.interval import Interval
from bayplan.analysis.linear import cache
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.analysis.solve import solve_for_inner_interval
from bayplan.ir import build
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    And,
    Broadcast,
    Call,
    Expr,
    Let,
    Load,
    Max,
    Min,
    Not,
    Or,
    Select,
)
from bayplan.ir.memory import ForKind, Partition
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.walk import Rewriter, Substitute, free_variables, iterate
from bayplan.lower.context import Lowering

_MOST_STORES: Final = 200
"""A loop that is not innermost is left whole when its body has more stores than this."""


def partition_loops(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Split loops by their likely conditions; no likely mark remains."""
    stmt = _Partition().run(stmt, Facts.none())
    return _without_marks(stmt)


class _StripMarks(Rewriter):
    def rebuild(self, node: Any) -> Any:
        return without_likely(node) if isinstance(node, Expr) else super().rebuild(node)

    def rewrite_Call(self, node: Call) -> Any:
        return without_likely(node)


def _without_marks(stmt: Stmt) -> Stmt:
    return _StripMarks()(stmt)


_LIKELY: Final = 1
_IF_INNERMOST: Final = 2


def _marks(e: Any) -> int:
    """Which kinds of likely mark occur in an expression."""
    return _find_marks(e, cache("lower.likely_marks"))


def _find_marks(e: Any, known: dict[Any, int]) -> int:
    found = known.get(e)
    if found is None:
        found = 0
        if type(e) is Call:
            if e.name == "likely":
                found = _LIKELY
            elif e.name == "likely_if_innermost":
                found = _IF_INNERMOST
        for child in e.children():
            found |= _find_marks(child, known)
        known[e] = found
    return found


def _open_marks(e: Any) -> int:
    """Marks that belong to the choice around `e`: not those of another choice or an index."""
    cls = type(e)
    if cls is Call and e.name == "likely":
        return _LIKELY
    if cls is Call and e.name == "likely_if_innermost":
        return _IF_INNERMOST
    if cls in (Select, Min, Max, Load) or not _marks(e):
        return 0
    found = 0
    for child in e.children():
        found |= _open_marks(child)
    return found


class _Partition:
    """Walks down the loops with what is known on the way."""

    def run(self, s: Any, facts: Facts) -> Stmt:
        cls = type(s)
        if cls is For:
            # A kernel has one body for all of its blocks and threads.
            return s if s.kind.is_gpu else self.loop(s, facts)
        if cls is LetStmt:
            inner = facts.let(s.name, s.value)
            body = self.run(s.body, inner)
            return s if body is s.body else LetStmt(s.name, s.value, body)
        if cls is IfThenElse:
            return self._branch(s, facts)
        children = s.children()
        if not any(isinstance(c, Stmt) for c in children):
            return s  # type: ignore[no-any-return]
        results = [self.run(c, facts) if isinstance(c, Stmt) else c for c in children]
        for old, new in zip(children, results):
            if old is not new:
                return s.with_children(results)  # type: ignore[no-any-return]
        return s  # type: ignore[no-any-return]

    def _branch(self, s: IfThenElse, facts: Facts) -> Stmt:
        then_case = self.run(s.then_case, facts)
        else_case = None if s.else_case is None else self.run(s.else_case, facts)
        if then_case is s.then_case and else_case is s.else_case:
            return s
        return IfThenElse(s.condition, then_case, else_case)

    def loop(self, s: For, facts: Facts) -> Stmt:
        inner = facts.loop(s.name, s.min, s.extent)
        if s.partition is Partition.Never or s.kind not in (ForKind.Serial, ForKind.Parallel):
            return self._whole(s, inner)
        innermost = not any(type(n) is For for n in iterate(s.body))
        if not innermost and _store_count(s.body) > _MOST_STORES:
            return self._whole(s, inner)
        finder = _Finder(s.name, innermost, s.partition is Partition.Always)
        finder.visit(s.body)
        steady, replaced = finder.steady()
        if steady is None:
            return self._whole(s, inner)
        return self._split(s, facts, inner, steady, replaced)

    def _whole(self, s: For, inner: Facts) -> Stmt:
        body = self.run(s.body, inner)
        if body is s.body:
            return s
        return For(s.name, s.min, s.extent, s.kind, s.partition, body)

    def _split(
        self, s: For, facts: Facts, inner: Facts, steady: Interval, replaced: dict[Node, Node]
    ) -> Stmt:
        begin = s.min
        end = simplify(build.add(s.min, s.extent), facts)
        middle = self.run(_Replace(replaced)(s.body), inner)
        first: Expr | None = None
        last: Expr | None = None
        if steady.min is not None and not can_prove(build.le(steady.min, begin), facts):
            first = steady.min
        if steady.max is not None:
            after = build.add(steady.max, 1)
            if not can_prove(build.ge(after, end), facts):
                last = after
        if first is None and last is None:
            return For(s.name, s.min, s.extent, s.kind, s.partition, middle)
        edge = _without_marks(s.body)
        if s.kind is ForKind.Parallel:
            return self._as_branches(s, first, last, middle, edge)
        return self._as_loops(s, facts, (begin, end), first, last, middle, edge)

    def _as_branches(
        self, s: For, first: Expr | None, last: Expr | None, middle: Stmt, edge: Stmt
    ) -> Stmt:
        """One loop that asks in each iteration which body it is: iterations stay parallel."""
        variable = build.var(s.name)
        conditions: list[Expr] = []
        if first is not None:
            conditions.append(build.ge(variable, first))
        if last is not None:
            conditions.append(build.lt(variable, last))
        body = IfThenElse(simplify(build.conjunction(conditions)), middle, edge)
        return For(s.name, s.min, s.extent, s.kind, Partition.Never, body)

    def _as_loops(
        self,
        s: For,
        facts: Facts,
        ends: tuple[Expr, Expr],
        first: Expr | None,
        last: Expr | None,
        middle: Stmt,
        edge: Stmt,
    ) -> Stmt:
        begin, end = ends
        lets: list[tuple[str, Expr]] = []
        parts: list[Stmt] = []

        def part(low: Expr, high: Expr, body: Stmt) -> None:
            extent = simplify(build.sub(high, low), facts)
            parts.append(For(s.name, low, extent, s.kind, Partition.Never, body))

        start = begin
        if first is not None:
            name = f"{s.name}.prologue"
            value = build.minimum(build.maximum(first, begin), end)
            lets.append((name, simplify(value, facts)))
            facts = facts.let(name, lets[-1][1])
            start = build.var(name)
            part(begin, start, edge)
        stop = end
        if last is not None:
            name = f"{s.name}.epilogue"
            value = build.minimum(build.maximum(last, start), end)
            lets.append((name, simplify(value, facts)))
            facts = facts.let(name, lets[-1][1])
            stop = build.var(name)
        part(start, stop, middle)
        if last is not None:
            part(stop, end, edge)
        result = build.block(parts)
        for name, value in reversed(lets):
            result = LetStmt(name, value, result)
        return result


def _store_count(s: Stmt) -> int:
    return sum([1 for n in iterate(s) if type(n) is Store])


class _Replace(Rewriter):
    """Puts the certain values in; nodes are replaced from the outside in."""

    def __init__(self, replaced: dict[Node, Node]) -> None:
        super().__init__()
        self._replaced = replaced

    def __call__(self, node: Any) -> Any:
        memo = self._memo.get(node)
        if memo is not None:
            return memo
        found = self._replaced.get(node)
        if found is not None:
            result = self(found)
            self._memo[node] = result
            return result
        return super().__call__(node)


class _Finder:
    """Finds what can be replaced in a loop's body, and in which iterations."""

    def __init__(self, var: str, innermost: bool, everything: bool) -> None:
        self.var = var
        self.accepted = _LIKELY | (_IF_INNERMOST if innermost else 0)
        self.everything = everything
        # Intervals of inner loop variables, values of lets, names bound inside.
        self.loops: dict[str, Interval] = {}
        self.values: dict[str, Expr] = {}
        # The same lets with their marks.
        self.raw: dict[str, Expr] = {}
        self.bound: set[str] = set()
        self.found: dict[Node, list[Interval | None]] = {}
        self.replacement: dict[Node, Node] = {}
        # Choices that were taken for certain when the key was solved.
        self.assumed: dict[Node, set[Node]] = {}
        self._seen: set[Node] = set()
        self._substitute = Substitute({})
        self._bounder: Bounder | None = None

    def steady(self) -> tuple[Interval | None, dict[Node, Node]]:
        """The iterations in which everything solved holds, and the replacements there."""
        steady = Interval.everything()
        replaced: dict[Node, Node] = {}
        unsolved = self._unsolved()
        for node, intervals in self.found.items():
            if node in unsolved:
                continue
            for interval in intervals:
                assert interval is not None
                steady = steady.intersection(interval)
            replaced[node] = self.replacement[node]
        if not replaced:
            return None, {}
        low = None if steady.min is None else simplify(steady.min)
        high = None if steady.max is None else simplify(steady.max)
        return Interval(low, high), replaced

    def _unsolved(self) -> set[Node]:
        """Choices that are not certain somewhere, and all that were solved by way of them."""
        unsolved = {node for node, found in self.found.items() if None in found}
        while True:
            more = {
                node
                for node, assumed in self.assumed.items()
                if node not in unsolved and not assumed.isdisjoint(unsolved)
            }
            if not more:
                return unsolved
            unsolved |= more

    def visit(self, s: Any) -> None:
        """Look at a statement."""
        cls = type(s)
        if cls is LetStmt:
            self._expr(s.value)
            self._inside(s.name, s.value, None, lambda: self.visit(s.body))
        elif cls is For:
            self._expr(s.min)
            self._expr(s.extent)
            low = self._plain(s.min)
            high = self._plain(build.add(build.add(s.min, s.extent), -1))
            interval = Interval(self._range(low).min, self._range(high).max)
            self._inside(s.name, None, interval, lambda: self.visit(s.body))
        elif cls is IfThenElse:
            self._conditional(s)
        else:
            for child in s.children():
                if isinstance(child, Expr):
                    self._expr(child)
                else:
                    self.visit(child)

    def _inside(
        self, name: str, value: Expr | None, interval: Interval | None, then: Callable[[], None]
    ) -> None:
        saved = (self.loops, self.values, self.raw, self._seen, self._substitute, self._bounder)
        self.bound.add(name)
        self._seen = set()
        if value is not None and value.type.kind != "handle":
            self.values = {**self.values, name: self._plain(value)}
            self.raw = {**self.raw, name: value}
        elif name in self.values:
            self.values = {k: v for k, v in self.values.items() if k != name}
            self.raw = {k: v for k, v in self.raw.items() if k != name}
        if interval is not None:
            self.loops = {**self.loops, name: interval}
            self._bounder = None
        self._substitute = Substitute(self.values)
        then()
        self.loops, self.values, self.raw, self._seen, self._substitute, self._bounder = saved

    def _plain(self, e: Expr) -> Expr:
        """The expression without marks and without names of lets."""
        return simplify(self._substitute(without_likely(e)))

    def _range(self, e: Expr) -> Interval:
        if self._bounder is None:
            self._bounder = Bounder(self.loops)
        return self._bounder(e)

    def _conditional(self, s: IfThenElse) -> None:
        self._expr(s.condition)
        if self.everything or _open_marks(s.condition) & self.accepted:
            if self._add(s, s.condition, True, s.then_case):
                self.visit(s.then_case)
                return
        self.visit(s.then_case)
        if s.else_case is not None:
            self.visit(s.else_case)

    def _expr(self, e: Any) -> None:
        if e in self._seen or not (self.everything or _marks(e) & self.accepted):
            return
        self._seen.add(e)
        cls = type(e)
        if cls is Min or cls is Max:
            self._choice(e)
        elif cls is Select:
            self._select(e)
        elif cls is Let:
            self._expr(e.value)
            self._inside(e.name, e.value, None, lambda: self._expr(e.body))
            return
        for child in e.children():
            self._expr(child)

    def _choice(self, e: Any) -> None:
        conditions: list[Expr] = []
        if self._likely_core(e, conditions) is not None:
            likely = e.a if self._is_likely(e.a) else e.b
            self._add(e, build.conjunction(conditions), True, likely)

    def _is_likely(self, e: Any) -> bool:
        """Whether `e` is the likely side of a choice, be it a choice itself, as in a clamp."""
        if type(e) is Min or type(e) is Max:
            return self._is_likely(e.a) != self._is_likely(e.b)
        return bool(_open_marks(e) & self.accepted)

    def _likely_core(self, e: Any, conditions: list[Expr]) -> Expr | None:
        """The value that nested minima and maxima are where all of the conditions hold."""
        if type(e) is not Min and type(e) is not Max:
            return e  # type: ignore[no-any-return]
        a, b = self._is_likely(e.a), self._is_likely(e.b)
        if a == b:
            return None
        likely, other = (e.a, e.b) if a else (e.b, e.a)
        core = self._likely_core(likely, conditions)
        if core is None:
            return None
        compare = build.le if type(e) is Min else build.ge
        conditions.append(compare(core, other))
        return core

    def _select(self, e: Select) -> None:
        a = bool(_open_marks(e.true_value) & self.accepted)
        b = bool(_open_marks(e.false_value) & self.accepted)
        if not a and not b:
            a = bool(_open_marks(e.condition) & self.accepted) or self.everything
        if a == b:
            return
        self._add(e, e.condition, a, e.true_value if a else e.false_value)

    def _add(self, node: Node, condition: Expr, holds: bool, replacement: Node) -> bool:
        """Note that the node is its replacement where the condition holds (or fails)."""
        interval = self._solve(condition, holds)
        if interval is None:
            # What holds in the steady state may help: other choices, such as the shift of a tail.
            certain = {
                n: self.replacement[n]
                for n, found in self.found.items()
                if n is not node and None not in found
            }
            if certain:
                interval = self._solve(self._steadily(condition, certain), holds)
                if interval is not None:
                    self.assumed.setdefault(node, set()).update(certain)
        self.found.setdefault(node, []).append(interval)
        self.replacement[node] = replacement
        return interval is not None

    def _steadily(self, e: Expr, certain: dict[Node, Node]) -> Expr:
        """The expression with lets put in and the choices that are certain made."""
        for _ in range(len(self.raw) + 1):
            used = {n: self.raw[n] for n in free_variables(e) if n in self.raw}
            if not used:
                break
            e = Substitute(used)(e)
        return _Replace(certain)(e)  # type: ignore[no-any-return]

    def _solve(self, condition: Expr, holds: bool) -> Interval | None:
        """The iterations in which the condition holds for all that the body does."""
        plain = self._plain(condition)
        if not is_pure(plain):
            return None
        certain = self._for_all(plain, holds)
        if certain is None:
            return None
        certain = simplify(certain)
        if build.is_one(certain):
            return Interval.everything()
        interval = solve_for_inner_interval(certain, self.var)
        if interval.empty or interval.is_everything():
            return None
        for end in (interval.min, interval.max):
            if end is not None:
                free = free_variables(end)
                if self.var in free or not free.isdisjoint(self.bound):
                    return None
        return interval

    def _for_all(self, e: Any, holds: bool) -> Expr | None:
        """A scalar condition on the loop variable that makes `e` hold in all inner iterations."""
        cls = type(e)
        if cls is Broadcast:
            return self._for_all(e.value, holds)
        if cls is Not:
            return self._for_all(e.value, not holds)
        if cls is And or cls is Or:
            a = self._for_all(e.a, holds)
            b = self._for_all(e.b, holds)
            if (cls is And) is holds:
                return None if a is None or b is None else build.logical_and(a, b)
            if a is None or b is None:
                return b if a is None else a
            return build.logical_or(a, b)
        if cls in _TURNED and e.a.type.kind == "int" and e.a.type.width >= 32:
            return self._comparison(cls, e.a, e.b, holds)
        if e.type.lane_count == 1 and free_variables(e).isdisjoint(self.bound):
            return e if holds else build.logical_not(e)  # type: ignore[no-any-return]
        return None

    def _comparison(self, cls: Any, a: Expr, b: Expr, holds: bool) -> Expr | None:
        if cls is EQ:
            if not holds:
                return None
            low = self._comparison(LE, a, b, True)
            high = self._comparison(GE, a, b, True)
            return None if low is None or high is None else build.logical_and(low, high)
        if not holds:
            cls = _TURNED[cls]
        if cls is GT or cls is GE:
            a, b = b, a
        apart = self._range(simplify(build.sub(b, a))).min
        if apart is None:
            return None
        return build.gt(apart, 0) if cls is LT or cls is GT else build.ge(apart, 0)


_TURNED: Final[dict[type, Any]] = {LT: GE, LE: GT, GT: LE, GE: LT, EQ: EQ}
