"""The kernels of a storage report: grids, launches, memory and barriers of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bayplan.analysis.evaluate import Number
from bayplan.ir.build import constant_value
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import MemoryType
from bayplan.ir.source import SourceLine
from bayplan.ir.stmts import Allocate, Stmt
from bayplan.storage.formula import write_numbers
from bayplan.storage.kernels import title_of
from bayplan.storage.launches import Launches, find_launches
from bayplan.storage.lives import find_lives
from bayplan.storage.measure import ON_STACK
from bayplan.storage.plan import Arena, KernelPlan
from bayplan.storage.read_plan import ArenaNumbers
from bayplan.storage.records import Barrier, Kernel, Temporary
from bayplan.storage.requests import align_up

FENCES: Final = ("", "shared", "global", "shared and global")
"""The memory that a barrier covers, by its fence."""


def make_kernels(
    plans: Sequence[KernelPlan],
    stmt: Stmt,
    values: Mapping[str, Number],
    temporaries: Sequence[Temporary],
    numbers: Mapping[str, ArenaNumbers],
    origins: Mapping[str, tuple[str, SourceLine | None]],
    functions: Mapping[str, str],
) -> tuple[Kernel, ...]:
    """The record of each kernel of a call.

    Args:
        plans: of the kernels, in program order.
        stmt: the statement with their barriers, as users are shown it.
        values: the call's sizes and scalars by name.
        temporaries: the records of all.
        numbers: of arenas by name; those whose sizes are not known are left out.
        origins: by name of a Func or temporary, the Func and the user's line.
        functions: by title, the name in the device source.
    """
    launches = find_launches(stmt, values)
    made = []
    for plan in plans:
        found = launches.get(plan.title)
        if found is None:
            continue
        mine = [t for t in temporaries if t.kernel == plan.title]
        func = _func_of(plan.title)
        func, where = origins.get(func, (func, None))
        shared, device = _sizes(plan.shared, numbers), _sizes(plan.device, numbers)
        record = Kernel(
            name=plan.title,
            function=functions.get(plan.title, ""),
            func=func,
            source=where,
            launches=found.count,
            blocks=found.most_blocks,
            threads=found.most_threads,
            blocks_formula=_formula(found, found.blocks),
            threads_formula=_formula(found, found.threads),
            register_bytes=measure_thread(found.node),
            shared="" if plan.shared is None else plan.shared.name,
            shared_bytes=shared[0],
            shared_floor_bytes=shared[1],
            device="" if plan.device is None else plan.device.name,
            slice_bytes=device[0],
            slice_floor_bytes=device[1],
            temporaries=tuple(dict.fromkeys([t.name for t in mine])),
            barriers=_barriers(found, plan.steps[0]),
            life_begin=plan.steps[0],
            life_end=plan.steps[1],
            notes=_notes(mine),
            exact=found.exact,
        )
        made.append(record)
    return tuple(made)


def _func_of(title: str) -> str:
    return title.partition(".s")[0]


def _sizes(
    arena: Arena | None, numbers: Mapping[str, ArenaNumbers]
) -> tuple[int | None, int | None]:
    """The bytes of a block's arena, as far as its end must be from its begin, and the floor."""
    if arena is None:
        return 0, 0
    known = numbers.get(arena.name)
    if known is None:
        return None, None
    if arena.kind is MemoryType.GPUShared:
        return known.bytes, known.floor_bytes
    return align_up(known.bytes, arena.alignment), known.floor_bytes


def _formula(launches: Launches, extents: tuple[Expr, ...]) -> tuple[str, ...]:
    return write_numbers(extents, launches.lets)


def _barriers(launches: Launches, first: int) -> tuple[Barrier, ...]:
    lives = find_lives(launches.node)
    # As the whole program numbers them.
    ((begin, _),) = lives.kernels.values()
    return tuple(
        [
            Barrier(
                step=first + step - begin,
                fence=FENCES[fence],
                loops=tuple([loop for loop in loops if not title_of(loop)]),
            )
            for step, fence, loops in lives.barriers
        ]
    )


def _notes(temporaries: Sequence[Temporary]) -> tuple[str, ...]:
    notes = [
        f"{t.name}: asked {MemoryType(t.asked).name}, got {MemoryType(t.kind).name}: {t.why}"
        for t in temporaries
        if t.why
    ]
    return tuple(dict.fromkeys(notes))


def measure_thread(kernel: Stmt) -> int:
    """The largest sum of bytes of a thread's own arrays that are in scope at one place."""
    known: dict[Stmt, int] = {}

    def most(s: Stmt) -> int:
        found = known.get(s)
        if found is None:
            inside = [most(c) for c in s.children() if isinstance(c, Stmt)]
            found = max(inside, default=0)
            if type(s) is Allocate and s.memory_type in ON_STACK and s.address is None:
                found += _constant_bytes(s)
            known[s] = found
        return found

    return most(kernel)


def _constant_bytes(s: Allocate) -> int:
    """Bytes of a thread's array; only what has a constant size is one."""
    elements = 1
    for extent in s.extents:
        elements *= max(int(constant_value(extent) or 0), 0)
    return (elements + s.padding) * s.type.bytes() * s.type.lanes() if elements else 0
