"""Puts the production and the storage of a group of Funcs into the loops of their consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayplan.ir.build import add, block, ge, is_nothing, le, logical_and, sub, true, var
from bayplan.ir.errors import BoundsError, ErrorSite
from bayplan.ir.exprs import Call, CallKind, Expr
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    AssertStmt,
    Atomic,
    For,
    HoistedStorage,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerConsumer,
    Provide,
    Realize,
    Stmt,
)
from bayplan.ir.walk import Rewriter, iterate
from bayplan.language.function import Function
from bayplan.language.schedule import LoopLevel
from bayplan.lower.context import Lowering
from bayplan.lower.find_calls import CallIndex
from bayplan.lower.fuse_loops import build_group


class InjectRealization(Rewriter):
    """Realizes one group of Funcs at the levels of its schedule; used once per group."""

    memoise = False

    def __init__(
        self,
        functions: Sequence[Function],
        are_outputs: Sequence[bool],
        lowering: Lowering,
        calls: CallIndex,
    ) -> None:
        super().__init__()
        self._functions = functions
        self._are_outputs = are_outputs
        self._lowering = lowering
        self._calls = calls
        self._names = frozenset(f.name for f in functions)
        self._any_output = any(are_outputs)
        self._compute_level: LoopLevel = functions[0].schedule.compute_level
        self.found_compute_level = False
        self.found_store_levels: set[str] = set()
        self._realized: set[str] = set()

    def found_all_levels(self) -> bool:
        """Whether the compute level and all store levels were met."""
        return self.found_compute_level and self.found_store_levels == self._names

    def __call__(self, node: Any) -> Any:
        # Where nothing is used there is nothing to do.
        if isinstance(node, Expr) or (
            not self._any_output and self._calls(node).isdisjoint(self._names)
        ):
            return node
        return super().__call__(node)

    def rewrite_For(self, node: For) -> Any:
        function = self._functions[0]
        if (
            node.kind is ForKind.Vectorized
            and function.extern() is not None
            and self._compute_level.is_inlined()
        ):
            # A call serves all lanes.
            return self._around_write("", node)
        containers, body = _open_containers(node.body)
        body = self(body)
        if self._compute_level.match(node.name):
            body = self._produce_and_consume(body)
            self.found_compute_level = True
        if self.found_compute_level:
            body = self._store(node.name, body)
        for container in reversed(containers):
            body = container.with_children([*container.children()[:-1], body])
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def rewrite_Provide(self, node: Provide) -> Any:
        return self._around_write(node.name, node)

    def rewrite_Atomic(self, node: Atomic) -> Any:
        return self._around_write(node.name, node)

    def _store(self, loop: str, body: Stmt) -> Stmt:
        for function, is_output in zip(self._functions, self._are_outputs, strict=True):
            if function.schedule.store_level.match(loop):
                self.found_store_levels.add(function.name)
                used = is_output or function.name in self._calls(body)
                if used and not self._is_realized(function, body):
                    body = self._realize(body, function, is_output)
        for function in self._functions:
            schedule = function.schedule
            if (
                schedule.hoist_storage_level.match(loop)
                and schedule.hoist_storage_level != schedule.store_level
            ):
                body = HoistedStorage(function.name, body)
        return body

    def _around_write(self, written: str, stmt: Stmt) -> Stmt:
        """A Func with updates that is not scheduled is computed at each write that uses it."""
        function = self._functions[0]
        if (
            written == function.name
            or not (function.updates or function.extern() is not None)
            or not function.schedule.compute_level.is_inlined()
            or function.name not in self._calls(stmt)
        ):
            return stmt
        self.found_compute_level = True
        self.found_store_levels.add(function.name)
        return self._realize(self._produce_and_consume(stmt), function, self._are_outputs[0])

    def _produce_and_consume(self, consumer: Stmt) -> Stmt:
        skipped = [
            self._is_realized(f, consumer) or not (is_output or f.name in self._calls(consumer))
            for f, is_output in zip(self._functions, self._are_outputs, strict=True)
        ]
        if all(skipped):
            return consumer
        if any(skipped):
            from bayplan.ir.errors import ScheduleError

            raise ScheduleError(
                "Funcs computed with each other are needed here only in part: "
                + ", ".join(f.name for f in self._functions),
                self._functions[-1].where,
            )
        producer = build_group(self._functions, self._lowering)
        for function in self._functions:
            producer = ProducerConsumer(function.name, True, producer)
        for function, is_output in zip(self._functions, self._are_outputs, strict=True):
            if not is_output:
                consumer = ProducerConsumer(function.name, False, consumer)
        return producer if is_nothing(consumer) else block([producer, consumer])

    def _is_realized(self, function: Function, stmt: Stmt) -> bool:
        # Nobody else realizes the Funcs of this group.
        return function.name in self._realized and _is_realized(function.name, stmt)

    def _realize(self, stmt: Stmt, function: Function, is_output: bool) -> Stmt:
        self._realized.add(function.name)
        if not is_output:
            bounds: list[tuple[Expr, Expr]] = []
            for arg in function.args:
                stem = f"{function.name}.{arg}"
                bounds.append((var(f"{stem}.min_realized"), var(f"{stem}.extent_realized")))
            stmt = Realize(
                function.name,
                tuple(function.output_types),
                function.schedule.memory_type,
                tuple(bounds),
                true(),
                stmt,
            )
        return block([*_explicit_bounds(function), stmt])


def _open_containers(body: Stmt) -> tuple[list[Any], Stmt]:
    """The prefetches, lets and ifs that a production may be moved into, and what they contain."""
    containers: list[Any] = []
    while True:
        if isinstance(body, Prefetch):
            containers.append(body)
            body = body.body
        elif isinstance(body, LetStmt):
            if not _movable(body.value):
                break
            containers.append(body)
            body = body.body
        elif isinstance(body, IfThenElse):
            if body.else_case is not None or not _movable(body.condition):
                break
            containers.append(body)
            body = body.then_case
        else:
            break
    return containers, body


def _movable(e: Expr) -> bool:
    return not any(
        type(n) is Call and not n.is_pure() and n.kind is not CallKind.IMAGE for n in iterate(e)
    )


def _is_realized(name: str, stmt: Stmt) -> bool:
    pending: list[Any] = [stmt]
    seen: set[Any] = set()
    while pending:
        node = pending.pop()
        if node in seen or isinstance(node, Expr):
            continue
        seen.add(node)
        if type(node) is Realize and node.name == name:
            return True
        pending.extend(node.children())
    return False


def _explicit_bounds(function: Function) -> list[Stmt]:
    """Checks that what the user promised of the bounds covers what is required.

    Bounds inference defines "f.s0.x.min_unbounded" and "...max_unbounded", the region required
    before the promise was applied.
    """
    checks: list[Stmt] = []
    for stage in reversed(range(len(function.updates) + 1)):
        for bound in reversed(function.schedule.bounds):
            # Aligned bounds only ever grow, so there is nothing to check.
            if bound.extent is None:
                continue
            stem = f"{function.name}.s{stage}.{bound.var}"
            low, high = var(f"{stem}.min_unbounded"), var(f"{stem}.max_unbounded")
            given_low = low if bound.min is None else bound.min
            given_high = sub(add(bound.extent, given_low), 1)
            site = ErrorSite(
                BoundsError,
                f"{function.name} was promised to stay within {{0}}..{{1}} in {bound.var}, "
                "but {2}..{3} is needed",
                bound.where or function.where,
            )
            condition = logical_and(le(given_low, low), ge(given_high, high))
            checks.append(AssertStmt(condition, site, (given_low, given_high, low, high)))
    return checks
