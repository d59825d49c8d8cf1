"""Takes the coordinates of folded Funcs modulo their factors, for fold_storage."""

from __future__ import annotations

from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.stmts import Evaluate, Provide, Realize, Stmt
from bayplan.ir.walk import Rewriter
from bayplan.lower.slide_windows import sliding_func


class Fold:
    """A dimension that was folded.

    Attributes:
        head: "" or the name of the counter that follows the footprint at run time.
        asked: whether the schedule asks for this factor.
    """

    __slots__ = ("asked", "dim", "factor", "forward", "head")

    def __init__(self, dim: int, factor: Expr, forward: bool, head: str, asked: bool) -> None:
        self.asked = asked
        self.dim = dim
        self.factor = factor
        self.forward = forward
        self.head = head


class ApplyFolds(Rewriter):
    """Takes the coordinates of folded dimensions modulo their factors; drops markers."""

    def __init__(self, folds: dict[str, list[list[Fold]]]) -> None:
        super().__init__()
        self.waiting = {name: list(reversed(found)) for name, found in folds.items()}
        self.active: dict[str, list[Fold]] = {}
        self.met: set[str] = set()

    def _folded(self, name: str, args: list[Expr]) -> tuple[Expr, ...]:
        for fold in self.active[name]:
            args[fold.dim] = build.mod(args[fold.dim], fold.factor)
        return tuple(args)

    def rewrite_Realize(self, node: Realize) -> Stmt:
        folds = self.waiting[node.name].pop()
        if node.name in self.met:
            # The same calls mean another ring in another realization of the Func.
            self.forget()
        self.met.add(node.name)
        self.active[node.name] = folds
        result: Stmt = self.rebuild(node)
        del self.active[node.name]
        return result

    def rewrite_Call(self, node: Call) -> Expr:
        if node.kind is not CallKind.FUNC or not self.active.get(node.name):
            return self.rebuild(node)  # type: ignore[no-any-return]
        args = self._folded(node.name, [self(arg) for arg in node.args])
        return Call(node.type, node.name, args, node.kind, node.target, node.value_index)

    def rewrite_Provide(self, node: Provide) -> Stmt:
        result: Provide = self.rebuild(node)
        if not self.active.get(node.name):
            return result
        args = self._folded(node.name, list(result.args))
        return Provide(result.name, result.values, args, result.predicate)

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        return build.nothing() if sliding_func(node) else node
