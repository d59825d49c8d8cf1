"""The records of a storage report: frozen data that views, the command line and users read."""

from __future__ import annotations

from typing import Any

from bayplan.ir.source import SourceLine
from bayplan.storage.requests import align_up


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
        kind: "register", "stack", "heap", "gpu_shared" or "gpu_global".
        asked: the kind that the schedule asked for: "auto", "stack", ...
        why: why it got another kind than it asked for; "" where it did not.
        element_type: such as "uint16".
        extents: elements in each dimension, innermost first: the most it has in the call.
        bytes: what one copy takes; the largest where it differs between iterations.
        formula: of the bytes, in the user's names and those of the report's terms; division rounds
            down.
        copies: how many may be held at once: workers of the parallel loops around it.
        life_begin, life_end: half-open interval of steps.
        loops: names of the loops around it, outermost first.
        source: the user's line that defines its Func, or None.
        arena: name of the arena its bytes are in, or of the output that it lives in until that is
            stored; its own name where it has memory of its own; "stack", or "thread" for what
            each thread of a device has.
        kernel: the title of the kernel that it is in, "" for none.
        offset: bytes from the begin of the arena to its own, None on the stack.
        shares: names of the temporaries whose bytes are the same ones at other steps, and of the
            output.
        in_place_of: name of the temporary that it replaces element by element in the same bytes;
            "" for none.
        per_worker: whether each worker holds its own.
    """

    __slots__ = (
        "arena",
        "asked",
        "bytes",
        "copies",
        "element_type",
        "extents",
        "formula",
        "func",
        "in_place_of",
        "kernel",
        "kind",
        "life_begin",
        "life_end",
        "loops",
        "name",
        "offset",
        "per_worker",
        "shares",
        "source",
        "why",
    )

    arena: str
    asked: str
    bytes: int
    copies: int
    element_type: str
    extents: tuple[int, ...]
    formula: str
    func: str
    in_place_of: str
    kernel: str
    kind: str
    life_begin: int
    life_end: int
    loops: tuple[str, ...]
    name: str
    offset: int | None
    per_worker: bool
    shares: tuple[str, ...]
    source: SourceLine | None
    why: str


class Arena(_Frozen):
    """A place that holds temporaries.

    Attributes:
        name: name in the emitted code; "stack" for the stack.
        kind: of memory: "heap", "stack", "gpu_shared" or "gpu_global".
        kernel: the title of the kernel that it is for, "" for none.
        bytes: what one takes; floor_bytes: the least it could take.
        copies: how many there are at once: one a worker, in device memory one a block.
        scope: "call", "thread", "block" of a kernel, or the loop whose workers have one each.
        alignment: bytes that each one is aligned to.
        arena: the arena that it is a part of itself, "" for none.
        offset: bytes from the begin of that arena to its first copy.
        life_begin, life_end: half-open interval of steps in which it is there.
    """

    __slots__ = (
        "alignment",
        "arena",
        "bytes",
        "copies",
        "floor_bytes",
        "kernel",
        "kind",
        "life_begin",
        "life_end",
        "name",
        "offset",
        "scope",
    )

    alignment: int
    arena: str
    bytes: int
    copies: int
    floor_bytes: int
    kernel: str
    kind: str
    life_begin: int
    life_end: int
    name: str
    offset: int
    scope: str

    @property
    def stride_bytes(self) -> int:
        """Bytes from the begin of one copy to that of the next."""
        return align_up(self.bytes, self.alignment)


class Barrier(_Frozen):
    """A place in a kernel where the threads of a block wait for each other.

    Attributes:
        step: the step of the report that it stands before.
        fence: the memory that it covers: "shared", "global" or "shared and global".
        loops: names of the loops around it in the block, outermost first; it is passed in each
            iteration.
    """

    __slots__ = ("fence", "loops", "step")

    fence: str
    loops: tuple[str, ...]
    step: int


class Kernel(_Frozen):
    """One kernel of a call.

    Attributes:
        name: its title, which arenas and temporaries call it by: "blur_y.s0.kernel".
        function: its name in the device source and in profilers; "" where it is not known.
        func: name of the Func that it computes.
        source: the user's line that defines the Func, or None.
        launches: how often the call launches it; without blocks there is no launch.
        blocks, threads: of its largest launch, in x, y, z: blocks, and threads of a block.
        blocks_formula, threads_formula: the same in the user's names, each "" where it is too
            long or differs between launches; division rounds down.
        register_bytes: of the arrays that one thread has for itself; values that have no array
            are the device's compiler's.
        shared: name of the arena in a block's shared memory, "" for none.
        shared_bytes: what a block needs of it, None where only the call knows.
        shared_floor_bytes: the least that any plan could take.
        device: name of the arena that each block has in global memory, "" for none.
        slice_bytes: what a block needs of that, to the slice of the next one.
        slice_floor_bytes: the least that any plan could take.
        temporaries: names of what lives in it, in program order.
        barriers: in program order, as they stand in the source.
        life_begin, life_end: half-open interval of the report's steps that are its own: a loop
            over threads is one step.
        notes: what was asked for and not given, and why.
        exact: False where the numbers of launches, blocks and threads are bounds or not known.
    """

    __slots__ = (
        "barriers",
        "blocks",
        "blocks_formula",
        "device",
        "exact",
        "func",
        "function",
        "launches",
        "life_begin",
        "life_end",
        "name",
        "notes",
        "register_bytes",
        "shared",
        "shared_bytes",
        "shared_floor_bytes",
        "slice_bytes",
        "slice_floor_bytes",
        "source",
        "temporaries",
        "threads",
        "threads_formula",
    )

    barriers: tuple[Barrier, ...]
    blocks: tuple[int, ...]
    blocks_formula: tuple[str, ...]
    device: str
    exact: bool
    func: str
    function: str
    launches: int
    life_begin: int
    life_end: int
    name: str
    notes: tuple[str, ...]
    register_bytes: int
    shared: str
    shared_bytes: int | None
    shared_floor_bytes: int | None
    slice_bytes: int | None
    slice_floor_bytes: int | None
    source: SourceLine | None
    temporaries: tuple[str, ...]
    threads: tuple[int, ...]
    threads_formula: tuple[str, ...]


class StorageReport(_Frozen):
    """What one call takes, for each temporary and in all.

    Attributes:
        pipeline: its name.
        temporaries: in program order.
        arenas: the call's, those of workers, "stack" where something is on it, and those in
            the memory of a device: the call's, and the shared and global ones of its kernels.
        kernels: in program order.
        allocations: how often the call asks its allocator for memory.
        peak_bytes: heap bytes that the call holds at its peak, as its allocator counts them; with
            a workspace the bytes that this must have from an aligned address on.
        floor_bytes: the largest sum of heap bytes alive at one step; no plan takes less.
        sum_bytes: all heap temporaries side by side.
        formula: of the peak, in names of temporaries, which stand for their bytes rounded up as
            they are aligned; "" where it depends on how they are placed.
        floor_formula: of the floor, likewise; "" where it is too long.
        terms: the names in formulas that stand for something longer, and what that is.
        device_bytes: device memory that the call holds at its peak.
        device_floor_bytes: the least of it that any plan takes.
        stack_bytes: the largest sum of stack temporaries alive together, in one thread.
        workers: threads of a parallel loop that the numbers count on.
        steps: what happens at each step.
        exact: False where the numbers are bounds: a size depends on data, or tasks of a parallel
            loop take memory of their own, not all at one moment.
    """

    __slots__ = (
        "allocations",
        "arenas",
        "device_bytes",
        "device_floor_bytes",
        "exact",
        "floor_bytes",
        "floor_formula",
        "formula",
        "kernels",
        "peak_bytes",
        "pipeline",
        "stack_bytes",
        "steps",
        "sum_bytes",
        "temporaries",
        "terms",
        "workers",
    )

    allocations: int
    arenas: tuple[Arena, ...]
    device_bytes: int
    device_floor_bytes: int
    exact: bool
    floor_bytes: int
    floor_formula: str
    formula: str
    kernels: tuple[Kernel, ...]
    peak_bytes: int
    pipeline: str
    stack_bytes: int
    steps: tuple[str, ...]
    sum_bytes: int
    temporaries: tuple[Temporary, ...]
    terms: tuple[tuple[str, str], ...]
    workers: int

    @property
    def required_bytes(self) -> int:
        """The bytes that a call needs, known before it: the same number as `peak_bytes`."""
        return self.peak_bytes

    def __iter__(self) -> Any:
        return iter(self.temporaries)

    def __len__(self) -> int:
        return len(self.temporaries)

    def __getitem__(self, name: Any) -> Temporary:
        """The temporary of that name, or of that Func or the Func of that name.

        The `$2` that keeps a Func apart from earlier ones of its name may be left out.
        """
        if not isinstance(name, str):
            name = name.name()
        for temporary in self.temporaries:
            if name in (temporary.name, temporary.func):
                return temporary
        for temporary in self.temporaries:
            if temporary.func.partition("$")[0] == name:
                return temporary
        known = ", ".join([t.name for t in self.temporaries]) or "none"
        raise KeyError(f"no temporary {name!r}; there are: {known}")

    def kernel(self, name: str) -> Kernel:
        """The kernel of that title or function, or the one that computes the Func of that name."""
        for kernel in self.kernels:
            if name in (kernel.name, kernel.function):
                return kernel
        for kernel in self.kernels:
            if name in (kernel.func, kernel.func.partition("$")[0]):
                return kernel
        known = ", ".join([k.name for k in self.kernels]) or "none"
        raise KeyError(f"no kernel {name!r}; there are: {known}")

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

    def explain(self) -> str:
        """One line for each temporary: what it is, its size as a formula and now, when, shared."""
        from bayplan.view.storage_text import explain_storage

        return explain_storage(self)

    def to_html(self) -> str:
        """A page that stands alone: the picture of each arena, and the table by loops."""
        from bayplan.view.storage_html import render_storage_page

        return render_storage_page(self)

    def to_svg(self) -> str:
        """The picture of each arena, address over steps, as an SVG file's text."""
        from bayplan.view.storage_svg import render_storage_svg

        return render_storage_svg(self)
