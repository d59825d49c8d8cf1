"""Gives a kernel a title of its own, where a loop of the host around it was cut into pieces."""

from __future__ import annotations

from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.stmts import For, Stmt
from bayplan.ir.walk import Rewriter, iterate
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
    # What is bound outside, as numbers of threads may be, keeps its name.
    loops = [n.name for n in iterate(node) if isinstance(n, For) and n.name.startswith(f"{title}.")]
    result = _Rename({name: other + name.removeprefix(title) for name in loops})(node)
    assert type(result) is For
    return result


class _Rename(Rewriter):
    """Gives loops other names."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self.names = names

    def rewrite_Variable(self, node: Variable) -> Expr:
        name = self.names.get(node.name)
        return node if name is None else Variable(node.type, name)

    def rewrite_For(self, node: For) -> Stmt:
        low, extent, body = self(node.min), self(node.extent), self(node.body)
        name = self.names.get(node.name, node.name)
        return For(name, low, extent, node.kind, node.partition, body)
