"""Hands the kernels of a statement to what changes them; the host's statements stay."""

from __future__ import annotations

from collections.abc import Callable

from bayplan.ir.stmts import For, Stmt
from bayplan.ir.walk import StmtRewriter
from bayplan.storage.kernels import is_kernel


def rewrite_kernels(stmt: Stmt, change: Callable[[For], Stmt]) -> Stmt:
    """The statement with `change(kernel)` in the place of each kernel, its outermost block loop.

    A kernel that stands in several places is changed in each of them: what belongs to it, such as
    names, is made anew.
    """
    result: Stmt = _OnHost(change)(stmt)
    return result


class _OnHost(StmtRewriter):
    memoise = False

    def __init__(self, change: Callable[[For], Stmt]) -> None:
        super().__init__()
        self._change = change

    def rewrite_For(self, node: For) -> Stmt:
        if is_kernel(node):
            return self._change(node)
        return self.rebuild(node)  # type: ignore[no-any-return]
