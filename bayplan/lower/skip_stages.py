"""Leaves out productions and allocations of Funcs in cases in which no one uses them."""

from __future__ import annotations

from typing import Any

from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, Let, Load, Select
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Realize, Stmt
from bayplan.ir.walk import Rewriter, free_variables, iterate, substitute
from bayplan.lower.context import Lowering
from bayplan.lower.scoped import strip_likely


def skip_stages(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which what is only used under a condition is only made under it.

    A condition counts if its value is known where the storage begins. Realizations are treated
    from the inside out, so that what serves only a Func that is skipped is skipped too. Each is
    walked once, each node once: the cost does not grow with the depth of the selects.

    Order: after fold_storage; before flatten_storage, as it looks at calls of Funcs.
    """
    candidates = _conditionally_used(stmt)
    return _SkipStages(candidates)(stmt) if candidates else stmt


def _may_decide(condition: Expr) -> bool:
    """Whether the condition may be evaluated somewhere else."""
    if not is_pure(condition):
        return False
    return not any(
        type(n) is Load or (type(n) is Call and n.kind in (CallKind.FUNC, CallKind.IMAGE))
        for n in iterate(condition)
    )


def _conditionally_used(stmt: Stmt) -> set[str]:
    """Funcs that are called somewhere under a condition that may decide."""
    names: set[str] = set()
    seen: set[Node] = set()
    for n in iterate(stmt):
        cases: list[Any] = []
        if type(n) is Select and _may_decide(n.condition):
            cases = [n.true_value, n.false_value]
        elif type(n) is IfThenElse and _may_decide(n.condition):
            cases = [n.then_case, n.else_case]
        elif type(n) is Call and n.name == "if_then_else" and _may_decide(n.args[0]):
            cases = list(n.args[1:])
        for case in cases:
            if case is not None:
                _add_called(case, names, seen)
    return names


def _add_called(root: Node, names: set[str], seen: set[Node]) -> None:
    stack = [root]
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if type(n) is Call and n.kind is CallKind.FUNC:
            names.add(n.name)
        stack.extend(n.children())


class _SkipStages(Rewriter):
    memoise = False

    def __init__(self, candidates: set[str]) -> None:
        super().__init__()
        self.candidates = candidates

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_Realize(self, node: Realize) -> Stmt:
        body = self(node.body)
        condition = node.condition
        if node.name in self.candidates:
            used = simplify(_Use(node.name, body).of(body))
            if not build.is_one(used):
                body = _MakeOnlyIf(node.name, used)(body)
                # What this production calls is now called under a condition.
                for n in iterate(body):
                    if type(n) is ProducerConsumer and n.is_producer and n.name == node.name:
                        _add_called(n.body, self.candidates, set())
                condition = simplify(build.logical_and(condition, used))
        if body is node.body and condition is node.condition:
            return node
        return Realize(node.name, node.types, node.memory_type, node.bounds, condition, body)


class _MakeOnlyIf(Rewriter):
    def __init__(self, name: str, condition: Expr) -> None:
        super().__init__()
        self.name = name
        self.condition = condition

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        if node.name != self.name or not node.is_producer:
            return self.rebuild(node)  # type: ignore[no-any-return]
        body = IfThenElse(self.condition, node.body)
        return ProducerConsumer(node.name, True, body)


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
