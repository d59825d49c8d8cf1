"""Runs hand-built kernels and lowered pipelines with kernels in the interpreter of threads."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import bayplan as hl
from bayplan.ir.exprs import Call
from bayplan.ir.memory import MemoryType
from bayplan.ir.node import compilation
from bayplan.ir.stmts import Allocate, Stmt
from bayplan.ir.walk import iterate
from bayplan.lower.pipeline import lower
from tests.differential.program import Program
from tests.storage.interpret_kernels import ORDERS, KernelInterpreter
from tests.storage.run_bytes import compare_outputs, interpreter_for, lower_program


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


def run_program_on_device(program: Program, *, seed: int = 0, limit: int = 60_000) -> Counter[str]:
    """Lowers a program for a device, runs it thread by thread, and compares with the evaluator.

    Returns:
        what the run had: kernels, barriers, shared memory.

    Raises:
        Faulty: there is a race, or an access went astray.
        Unsupported: the interpreter cannot run it.
    """
    order = ORDERS[seed % len(ORDERS)]
    with compilation():
        lowered, _kept = lower_program(program, hl.Target("host-opencl"))
        copies = any(
            isinstance(n, Call) and n.name == "device_copy_in" for n in iterate(lowered.body)
        )
        machine = interpreter_for(
            lowered, program, KernelInterpreter, seed=seed, limit=limit, order=order, device=copies
        )
        machine.run(lowered.body)
        outputs = [a for a in lowered.arguments if a.kind == "output_buffer"]
        shared = any(
            isinstance(n, Allocate) and n.memory_type is MemoryType.GPUShared
            for n in iterate(lowered.body)
        )
    compare_outputs(program, outputs, machine)
    return Counter(kernels=machine.kernels, barriers=machine.barriers, shared=int(shared))


class _Box:
    """What `interpreter_for` asks of a program."""

    def __init__(self, kinds: list[str], mins: Sequence[int], extents: Sequence[int]) -> None:
        self.kinds = kinds
        self.mins = list(mins)
        self.extents = list(extents)


def run_func_on_device(
    func: hl.Func,
    mins: Sequence[int],
    extents: Sequence[int],
    *,
    order: str,
    limit: int = 10**6,
    target: str = "host-opencl",
) -> tuple[Any, KernelInterpreter]:
    """Runs a scheduled Func thread by thread.

    Returns:
        the array of its only output, and the interpreter.
    """
    import numpy as np

    with compilation():
        lowered = lower([func._function], hl.Target(target), func.name())
        (output,) = [a for a in lowered.arguments if a.kind == "output_buffer"]
        box: Any = _Box([""], mins, extents)
        machine = interpreter_for(
            lowered, box, KernelInterpreter, order=order, limit=limit, device=True
        )
        machine.run(lowered.body)
    letter = {"float": "f", "uint": "u", "int": "i"}[output.type.kind]
    dtype = np.dtype(f"{letter}{output.type.bytes()}")
    data = np.frombuffer(machine.content(output.name), dtype)
    return data.reshape(tuple(reversed(extents))), machine


def _read(machine: Any, name: str) -> list[int]:
    data = machine.content(name)
    return list(struct.unpack(f"<{len(data) // 4}i", data))
