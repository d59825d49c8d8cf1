"""Marks where the lives of temporaries begin and end, in builds with `TargetFeature.ASAN`."""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, StringImm
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Allocate,
    Atomic,
    Block,
    Evaluate,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Stmt,
)
from bayplan.ir.types import INT32, INT64
from bayplan.ir.walk import StmtRewriter
from bayplan.lower.context import Lowering
from bayplan.lower.guard_temporaries import guard_elements, has_guards, is_sanitized
from bayplan.lower.storage_uses import StorageUses

_AROUND: Final = (LetStmt, ProducerConsumer, Allocate, Atomic)


def mark_lives(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement with `begin_life` before the first use of an alias on each path, and `end_life`
    after the last; itself in other builds.

    A loop is one use: what is allocated outside of it lives for all of it.

    Order: last, so that nothing is moved across the marks.
    """
    if not is_sanitized(lowering.target):
        return stmt
    marked: Stmt = _Mark()(stmt)
    return marked


class _Mark(StmtRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.uses = StorageUses()

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        body: Stmt = self(node.body)
        if has_guards(node) and node.name in self.uses.of(body):
            size: Expr = _intrinsic(
                INT64,
                "size_in_bytes",
                build.int32(node.type.bytes()),
                build.int32(node.padding - guard_elements(node)),
                *node.extents,
            )
            size = build.select(node.condition, size, 0)
            life = _Life(self.uses, node.name, size)
            body = life.end(life.begin(body)[0])
        return node.with_body(body)


class _Life:
    """Puts the marks of one alias into its body."""

    def __init__(self, uses: StorageUses, name: str, size: Expr) -> None:
        self.uses = uses
        self.name = name
        self.begins = Evaluate(_intrinsic(INT32, "begin_life", StringImm(name), size))
        self.ends = Evaluate(_intrinsic(INT32, "end_life", StringImm(name)))

    def used(self, node: Node) -> bool:
        """Whether the node reads or writes the alias."""
        return self.name in self.uses.of(node)

    def begin(self, s: Stmt) -> tuple[Stmt, bool]:
        """The statement with the mark before its first use; whether every path has met it."""
        if not self.used(s):
            return s, False
        if isinstance(s, Block):
            parts = list(s.stmts)
            for i, part in enumerate(parts):
                parts[i], everywhere = self.begin(part)
                if everywhere:
                    return build.block(parts), True
            return build.block(parts), False
        if isinstance(s, IfThenElse) and not self.used(s.condition):
            then, first = self.begin(s.then_case)
            other, second = (None, False) if s.else_case is None else self.begin(s.else_case)
            return IfThenElse(s.condition, then, other), first and second
        if isinstance(s, _AROUND) and not self._in_head(s):
            body, everywhere = self.begin(s.body)
            return s.with_children([*s.children()[:-1], body]), everywhere  # type: ignore[return-value]
        return build.block([self.begins, s]), True

    def end(self, s: Stmt) -> Stmt:
        """The statement with the mark behind its last use."""
        if isinstance(s, Block):
            parts = list(s.stmts)
            last = max([i for i, part in enumerate(parts) if self.used(part)])
            parts[last] = self.end(parts[last])
            return build.block(parts)
        if isinstance(s, IfThenElse) and (self.used(s.then_case) or self._used_else(s)):
            then = self._end_branch(s.then_case)
            other = build.nothing() if s.else_case is None else s.else_case
            return IfThenElse(s.condition, then, self._end_branch(other))
        if isinstance(s, _AROUND) and self.used(s.body):
            return s.with_children([*s.children()[:-1], self.end(s.body)])  # type: ignore[return-value]
        return build.block([s, self.ends])

    def _end_branch(self, s: Stmt) -> Stmt:
        return self.end(s) if self.used(s) else build.block([self.ends, s])

    def _used_else(self, s: IfThenElse) -> bool:
        return s.else_case is not None and self.used(s.else_case)

    def _in_head(self, s: Any) -> bool:
        """Whether the alias is used by what is evaluated before the body."""
        return any(self.used(child) for child in s.children()[:-1])


def _intrinsic(t: Any, name: str, *args: Expr) -> Call:
    return Call(t, name, args, CallKind.INTRINSIC)
