"""Leaves out productions and allocations of Funcs in cases in which no one uses them."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, Let, Load, Select
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Realize, Stmt
from bayplan.ir.walk import Rewriter, StmtRewriter, free_variables, iterate, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.scoped import strip_likely
from bayplan.lower.slide_function import Producers


def skip_stages(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which what is only used under a condition is only made under it.

    A condition counts if its value is known where the storage begins. Realizations are treated
    from the inside out, so that what serves only a Func that is skipped is skipped too. Each is
    walked once, each node once: the cost does not grow with the depth of the selects.

    Order: after fold_storage; before flatten_storage, as it looks at calls of Funcs.
    """
    called = _Called()
    # Funcs that share loops are made together, in one production.
    together = {name for group in lowering.fused_groups if len(group) > 1 for name in group}
    candidates = _Candidates(stmt, called).names - together
    return _SkipStages(candidates, called, together)(stmt) if candidates else stmt


def _may_decide(condition: Expr) -> bool:
    """Whether the condition may be evaluated somewhere else."""
    if not is_pure(condition):
        return False
    return not any(
        type(n) is Load or (type(n) is Call and n.kind in (CallKind.FUNC, CallKind.IMAGE))
        for n in iterate(condition)
    )


class _Called:
    """The Funcs that nodes call, remembered by node."""

    def __init__(self) -> None:
        self._known: dict[Node, frozenset[str]] = {}

    def of(self, node: Any) -> frozenset[str]:
        """Names of the Funcs that are called in the node."""
        found = self._known.get(node)
        if found is None:
            found = frozenset()
            for child in node.children():
                inner = self.of(child)
                if not inner <= found:
                    found = found | inner if found else inner
            if type(node) is Call and node.kind is CallKind.FUNC:
                found = found | {node.name}
            self._known[node] = found
        return found


class _Candidates:
    """Finds the Funcs that may be skipped: (name) -> is there a condition on them known outside?

    Names and realizations are numbered in the order in which they are met, so that a name is
    known where a realization begins if its number is less.

    Attributes:
        names: the Funcs.
    """

    def __init__(self, stmt: Stmt, called: _Called) -> None:
        self.names: set[str] = set()
        self._called = called
        self._producers = Producers()
        self._place = 0
        # When each name becomes known; for a let, when all that it speaks of is.
        self._known_at: dict[str, int] = {}
        self._realized_at: dict[str, int] = {}
        self._conditions: list[tuple[int, frozenset[str]]] = []
        self._seen: set[Node] = set()
        # The productions around, and those that make what is kept beyond them: to skip such a
        # production would leave holes in the window that a later iteration reads.
        self._productions: list[tuple[str, int]] = []
        self._making_windows: set[str] = set()
        self._visit(stmt)
        for known_at, names in self._conditions:
            self.names |= {n for n in names if self._realized_at.get(n, -1) > known_at}
        self.names -= self._making_windows

    def _visit(self, s: Any) -> None:
        cls = type(s)
        self._place += 1
        if cls is Realize:
            self._realized_at[s.name] = max(self._place, self._realized_at.get(s.name, -1))
        elif cls is For:
            self._known_at[s.name] = self._place
        elif cls is LetStmt:
            known = self._when_known(s.value)
            self._known_at[s.name] = self._place if known is None else known
        elif cls is IfThenElse:
            self._condition(s.condition, [s.then_case, s.else_case])
        production = cls is ProducerConsumer and s.is_producer
        if production:
            realized = self._realized_at.get(s.name, -1)
            self._making_windows |= {f for f, at in self._productions if realized < at}
            self._productions.append((s.name, self._place))
        for child in s.children():
            if isinstance(child, Stmt):
                self._visit(child)
            else:
                self._expr(child)
        if production:
            self._productions.pop()

    def _expr(self, root: Expr) -> None:
        stack: list[Any] = [root]
        while stack:
            e = stack.pop()
            if e in self._seen or not self._called.of(e):
                continue
            self._seen.add(e)
            if type(e) is Select:
                self._condition(e.condition, [e.true_value, e.false_value])
            elif type(e) is Call and e.name == "if_then_else":
                self._condition(e.args[0], list(e.args[1:]))
            stack.extend(e.children())

    def _condition(self, condition: Expr, cases: list[Any]) -> None:
        names: frozenset[str] = frozenset()
        for case in cases:
            if case is not None:
                names = names | self._called.of(case)
        for case in cases:
            if isinstance(case, Stmt):
                # A case that holds the production needs no condition of its own.
                names = names - self._producers.of(case)
        if names:
            known = self._when_known(condition)
            if known is not None:
                self._conditions.append((known, names))

    def _when_known(self, e: Expr) -> int | None:
        if not _may_decide(e):
            return None
        return max([self._known_at.get(name, 0) for name in free_variables(e)], default=0)


class _SkipStages(StmtRewriter):
    memoise = False

    def __init__(self, candidates: set[str], called: _Called, together: set[str]) -> None:
        super().__init__()
        self.candidates = candidates
        self.called = called
        self.together = together

    def rewrite_Realize(self, node: Realize) -> Stmt:
        body = self(node.body)
        condition = node.condition
        if node.name in self.candidates:
            use = _Use(node.name, body)
            used = simplify(use.of(body))
            if not build.is_one(used):
                body = _MakeOnlyIf(node.name, used)(body)
                # There may be no storage now: no select may read it where it is not chosen.
                body = _ReadOnlyIf(use)(body)
                # What this production calls is now called under a condition.
                for n in iterate(body):
                    if type(n) is ProducerConsumer and n.is_producer and n.name == node.name:
                        self.candidates |= self.called.of(n.body) - self.together
                condition = simplify(build.logical_and(condition, used))
        if body is node.body and condition is node.condition:
            return node
        return Realize(node.name, node.types, node.memory_type, node.bounds, condition, body)


class _MakeOnlyIf(StmtRewriter):
    def __init__(self, name: str, condition: Expr) -> None:
        super().__init__()
        self.name = name
        self.condition = condition

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        if node.name != self.name or not node.is_producer:
            return self.rebuild(node)  # type: ignore[no-any-return]
        body = IfThenElse(self.condition, node.body)
        return ProducerConsumer(node.name, True, body)


class _ReadOnlyIf(Rewriter):
    """Turns the selects that decide whether a Func is read into branches."""

    def __init__(self, use: _Use) -> None:
        super().__init__()
        self.use = use

    def rewrite_Select(self, node: Select) -> Any:
        result = self.rebuild(node)
        cases = (node.true_value, node.false_value)
        if all(build.is_zero(self.use.of(case)) for case in cases):
            return result
        if type(result) is not Select or not self.use.decides(node.condition):
            return result
        return build.intrinsic(
            result.type,
            "if_then_else",
            result.condition,
            result.true_value,
            result.false_value,
        )


class _Use:
    """Finds the condition under which a node uses a Func, in terms of what is known outside."""

    def __init__(self, name: str, root: Stmt) -> None:
        self.name = name
        self.known: dict[Node, Expr] = {}
        # Names that are bound inside: lets by their value, loop variables by None.
        self.bound: dict[str, Expr | None] = {}
        self.producer: Node | None = None
        for n in iterate(root):
            if type(n) is ProducerConsumer and n.is_producer and n.name == name:
                self.producer = n
            elif type(n) is LetStmt or type(n) is Let:
                self.bound[n.name] = n.value if n.name not in self.bound else None
            elif type(n) is For:
                self.bound[n.name] = None

    def of(self, node: Any) -> Expr:
        """True, false, or the condition."""
        found = self.known.get(node)
        if found is None:
            found = self._find(node)
            self.known[node] = found
        return found

    def _find(self, node: Any) -> Expr:
        cls = type(node)
        if cls is Call:
            if node.kind is CallKind.FUNC and node.name == self.name:
                return build.true()
            if node.name == "if_then_else":
                return self._choice(node.args[0], list(node.args[1:]))
        elif cls is Select:
            return self._choice(node.condition, [node.true_value, node.false_value])
        elif cls is IfThenElse:
            cases = [node.then_case]
            if node.else_case is not None:
                cases.append(node.else_case)
            # A case that holds the production needs no condition of its own.
            if not any(self._produces(case) for case in cases):
                return self._choice(node.condition, cases)
        elif cls is ProducerConsumer and node.is_producer and node.name == self.name:
            return build.false()
        used: Expr = build.false()
        for child in node.children():
            used = build.logical_or(used, self.of(child))
            if build.is_one(used):
                break
        return used

    def decides(self, condition: Expr) -> bool:
        """Whether the condition is known outside, so that it took part in the answer."""
        return condition.type.lane_count == 1 and self._outside(condition) is not None

    def _produces(self, case: Stmt) -> bool:
        return self.producer is not None and any(n is self.producer for n in iterate(case))

    def _choice(self, condition: Expr, cases: list[Any]) -> Expr:
        used = self.of(condition)
        if build.is_one(used):
            return used
        found = [self.of(case) for case in cases]
        if all(build.is_zero(f) for f in found):
            return used
        test = self._outside(condition) if condition.type.lane_count == 1 else None
        for i, case in enumerate(found):
            if test is not None:
                case = build.logical_and(test if i == 0 else build.logical_not(test), case)
            used = build.logical_or(used, case)
        return used

    def _outside(self, condition: Expr) -> Expr | None:
        """The condition in terms of names that are known outside; None where it is not."""
        if not _may_decide(condition):
            return None
        condition = strip_likely(condition)
        for _ in range(len(self.bound) + 1):
            inner = [n for n in free_variables(condition) if n in self.bound]
            if not inner:
                return condition
            values: dict[str, Expr] = {}
            for name in inner:
                value = self.bound[name]
                if value is None or not _may_decide(value):
                    return None
                values[name] = value
            condition = substitute(values, condition)
        return None
