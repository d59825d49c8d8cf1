"""Updates that no other thread may come between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.ir import stmts as S

if TYPE_CHECKING:
    from bayplan.targets.kernel_statements import KernelWriter


def write_atomic(kw: KernelWriter, s: S.Atomic) -> None:
    """Writes an atomic update."""
    raise NotImplementedError
