"""Checks scalar parameters against the range the user gave them."""

from __future__ import annotations

from bayplan.ir.build import block, ge, le, maximum, minimum
from bayplan.ir.errors import ConstraintError, ErrorSite
from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.stmts import AssertStmt, LetStmt, Stmt
from bayplan.ir.walk import iterate, substitute
from bayplan.language.parameter import Parameter
from bayplan.lower.context import Lowering


def add_parameter_checks(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Asserts each ranged parameter's range, and lets the rest of the program rely on it.

    The program reads the parameter through a let that is clamped to the range, so that bounds
    analysis knows it.
    """
    found: dict[str, Variable] = {}
    for node in iterate(stmt):
        if type(node) is Variable and isinstance(node.source, Parameter):
            p = node.source
            if not p.is_buffer and (p.min_value is not None or p.max_value is not None):
                found[node.name] = node
    asserts: list[Stmt] = []
    lets: list[tuple[str, Expr]] = []
    replaced: dict[str, Expr] = {}
    for name, value in sorted(found.items()):
        parameter = value.source
        clamped: Expr = value
        if parameter.min_value is not None:
            site = ErrorSite(
                ConstraintError,
                f"parameter {parameter.name} is {{0}}, below its minimum {{1}}",
                parameter.where,
            )
            limit = parameter.min_value
            asserts.append(AssertStmt(ge(value, limit), site, (value, limit)))
            clamped = maximum(clamped, limit)
        if parameter.max_value is not None:
            site = ErrorSite(
                ConstraintError,
                f"parameter {parameter.name} is {{0}}, above its maximum {{1}}",
                parameter.where,
            )
            limit = parameter.max_value
            asserts.append(AssertStmt(le(value, limit), site, (value, limit)))
            clamped = minimum(clamped, limit)
        lets.append((f"{name}.constrained", clamped))
        replaced[name] = Variable(value.type, f"{name}.constrained")
    result = substitute(replaced, stmt)
    for name, constrained in reversed(lets):
        result = LetStmt(name, constrained, result)
    return block([*asserts, result])
