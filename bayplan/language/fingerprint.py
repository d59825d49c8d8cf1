"""What a pipeline is at this moment, in a form that can be compared later."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum
from typing import Any, Final

from bayplan.ir.exprs import Call, Variable
from bayplan.ir.node import Node
from bayplan.ir.types import Type
from bayplan.language.function import Function
from bayplan.language.parameter import Parameter, ReductionDomain

_PLAIN: Final = (str, int, float, bool, type(None), Enum, Type)

# The value that a call gives a parameter is not part of the program.
_VALUES: Final = frozenset(["value", "buffer"])


class _Fingerprint:
    """Turns records into tuples; Functions and Parameters are named by identity, and visited."""

    def __init__(self) -> None:
        self.parts: list[tuple[Any, ...]] = []
        self.pending: list[Any] = []
        self.met: set[int] = set()
        self.walked: set[Node] = set()

    def meet(self, thing: Any) -> int:
        if id(thing) not in self.met:
            self.met.add(id(thing))
            self.pending.append(thing)
        return id(thing)

    def of(self, value: Any) -> Hashable:
        if isinstance(value, Node):
            self.walk(value)
            return value
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Function | Parameter | ReductionDomain):
            return self.meet(value)
        if isinstance(value, list | tuple):
            return tuple([self.of(v) for v in value])
        if isinstance(value, dict):
            return tuple([(k, self.of(v)) for k, v in value.items()])
        if isinstance(value, set | frozenset):
            return tuple(sorted(value))
        if hasattr(type(value), "__slots__") and type(value).__module__.startswith("bayplan."):
            return self.record(value)
        return id(value)

    def record(self, thing: Any) -> tuple[Any, ...]:
        fields: list[Hashable] = [type(thing).__name__]
        for cls in type(thing).__mro__:
            for name in getattr(cls, "__slots__", ()):
                if not (isinstance(thing, Parameter) and name in _VALUES):
                    fields.append(self.of(getattr(thing, name, None)))
        return tuple(fields)

    def walk(self, root: Node) -> None:
        """Meets what an expression refers to; each node once, however often it is shared."""
        stack = [root]
        while stack:
            node = stack.pop()
            if node in self.walked:
                continue
            self.walked.add(node)
            if type(node) is Call and node.target is not None:
                self.refer(node.target)
            elif type(node) is Variable and node.source is not None:
                self.refer(node.source)
            stack.extend(node.children())

    def refer(self, target: Any) -> None:
        if isinstance(target, Function | Parameter | ReductionDomain):
            self.meet(target)
        elif getattr(target, "callee", None) is not None:
            for function in target.callee._functions():
                self.meet(function)
        elif hasattr(target, "dimensions"):
            # A Buffer used directly: its shape is compiled in.
            dims = [target.dim(d) for d in range(target.dimensions())]
            shape = tuple([(int(d.min()), int(d.extent()), int(d.stride())) for d in dims])
            if id(target) not in self.met:
                self.met.add(id(target))
                self.parts.append(("Buffer", id(target), shape))


def fingerprint(functions: Sequence[Function]) -> tuple[Any, ...]:
    """Everything that lowering reads of a pipeline: two equal ones lower to the same program.

    Args:
        functions: the outputs; every Func, parameter and buffer they use is included.
    """
    found = _Fingerprint()
    roots = tuple([found.meet(f) for f in functions])
    while found.pending:
        thing = found.pending.pop()
        found.parts.append((id(thing), found.record(thing)))
    return (roots, tuple(found.parts))
