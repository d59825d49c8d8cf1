"""Runs hand-built kernels and lowered pipelines with kernels in the interpreter of threads."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.ir.stmts import Stmt
from tests.storage.interpret_kernels import ORDERS, KernelInterpreter


def ints(values: Sequence[int]) -> bytes:
    """Elements of an int32 buffer."""
    return struct.pack(f"<{len(values)}i", *values)


def run_kernel(
    stmt: Stmt,
    outputs: Mapping[str, int],
    inputs: Mapping[str, Sequence[int]],
    values: Mapping[str, int] | None = None,
    orders: Sequence[str] = ORDERS,
) -> dict[str, list[int]]:
    """Runs a statement in several orders of its threads, on int32 buffers.

    Args:
        outputs: elements of each.
        inputs: contents of each.

    Returns:
        what the outputs hold, which is the same for all orders.

    Raises:
        Faulty: there is a race, or an access went astray.
    """
    buffers: dict[str, bytes | int] = {n: ints(v) for n, v in inputs.items()}
    buffers.update({n: 4 * count for n, count in outputs.items()})
    found: dict[str, list[int]] | None = None
    for seed, order in enumerate(orders):
        machine = KernelInterpreter(values or {}, buffers, order=order, seed=seed)
        machine.run(stmt)
        got = {n: _read(machine, n) for n in outputs}
        assert found is None or found == got, (found, got)
        found = got
    assert found is not None
    return found


def _read(machine: Any, name: str) -> list[int]:
    data = machine.content(name)
    return list(struct.unpack(f"<{len(data) // 4}i", data))
