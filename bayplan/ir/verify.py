"""States which nodes are legal after which stage of lowering, and checks it.

Runs between passes in tests and under a debug setting. A break of a rule is a fault of a pass, not
of the user, so it is an `InternalError` that names the rule, the node and what encloses it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final, NoReturn

from bayplan.ir import exprs, stmts
from bayplan.ir.errors import InternalError
from bayplan.ir.exprs import Call, CallKind, Expr, Load, Ramp, Select, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import (
    Allocate,
    AssertStmt,
    Block,
    For,
    IfThenElse,
    LetStmt,
    Provide,
    Realize,
    Stmt,
    Store,
)

STAGES: Final = ("scheduled", "flattened", "unrolled", "vectorized", "kernels", "final")
"""Each stage keeps the rules of those before it; variables are defined from "flattened" on.

From "kernels" on every kernel has the form that `ir.verify_kernels` states.
"""

# Node class -> the stages in which it is legal: from, up to and including.
_STATEMENT_STAGES: Final[dict[type, tuple[str, str]]] = {
    Provide: ("scheduled", "scheduled"),
    Realize: ("scheduled", "scheduled"),
    stmts.HoistedStorage: ("scheduled", "flattened"),
    stmts.Prefetch: ("scheduled", "scheduled"),
    Allocate: ("flattened", "final"),
    Store: ("flattened", "final"),
    stmts.Free: ("flattened", "final"),
}

_LOOP_STAGES: Final = {
    ForKind.Unrolled: ("scheduled", "flattened"),
    ForKind.Vectorized: ("scheduled", "unrolled"),
}

_BUFFER_FIELD: Final = re.compile(r"\.(min|extent|stride)\.\d+$")


def verify(stmt: Stmt, stage: str, arguments: Collection[str] | None = None) -> None:
    """Raise InternalError where the statement breaks a rule of the stage.

    Args:
        stmt: the whole program.
        stage: one of STAGES.
        arguments: names of scalar arguments and buffers that are defined from outside. Without
            them every variable that belongs to a parameter, and every field of a buffer, counts
            as defined, and names of allocations are not checked.
    """
    assert stage in STAGES, stage
    _Verifier(STAGES.index(stage), arguments).statement(stmt)


class _Verifier:
    """Walks the statement with the names in scope."""

    def __init__(self, stage: int, arguments: Collection[str] | None) -> None:
        self._stage = stage
        self._arguments = arguments
        self._scope: dict[str, int] = {}
        self._allocated: dict[str, int] = {}
        self._path: list[str] = []
        self._in_kernel = False
        # Expressions found sound, with the free variables that still have to be in scope.
        self._sound: set[Expr] = set()

    def _fail(self, rule: str, node: Any) -> NoReturn:
        text = str(node)
        if len(text) > 400:
            text = text[:400] + " ..."
        within = " / ".join(self._path[-6:])
        where = f"; within {within}" if within else ""
        raise InternalError(f"{rule} (stage {STAGES[self._stage]}): {text}{where}")

    def _within_stages(self, node: Any, span: tuple[str, str], what: str) -> None:
        first, last = STAGES.index(span[0]), STAGES.index(span[1])
        if not first <= self._stage <= last:
            self._fail(f"{what} is not legal here", node)

    def statement(self, s: Any) -> None:
        """Check a statement and what is in it."""
        cls = type(s)
        span = _STATEMENT_STAGES.get(cls)
        if span is not None:
            self._within_stages(s, span, cls.__name__)
        rule = _STATEMENT_RULES.get(cls)
        if rule is not None:
            rule(self, s)
            return
        for child in s.children():
            if isinstance(child, Expr):
                self.expression(child)
            else:
                self.statement(child)

    def _bind(self, name: str, body: Any) -> None:
        self._scope[name] = self._scope.get(name, 0) + 1
        if isinstance(body, Expr):
            self.expression(body)
        else:
            self.statement(body)
        self._scope[name] -= 1

    def _let(self, s: LetStmt) -> None:
        self.expression(s.value)
        handle = s.value.type.kind == "handle"
        if handle:
            self._allocated[s.name] = self._allocated.get(s.name, 0) + 1
        self._bind(s.name, s.body)
        if handle:
            self._allocated[s.name] -= 1

    def _loop(self, s: For) -> None:
        span = _LOOP_STAGES.get(s.kind)
        if span is not None:
            self._within_stages(For(s.name, s.min, s.extent, s.kind, s.partition, _EMPTY), span,
                                f"a {s.kind.value} loop")  # fmt: skip
        for e in (s.min, s.extent):
            self.expression(e)
            if e.type.kind != "int" or e.type.lane_count != 1:
                self._fail("a loop's range is a scalar integer", e)
        is_kernel = s.kind is ForKind.GPUBlock and self._stage >= STAGES.index("kernels")
        if is_kernel and not self._in_kernel:
            from bayplan.ir.verify_kernels import verify_kernel

            verify_kernel(s, self._fail)
            self._in_kernel = True
            self._inside(s)
            self._in_kernel = False
        else:
            self._inside(s)

    def _inside(self, s: For) -> None:
        self._path.append(f"for {s.name}")
        self._bind(s.name, s.body)
        self._path.pop()

    def _branch(self, s: IfThenElse) -> None:
        self._condition(s.condition)
        self.statement(s.then_case)
        if s.else_case is not None:
            self.statement(s.else_case)

    def _check(self, s: AssertStmt) -> None:
        self._condition(s.condition)
        for arg in s.args:
            self.expression(arg)

    def _condition(self, e: Expr) -> None:
        self.expression(e)
        if e.type.width != 1 or e.type.lane_count != 1:
            self._fail("a condition is a scalar bool", e)

    def _block(self, s: Block) -> None:
        if len(s.stmts) < 2:
            self._fail("a block has at least two statements", s)
        for inner in s.stmts:
            if type(inner) is Block:
                self._fail("a block is not a direct member of a block", s)
            self.statement(inner)

    def _allocate(self, s: Allocate) -> None:
        self._condition(s.condition)
        for e in s.extents:
            self.expression(e)
        if s.address is not None:
            self._address(s.address)
        self._allocated[s.name] = self._allocated.get(s.name, 0) + 1
        self._path.append(f"allocate {s.name}")
        self.statement(s.body)
        self._path.pop()
        self._allocated[s.name] -= 1

    def _address(self, address: Call) -> None:
        """An alias stands in the scope of its arena."""
        arena, offset = address.args[-2:]
        if address.is_intrinsic("output_or_offset_pointer"):
            condition, output = address.args[:2]
            self._condition(condition)
            if type(output) is not Variable:
                self._fail("an alias of an output names it", address)
            self._memory(output.name, None, address)
        elif not address.is_intrinsic("offset_pointer"):
            self._fail("an alias is a call of offset_pointer or output_or_offset_pointer", address)
        if type(arena) is not Variable:
            self._fail("an alias names its arena", address)
        if not self._allocated.get(arena.name):
            self._fail("the arena of an alias is allocated around it", address)
        self.expression(offset)

    def _store(self, s: Store) -> None:
        for e in s.children():
            self.expression(e)
        self._memory(s.name, s.source, s)
        if s.value.type.lane_count != s.index.type.lane_count:
            self._fail("value and index of a store have the same lanes", s)
        self._predicate(s.predicate, s.index, s)

    def _predicate(self, predicate: Expr | None, index: Expr, node: Any) -> None:
        if predicate is None:
            return
        if predicate.type.width != 1 or predicate.type.lane_count != index.type.lane_count:
            self._fail("a predicate has a bool for each lane", node)

    def _memory(self, name: str, source: Any, node: Any) -> None:
        if self._arguments is None or source is not None or self._allocated.get(name):
            return
        if name not in self._arguments:
            self._fail(f'"{name}" is neither allocated here nor an argument', node)

    def expression(self, e: Any) -> None:
        """Check an expression: types, kinds of calls, and that its variables are in scope."""
        if e in self._sound:
            self._variables(e)
            return
        stack = [e]
        while stack:
            node = stack.pop()
            if node in self._sound:
                continue
            self._sound.add(node)
            rule = _EXPRESSION_RULES.get(type(node))
            if rule is not None:
                rule(self, node)
            stack.extend(node.children())
        self._variables(e)

    def _variables(self, e: Expr) -> None:
        from bayplan.ir.walk import free_variables

        if self._stage == 0:
            # Required and realised regions are names until bounds inference has defined them.
            return
        for name in free_variables(e):
            if not self._scope.get(name) and not self._is_known(name, e):
                self._fail(f'the variable "{name}" is not defined here', e)

    def _is_known(self, name: str, e: Expr) -> bool:
        if self._arguments is not None:
            return name in self._arguments or _BUFFER_FIELD.sub("", name) in self._arguments
        return bool(_BUFFER_FIELD.search(name)) or _belongs_to_parameter(name, e)

    def _load(self, e: Load) -> None:
        self._within_stages(e, ("flattened", "final"), "Load")
        self._memory(e.name, e.source, e)
        self._predicate(e.predicate, e.index, e)

    def _call(self, e: Call) -> None:
        if e.kind is CallKind.FUNC or e.kind is CallKind.IMAGE:
            self._within_stages(e, ("scheduled", "scheduled"), f"a call of kind {e.kind.value}")
        if self._stage == len(STAGES) - 1 and e.name in ("likely", "likely_if_innermost"):
            self._fail("no likely mark is left", e)

    def _select(self, e: Select) -> None:
        lanes = e.condition.type.lane_count
        if e.condition.type.width != 1 or lanes not in (1, e.type.lane_count):
            self._fail("the condition of a select is one bool, or one for each lane", e)

    def _ramp(self, e: Ramp) -> None:
        if e.base.type.kind == "float" or e.base.type.width == 1:
            self._fail("a ramp is of integers", e)

    def _logic(self, e: Any) -> None:
        if e.type.width != 1:
            self._fail("operands of logic are bools", e)


def _belongs_to_parameter(name: str, e: Expr) -> bool:
    from bayplan.ir.walk import iterate

    for node in iterate(e):
        if type(node) is Variable and node.name == name and node.source is not None:
            return True
    return False


_EMPTY: Final = Block(())

_STATEMENT_RULES: Final[dict[type, Any]] = {
    LetStmt: _Verifier._let,
    For: _Verifier._loop,
    IfThenElse: _Verifier._branch,
    AssertStmt: _Verifier._check,
    Block: _Verifier._block,
    Allocate: _Verifier._allocate,
    Store: _Verifier._store,
}

_EXPRESSION_RULES: Final[dict[type, Any]] = {
    Load: _Verifier._load,
    Call: _Verifier._call,
    Select: _Verifier._select,
    Ramp: _Verifier._ramp,
    exprs.And: _Verifier._logic,
    exprs.Or: _Verifier._logic,
    exprs.Not: _Verifier._logic,
}

__all__ = ["STAGES", "verify"]
