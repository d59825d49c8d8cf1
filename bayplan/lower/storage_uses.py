"""Which allocations and buffers a node reads or writes, itself and in all of its parts."""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir.exprs import Call, Load, StringImm
from bayplan.ir.node import Node
from bayplan.ir.stmts import Store

_NONE: Final[frozenset[str]] = frozenset()
_COPIES: Final = frozenset(["device_copy_in", "device_copy_out"])


class StorageUses:
    """Answers for the nodes of one statement; each node is looked at once."""

    def __init__(self) -> None:
        self._known: dict[Node, frozenset[str]] = {}

    def of(self, node: Any) -> frozenset[str]:
        """The names that loads and stores, and copies to and from a device, in the node have."""
        found = self._known.get(node)
        if found is None:
            found = _NONE
            for child in node.children():
                inner = self.of(child)
                if not inner <= found:
                    found = found | inner
            if type(node) in (Load, Store) and node.name not in found:
                found = found | {node.name}
            elif type(node) is Call and node.name in _COPIES:
                copied = node.args[0]
                assert isinstance(copied, StringImm)
                found = found | {copied.value}
            self._known[node] = found
        return found
