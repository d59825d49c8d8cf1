"""Makes Buffers that stand in the algorithm itself constant tables of the program.

A program that is called from Python is given such Buffers as arguments, so nothing is copied. One
that is built ahead of time has no caller who could: it carries their elements.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bayplan.ir.build import false, int32, nothing
from bayplan.ir.exprs import Call, CallKind, Expr, StringImm, Variable
from bayplan.ir.stmts import Evaluate, Stmt
from bayplan.ir.walk import Rewriter, iterate
from bayplan.language.parameter import Parameter
from bayplan.lower.context import Lowering
from bayplan.lower.table import Table

_FIELD: Final = re.compile(r"(.*)\.(min|extent|stride)\.(\d+)$")
_NEVER: Final = ("buffer_is_bounds_query", "buffer_host_is_null", "buffers_overlap")


def embed_tables(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with tables in place of Buffers; notes them in the lowering.

    Order: after add_image_checks, which proves that indices stay inside; before the fields of
    buffers become plain variables and before strides are looked up.
    """
    if lowering.tables is None:
        return stmt
    found: dict[str, Table] = {}
    for node in iterate(stmt):
        if type(node) is Call and node.kind is CallKind.IMAGE:
            source = node.target
            if not isinstance(source, Parameter) and node.name not in found:
                found[node.name] = Table(node.name, source)
    lowering.tables += [found[name] for name in sorted(found)]
    return _Embed(found)(stmt) if found else stmt


class _Embed(Rewriter):
    def __init__(self, tables: dict[str, Table]) -> None:
        super().__init__()
        self.tables = tables

    def rewrite_Variable(self, node: Variable) -> Expr:
        field = _FIELD.match(node.name)
        table = self.tables.get(field[1]) if field is not None else None
        if field is None or table is None:
            return node
        return int32(getattr(table.dim(int(field[3])), field[2])())

    def _about(self, node: Call) -> bool:
        names = [a.value for a in node.args if isinstance(a, StringImm)]
        return any(name in self.tables for name in names)

    def rewrite_Call(self, node: Call) -> Any:
        if node.kind is CallKind.IMAGE and node.name in self.tables:
            args = tuple([self.__call__(a) for a in node.args])
            return Call(node.type, node.name, args, CallKind.IMAGE, self.tables[node.name])
        if node.kind is CallKind.INTRINSIC and node.name in _NEVER and self._about(node):
            return false()
        return self.rebuild(node)

    def rewrite_Evaluate(self, node: Evaluate) -> Any:
        value = node.value
        if type(value) is Call and value.name == "buffer_set_bounds" and self._about(value):
            return nothing()
        return self.rebuild(node)
