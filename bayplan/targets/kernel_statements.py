"""How statements of kernels are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import InternalError, ScheduleError
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.types import INT64, Type
from bayplan.ir.walk import iterate
from bayplan.targets.c_names import memory_type, scalar_type
from bayplan.targets.c_stmts import StatementWriter
from bayplan.targets.c_storage import arena_of_alias, describe
from bayplan.targets.c_text import ADD, wrap
from bayplan.targets.c_writer import Binding, Lines, Pieces
from bayplan.targets.device_atomics import write_atomic, write_try
from bayplan.targets.device_language import PRIVATE, SHARED, STATIC_SHARED_BYTES
from bayplan.targets.kernel_waits import SOMETIMES, find_ends_of_loops, last_wait

if TYPE_CHECKING:
    from bayplan.targets.c import Emission
    from bayplan.targets.kernels import DeviceWriter, Kernel


class KernelWriter(StatementWriter):
    """Writes the statements of one kernel.

    Attributes:
        kernel: what is being written.
        declared: lines that stand at the begin of the function: memory of the block.
        arenas: by alias, the arena that its bytes are in.
    """

    w: DeviceWriter

    def __init__(self, emission: Emission, w: DeviceWriter, kernel: Kernel) -> None:
        super().__init__(emission, w)
        self.kernel = kernel
        self.declared: Lines = []
        self.arenas: dict[str, str] = {}
        # While an update is tried: its store, the line that ends a try, the type of its bits.
        self.trying: tuple[S.Store, Callable[[str], str], Type] | None = None

    def write(self, s: S.Stmt) -> None:
        _RULES[type(s)](self, s)

    # Plain statements

    def evaluate_on_device(self, s: S.Evaluate) -> None:
        value = s.value
        if isinstance(value, E.Call) and value.is_intrinsic("gpu_thread_barrier"):
            fence = build.constant_value(value.args[0])
            self.w.line(self.w.language.barrier(int(fence or 0)))
            return
        self.evaluate(s)

    def let_on_device(self, s: S.LetStmt) -> None:
        t = s.value.type
        if t.lane_count == 1 or s.name not in self.emission.live:
            self.let(s)
            return
        w = self.w
        w.begin_statement(s.value)
        texts = [w.scalar(w.measure.lane(s.value, k)) for k in range(t.lane_count)]
        parts = []
        for k, text in enumerate(texts):
            name = w.fresh(f"{s.name}_{k}")
            w.line(f"const {scalar_type(t.element_of())} {name} = {text[0]};")
            parts.append((k, 1, name))
        w.scope[s.name] = Binding("", "", Pieces(t, parts))
        self.write(s.body)

    def refuse_check(self, s: S.AssertStmt) -> None:
        raise ScheduleError(
            f"{self.kernel.title} has to check at run time that {s.site.template!r} is not so, "
            "which a kernel cannot do",
            s.site.where or self.w.where,
            hint="compute the Func on the host",
        )

    # Stores

    def store_on_device(self, s: S.Store) -> None:
        """All lanes of a vector are computed before one is stored, where that can be told."""
        w = self.w
        if isinstance(s.value, E.Call) and s.value.is_intrinsic("undef"):
            return
        if self.trying is not None:
            write_try(self, s.value)
            return
        roots = [s.value, s.index] + ([s.predicate] if s.predicate is not None else [])
        w.begin_statement(*roots)
        lanes = s.value.type.lane_count
        if lanes == 1:
            self._store_scalar(s)
            return
        lane = w.measure.lane
        if not self._reads_it(s):
            for k in range(lanes):
                self._store_lane(s, k)
            return
        computed = []
        for k in range(lanes):
            parts = []
            for e in roots:
                e = lane(e, k)
                text = w.local(scalar_type(e.type), w.scalar(e)[0])
                variable = E.Variable(e.type, f"{s.name}.{text[0]}")
                w.scope[variable.name] = Binding(text[0], scalar_type(e.type))
                parts.append(variable)
            computed.append(parts)
        for value, index, *predicate in computed:
            self._store_scalar(S.Store(s.name, value, index, predicate[0] if predicate else None))

    def _reads_it(self, s: S.Store) -> bool:
        """Whether what is stored depends on bytes that the store may change."""
        arena = self.arenas.get(s.name, s.name)
        for root in (s.value, s.index, s.predicate):
            if root is not None:
                for e in iterate(root):
                    if type(e) is E.Load and self.arenas.get(e.name, e.name) == arena:
                        return True
        return False

    def atomic_on_device(self, s: S.Atomic) -> None:
        write_atomic(self, s)

    # Branches and loops

    def block_on_device(self, s: S.Block) -> None:
        w = self.w
        ends = find_ends_of_loops(s, w.language) if w.language.waits_behind_branches else ()
        for i, part in enumerate(s.stmts):
            self.write(part)
            if i in ends:
                w.line(w.language.barrier(1))

    def branch_on_device(self, s: S.IfThenElse) -> None:
        w = self.w
        self.branch(s)
        if w.language.waits_behind_branches and last_wait(s, w.language):
            w.line(w.language.barrier(1))

    def loop_on_device(self, s: S.For) -> None:
        w = self.w
        if s.kind is ForKind.GPUThread or s.kind is ForKind.GPULane:
            self._stretch(s)
            return
        if s.kind is not ForKind.Serial:
            raise InternalError(f"a kernel has the {s.kind.value} loop {s.name} in it")
        w.begin_statement(s.min, s.extent)
        scope = dict(w.scope)
        low = w.scalar(s.min)[0]
        if build.is_const(s.extent, 1):
            w.line("{")
            w.depth += 1
            if s.name in {n.name for n in iterate(s.body) if isinstance(n, E.Variable)}:
                w.line(f"const int32_t {w.declare(s.name, 'int32_t')} = {low};")
        else:
            end = w.scalar(build.add(s.min, s.extent))
            end_text = end[0] if len(end[0]) < 24 else w.local("int32_t", end[0])[0]
            name = w.declare(s.name, "int32_t")
            w.line(f"for (int32_t {name} = {low}; {name} < {end_text}; {name}++) {{")
            w.depth += 1
        self.write(s.body)
        if w.language.waits_in_every_iteration and last_wait(s.body, w.language) == SOMETIMES:
            w.line(w.language.barrier(1))
        w.depth -= 1
        w.line("}")
        w.scope = scope

    def _stretch(self, s: S.For) -> None:
        """What all threads of the block do between two places where they may wait."""
        w = self.w
        body: S.Stmt = s
        while isinstance(body, S.For) and body.kind in (ForKind.GPUThread, ForKind.GPULane):
            body = body.body
        scope = dict(w.scope)
        w.line("{")
        w.depth += 1
        self.write(body)
        w.depth -= 1
        w.line("}")
        w.scope = scope

    # Storage

    def allocate_on_device(self, s: S.Allocate) -> None:
        w = self.w
        if s.name not in w.touched:
            self.write(s.body)
            return
        scope = dict(w.scope)
        if s.address is not None:
            self._alias(s, s.address)
        elif s.memory_type in (MemoryType.Register, MemoryType.Stack):
            self._own(s)
        elif s.memory_type is MemoryType.GPUShared:
            self._shared(s)
        else:
            raise InternalError(f"{s.name} is allocated in a kernel as {s.memory_type.value}")
        self.write(s.body)
        w.scope = scope

    def _own(self, s: S.Allocate) -> None:
        """An array of the thread's own."""
        w = self.w
        count = _constant_size(s)
        if count is None:
            raise InternalError(f"{s.name}, of a thread's own, has no constant size")
        w.spaces[s.name] = PRIVATE
        c_type = memory_type(s.type)
        name = w.declare(s.name, f"{c_type} *", short=False)
        w.line(f"/* {describe(self, s, 'of each thread')} */")
        # Tails compute with elements that nothing has written, and throw the result away. Elements
        # of a local without a value are undefined to LLVM, as is a branch that one decides.
        w.line(f"{c_type} {name}[{max(1, count)}] = {{0}};")

    def _shared(self, s: S.Allocate) -> None:
        """Memory of the block, declared where the function begins."""
        w, kernel = self.w, self.kernel
        if kernel.shared is not None:
            raise InternalError(f"{s.name} is a second allocation of shared memory in its kernel")
        count = _constant_size(s)
        c_type = memory_type(s.type)
        size = s.type.bytes()
        w.spaces[s.name] = SHARED
        space = w.language.spaces[SHARED]
        name = w.declare(s.name, f"{space}{c_type} *", short=s.name.startswith(w.title))
        self.declared.append(f"    /* {describe(self, s, 'of the block')} */")
        if count is not None and count * size <= STATIC_SHARED_BYTES:
            # Whole words, for updates of parts of them.
            count = -(-max(1, count) * size // 4) * 4 // size
            kernel.shared = build.const(INT64, count * size)
            alignment = max(16, min(s.alignment, 128))
            text = w.language.shared_array(c_type, name, count, alignment)
            self.declared.append(f"    {text}")
            return
        total: E.Expr = build.const(INT64, size)
        for extent in s.extents:
            total = build.mul(total, build.cast(INT64, build.maximum(extent, _zero(extent.type))))
        if size < 4:
            # Whole words, for updates of parts of them.
            word = build.const(INT64, 4)
            total = build.mul(build.div(build.add(total, build.const(INT64, 3)), word), word)
        kernel.shared, kernel.dynamic = total, True
        w.shared_parameter = w.language.shared_parameter(c_type, name)
        pointer = w.language.shared_pointer(c_type, name)
        if pointer:
            self.declared.append(f"    {pointer}")

    def _alias(self, s: S.Allocate, address: E.Call) -> None:
        """A pointer into memory of the block, or into the block's part of global memory."""
        w = self.w
        if address.name != "offset_pointer":
            raise InternalError(f"{s.name} of a kernel is at {address}")
        arena, found, offset = arena_of_alias(w, s)
        w.begin_statement(offset)
        constant = build.constant_value(offset)
        text = wrap(w.scalar(offset), ADD) if constant is None else str(int(constant))
        w.spaces[s.name] = w.spaces[arena]
        self.arenas[s.name] = arena
        c_type = w.pointer_type(s.name, memory_type(s.type))
        name = w.declare(s.name, c_type, short=False)
        place = found.text if text == "0" else f"({found.text} + {text})"
        w.line(f"/* {describe(self, s, f'in {arena}')} */")
        w.line(f"{c_type}const {name} = ({c_type.strip()}){place};")

    def nothing(self, s: Any) -> None:
        pass


def _zero(t: Type) -> E.Expr:
    return build.const(t, 0)


def _constant_size(s: S.Allocate) -> int | None:
    """Elements of an allocation, None where they are not known."""
    product = 1
    for extent in s.extents:
        value = build.constant_value(extent)
        if value is None:
            return None
        product *= max(0, int(value))
    return product + s.padding


_RULES: Final[dict[type, Callable[[Any, Any], None]]] = {
    S.Block: KernelWriter.block_on_device,
    S.Evaluate: KernelWriter.evaluate_on_device,
    S.LetStmt: KernelWriter.let_on_device,
    S.AssertStmt: KernelWriter.refuse_check,
    S.ProducerConsumer: KernelWriter.produce,
    S.IfThenElse: KernelWriter.branch_on_device,
    S.Store: KernelWriter.store_on_device,
    S.For: KernelWriter.loop_on_device,
    S.Allocate: KernelWriter.allocate_on_device,
    S.Free: KernelWriter.nothing,
    S.Atomic: KernelWriter.atomic_on_device,
    S.Prefetch: KernelWriter.transparent,
    S.HoistedStorage: KernelWriter.transparent,
}
