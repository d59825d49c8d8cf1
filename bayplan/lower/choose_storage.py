"""Decides for each temporary whether it lives in registers, on the stack or on the heap."""

from __future__ import annotations

from typing import Final

from bayplan.ir import build
from bayplan.ir.exprs import Expr, Load, Ramp
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.node import Node
from bayplan.ir.stmts import Allocate, For, LetStmt, Stmt, Store
from bayplan.ir.walk import Rewriter, iterate
from bayplan.language.target import STACK_BUDGET_BYTES
from bayplan.lower.context import Lowering
from bayplan.lower.sides_of_storage import SidesOfStorage
from bayplan.storage.formula import names_of_size
from bayplan.storage.kernels import is_kernel
from bayplan.storage.plan import KindChoice

REGISTER_BYTES: Final = 512
"""The largest temporary of kind Auto that is put into registers."""

_ALIGNMENT = 64
_DEVICE_LOOPS = (ForKind.GPUBlock, ForKind.GPUThread, ForKind.GPULane)
_NOT_ON_HOSTS: Final = {
    MemoryType.GPUShared: "not inside a loop over blocks of a GPU",
    MemoryType.GPUTexture: "the target has no textures",
    MemoryType.LockedCache: "the target has no locked cache",
    MemoryType.VTCM: "the target has no VTCM",
    MemoryType.Static: "only constant tables are static",
}


def choose_storage(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which no host allocation is of kind Auto any more.

    Auto becomes Register if the size is a small constant and all indices are constants, Stack if
    the size is a constant and all that is on the stack with it fits the budget (inner temporaries
    first, as they are made most often), else Heap. What a schedule asks for is kept; a Stack or
    Register temporary without a constant size, or over the budget, becomes Heap, as does one of
    a kind that the host does not have, and `lowering.warnings` says why. What kernels touch too
    is Heap. There are no variable-length arrays.

    Order: after unroll_loops and vectorize_loops, which make indices constant, allocations larger.
    """
    choose = _Choose(lowering)
    choose.has_kernels = any(is_kernel(node) for node in iterate(stmt))
    return choose(stmt)


class _Choose(Rewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        # Most bytes of stack alive at once in what was just rewritten.
        self.stack = 0
        # What is bound around, for messages.
        self.lets: dict[str, Expr] = {}
        self.has_kernels = False
        self.sides = SidesOfStorage()

    def __call__(self, node: Node) -> Node:  # type: ignore[override]
        return node if isinstance(node, Expr) else super().__call__(node)

    def rebuild(self, node: Node) -> Node:
        """Statements side by side share the stack: the greatest need counts."""
        greatest = 0
        children = []
        for child in node.children():
            self.stack = 0
            children.append(self(child))
            greatest = max(greatest, self.stack)
        self.stack = greatest
        for old, new in zip(node.children(), children, strict=True):
            if old is not new:
                return node.with_children(children)
        return node

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        self.lets[node.name] = node.value
        return self.rebuild(node)  # type: ignore[return-value]

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind in _DEVICE_LOOPS:
            self.stack = 0
            return node
        return self.rebuild(node)  # type: ignore[return-value]

    def _is_in_kernels(self, node: Allocate) -> bool:
        """Whether a kernel touches it: its bytes are copied, or are the device's alone."""
        return self.has_kernels and node.name in self.sides.of(node.body).device

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        self.stack = 0
        body: Stmt = self(node.body)  # type: ignore[assignment]
        inner = self.stack
        kind = node.memory_type
        self.lowering.kinds.setdefault(node.name, KindChoice(kind))
        if kind in _NOT_ON_HOSTS:
            self._moved(node, _NOT_ON_HOSTS[kind])
            kind = MemoryType.Heap
        elif self._is_in_kernels(node):
            if kind in (MemoryType.Stack, MemoryType.Register):
                self._moved(node, "a kernel uses it")
            kind = MemoryType.Heap
        elif kind in (MemoryType.Auto, MemoryType.Stack, MemoryType.Register):
            size = _constant_bytes(node)
            kind = self._kind(node, size, inner)
            if kind is MemoryType.Stack and size is not None:
                self.stack = inner + size
        if kind is node.memory_type and body is node.body:
            return node
        return Allocate(
            node.name, node.type, kind, node.extents, node.condition, node.padding, body,
            node.alignment,
        )

    def _kind(self, node: Allocate, size: int | None, inner: int) -> MemoryType:
        asked = node.memory_type
        if size is None:
            if asked is not MemoryType.Auto:
                names = names_of_size(node.extents, list(self.lets.items()))
                self._moved(node, f"no upper bound for {', '.join(names)}")
            return MemoryType.Heap
        if asked is MemoryType.Register:
            return asked
        if asked is MemoryType.Auto and size <= REGISTER_BYTES and _indexed_by_constants(node):
            return MemoryType.Register
        target = self.lowering.target
        budget = STACK_BUDGET_BYTES if target is None else target.stack_budget_bytes
        if inner + size <= budget:
            return MemoryType.Stack
        if asked is MemoryType.Stack:
            self._moved(node, f"{inner + size} bytes on the stack are over the limit of {budget}")
        return MemoryType.Heap

    def _moved(self, node: Allocate, why: str) -> None:
        choice = self.lowering.kinds[node.name] = KindChoice(node.memory_type, why)
        asked = choice.asked.name
        note = f"{node.name}: asked {asked}, got Heap: {why}"
        if note not in self.lowering.warnings:
            self.lowering.warnings.append(note)


def _constant_bytes(node: Allocate) -> int | None:
    """The bytes of an allocation, rounded up as it is aligned; None if not constant."""
    elements = 1
    for extent in node.extents:
        value = build.constant_value(extent)
        if value is None:
            return None
        elements *= max(int(value), 0)
    size = (elements + node.padding) * node.type.bytes()
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _indexed_by_constants(allocate: Allocate) -> bool:
    """Whether every access says at compile time which elements it means, none under a predicate."""
    for node in iterate(allocate.body):
        if type(node) in (Load, Store) and node.name == allocate.name:  # type: ignore[attr-defined]
            if node.predicate is not None:  # type: ignore[attr-defined]
                return False
            index = node.index  # type: ignore[attr-defined]
            if type(index) is Ramp and build.is_one(index.stride):
                index = index.base
            if build.constant_value(index) is None:
                return False
    return True
