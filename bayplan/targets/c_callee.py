"""Pipelines that a pipeline calls: functions of their own in the same file, before its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import exprs as E
from bayplan.ir.types import Type
from bayplan.targets.c_names import sanitise, scalar_type
from bayplan.targets.c_stmts import StatementWriter
from bayplan.targets.c_storage import function_body
from bayplan.targets.c_text import ADD, ATOM, Text, binary, comment
from bayplan.targets.c_writer import Binding, Unit, Writer

if TYPE_CHECKING:
    from bayplan.lower.callee import Callee
    from bayplan.targets.c import Emission

_ENDINGS: Final = (
    "", "_body", "_size", "_argv", "_workspace_bytes", "_workspace_bytes_argv", "_with_workspace",
    "_with_workspace_argv",
)  # fmt: skip


def entry_name(unit: Unit, wanted: str) -> str:
    """A name whose entry points nothing else in the file is called like."""
    stem = name = sanitise(wanted)
    number = 1
    while any(name + ending in unit.used_names for ending in _ENDINGS):
        number += 1
        name = f"{stem}_{number}"
    unit.used_names |= {name + ending for ending in _ENDINGS}
    return name


def add_callee(emission: Emission, callee: Callee) -> None:
    """Adds the entry points of a callee, and forward declarations of what its callers call."""
    from bayplan.targets.c_entry import write_entry

    unit, name = emission.unit, emission.name
    unit.callee_names[id(callee)] = name
    write_entry(emission)
    parameters = ", ".join(["bp_context *ctx", *emission.parameters])
    unit.externs[f"{name}_body"] = (
        f"/* The pipeline {comment(emission.program.name)}, which others in this file call. */\n"
        f"static int32_t {name}_body({parameters}, void *workspace,\n"
        "    uint64_t workspace_bytes, int64_t *query);"
    )
    _add_size(emission, callee)


def _add_size(emission: Emission, callee: Callee) -> None:
    """Adds the function that computes the bytes of a callee's workspace from its parameters."""
    if callee.size is None:
        return
    w = Writer(emission.unit)
    w.fresh("query")
    types = _types(callee)
    declared = ["bp_context *ctx"]
    for name in callee.size_parameters:
        c_type = scalar_type(types[name])
        c_name = w.fresh(name)
        w.scope[name] = Binding(c_name, c_type)
        declared.append(f"{c_type} {c_name}")
    StatementWriter(emission, w).write(callee.size)
    head = f"static int32_t {emission.name}_size({', '.join([*declared, 'int64_t *query'])})"
    emission.unit.externs[f"{emission.name}_size"] = f"{head};\n"
    emission.unit.functions.append(
        [
            f"/* The bytes of the workspace of {emission.name}. */",
            f"{head} {{",
            "    (void)ctx;",
            *function_body(w),
            "}",
            "",
        ]
    )


def _types(callee: Callee) -> dict[str, Type]:
    from bayplan.ir.types import INT32

    types = dict.fromkeys(callee.size_parameters, INT32)
    types.update({a.name: a.type for a in callee.program.arguments if not a.is_buffer()})
    return types


def callee_name(unit: Unit, callee: Callee) -> str:
    """The C name of a callee."""
    return unit.callee_names[id(callee)]


def callee_lines(w: Writer, e: E.Call) -> Text:
    """The size of the workspace of a callee, in lines."""
    values = [w.scalar(a)[0] for a in e.args]
    name = w.temp()
    w.line(f"int64_t {name} = 0;")
    call = f"{callee_name(w.unit, e.target)}_size({', '.join(['ctx', *values, f'&{name}'])})"
    _end_if_failed(w, call)
    return f"bp_lines({name})", ATOM


def give_bytes(w: Writer, e: E.Call) -> Text:
    """Hands the bytes of a workspace to who asked for them."""
    w.line(f"*query = {w.scalar(e.args[0])[0]};")
    return "0", ATOM


def call_callee(w: Writer, extern: Any, args: list[str], workspace: str, size: str) -> None:
    """Sets the status to that of a callee, which has noted its errors in the context."""
    call = f"{callee_name(w.unit, extern.lowered)}_body"
    w.line(f"status = {call}({', '.join(['ctx', *args, workspace, size, 'NULL'])});")


def _end_if_failed(w: Writer, call: str) -> None:
    w.line(f"status = {call};")
    w.leave_if_failed()


def largest_over(w: Writer, e: E.Call) -> Text:
    """The largest value over a loop, by trying all of its iterations."""
    loop, low, extent, value = e.args
    assert isinstance(loop, E.StringImm)
    begin = w.scalar(low)
    first = begin[0]
    c_type = scalar_type(e.type)
    best, end = w.temp(), w.local("int32_t", binary("+", ADD, begin, w.scalar(extent))[0])[0]
    w.line(f"{c_type} {best} = 0;")
    scope, memo = dict(w.scope), dict(w.memo)
    name = w.declare(loop.value, "int32_t")
    w.line(f"for (int32_t {name} = {first}; {name} < {end}; {name}++) {{")
    w.depth += 1
    found = w.local(c_type, w.scalar(value)[0])[0]
    w.line(f"if ({found} > {best}) {best} = {found};")
    w.depth -= 1
    w.line("}")
    w.scope, w.memo = scope, memo
    return best, ATOM
