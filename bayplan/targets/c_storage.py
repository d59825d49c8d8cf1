"""How storage is written in C: arrays on the stack, blocks of the context's memory, aliases.

The arena of a call has three sources: the context's hook, the caller's workspace, and none at all
where only its bytes are asked for (see c_entry.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import (
    AllocationTooLarge,
    ErrorSite,
    InternalError,
    OutOfMemory,
    WorkspaceTooSmall,
)
from bayplan.ir.memory import MemoryType
from bayplan.ir.types import INT64
from bayplan.language.target_names import TargetFeature
from bayplan.storage.kernels import ON_DEVICE
from bayplan.targets.c_names import memory_type
from bayplan.targets.c_sanitize import end_lives, guarded_place, life_declarations
from bayplan.targets.c_text import ADD, ATOM, LOGIC, Text, comment, string_literal, wrap
from bayplan.targets.c_writer import Binding, Lines, Writer

if TYPE_CHECKING:
    from bayplan.targets.c_stmts import StatementWriter

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_DEVICE_POINTER: Final = "bp_device_pointer"  # see c_device


def allocate(sw: StatementWriter, s: S.Allocate) -> None:
    """The storage of `s` and what is done in it."""
    if s.memory_type is MemoryType.GPUGlobal:
        from bayplan.targets.c_device import allocate_on_device

        allocate_on_device(sw, s)
    elif s.address is not None:
        _declare_alias(sw, s)
    elif s.memory_type in (MemoryType.Stack, MemoryType.Register):
        _allocate_stack(sw, s)
    else:
        _allocate_heap(sw, s)


def release(sw: StatementWriter, ir_name: str) -> None:
    """Ends the life of an allocation; an alias has nothing to give back."""
    marked = sw.marks.pop(ir_name, None)
    if marked is not None:
        sw.w.line(f"bp_mark(ctx, 0, {marked});")
    name = sw.heap.pop(ir_name, None)
    if name is None:
        return
    given = "" if ir_name != _call_arena(sw) else "if (!workspace) "
    sw.w.open -= 1
    found = sw.w.lookup(ir_name)
    if found is not None and found.c_type == _DEVICE_POINTER:
        sw.w.line(f"bp_device_give(&{name});")
        return
    sw.w.line(f"{given}bp_release(ctx, {name}, {string_literal(ir_name)});")
    sw.w.line(f"{name} = NULL;")


def function_body(w: Writer, *, in_block: bool = False, gives: bool = True) -> Lines:
    """A function from its own declarations to what it gives.

    Where it has to give something back at its end, what comes before stands in a block: what
    follows the first allocation, or all of it.

    Args:
        w: the function.
        in_block: its lines are one block already.
        gives: it gives a status.
    """
    status = ["    int32_t status = 0;"] if w.uses_status or w.uses_done else []
    heap = [_declaration(name, c_type) for name, c_type, _, _ in w.heap]
    heap += life_declarations(w)
    end = ["    return status;" if status else "    return 0;"] if gives else []
    if not w.uses_done:
        return [*status, *heap, w.lines, *end_lives(w), *end]
    declared, taken = w.first_open
    before, taking, after = w.lines[:declared], w.lines[declared:taken], w.lines[taken:]
    if not in_block:
        after = ["    {", _indent(after), "    }"]
    released = [
        f"    {given}bp_release(ctx, {name}, {string_literal(printed)});"
        if c_type != _DEVICE_POINTER
        else f"    bp_device_give(&{name});"
        for name, c_type, printed, given in reversed(w.heap)
    ]
    return [*status, before, *heap, taking, after, "done:", *end_lives(w), *released, *end]


def _declaration(name: str, c_type: str) -> str:
    if c_type == _DEVICE_POINTER:
        return f"    {c_type} {name} = {{0, 0, NULL, NULL}};"
    return f"    {c_type} *{name} = NULL;"


def _indent(lines: Lines) -> Lines:
    return [_indent(item) if isinstance(item, list) else f"    {item}" for item in lines]


def _call_arena(sw: StatementWriter) -> str | None:
    plan = sw.emission.program.plan
    return None if plan is None else plan.call_arena


def describe(sw: StatementWriter, s: S.Allocate, kind: str) -> str:
    """The comment at an allocation: its name, where it lives, its shape, and the user's line."""
    origin = sw.emission.program.origins.get(s.name)
    where = f", {origin.where}" if origin is not None and origin.where else ""
    sizes = [str(e) if build.constant_value(e) is None else str(build.constant_value(e))
             for e in s.extents]
    shape = " x ".join([size if len(size) < 40 else "..." for size in sizes]) or "1"
    return comment(f"{s.name}: {kind}, {shape} {s.type.element_of()}{where}")


def _allocate_stack(sw: StatementWriter, s: S.Allocate) -> None:
    w = sw.w
    product = 1
    for extent in s.extents:
        value = build.constant_value(extent)
        if value is None:
            raise InternalError(f"the stack temporary {s.name} has no constant size")
        product *= max(0, int(value))
    elements = max(1, product + s.padding)
    scope = dict(w.scope)
    c_type = memory_type(s.type)
    name = w.declare(s.name, f"{c_type} *", short=False)
    w.line("{")
    w.depth += 1
    w.line(f"/* {describe(sw, s, 'stack')} */")
    w.line(f"{c_type} {name}[{elements}] __attribute__((aligned(64)));")
    sw.write(s.body)
    w.depth -= 1
    w.line("}")
    w.scope = scope


def arena_of_alias(w: Writer, s: S.Allocate) -> tuple[str, Binding, E.Expr]:
    """The arena that an alias points into, what stands for it in C, and the offset in bytes."""
    assert s.address is not None
    arena, offset = s.address.args[-2:]
    assert isinstance(arena, E.Variable)
    found = w.lookup(arena.name)
    if found is None:
        raise InternalError(f"the arena {arena.name} of {s.name} is not allocated around it")
    return arena.name, found, offset


def _declare_alias(sw: StatementWriter, s: S.Allocate) -> None:
    """A pointer into an arena."""
    w = sw.w
    assert s.address is not None
    arena, found, offset = arena_of_alias(w, s)
    scope = dict(w.scope)
    c_type = memory_type(s.type)
    w.begin_statement(*s.address.args[:-2], offset)
    in_output = _in_output(w, s.address)
    text = wrap(w.scalar(offset), ADD)
    name = w.declare(s.name, f"{c_type} *", short=False)
    base = f"(char *){found.text}" if found.c_type != "char *" else found.text
    place = guarded_place(sw, s, base if text in ("0", "INT64_C(0)") else f"{base} + {text}")
    output = f"{in_output[0]} ? {in_output[1]} : " if in_output else ""
    either = f"{s.address.args[1]} or " if in_output else ""
    w.line(f"/* {describe(sw, s, f'in {either}{arena}')} */")
    w.line(f"{c_type} *const {name} = {output}({c_type} *)({place});")
    if marks_lives(sw.emission.program.target) and not _is_arena(s):
        w.begin_statement(*s.extents, s.condition)
        size_text = bytes_of(w, s)
        if in_output:
            # The bytes are those of whoever gave the output.
            size_text = f"{in_output[0]} ? 0 : ({size_text})"
        size = w.local("int64_t", size_text)[0]
        sw.marks[s.name] = f"{string_literal(s.name)}, {size}, {name}"
        w.line(f"bp_mark(ctx, 1, {sw.marks[s.name]});")
    _declare_home(sw, s)
    sw.write(s.body)
    release(sw, s.name)
    w.scope = scope


def _in_output(w: Writer, address: E.Call) -> tuple[str, str] | None:
    """The condition under which an alias is the begin of an output, and that output."""
    if address.name != "output_or_offset_pointer":
        return None
    condition, output = address.args[:2]
    assert isinstance(output, E.Variable)
    found = w.lookup(output.name)
    if found is None:
        raise InternalError(f"the output {output.name} is no argument")
    return wrap(w.scalar(condition), LOGIC - 1), found.text


def marks_lives(target: Any) -> bool:
    """Whether code for this target tells its context when temporaries begin and end."""
    has_feature = getattr(target, "has_feature", None)
    return has_feature is not None and bool(has_feature(TargetFeature.Profile))


def _is_arena(s: S.Allocate) -> bool:
    """Whether an allocation is an arena; its bytes are counted and checked already."""
    return s.type.bytes() == 1 and len(s.extents) == 1 and s.extents[0].type.width == 64


def bytes_of(w: Writer, s: S.Allocate) -> str:
    """The bytes of an allocation, 0 where it is not needed; an int64_t, negative for too many."""
    if _is_arena(s):
        text = f"(int64_t){wrap(w.scalar(s.extents[0]), ATOM)}"
    else:
        args = (build.int32(s.type.bytes()), build.int32(s.padding), *s.extents)
        text = size_in_bytes(w, E.Call(INT64, "size_in_bytes", args, E.CallKind.INTRINSIC))[0]
    if build.is_const(s.condition, 1):
        return text
    return f"{wrap(w.scalar(s.condition), LOGIC - 1)} ? {text} : 0"


def _allocate_heap(sw: StatementWriter, s: S.Allocate) -> None:
    w = sw.w
    scope = dict(w.scope)
    c_type = memory_type(s.type)
    first, begins = w.depth == 1 and not w.heap, len(w.lines)
    w.begin_statement(*s.extents, s.condition)
    if _is_arena(s):
        size, present = _arena_size(w, s)
    else:
        elements = _count_elements(sw, s)
        total = f"({elements} + {s.padding})" if s.padding else elements
        size, present = f"(uint64_t){total} * {s.type.bytes()}", f"{elements} > 0"
        if elements.isdigit():
            count = int(elements) and (int(elements) + s.padding) * s.type.bytes()
            size, present = f"UINT64_C({count})", "" if count else "false"
    name = w.declare(s.name, f"{c_type} *", short=False)
    of_call = s.name == _call_arena(sw)
    w.heap.append((name, c_type, s.name, "if (!workspace) " if of_call else ""))
    sw.heap[s.name] = name
    w.line(f"/* {describe(sw, s, 'heap')} */")
    if of_call:
        bytes_text = f"{present} ? {size} : 0" if present else size
        w.line("if (query) {")
        w.depth += 1
        w.line(f"*query = (int64_t)({bytes_text});")
        w.leave("0")
        w.depth -= 1
        w.line("}")
    if present:
        w.line(f"if ({present}) {{")
        w.depth += 1
    _take(sw, s, name, size, of_call)
    if present:
        w.depth -= 1
        w.line("}")
    if first:
        w.first_open = (begins, len(w.lines))
    w.open += 1
    _declare_home(sw, s)
    sw.write(s.body)
    release(sw, s.name)
    w.scope = scope


def _arena_size(w: Writer, s: S.Allocate) -> tuple[str, str]:
    """The bytes of an arena and the condition under which it is needed."""
    value = build.constant_value(s.extents[0])
    conditions = []
    if not build.is_const(s.condition, 1):
        conditions.append(wrap(w.scalar(s.condition), LOGIC))
    if value is not None:
        return f"UINT64_C({int(value)})", " && ".join(conditions)
    text = w.scalar(s.extents[0])[0]
    return f"(uint64_t){text}", " && ".join([*conditions, f"{text} > 0"])


def _declare_home(sw: StatementWriter, s: S.Allocate) -> None:
    """The record of both sides, where the device's memory was allocated around the host's."""
    if f"{s.name}{ON_DEVICE}" in sw.w.scope:
        from bayplan.targets.c_device import declare_home

        declare_home(sw, s, s.name)


def _take(sw: StatementWriter, s: S.Allocate, name: str, size: str, of_call: bool) -> None:
    w = sw.w
    align = s.alignment
    hook = f"ctx->alloc(ctx, {size}, {align}, {string_literal(s.name)})"
    if not of_call:
        w.line(f"{name} = ({memory_type(s.type)} *){hook};")
    else:
        given = f"bp_in_workspace(workspace, workspace_bytes, {size}, {align})"
        w.line(f"{name} = ({memory_type(s.type)} *)(")
        w.line(f"    workspace ? {given}")
        w.line(f"              : {hook});")
        small = ErrorSite(
            WorkspaceTooSmall,
            f"{sw.emission.program.name} needs {{0}} bytes of workspace from the given address "
            f"on (aligned to {align}), got {{1}}",
            where_of(sw, s.name),
        )
        need = f"bp_uint(bp_workspace_need(workspace, {size}, {align}))"
        _fail(sw, f"{name} == NULL && workspace", small, need, "bp_uint(workspace_bytes)")
    plan = sw.emission.program.plan
    parts = "" if plan is None else plan.parts_of(s.name)
    text = f"no memory for {s.name}: {{0}} bytes{parts}"
    memory = ErrorSite(OutOfMemory, text, where_of(sw, s.name))
    _fail(sw, f"{name} == NULL", memory, f"bp_uint({size})")


def _count_elements(sw: StatementWriter, s: S.Allocate) -> str:
    """The number of elements, checked against what indices reach; 0 where not needed."""
    w = sw.w
    size_bytes = s.type.bytes()
    constants = [build.constant_value(e) for e in s.extents]
    always = build.is_const(s.condition, 1)
    if always and None not in constants:
        product = 1
        for value in constants:
            product *= max(0, int(value or 0))
        if product <= _INT32_MAX - s.padding:
            return str(product)
    count = ""
    for extent in s.extents:
        text = w.scalar(extent)[0]
        count = f"bp_times({count}, {text})" if count else f"bp_times(1, {text})"
    count = count or "1"
    if not always:
        condition = w.scalar(s.condition)
        count = f"{wrap(condition, LOGIC - 1)} ? {count} : 0"
    elements = w.local("int64_t", count)[0]
    too_large = ErrorSite(
        AllocationTooLarge,
        f"{s.name} needs {{0}} bytes ({{1}} elements); 32-bit indices reach {{2}} elements",
        where_of(sw, s.name),
    )
    _fail(
        sw,
        f"{elements} < 0 || {elements} > {_INT32_MAX - s.padding}",
        too_large,
        f"bp_uint(bp_size({elements}, {size_bytes}))",
        f"bp_int({elements})",
        f"bp_int({_INT32_MAX})",
    )
    return elements


def where_of(sw: StatementWriter, name: str) -> Any:
    """The user's line of the Func of a temporary."""
    origin = sw.emission.program.origins.get(name)
    return None if origin is None else origin.where


def _fail(sw: StatementWriter, condition: str, site: ErrorSite, *args: str) -> None:
    w = sw.w
    w.line(f"if ({condition}) {{")
    w.depth += 1
    w.fail(site, args)
    w.depth -= 1
    w.line("}")


# Calls that the storage plan makes.


def size_in_bytes(w: Writer, e: E.Call) -> Text:
    """(product of extents + padding) * element bytes; the greatest number where it does not fit."""
    element_bytes, padding, *extents = e.args
    count = "1"
    for extent in extents:
        count = f"bp_times({count}, {w.scalar(extent)[0]})"
    size, more = build.constant_value(element_bytes), build.constant_value(padding)
    return f"bp_bytes({count}, {more}, {size})", 0


def parallel_slots(w: Writer, e: E.Call) -> Text:
    """The most tasks of a parallel loop that run at once."""
    return f"bp_slots(ctx, {w.scalar(e.args[0])[0]})", 0


def worker_slot(w: Writer, e: E.Call) -> Text:
    """The number of the task that runs, given by whoever runs it."""
    w.uses_slot = True
    return "slot", 0


def place_storage(w: Writer, e: E.Call) -> Text:
    """The bytes of an arena; the offsets are kept in an array for placed_offset."""
    from bayplan.targets.c_placement import write_placement

    unit = w.unit
    table = unit.placements.get(id(e.target))
    if table is None:
        table = unit.global_name(f"{unit.name}_placement")
        unit.placements[id(e.target)] = table
        unit.tables.append(write_placement(e.target, table))
    sizes = ", ".join([w.scalar(a)[0] for a in e.args])
    given, offsets = w.fresh(f"{table}_sizes"), w.fresh(f"{table}_offsets")
    w.line(f"const int64_t {given}[{len(e.args)}] = {{{sizes}}};")
    w.line(f"int64_t {offsets}[{len(e.args)}];")
    w.offsets[id(e.target)] = offsets
    return f"bp_place(&{table}, &{table}_placed, {given}, {offsets})", 0


def placed_offset(w: Writer, e: E.Call) -> Text:
    """An offset that place_storage has found."""
    return f"{w.offsets[id(e.target)]}[{build.constant_value(e.args[0])}]", 0
