"""A pipeline that another one calls: what the caller's lowering and emission ask of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bayplan.analysis.evaluate import ASK, Number, evaluate
from bayplan.analysis.purity import is_pure, reads_memory
from bayplan.analysis.simplify import simplify
from bayplan.ir.build import block, const, int32, nothing, select
from bayplan.ir.errors import AllocationTooLarge
from bayplan.ir.exprs import Call, CallKind, Expr, Load
from bayplan.ir.intrinsics import STORAGE
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Block,
    Evaluate,
    LetStmt,
    ProducerConsumer,
    Stmt,
)
from bayplan.ir.types import INT32, INT64
from bayplan.ir.walk import Rewriter, free_variables_of_stmt, iterate, substitute
from bayplan.lower.program import LoweredProgram
from bayplan.storage.measure import ON_DEVICE, measure
from bayplan.storage.read_plan import WORKERS, bind_lets, read_arenas

LINE_BYTES: Final = 64
"""Bytes that the size of a callee's workspace is counted in."""

# Nodes of a value that is put in where its name stands; what is not computed twice.
_SMALL = 60
_COSTLY = frozenset(["callee_lines", "largest_over"])

Regions = Mapping[tuple[str, int], tuple[Expr, Expr]]
"""(argument, dimension) -> least coordinate and extent that a call needs of a buffer."""


class Callee:
    """A lowered pipeline that others call.

    Attributes:
        program: the program; its entry points are in the caller's file.
        regions: what a call needs, in terms of the callee's arguments; empty where that must be
            asked for at run time.
        size: the statement that gives the bytes of its workspace: the lets and checks in front
            of its arena, then `give_bytes`; None where it needs none.
        size_parameters: the names that `size` takes from outside: fields of buffers, scalars.
    """

    __slots__ = ("program", "regions", "size", "size_parameters")

    def __init__(self, program: LoweredProgram, regions: Regions) -> None:
        self.program = program
        self.regions = regions
        plan = program.plan
        arena = None if plan is None else plan.call_arena
        self.size = None if arena is None else _in_front_of(program.body, arena)
        if self.size is not None and any(type(n) is Load for n in iterate(self.size)):
            # No caller knows its size before the inputs have been computed.
            self.size = None
        self.size_parameters: tuple[str, ...] = ()
        if self.size is not None:
            self.size_parameters = tuple(sorted(free_variables_of_stmt(self.size)))

    def workspace_lines(self, values: Sequence[Number], workers: int, ask: Any = None) -> int:
        """The size of its workspace in a call, in lines.

        Args:
            values: of `size_parameters`.
            workers: the most tasks of a parallel loop that run at once.
            ask: asks external functions for their regions, see `analysis.evaluate`.

        Raises:
            Unknown: they are not known before the call.
        """
        plan = self.program.plan
        if plan is None or plan.call_arena is None:
            return 0
        known: dict[str, Number] = dict(zip(self.size_parameters, values, strict=True))
        known[WORKERS] = workers
        if ask is not None:
            known[ASK] = ask
        size = _Sizes(known).give(self.size)
        return min(-(-size // LINE_BYTES), 2**31 - 1)


    def device_bytes(self, given: Sequence[Any], workers: int) -> tuple[int, bool]:
        """What its temporaries take on the device in a call, those of its own callees included.

        Args:
            given: for each argument (min, extent, stride) of each dimension, or a number.
            workers: the most tasks of a parallel loop that run at once.

        Returns:
            The bytes, and whether they are exact.

        Raises:
            Unknown: they are not known before the call.
        """
        plan = self.program.plan
        assert plan is not None
        values: dict[str, Number] = {}
        for argument, value in zip(self.program.arguments, given, strict=True):
            if not argument.is_buffer():
                values[argument.name] = value
                continue
            for d, fields in enumerate(value):
                for field, number in zip(("min", "extent", "stride"), fields, strict=True):
                    values[f"{argument.name}.{field}.{d}"] = number
        values = bind_lets(plan.lets, values)
        arenas = [a for a in plan.device_arenas if a.name == plan.device_arena]
        planned = sum([n.bytes for n in read_arenas(arenas, values, workers).values()])
        own = measure(self.program.body, values, ON_DEVICE, workers, plan.device_arena)
        return planned + own.peak_bytes, own.exact


def _in_front_of(body: Stmt, arena: str) -> Stmt:
    """The lets and checks of sizes around the arena's Allocate, and its bytes.

    Small values are put in where their names stand, so that what cancels does not count as used:
    the extent max - min + 1 of a region does not depend on where the region begins.
    """
    around: list[Stmt] = []
    stmt = body
    while not (type(stmt) is Allocate and stmt.name == arena):
        inside: Stmt | None = None
        if isinstance(stmt, LetStmt):
            around.append(stmt)
            inside = stmt.body
        elif isinstance(stmt, ProducerConsumer | Allocate):
            inside = stmt.body
        elif isinstance(stmt, Block):
            for part in stmt.stmts:
                if isinstance(part, AssertStmt) and part.site.error_class is AllocationTooLarge:
                    around.append(part)
                elif inside is None and _holds(part, arena):
                    inside = part
        assert inside is not None, arena
        stmt = inside
    values: dict[str, Expr] = {}
    kept: list[Stmt] = []
    for outer in around:
        if isinstance(outer, LetStmt):
            value = simplify(substitute(values, outer.value))
            if _is_small(value):
                values[outer.name] = value
            else:
                kept.append(LetStmt(outer.name, value, nothing()))
        else:
            kept.append(_simplified(substitute(values, outer)))
    size = simplify(substitute(values, _bytes_of(stmt)))
    result: Stmt = Evaluate(Call(INT32, "give_bytes", (size,), CallKind.INTRINSIC))
    for outer in reversed(kept):
        if isinstance(outer, LetStmt):
            if outer.name in free_variables_of_stmt(result):
                result = LetStmt(outer.name, outer.value, result)
        else:
            result = block([outer, result])
    return result


def _is_small(e: Expr) -> bool:
    if not is_pure(e) or reads_memory(e):
        return False
    nodes = list(iterate(e))
    return len(nodes) <= _SMALL and not any(type(n) is Call and n.name in _COSTLY for n in nodes)


def _simplified(check: Stmt) -> Stmt:
    assert isinstance(check, AssertStmt)
    args = tuple([simplify(a) for a in check.args])
    return AssertStmt(simplify(check.condition), check.site, args)


def _bytes_of(arena: Allocate) -> Expr:
    if arena.extents[0].type is INT64:
        needed = arena.extents[0]
    else:
        args = (int32(arena.type.bytes()), int32(arena.padding), *arena.extents)
        needed = Call(INT64, "size_in_bytes", args, CallKind.INTRINSIC)
    return select(arena.condition, needed, const(INT64, 0))


def _holds(stmt: Stmt, arena: str) -> bool:
    return any(type(n) is Allocate and n.name == arena for n in iterate(stmt))


class _Sizes(Rewriter):
    """Computes a size as the emitted code does, with Python's numbers."""

    def __init__(self, values: dict[str, Number]) -> None:
        super().__init__()
        self.values = values

    def give(self, stmt: Stmt | None) -> int:
        """What the statement gives."""
        while not isinstance(stmt, Evaluate):
            if isinstance(stmt, LetStmt):
                self.values[stmt.name] = self._number(stmt.value)
                stmt = stmt.body
            else:
                assert isinstance(stmt, Block)
                stmt = stmt.stmts[-1]
        assert isinstance(stmt.value, Call)
        return int(self._number(stmt.value.args[0]))

    def _number(self, e: Expr) -> Number:
        return evaluate(self(e), self.values)

    def rewrite_Call(self, node: Call) -> Expr:
        if node.name not in STORAGE or node.name == "largest_over":
            return self.rebuild(node)  # type: ignore[no-any-return]
        args = [int(self._number(a)) for a in node.args]
        workers = int(self.values[WORKERS])
        if node.name == "size_in_bytes":
            elements = 1
            for extent in args[2:]:
                elements *= max(extent, 0)
            return const(INT64, (elements + args[1]) * args[0] if elements else 0)
        if node.name == "parallel_slots":
            return const(INT32, max(0, min(args[0], workers)))
        assert node.name == "place_storage", node.name
        return const(INT64, node.target.place(args)[1])
