"""Device code: each nest of loops over blocks becomes a kernel in the language of the device.

A kernel is written by the emitter that writes the host's C, lane by lane: threads are the vectors
of a device. The host's part, which launches the kernels, is in `c_launch`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import InternalError
from bayplan.ir.memory import ForKind
from bayplan.ir.types import Type
from bayplan.ir.walk import iterate
from bayplan.targets.c_names import memory_type, sanitise, scalar_type, short_name
from bayplan.targets.c_outline import find_sharing
from bayplan.targets.c_text import comment
from bayplan.targets.c_writer import Binding, Lines, Unit, Writer
from bayplan.targets.device_exprs import DEVICE_RULES
from bayplan.targets.device_language import (
    AXES,
    CONSTANT,
    GLOBAL,
    DeviceLanguage,
    find_language,
)
from bayplan.targets.device_tables import write_device_table

if TYPE_CHECKING:
    from bayplan.targets.c_stmts import StatementWriter


class Kernel:
    """A kernel, and what its launch needs.

    Its parameters are, for each memory, a pointer and an int64 offset in bytes, then the scalars;
    last, in OpenCL, the memory of a block whose size the launch says.

    Attributes:
        name: of the function.
        title: the loop over blocks without its axis: "blur_y.s0.kernel".
        text: the function in the device's language.
        memories: (name of the parameter, name of the allocation or buffer), in order.
        scalars: (name, C type, text of the value where the kernel is launched), in order.
        blocks: numbers of blocks in x, y and z.
        threads: numbers of threads of a block in x, y and z.
        shared: bytes of memory that a block shares; None for none.
        dynamic: the launch has to give that memory: it is not declared in the kernel.
        stores: names of the allocations and buffers that it writes.
    """

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self.title = title
        self.text: Lines = []
        self.memories: list[tuple[str, str]] = []
        self.scalars: list[tuple[str, str, str]] = []
        self.blocks: tuple[E.Expr, E.Expr, E.Expr] = (build.int32(1),) * 3
        self.threads: tuple[E.Expr, E.Expr, E.Expr] = (build.int32(1),) * 3
        self.shared: E.Expr | None = None
        self.dynamic = False
        self.stores: frozenset[str] = frozenset()


class DeviceUnit(Unit):
    """The device text of a program.

    Attributes:
        language: what it is written in.
        kernels: in the order of their launches in the text.
        strict: some value must not be fused.
    """

    def __init__(self, name: str, language: DeviceLanguage) -> None:
        super().__init__(name, 16)
        self.language = language
        self.kernels: list[Kernel] = []
        self.strict = False

    def text(self) -> str:
        """The whole text, for the device's compiler."""
        from bayplan.targets.c import flatten_lines

        body: list[str] = []
        for kernel in self.kernels:
            flatten_lines(kernel.text, body)
        helpers = self.helpers.text().strip()
        main = "\n".join([*self.externs.values(), helpers, "", *body])
        return "\n".join([
            f"/* {comment(self.name)}: kernels emitted by Bayplan. */",
            self.language.prelude(self, main),
            main,
            self.language.ending(self),
        ])


def device_unit(sw: StatementWriter) -> DeviceUnit:
    """The device text that goes with the host's."""
    unit = sw.w.unit
    if unit.device is None:
        unit.device = DeviceUnit(unit.name, find_language(sw.emission.program.target))
    assert isinstance(unit.device, DeviceUnit)
    return unit.device


class DeviceWriter(Writer):
    """Writes one kernel.

    Attributes:
        device: the text it becomes a part of.
        language: of the device.
        host: the function that launches it.
        title: of the kernel, for messages.
        where: the user's line of the Func that it computes.
        touched: names of what is loaded or stored, with the element types.
        stored: names of what is stored.
        spaces: where the memory of each name is.
        memories: C names of the parameters that are memory, with the IR names.
        scalars: of the other ones, with types and the host's texts.
        given: what the host's names are bound to.
    """

    device: DeviceUnit

    def __init__(self, device: DeviceUnit, host: Writer, title: str, body: S.Stmt) -> None:
        super().__init__(device)
        self.device = device
        self.language = device.language
        self.host = host
        self.title = title
        self.where: Any = None
        self.lane_by_lane = True
        self.touched: dict[str, Type] = {}
        self.stored: set[str] = set()
        self.spaces: dict[str, str] = {}
        self.memories: list[tuple[str, str]] = []
        self.scalars: list[tuple[str, str, str]] = []
        self.given: dict[str, Binding] = {}
        self.converted: Lines = []  # what parameters become
        self.tables: dict[str, Any] = {}
        self.shared_parameter: str | None = None
        self.exchanges = False  # lanes of a warp do
        self._find_memory(body)

    def _find_memory(self, body: S.Stmt) -> None:
        for node in iterate(body):
            if isinstance(node, E.Load):
                self.touched.setdefault(node.name, node.type.element_of())
            elif isinstance(node, S.Store):
                self.touched.setdefault(node.name, node.value.type.element_of())
                self.stored.add(node.name)
        aliases = [n for n in iterate(body) if isinstance(n, S.Allocate)]
        for node in [*aliases, *aliases]:  # an arena may be an alias itself
            if node.address is not None:
                arena = node.address.args[-2]
                if node.name in self.touched and isinstance(arena, E.Variable):
                    self.touched[arena.name] = Type("uint", 8)
                    if node.name in self.stored:
                        self.stored.add(arena.name)

    def scalar_rule(self, cls: type) -> Any:
        return DEVICE_RULES[cls]

    def fresh(self, wanted: str) -> str:
        if sanitise(wanted) in self.language.reserved:
            wanted += "_"
        return super().fresh(wanted)

    def lookup(self, ir_name: str) -> Binding | None:
        # What is handed over is so in all of the kernel, not only in the block of its first use.
        found = self.scope.get(ir_name) or self.given.get(ir_name)
        if found is None:
            found = self._parameter(ir_name)
            if found is not None:
                self.given[ir_name] = found
        return found

    def _parameter(self, ir_name: str) -> Binding | None:
        """What the host hands over under the name."""
        if ir_name in self.touched:
            table = self.tables.get(ir_name)
            return self._table(table) if table is not None else self._memory(ir_name)
        outer = self.host.lookup(ir_name)
        if outer is None:
            return None
        if outer.pieces is None:
            return Binding(self._scalar(ir_name, outer.c_type, outer.text), outer.c_type)
        from bayplan.targets.c_writer import Pieces

        t = outer.pieces.type
        parts = []
        for k, text in enumerate(_lanes(outer.pieces)):
            c_type = scalar_type(t.element_of())
            parts.append((k, 1, self._scalar(f"{ir_name}_{k}", c_type, text)))
        return Binding("", "", Pieces(t, parts))

    def _scalar(self, ir_name: str, c_type: str, text: str) -> str:
        name = self.fresh(short_name(ir_name) if "." in ir_name else ir_name)
        if c_type == "bool":
            # No parameter of a kernel may be a bool.
            given = self.fresh(f"{name}_given")
            self.scalars.append((given, "uint8_t", f"(uint8_t)({text})"))
            self.converted.append(f"    const bool {name} = {given} != 0;")
        else:
            self.scalars.append((name, c_type, text))
        return name

    def _memory(self, ir_name: str) -> Binding:
        own = ir_name.startswith(self.title)
        name = self.fresh(short_name(ir_name) if own else ir_name)
        base = self.fresh(f"{name}_memory")
        self.fresh(f"{name}_offset")
        self.memories.append((base, ir_name))
        self.spaces[ir_name] = GLOBAL
        c_type = self.pointer_type(ir_name, memory_type(self.touched[ir_name]))
        self.converted.append(
            f"    {c_type}const {name} = ({c_type.strip()})({base} + {name}_offset);"
        )
        return Binding(name, c_type)

    def _table(self, table: Any) -> Binding:
        c_name = f"{self.device.name}_{sanitise(table.name)}"
        if c_name not in self.device.externs:
            self.device.externs[c_name] = write_device_table(self.language, table, c_name)
        self.spaces[table.name] = CONSTANT
        return Binding(c_name, self.pointer_type(table.name, memory_type(table.type)))

    def pointer_type(self, ir_name: str, c_type: str) -> str:
        """A pointer to elements of the memory that the name stands for."""
        const = "" if ir_name in self.stored else "const "
        return f"{self.language.spaces[self.spaces[ir_name]]}{const}{c_type} *"


def _lanes(pieces: Any) -> list[str]:
    """The text of each lane of a vector of the host's."""
    if pieces.leading:
        return [f"{k} < {pieces.leading}" for k in range(pieces.type.lane_count)]
    texts = []
    for _, lanes, text in pieces.parts:
        test = " != 0" if pieces.type.width == 1 and lanes > 1 else ""
        texts += [text] if lanes == 1 else [f"{text}[{k}]{test}" for k in range(lanes)]
    return texts


def write_kernel(sw: StatementWriter, s: S.For) -> Kernel:
    """The kernel that the outermost loop over blocks is, added to the program's device text.

    Args:
        sw: the host's function, at the place of the launch.
        s: the loop, in kernel form (see `normalize_kernels`).
    """
    from bayplan.targets.kernel_statements import KernelWriter

    device = device_unit(sw)
    title = s.name.rsplit(".", 1)[0]
    name = sanitise(title)
    if name in device.language.reserved:
        name += "_"
    kernel = Kernel(device.global_name(name), title)
    w = DeviceWriter(device, sw.w, title, s)
    w.where = _find_line(sw, title)
    w.tables = {table.name: table for table in sw.emission.program.tables}
    blocks = list(kernel.blocks)
    ids: list[tuple[str, str]] = []
    body: S.Stmt = s
    while isinstance(body, S.For) and body.kind is ForKind.GPUBlock:
        axis = axis_of(body)
        blocks[axis] = body.extent
        ids.append((body.name, device.language.block_id(axis)))
        body = body.body
    threads = list(kernel.threads)
    for loop in _thread_loops(body):
        axis = axis_of(loop)
        threads[axis] = loop.extent
        ids.append((loop.name, device.language.thread_id(axis)))
    kernel.blocks = (blocks[0], blocks[1], blocks[2])
    kernel.threads = (threads[0], threads[1], threads[2])
    used = {n.name for n in iterate(body) if isinstance(n, E.Variable)}
    declared = [
        f"    const int32_t {w.declare(ir_name, 'int32_t')} = {text};"
        for ir_name, text in ids
        if ir_name in used
    ]
    writer = KernelWriter(sw.emission, w, kernel)
    writer.write(body)
    _finish(sw, kernel, w, s, [declared, writer.declared])
    device.kernels.append(kernel)
    return kernel


def _find_line(sw: StatementWriter, title: str) -> Any:
    """The user's line of the Func that a kernel computes."""
    for name, origin in sw.emission.program.origins.items():
        if title.startswith((f"{name}.s", f"{origin.func}.s")) and origin.where is not None:
            return origin.where
    return None


def axis_of(loop: S.For) -> int:
    """0, 1, 2 for a loop over blocks or threads in x, y, z."""
    axis = AXES.find(loop.name[-1])
    if axis < 0 or not build.is_const(loop.min, 0):
        raise InternalError(f"the loop {loop.name} of a kernel is not in kernel form")
    return axis


def _thread_loops(body: S.Stmt) -> list[S.For]:
    """The loops over threads of all stretches; each name once, with one extent."""
    loops: dict[str, S.For] = {}
    for node in iterate(body):
        if isinstance(node, S.For) and node.kind.is_gpu:
            known = loops.setdefault(node.name, node)
            if known.extent is not node.extent or node.kind is ForKind.GPUBlock:
                raise InternalError(f"the loop {node.name} of a kernel is not in kernel form")
    return list(loops.values())


def _finish(
    sw: StatementWriter, kernel: Kernel, w: DeviceWriter, s: S.For, declared: Lines
) -> None:
    """The whole function around the lines that were written."""
    language = w.language
    sharing = find_sharing(sw.emission, set(w.touched), s)
    updated = {n.name for a in iterate(s) if isinstance(a, S.Atomic)
               for n in iterate(a.body) if isinstance(n, S.Store)}
    parameters = []
    for base, ir_name in w.memories:
        alone = ir_name not in sharing and ir_name not in updated
        mark = language.restrict if alone else ""
        parameters.append(f"{w.pointer_type(ir_name, 'uint8_t')}{mark}{base}")
        parameters.append(f"const int64_t {base.removesuffix('_memory')}_offset")
    parameters += [f"const {c_type} {name}" for name, c_type, _ in w.scalars]
    parameters += [p for p in [w.shared_parameter] if p]
    sizes = [build.constant_value(e) for e in kernel.threads]
    constant = None if None in sizes else tuple([int(n or 1) for n in sizes])
    kernel.memories = list(w.memories)
    kernel.scalars = list(w.scalars)
    kernel.stores = frozenset([name for _, name in w.memories if name in w.stored])
    kernel.text = [
        f"/* The loops over blocks of {comment(kernel.title)}. */",
        *language.head(kernel.name, parameters, constant, w.exchanges),
        *_used_lines([w.converted, declared, w.lines]),
        "}", "",
    ]


# A value with a name, which is computed without effects.
_NAMED: Final = re.compile(r"\s*(?:const \w+|[\w ]+\*(?:\w+ )?const) (\w+) = .*;")


def _used_lines(lines: Lines) -> list[str]:
    """The lines without values that nothing behind them uses, of which compilers warn."""
    from bayplan.targets.c import flatten_lines

    flat: list[str] = []
    flatten_lines(lines, flat)
    used: set[str] = set()
    kept = []
    for line in reversed(flat):
        named = _NAMED.fullmatch(line)
        if named is not None and named[1] not in used:
            continue
        used.update(re.findall(r"\w+", line))
        kept.append(line)
    return kept[::-1]
