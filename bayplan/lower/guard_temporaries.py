"""Gives temporaries on the heap guard bytes at both ends, in builds with `TargetFeature.ASAN`."""

from __future__ import annotations

from typing import Any, Final

from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Allocate, Stmt
from bayplan.ir.walk import StmtRewriter
from bayplan.language.target_names import TargetFeature
from bayplan.lower.context import Lowering

GUARD_BYTES: Final = 64
"""Guard bytes before a temporary, and as many behind it."""


def guard_temporaries(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which heap temporaries are padded by two guards; itself in other builds.

    The emitter lets a temporary in an arena begin behind the first guard, so sizes that a plan or
    a report gives include the guards.

    Order: after choose_storage, which decides by size; before plan_storage.
    """
    if not is_sanitized(lowering.target):
        return stmt
    guarded: Stmt = _Guard()(stmt)
    return guarded


def is_sanitized(target: Any) -> bool:
    """Whether code for this target poisons and guards its temporaries."""
    has_feature = getattr(target, "has_feature", None)
    return has_feature is not None and bool(has_feature(TargetFeature.ASAN))


def has_guards(s: Allocate) -> bool:
    """Whether an alias was padded by guards; the arena of a worker was not."""
    return s.address is not None and s.padding * s.type.bytes() >= 2 * GUARD_BYTES


def guard_elements(s: Allocate) -> int:
    """The elements that both guards together take."""
    return 2 * GUARD_BYTES // s.type.bytes()


class _Guard(StmtRewriter):
    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        body: Stmt = self(node.body)
        if node.memory_type is not MemoryType.Heap:
            return node.with_body(body)
        return Allocate(
            node.name, node.type, node.memory_type, node.extents, node.condition,
            node.padding + guard_elements(node), body, node.alignment, node.address,
        )  # fmt: skip
