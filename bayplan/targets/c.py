"""The C target: a lowered program as one readable C11 file with vector extensions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import ErrorSite, OutOfDeviceMemory, OutOfMemory, WorkspaceTooSmall
from bayplan.ir.node import Node
from bayplan.storage.kernels import ON_DEVICE
from bayplan.targets.c_callee import add_callee, entry_name
from bayplan.targets.c_device import device_part, device_sites, has_device, uses_device
from bayplan.targets.c_entry import write_entry
from bayplan.targets.c_extern import FROM_TABLE, check_names, extern_text
from bayplan.targets.c_metadata import write_metadata
from bayplan.targets.c_names import sanitise
from bayplan.targets.c_sanitize import prelude
from bayplan.targets.c_storage import marks_lives
from bayplan.targets.c_text import comment, string_literal
from bayplan.targets.c_writer import Lines, Unit
from bayplan.targets.header import read_header

if TYPE_CHECKING:
    from bayplan.lower.program import LoweredProgram

# Warnings that are about how vectors are passed between functions (all of them are inlined), about
# comparisons that a bound makes always true, and about values whose uses came to nothing.
_PRAGMAS: Final = """#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpsabi"
#pragma clang diagnostic ignored "-Wunknown-warning-option"
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunused-variable"
#pragma clang diagnostic ignored "-Wtautological-compare"
#pragma clang diagnostic ignored "-Wtautological-constant-compare"
#pragma clang diagnostic ignored "-Wtautological-constant-out-of-range-compare"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
"""

_LOCK: Final = """
static inline void bp_lock(int32_t *lock) {
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {
    }
}

static inline void bp_unlock(int32_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }
"""


_RESULTS: Final[dict[type, str]] = {
    OutOfMemory: "BP_OUT_OF_MEMORY",
    OutOfDeviceMemory: "BP_OUT_OF_MEMORY",
    WorkspaceTooSmall: "BP_WORKSPACE_TOO_SMALL",
}


class Emission:
    """The text of a program and what goes with it.

    Attributes:
        program: what was emitted.
        name: the C name of the entry point.
        source: the whole C file.
        parameters: the arguments as the C entry points declare them.
        sites: the error sites, as the runtime numbers them.
        live: names whose values the program needs.
        ahead: built for C callers, not for calls from Python.
        takes_context: the entry points are given a context; else they use the thread's own.
        callees: the pipelines it calls, in the same file.
        kernel_count: how many kernels it has.
        kernel_names: by title of a kernel, the name of its function.
        device_source: the kernels, in the language of the device; "" where there are none.
    """

    def __init__(
        self,
        program: LoweredProgram,
        register_bytes: int,
        ahead: bool,
        takes_context: bool,
        unit: Unit | None = None,
    ) -> None:
        self.ahead = ahead
        self.takes_context = takes_context
        self.program = program
        self.name = sanitise(program.name)
        if unit is not None:
            self.name = entry_name(unit, program.name)
        self.register_bytes = register_bytes
        self.unit = Unit(self.name, register_bytes) if unit is None else unit
        self.unit.may_have_device = has_device(program.target)
        self.sites: list[ErrorSite] = self.unit.sites
        self.source = ""
        self.device_source = ""
        self.kernel_count = 0
        self.kernel_names: dict[str, str] = {}
        self.parameters: list[str] = []  # of the entry points, as C declares them
        self.callees: list[Emission] = []
        self.live = find_live(program.body, marks_lives(program.target))


def emit(
    program: LoweredProgram, *, ahead: bool = False, takes_context: bool = True
) -> Emission:
    """The C text of a program together with its error sites, for driver and command line.

    Args:
        program: what to emit.
        ahead: for C callers, who do not prepare a context for each call.
        takes_context: the entry points are given a context.
    """
    emission = Emission(program, native_bytes(program.target), ahead, takes_context)
    for callee in program.callees:
        called = Emission(
            callee.program, emission.register_bytes, ahead, takes_context, emission.unit
        )
        emission.callees.append(called)
        add_callee(called, callee)
    write_entry(emission)
    if ahead:
        emission.unit.functions.append(write_metadata(emission))
        check_names(emission.unit)
    _assemble(emission)
    return emission


def native_bytes(target: Any) -> int:
    """Bytes of a native vector register of the target."""
    if target is not None:
        size = getattr(target, "natural_vector_size", None)
        if callable(size):
            from bayplan.ir.types import UInt

            return int(size(UInt(8)))
    return 16


def find_live(body: S.Stmt, sizes_of_aliases: bool = False) -> set[str]:
    """The names that are used by more than lets which nothing uses."""
    values: dict[str, list[Node]] = {}
    roots: list[Node] = [body]
    live: set[str] = set()
    seen: set[Node] = set()
    # Of aliases, unless they are one side's memory of a temporary that has the other's too.
    sizes: dict[str, list[Node]] = {}
    both: set[str] = set()
    while roots:
        node = roots.pop()
        if node in seen:
            continue
        seen.add(node)
        cls = type(node)
        if cls is S.LetStmt:
            assert isinstance(node, S.LetStmt)
            if node.name in live:
                roots.append(node.value)
            else:
                values.setdefault(node.name, []).append(node.value)
            roots.append(node.body)
            continue
        if cls is S.Allocate:
            assert isinstance(node, S.Allocate)
            owner = node.name.removesuffix(ON_DEVICE)
            if owner != node.name:
                # The record of a temporary of both sides has its size.
                both.add(owner)
                roots += sizes.pop(owner, [])
            elif node.address is not None and not sizes_of_aliases and owner not in both:
                # Its own extents say how large it is, but nothing is computed from them.
                sizes.setdefault(owner, []).extend([*node.extents, node.condition])
                roots += [node.address, node.body]
                continue
        if cls is E.Variable:
            name = node.name  # type: ignore[attr-defined]
            if name not in live:
                live.add(name)
                roots.extend(values.pop(name, []))
            continue
        roots.extend(node.children())
    return live


def _assemble(emission: Emission) -> None:
    unit = emission.unit
    folder = Path(__file__).parent
    parts: Lines = [
        f"/* {comment(emission.program.name)}: emitted by Bayplan. */",
        read_header(),
        "#include <stdbool.h>",
        "",
        _PRAGMAS,
        "#if defined(_WIN32)\n#define BP_EXPORT __declspec(dllexport)\n"
        # A Func is often called like the function that computes it: that one is not to be called
        # in the place of the entry point.
        f"#elif defined({FROM_TABLE}) && defined(__ELF__)\n"
        '#define BP_EXPORT __attribute__((visibility("protected")))\n#else\n'
        '#define BP_EXPORT __attribute__((visibility("default")))\n#endif\n',
        # Vectors must never be passed by a real call: how they are depends on the instruction set.
        "#define BP_INLINE static inline __attribute__((always_inline))\n"
        "#if defined(__clang__) || __GNUC__ >= 12\n#define BP_SHUFFLEVECTOR 1\n#else\n"
        "#define BP_SHUFFLEVECTOR 0\n#endif\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        (folder / "prelude.c").read_text(),
        (folder / "prelude_storage.c").read_text(),
        prelude(emission.program.target),
    ]
    if unit.device is not None:
        emission.device_source = unit.device.text()  # type: ignore[attr-defined]
        kernels: list[Any] = unit.device.kernels  # type: ignore[attr-defined]
        emission.kernel_count = len(kernels)
        emission.kernel_names = {kernel.title: kernel.name for kernel in kernels}
    if uses_device(emission):
        device_sites(emission)
    functions: Lines = []
    flatten_lines(unit.functions, functions)
    body = "\n".join(functions)
    helpers = unit.helpers.text()
    if "BP_MASKS" in helpers or "bp_leading(" in body:
        parts.append((folder / "prelude_masks.c").read_text())
    if unit.need_overlap:
        parts.append((folder / "prelude_overlap.c").read_text())
    if "_half" in body or "half_" in helpers or "_half" in helpers:
        parts.append((folder / "prelude_half.c").read_text())
    if unit.tables:
        parts.append((folder / "prelude_place.c").read_text())
    if unit.globals:
        parts.append(_LOCK)
        parts += [f"static int32_t {lock};" for lock in unit.globals.values()]
    parts += unit.externs.values()
    if unit.extern_functions or unit.callee_names:
        parts += extern_text(unit.name, list(unit.extern_functions.values()))
    parts.append(_site_table(unit.sites))
    if uses_device(emission):
        parts += device_part(emission)
    parts += [*unit.tables, helpers, "", body, "#ifdef __cplusplus\n}\n#endif\n"]
    emission.source = "\n".join(parts)


def flatten_lines(lines: Lines, out: list[str]) -> None:
    """Adds the lines, and those of the lists among them, to `out`."""
    stack = [iter(lines)]
    while stack:
        for item in stack[-1]:
            if isinstance(item, list):
                stack.append(iter(item))
                break
            out.append(item)
        else:
            stack.pop()


def _site_table(sites: list[ErrorSite]) -> str:
    if not sites:
        return "static const bp_site bp_sites[1] = {{NULL, NULL, NULL, 0, 0}};\n"
    rows = []
    for site in sites:
        where = site.where
        file = string_literal(where.file) if where is not None else '""'
        line = where.line if where is not None else 0
        result = _RESULTS.get(site.error_class, "BP_ERROR")
        # Braces in a hint are not places for arguments.
        hint = site.hint.replace("{", "(").replace("}", ")")
        text = f"{site.template}\n  hint: {hint}" if hint else site.template
        rows.append(
            f"    {{{string_literal(site.error_class.code)}, {string_literal(text)},\n"
            f"     {file}, {line}, {result}}},"
        )
    table = "\n".join(rows)
    return f"static const bp_site bp_sites[] = {{\n{table}\n}};\n"
