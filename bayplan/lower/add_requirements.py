"""Checks the conditions that `Pipeline.add_requirement` put on a call."""

from __future__ import annotations

from bayplan.ir.build import block
from bayplan.ir.errors import ErrorSite, RequirementFailed
from bayplan.ir.exprs import Expr, StringImm
from bayplan.ir.stmts import AssertStmt, Stmt
from bayplan.language.function import Requirement
from bayplan.lower.context import Lowering


def add_requirements(stmt: Stmt, lowering: Lowering) -> Stmt:
    """Asserts each requirement before anything else of the call."""
    requirements = [r for name in lowering.outputs for r in lowering.env[name].requirements]
    return block([*[_assert(r) for r in requirements], stmt])


def _assert(requirement: Requirement) -> Stmt:
    parts: list[str] = []
    args: list[Expr] = []
    for part in requirement.message:
        if type(part) is StringImm:
            parts.append(part.value.replace("{", "{{").replace("}", "}}"))
        else:
            parts.append(f"{{{len(args)}}}")
            args.append(part)
    text = " ".join(parts) or "a requirement of the pipeline does not hold"
    site = ErrorSite(RequirementFailed, text, requirement.where)
    return AssertStmt(requirement.condition, site, tuple(args))
