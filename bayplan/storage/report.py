"""The storage report: what each temporary of a call is, where it lives and when.

Frozen data, made once from the final statement and the sizes of a call; views, the command line
and users read it. Its pictures are drawn by `bayplan.view`, imported when one is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.analysis.evaluate import Number
from bayplan.ir.memory import MemoryType
from bayplan.ir.source import SourceLine
from bayplan.ir.stmts import Stmt
from bayplan.storage.lives import Life, find_lives
from bayplan.storage.measure import HEAP, ON_STACK, Measured, measure


class _Frozen:
    """A record whose fields cannot be set again."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, **fields: Any) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, fields.pop(name))
        assert not fields, fields

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __repr__(self) -> str:
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__slots__])
        return f"{type(self).__name__}({fields})"


class Temporary(_Frozen):
    """One temporary of a call.

    Attributes:
        name: name in the emitted code; `func` the name of its Func.
        kind: "stack" or "heap".
        element_type: such as "uint16".
        extents: elements in each dimension as allocated, innermost first.
        bytes: what one copy takes; the largest where it differs between iterations.
        copies: how many may be held at once: workers of the parallel loops around it.
        allocations: how often it is allocated in the call.
        life_begin, life_end: half-open interval of steps.
        loops: names of the loops around it, outermost first.
        source: the user's line that defines its Func, or None.
        arena: name of the arena its bytes are in.
        per_worker: whether each worker holds its own.
    """

    __slots__ = (
        "allocations",
        "arena",
        "bytes",
        "copies",
        "element_type",
        "extents",
        "func",
        "kind",
        "life_begin",
        "life_end",
        "loops",
        "name",
        "per_worker",
        "source",
    )

    allocations: int
    arena: str
    bytes: int
    copies: int
    element_type: str
    extents: tuple[int, ...]
    func: str
    kind: str
    life_begin: int
    life_end: int
    loops: tuple[str, ...]
    name: str
    per_worker: bool
    source: SourceLine | None


class Arena(_Frozen):
    """A place that holds temporaries: name, the most bytes it holds at once, and its scope."""

    __slots__ = ("bytes", "name", "scope")

    bytes: int
    name: str
    scope: str


class StorageReport(_Frozen):
    """What one call takes, for each temporary and in all.

    Attributes:
        pipeline: its name.
        temporaries: in program order.
        arenas: "heap" and "stack", where something is in them.
        peak_bytes: heap bytes that the call holds at its peak, as its allocator counts them.
        floor_bytes: the largest sum of heap bytes alive at one step; no plan takes less.
        sum_bytes: all heap temporaries side by side.
        stack_bytes: the largest sum of stack temporaries alive together, in one thread.
        workers: threads of a parallel loop that the numbers count on. With more than one, the
            peak is reached only when all of them happen to hold their temporaries at once.
        steps: what happens at each step.
        exact: False where a size depends on data, so that the numbers are bounds.
    """

    __slots__ = (
        "arenas",
        "exact",
        "floor_bytes",
        "peak_bytes",
        "pipeline",
        "stack_bytes",
        "steps",
        "sum_bytes",
        "temporaries",
        "workers",
    )

    arenas: tuple[Arena, ...]
    exact: bool
    floor_bytes: int
    peak_bytes: int
    pipeline: str
    stack_bytes: int
    steps: tuple[str, ...]
    sum_bytes: int
    temporaries: tuple[Temporary, ...]
    workers: int

    def __iter__(self) -> Any:
        return iter(self.temporaries)

    def __len__(self) -> int:
        return len(self.temporaries)

    def __getitem__(self, name: str) -> Temporary:
        """The temporary of that name, or of the Func of that name."""
        for temporary in self.temporaries:
            if name in (temporary.name, temporary.func):
                return temporary
        known = ", ".join([t.name for t in self.temporaries]) or "none"
        raise KeyError(f"no temporary {name!r}; there are: {known}")

    def to_json(self) -> str:
        """The report as JSON, with a schema version."""
        import json

        from bayplan.view.storage_json import describe_storage

        return json.dumps(describe_storage(self), indent=2)

    def __str__(self) -> str:
        from bayplan.view.storage_text import render_storage_text

        return render_storage_text(self)

    def __rich__(self) -> Any:
        from bayplan.view.storage_text import render_storage_rich

        return render_storage_rich(self)

    def _repr_html_(self) -> str:
        from bayplan.view.storage_html import render_storage_html

        return render_storage_html(self)


def make_report(
    pipeline: str,
    stmt: Stmt,
    values: Mapping[str, Number],
    origins: Mapping[str, tuple[str, SourceLine | None]],
    workers: int = 1,
) -> StorageReport:
    """Makes the report of one call.

    Args:
        pipeline: name of the pipeline.
        stmt: its final statement.
        values: the call's sizes and scalars by name.
        origins: by name of a temporary, its Func and the user's line.
        workers: threads of a parallel loop.
    """
    lives = find_lives(stmt)
    heap = measure(stmt, values, HEAP, workers)
    stack = measure(stmt, values, ON_STACK, 1)
    temporaries = tuple([_temporary(life, heap, stack, origins, workers) for life in lives.lives])
    sizes = [t.bytes * t.copies for t in temporaries if t.kind == "heap"]
    arenas = []
    if any(t.kind == "heap" for t in temporaries):
        arenas.append(Arena(name="heap", bytes=heap.peak_bytes, scope="call"))
    if any(t.kind == "stack" for t in temporaries):
        arenas.append(Arena(name="stack", bytes=stack.peak_bytes, scope="thread"))
    return StorageReport(
        pipeline=pipeline,
        temporaries=temporaries,
        arenas=tuple(arenas),
        peak_bytes=heap.peak_bytes,
        floor_bytes=min(_floor(temporaries, len(lives.steps)), heap.peak_bytes),
        sum_bytes=sum(sizes),
        stack_bytes=stack.peak_bytes,
        workers=workers,
        steps=tuple(lives.steps),
        exact=heap.exact and stack.exact,
    )


def _temporary(
    life: Life,
    heap: Measured,
    stack: Measured,
    origins: Mapping[str, tuple[str, SourceLine | None]],
    workers: int,
) -> Temporary:
    on_heap = life.kind is MemoryType.Heap
    measured = heap if on_heap else stack
    size, extents = measured.sizes.get(life.node, (0, ()))
    func, where = origins.get(life.name, (life.name, None))
    copies = workers if life.in_parallel else 1
    return Temporary(
        name=life.name,
        func=func,
        kind="heap" if on_heap else life.kind.value,
        element_type=str(life.type),
        extents=extents,
        bytes=size,
        copies=copies,
        allocations=measured.counts.get(life.node, 0),
        life_begin=life.begin,
        life_end=life.end,
        loops=life.loops,
        source=where,
        arena="heap" if on_heap else "stack",
        per_worker=life.in_parallel,
    )


def _floor(temporaries: Iterable[Temporary], steps: int) -> int:
    """The largest sum of heap bytes alive at one step, by a sweep over the ends of lives."""
    change = [0] * (steps + 1)
    for t in temporaries:
        if t.kind == "heap" and t.life_begin < t.life_end:
            change[t.life_begin] += t.bytes * t.copies
            change[t.life_end] -= t.bytes * t.copies
    best = alive = 0
    for step in change:
        alive += step
        best = max(best, alive)
    return best


