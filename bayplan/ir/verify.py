"""States which nodes are legal after which stage of lowering, and checks it."""

from __future__ import annotations

from bayplan.ir.stmts import Stmt

STAGES = ("scheduled", "flattened", "unrolled", "vectorized", "final")


def verify(stmt: Stmt, stage: str, arguments: frozenset[str] = frozenset()) -> None:
    """Raise InternalError where the statement breaks a rule of the stage.

    Args:
        stmt: the whole program.
        stage: one of STAGES.
        arguments: names of scalar arguments and buffers that are defined from outside.
    """
    assert stage in STAGES, stage
