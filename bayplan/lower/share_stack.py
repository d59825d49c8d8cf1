"""Lets temporaries on the stack share bytes, where that makes a thread's stack smaller.

Arrays in blocks of C share bytes only where one block ends before the other begins, and whether
they do is the compiler's choice. Lives end earlier: with the last read.
"""

from __future__ import annotations

from typing import Final

from bayplan import settings
from bayplan.ir import build
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.stmts import Allocate, Block, For, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.types import INT64, UInt
from bayplan.ir.walk import iterate
from bayplan.lower.arena_aliases import arenas_by_loop, point_into
from bayplan.lower.context import Lowering
from bayplan.lower.guard_temporaries import is_sanitized
from bayplan.storage.lives import Life, find_lives
from bayplan.storage.places import Place
from bayplan.storage.plan import Arena, PlannedTemporary
from bayplan.storage.plan_offsets import plan_offsets
from bayplan.storage.requests import Request
from bayplan.storage.scopes import Scope, find_scopes

_ALIGNMENT: Final = 64
# Less is not worth a name: small arrays by themselves often end in registers.
_LEAST_SAVING_BYTES: Final = 512


def share_stack(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which stack temporaries of one thread are parts of one array.

    Only where this saves bytes; with guards each keeps an array of its own.

    Order: after plan_storage, whose table it completes.
    """
    if lowering.plan is None or is_sanitized(lowering.target):
        return stmt
    if not settings.value("STORAGE_PLAN"):
        return stmt
    lives = [life for life in find_lives(stmt).lives if life.kind is MemoryType.Stack]
    planned = [t for t in lowering.plan.temporaries if t.kind is MemoryType.Stack]
    if len(lives) != len(planned):
        # Something allocates on the stack that is no temporary of the user's.
        return stmt
    temporaries = dict(zip(lives, planned, strict=True))
    maker = _Share(lowering, temporaries)
    maker.plan(find_scopes([life for life in lives if life.begin < life.end]))
    if not maker.arenas:
        return stmt
    lowering.plan.stack_arenas = tuple(maker.arenas.values())
    return maker.rewrite(stmt, lives)


class _Share:
    """Plans each scope, then walks in the order in which lives were found."""

    def __init__(self, lowering: Lowering, temporaries: dict[Life, PlannedTemporary]) -> None:
        self.lowering = lowering
        self.temporaries = temporaries
        self.arenas: dict[Place | None, Arena] = {}

    def plan(self, scope: Scope) -> None:
        """Makes the arena of a scope, and of those inside, where it saves bytes."""
        for inner in scope.inner:
            self.plan(inner)
        members = [self.temporaries[life] for life in scope.lives]
        requests = [
            Request(life.name, _constant_bytes(life.node), life.begin, life.end, _ALIGNMENT)
            for life in scope.lives
        ]
        if len(requests) < 2:
            return
        found = plan_offsets(requests)
        apart = sum([-(-r.size_bytes // _ALIGNMENT) * _ALIGNMENT for r in requests])
        if found.peak_bytes + _LEAST_SAVING_BYTES > apart:
            return
        loop = scope.loop
        title = self.lowering.outputs[0] if loop is None else loop.node.name  # type: ignore[union-attr]
        name = self.lowering.unique_name(f"{title}.stack")
        arena = Arena(name, "call" if loop is None else title, tuple(members), _ALIGNMENT)
        arena.groups = tuple([(m,) for m in members])
        arena.offsets, arena.bytes = tuple(found.offsets), found.peak_bytes
        for i, member in enumerate(members):
            member.arena, member.member, member.group = name, i, i
        self.arenas[loop] = arena

    def rewrite(self, stmt: Stmt, lives: list[Life]) -> Stmt:
        """The statement with the arrays and the aliases into them."""
        call = self.arenas.get(None)
        self._lives = iter(lives)
        self._chosen = {id(life.node) for life in lives if self.temporaries[life].arena}
        self._loops = arenas_by_loop([(p, a) for p, a in self.arenas.items() if p is not None])
        return self._around(stmt, call) if call is not None else self._walk(stmt)

    def _around(self, stmt: Stmt, arena: Arena) -> Stmt:
        """Puts the call's array around the smallest statement outside of loops that needs it."""
        cls = type(stmt)
        position: int | None = None
        if cls in (LetStmt, ProducerConsumer) or (
            cls is Allocate and id(stmt) not in self._chosen
        ):
            position = len(stmt.children()) - 1
        elif cls is Block:
            holding = [i for i, part in enumerate(stmt.stmts) if self._holds(part)]  # type: ignore[attr-defined]
            position = holding[0] if len(holding) == 1 else None
        if position is None:
            return _array(arena, self._walk(stmt))
        if cls is Allocate and stmt.memory_type is MemoryType.Stack:  # type: ignore[attr-defined]
            next(self._lives)
        children = list(stmt.children())
        for i, child in enumerate(children):
            if isinstance(child, Stmt):
                inside = i == position
                children[i] = self._around(child, arena) if inside else self._walk(child)
        return stmt.with_children(children)  # type: ignore[return-value]

    def _holds(self, stmt: Stmt) -> bool:
        return any(id(node) in self._chosen for node in iterate(stmt))

    def _walk(self, s: Stmt) -> Stmt:
        cls = type(s)
        if cls is Allocate and s.memory_type is MemoryType.Stack:  # type: ignore[attr-defined]
            return self._alias(s)  # type: ignore[arg-type]
        children = [self._walk(c) if isinstance(c, Stmt) else c for c in s.children()]
        result: Stmt = s.with_children(children)  # type: ignore[assignment]
        if cls is For and s.kind is ForKind.Parallel and self._loops.get(id(s)):  # type: ignore[attr-defined]
            assert isinstance(result, For)
            arena = self._loops[id(s)].pop(0)
            result = result.with_children([*result.children()[:-1], _array(arena, result.body)])
        return result

    def _alias(self, s: Allocate) -> Stmt:
        life = next(self._lives)
        member = self.temporaries[life]
        body = self._walk(s.body)
        if not member.arena:
            return s.with_body(body)
        arena = next(a for a in self.arenas.values() if a.name == member.arena)
        assert arena.offsets is not None
        offset: Expr = build.const(INT64, arena.offsets[member.group])
        address = point_into(arena.name, offset)
        return Allocate(
            s.name, s.type, s.memory_type, s.extents, s.condition, s.padding, body, _ALIGNMENT,
            address,
        )


def _array(arena: Arena, body: Stmt) -> Stmt:
    size = build.const(INT64, arena.bytes or 0)
    return Allocate(
        arena.name, UInt(8), MemoryType.Stack, (size,), build.true(), 0, body, _ALIGNMENT
    )


def _constant_bytes(node: Allocate) -> int:
    elements = 1
    for extent in node.extents:
        elements *= max(int(build.constant_value(extent) or 0), 0)
    return (elements + node.padding) * node.type.bytes()
