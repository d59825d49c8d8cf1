"""Makes the fields of buffers plain variables, once the arguments have been collected from them.

The same field would otherwise be two different nodes, with and without the parameter it came
from, and nothing would cancel.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bayplan.ir.exprs import Variable
from bayplan.ir.stmts import Stmt
from bayplan.ir.walk import Rewriter
from bayplan.lower.context import Lowering

_FIELD: Final = re.compile(r"\.(min|extent|stride)\.\d+$")


def drop_buffer_sources(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with variables such as `in.min.0` that are told apart by name alone."""
    return _Plain()(stmt)


class _Plain(Rewriter):
    def rewrite_Variable(self, node: Variable) -> Any:
        if node.source is None or not _FIELD.search(node.name):
            return node
        return Variable(node.type, node.name)
