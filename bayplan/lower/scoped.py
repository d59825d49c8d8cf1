"""A rewriter of statements that knows the lets, loops and conditions around each place."""

from __future__ import annotations

from bayplan.analysis.bounds import bounds_of_expr_in_scope
from bayplan.analysis.facts import Facts
from bayplan.analysis.interval import Interval
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import Call, Expr
from bayplan.ir.stmts import For, IfThenElse, LetStmt, Stmt
from bayplan.ir.walk import Rewriter, StmtRewriter, free_variables, substitute
from bayplan.lower.context import Lowering


class _WithoutLikely(Rewriter):
    def rewrite_Call(self, node: Call) -> Expr:
        if node.name in ("likely", "likely_if_innermost"):
            return self(node.args[0])
        return self.rebuild(node)


def strip_likely(e: Expr) -> Expr:
    """The expression without marks of what is likely."""
    return _WithoutLikely()(e)


class ScopedRewriter(StmtRewriter):
    """Base of passes that ask what is known where a statement stands.

    Expressions are left as they are. A subclass that has its own `rewrite_For` calls `inside_loop`.

    Attributes:
        lets: values of the pure lets around, by name.
        loops: the ranges of the loops around, by name, free of the lets around.
    """

    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        self.lets: dict[str, Expr] = {}
        self.loops: dict[str, Interval] = {}
        self._expanded: dict[str, Expr] = {}
        self._truths: list[Expr] = []

    def expand(self, e: Expr) -> Expr:
        """The expression with the values of all lets around put in."""
        values: dict[str, Expr] = {}
        for name in free_variables(e):
            if name in self.lets:
                found = self._expanded.get(name)
                if found is None:
                    found = self.expand(self.lets[name])
                    self._expanded[name] = found
                values[name] = found
        return simplify(substitute(values, e)) if values else e

    def facts(self) -> Facts:
        """What the conditions around say."""
        facts = Facts()
        for truth in self._truths:
            facts.assume(self.expand(truth))
        return facts

    def range_of(self, e: Expr) -> Interval:
        """The interval of an expression over the loops around."""
        return bounds_of_expr_in_scope(self.expand(e), self.loops)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        name = node.name
        if not is_pure(node.value):
            saved_value = self.lets.pop(name, None)
            result = self._body_changed(node, self(node.body))
            if saved_value is not None:
                self.lets[name] = saved_value
            return result
        saved = self.lets.get(name), self._expanded.pop(name, None)
        # The value may speak of an outer let of the same name: expand it now.
        value = self.expand(node.value) if name in free_variables(node.value) else node.value
        self.lets[name] = value
        body = self(node.body)
        self.lets.pop(name)
        self._expanded.pop(name, None)
        if saved[0] is not None:
            self.lets[name] = saved[0]
            if saved[1] is not None:
                self._expanded[name] = saved[1]
        return self._body_changed(node, body)

    def _body_changed(self, node: LetStmt, body: Stmt) -> Stmt:
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = strip_likely(node.condition)
        self._truths.append(condition)
        then_case = self(node.then_case)
        self._truths.pop()
        else_case = node.else_case
        if else_case is not None:
            self._truths.append(build.logical_not(condition))
            else_case = self(else_case)
            self._truths.pop()
        if then_case is node.then_case and else_case is node.else_case:
            return node
        return IfThenElse(node.condition, then_case, else_case)

    def inside_loop(self, node: For, body: Stmt) -> Stmt:
        """The rewritten `body`, seen as the body of the loop `node`."""
        saved = self.loops.get(node.name)
        saved_let = self.lets.pop(node.name, None)
        low = self.range_of(node.min)
        high = self.range_of(node.min + node.extent - 1)
        self.loops[node.name] = Interval(low.min, high.max)
        result: Stmt = self(body)
        if saved is None:
            del self.loops[node.name]
        else:
            self.loops[node.name] = saved
        if saved_let is not None:
            self.lets[node.name] = saved_let
        return result

    def rewrite_For(self, node: For) -> Stmt:
        body = self.inside_loop(node, node.body)
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)
