"""Checks split factors that are known only at the call."""

from __future__ import annotations

from typing import Any

from bayplan.ir.build import block, constant_value, gt
from bayplan.ir.errors import ErrorSite, ScheduleError
from bayplan.ir.exprs import Expr
from bayplan.ir.stmts import AssertStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import StmtRewriter
from bayplan.language.function import Definition
from bayplan.lower.context import Lowering


def add_factor_checks(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Asserts before each production that its split factors are positive.

    Order: after infer_bounds, so that the checks are no part of any region.
    """
    checks: dict[str, list[Stmt]] = {}
    for name, function in lowering.env.items():
        found: dict[Expr, Stmt] = {}
        for definition in function.stages():
            _find_factors(name, definition, found)
        if found:
            checks[name] = list(found.values())
    return _AddChecks(checks)(stmt) if checks else stmt


def _find_factors(name: str, definition: Definition, found: dict[Expr, Stmt]) -> None:
    for split in definition.schedule.splits:
        factor = split.factor
        if factor is None or factor in found or constant_value(factor) is not None:
            continue
        site = ErrorSite(
            ScheduleError,
            f"{split.old} of {name} is split by {{0}} ({factor}); a factor must be positive",
            split.where,
        )
        found[factor] = AssertStmt(gt(factor, 0), site, (factor,))
    for special in definition.specializations:
        _find_factors(name, special.definition, found)


class _AddChecks(StmtRewriter):
    def __init__(self, checks: dict[str, list[Stmt]]) -> None:
        super().__init__()
        self._checks = checks

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Any:
        result = ProducerConsumer(node.name, node.is_producer, self(node.body))
        if node.is_producer and node.name in self._checks:
            return block([*self._checks[node.name], result])
        return result
