"""Gives a kernel a title of its own, where a loop of the host around it was cut into pieces."""

from __future__ import annotations

from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.stmts import For, Stmt
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering
from bayplan.storage.kernels import title_of


def rename_kernel(node: For, lowering: Lowering) -> For:
    """The kernel, under another title than those of `lowering.kernels` have.

    What it is called by in plans, reports and messages must be its own, as its grid and the steps
    of its temporaries are.
    """
    title = title_of(node.name)
    if all(kernel.title != title for kernel in lowering.kernels):
        return node
    other = title
    while other == title or any(kernel.title == other for kernel in lowering.kernels):
        other = lowering.unique_name(title)
    result = _Rename(title, other)(node)
    assert type(result) is For
    return result


class _Rename(Rewriter):
    """Gives loops that are named after a title, over blocks and threads, the names of another."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__()
        self.old = f"{old}."
        self.new = f"{new}."

    def _name(self, name: str) -> str:
        return self.new + name.removeprefix(self.old) if name.startswith(self.old) else name

    def rewrite_Variable(self, node: Variable) -> Expr:
        name = self._name(node.name)
        return node if name == node.name else Variable(node.type, name)

    def rewrite_For(self, node: For) -> Stmt:
        low, extent, body = self(node.min), self(node.extent), self(node.body)
        return For(self._name(node.name), low, extent, node.kind, node.partition, body)
