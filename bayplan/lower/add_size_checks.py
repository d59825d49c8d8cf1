"""Checks that sizes and coordinates which grow with a parameter fit the 32 bits of an index."""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.analysis.purity import reads_memory
from bayplan.ir.build import (
    block,
    const,
    constant_value,
)
from bayplan.ir.errors import AllocationTooLarge, ErrorSite
from bayplan.ir.exprs import Add, Call, Div, Expr, Mul, Sub, Variable
from bayplan.ir.source import SourceLine
from bayplan.ir.stmts import Allocate, AssertStmt, For, LetStmt, Stmt
from bayplan.ir.types import INT32, INT64
from bayplan.ir.walk import StmtRewriter, free_variables, iterate
from bayplan.language.parameter import Parameter
from bayplan.lower.context import Lowering
from bayplan.lower.wide import INT32_MAX, Widen, fits


def add_size_checks(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Asserts, outside of all loops, that index arithmetic with parameters does not overflow.

    Checked is what extents of temporaries and of loops are made of: the lets that they use and the
    extents themselves, computed anew in 64 bits. Values of the algorithm may wrap as they like.
    Extents of buffers alone are of memory that exists, so that only their products are checked.

    Order: after plan_storage, which computes the sizes of all temporaries outside of loops; what
    it allocates comes behind the checks.
    """
    checks = _AddChecks(lowering, _find_needed(stmt))
    result: Stmt = checks(stmt)
    return result


def _find_needed(stmt: Stmt) -> set[str]:
    """Names of the lets that sizes and loops use, directly or through other lets."""
    values: dict[str, Expr] = {}
    names: set[str] = set()
    for node in iterate(stmt):
        if type(node) is LetStmt:
            values[node.name] = node.value
            for size in _sizes_in(node.value):
                names |= free_variables(size)
        elif type(node) is For:
            names |= free_variables(node.min) | free_variables(node.extent)
        elif type(node) is Allocate:
            for extent in node.extents:
                names |= free_variables(extent)
    needed: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in values and name not in needed:
            needed.add(name)
            pending += free_variables(values[name])
    return needed


def _sizes_in(e: Expr) -> Iterator[Expr]:
    """The extents in the sizes of temporaries that an expression asks for."""
    for node in iterate(e):
        if type(node) is Call and node.name == "size_in_bytes":
            yield from node.args[2:]


class _AddChecks(StmtRewriter):
    def __init__(self, lowering: Lowering, needed: set[str]) -> None:
        super().__init__()
        self._lowering = lowering
        self._needed = needed
        # Names whose values can be anything that a parameter or an element can be.
        self._grown: set[str] = set()
        self._widen = Widen()
        self._done: set[Expr] = set()

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        value = node.value
        checks: list[Stmt] = []
        if node.name in self._needed:
            if reads_memory(value):
                # An element of an input, which can be anything too.
                self._grown.add(node.name)
            elif value.type is INT32:
                if self._is_grown(value):
                    self._grown.add(node.name)
                checks += self._check(value, node.name)
        before = [c for size in _sizes_in(value) for c in self._check(size, node.name)]
        body = block([*checks, self(node.body)])
        return block([*before, LetStmt(node.name, value, body)])

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        before = [c for extent in node.extents for c in self._check(extent, node.name)]
        return block([*before, node.with_body(self(node.body))])

    def rewrite_For(self, node: For) -> Stmt:
        # In a loop nothing is checked: its body is as it is.
        before = [*self._check(node.min, node.name), *self._check(node.extent, node.name)]
        return block([*before, node])

    def _is_grown(self, e: Expr) -> bool:
        return any(
            type(n) is Variable
            and (
                n.name in self._grown
                or (isinstance(n.source, Parameter) and not n.source.is_buffer)
            )
            for n in iterate(e)
        )

    def _check(self, e: Expr, name: str) -> list[Stmt]:
        if e.type is not INT32 or e in self._done:
            return []
        computes = any(type(n) in (Add, Sub, Mul) for n in iterate(e))
        if not computes or not (self._is_grown(e) or (_scales_a_size(e) and not _searches(e))):
            return []
        self._done.add(e)
        wide = self._widen(e)
        func, where = self._find_func(name)
        site = ErrorSite(
            AllocationTooLarge,
            f"{func} reaches {{0}} ({name}), but 32-bit indices reach {{1}} elements",
            where,
        )
        return [AssertStmt(fits(wide), site, (wide, const(INT64, INT32_MAX)))]

    def _find_func(self, name: str) -> tuple[str, SourceLine | None]:
        """The Func that a let, a loop or a temporary belongs to, and its line."""
        env = self._lowering.env
        stem = name
        while stem and stem not in env:
            stem = stem.rpartition(".")[0]
        return (stem, env[stem].where) if stem else (name, None)


def _searches(e: Expr) -> bool:
    """Whether the iterations of a loop are tried, which is not done twice without need."""
    return any(type(n) is Call and n.name == "largest_over" for n in iterate(e))


def _scales_a_size(e: Expr) -> bool:
    """Whether something is multiplied beyond what a division has taken from it."""
    for n in iterate(e):
        if type(n) is not Mul or not free_variables(n):
            continue
        quotient, factor = n.a, constant_value(n.b)
        divisor = constant_value(quotient.b) if type(quotient) is Div else None
        if factor is None or divisor is None or abs(factor) > divisor:
            return True
    return False
