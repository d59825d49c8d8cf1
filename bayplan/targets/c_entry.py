"""The entry points of a program: one function that does the work, and three ways to call it.

`NAME` takes memory from its context, `NAME_with_workspace` from its caller, and
`NAME_workspace_bytes` says how much that is. All three run `NAME_body`, so they cannot disagree:
with `query` it stops where it would take its arena and gives the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.ir.errors import BufferError, ErrorSite, WorkspaceError
from bayplan.ir.types import Type
from bayplan.targets.c_names import memory_type, scalar_type
from bayplan.targets.c_static_tables import add_tables
from bayplan.targets.c_stmts import StatementWriter
from bayplan.targets.c_storage import function_body
from bayplan.targets.c_writer import Binding, Lines, Unit, Writer

if TYPE_CHECKING:
    from bayplan.lower.program import Argument
    from bayplan.targets.c import Emission

_TYPE_CODES = {"int": 0, "uint": 1, "float": 2, "handle": 3}
_WORKSPACE = "void *workspace, uint64_t workspace_bytes"


def write_entry(emission: Emission) -> None:
    """Adds the entry points of the program to its functions."""
    add_tables(emission.unit, emission.program.tables)
    _write_body(emission)
    emission.unit.functions += [_calling_entry(emission), _bytes_entry(emission)]
    emission.unit.functions += [_workspace_entry(emission), _argv_entries(emission)]


def _write_body(emission: Emission) -> None:
    program, unit = emission.program, emission.unit
    w = Writer(unit)
    for name in ("workspace", "workspace_bytes", "query"):
        w.fresh(name)
    head: Lines = []
    checks: Lines = []
    declared: list[str] = []
    for argument in program.arguments:
        c_name = w.fresh(argument.name + ("_buffer" if argument.is_buffer() else ""))
        if argument.is_buffer():
            declared.append(f"bp_buffer *{c_name}")
            w.scope[f"{argument.name}.buffer"] = Binding(c_name, "bp_buffer *")
            checks += _check_buffer(unit, argument, c_name)
        else:
            c_type = scalar_type(argument.type)
            declared.append(f"{c_type} {c_name}")
            w.scope[argument.name] = Binding(c_name, c_type)
            if argument.name not in emission.live:
                head.append(f"    (void){c_name};")
    emission.parameters = declared
    for argument in program.arguments:
        if argument.is_buffer():
            checks += _unpack(emission, w, argument)
    StatementWriter(emission, w).write(program.body)
    parameters = ", ".join(["bp_context *ctx", *declared, _WORKSPACE, "int64_t *query"])
    lines: Lines = [
        f"static int32_t {emission.name}_body({parameters}) {{",
        "    (void)ctx;",
        "    (void)workspace;",
        "    (void)workspace_bytes;",
        "    (void)query;",
        head,
        checks,
        *function_body(w),
        "}",
        "",
    ]
    unit.functions.append(lines)


def _check_buffer(unit: Unit, argument: Argument, c_name: str) -> Lines:
    """Type and rank, which must be right before the fields can be read."""
    title = f"{'Output' if argument.kind == 'output_buffer' else 'Input'} buffer {argument.name}"
    t, n = argument.type, argument.dimensions
    missing = ErrorSite(BufferError, f"{title} is missing (null pointer)", argument.where)
    wrong_type = ErrorSite(
        BufferError,
        f"{title} has elements of type code {{0}} with {{1}} bits, but {t} is needed",
        argument.where,
    )
    wrong_rank = ErrorSite(
        BufferError, f"{title} has {{0}} dimensions, but {n} are needed", argument.where
    )
    code = _TYPE_CODES[t.kind]
    b = c_name

    def fail(condition: str, site: ErrorSite, *args: str) -> Lines:
        w = Writer(unit)
        w.line(f"if ({condition}) {{")
        w.depth += 1
        w.fail(site, args)
        w.depth -= 1
        w.line("}")
        return w.lines

    kind = f"{b}->type.code != {code} || {b}->type.bits != {t.width} || {b}->type.lanes != 1"
    return [
        *fail(f"{b} == NULL", missing),
        *fail(kind, wrong_type, f"bp_int({b}->type.code)", f"bp_int({b}->type.bits)"),
        *fail(f"{b}->dimensions != {n}", wrong_rank, f"bp_int({b}->dimensions)"),
    ]


def _unpack(emission: Emission, w: Writer, argument: Argument) -> Lines:
    """The pointer and the fields of a buffer that the program uses."""
    lines: Lines = []
    name = argument.name
    buffer = w.scope[f"{name}.buffer"].text
    written = argument.kind == "output_buffer"
    c_type = memory_type(argument.type)
    pointer = w.fresh(name)
    const = "" if written else "const "
    w.scope[name] = Binding(pointer, f"{const}{c_type} *")
    lines.append(f"    {const}{c_type} *const {pointer} = ({const}{c_type} *){buffer}->host;")
    lines.append(f"    (void){pointer};")
    for d in range(argument.dimensions):
        for field in ("min", "extent", "stride"):
            full = f"{name}.{field}.{d}"
            if full in emission.live:
                c_name = w.fresh(full)
                w.scope[full] = Binding(c_name, "int32_t")
                lines.append(f"    const int32_t {c_name} = {buffer}->dim[{d}].{field};")
    return lines


def _names(emission: Emission) -> str:
    """The arguments as they are handed on, with a comma behind each."""
    names = [p.rpartition(" ")[2].lstrip("*") for p in emission.parameters]
    return "".join([f"{name}, " for name in names])


def _parameters(emission: Emission, *more: str) -> str:
    return ", ".join([*_context_parameter(emission), *emission.parameters, *more])


def _context_parameter(emission: Emission) -> list[str]:
    return ["bp_context *ctx"] if emission.takes_context else []


def _opening(emission: Emission) -> Lines:
    """What a public function begins with: its context, and that no error is noted yet.

    A call from Python has both from its caller.
    """
    if not emission.ahead:
        return []
    found = [] if emission.takes_context else ["    bp_context *const ctx = bp_default_context();"]
    return [*found, "    bp_begin(ctx);"]


def _calling_entry(emission: Emission) -> Lines:
    return [
        f"BP_EXPORT int32_t {emission.name}({_parameters(emission)}) {{",
        _opening(emission),
        f"    return {emission.name}_body(ctx, {_names(emission)}NULL, 0, NULL);",
        "}",
        "",
    ]


def _unplanned(emission: Emission) -> Lines:
    """The refusal of a workspace where some temporary is allocated on its own."""
    plan = emission.program.plan
    if plan is None or not plan.unplanned:
        return []
    name = plan.unplanned[0]
    origin = emission.program.origins.get(name)
    site = ErrorSite(
        WorkspaceError,
        f"the bytes of {emission.program.name} are not known before the call: the size of {name} "
        "depends on data, so it has no place in a workspace",
        None if origin is None else origin.where,
    )
    index = emission.unit.site(site)
    return [f"    return bp_fail(ctx, bp_sites, {index}, NULL, 0);"]


def _unused(emission: Emission, *more: str) -> Lines:
    names = [p.rpartition(" ")[2].lstrip("*") for p in emission.parameters]
    return [f"    (void){name};" for name in (*names, *more)]


def _bytes_entry(emission: Emission) -> Lines:
    head: Lines = [
        f"BP_EXPORT int64_t {emission.name}_workspace_bytes({_parameters(emission)}) {{",
        _opening(emission),
    ]
    refusal = _unplanned(emission)
    plan = emission.program.plan
    if refusal:
        return [*head, *_unused(emission), *refusal, "}", ""]
    if plan is None or plan.call_arena is None:
        return [*head, *_unused(emission, "ctx"), "    return 0;", "}", ""]
    return [
        *head,
        "    int64_t bytes = 0;",
        f"    const int32_t status = {emission.name}_body(ctx, {_names(emission)}NULL, 0, &bytes);",
        "    return status < 0 ? status : bytes;",
        "}",
        "",
    ]


def _workspace_entry(emission: Emission) -> Lines:
    head: Lines = [
        f"BP_EXPORT int32_t {emission.name}_with_workspace("
        f"{_parameters(emission, _WORKSPACE)}) {{",
        _opening(emission),
    ]
    refusal = _unplanned(emission)
    if refusal:
        return [head, *_unused(emission, "workspace", "workspace_bytes"), *refusal, "}", ""]
    return [
        head,
        "    static char none[1];",
        f"    return {emission.name}_body(ctx, {_names(emission)}",
        "        workspace ? workspace : none, workspace ? workspace_bytes : 0, NULL);",
        "}",
        "",
    ]


def _argv_entries(emission: Emission) -> Lines:
    """The entry points that take an array of pointers: to buffers, and to scalars' values."""
    args = ["ctx"] if emission.takes_context else []
    for i, argument in enumerate(emission.program.arguments):
        if argument.is_buffer():
            args.append(f"(bp_buffer *)args[{i}]")
        elif argument.type.kind == "handle":
            args.append(f"*(void **)args[{i}]")
        else:
            args.append(f"*(const {_argument_memory(argument.type)} *)args[{i}]")
    given = ", ".join(args)
    name = emission.name
    forms = (
        ("int32_t", name, "", ""),
        ("int64_t", f"{name}_workspace_bytes", "", ""),
        ("int32_t", f"{name}_with_workspace", f", {_WORKSPACE}", ", workspace, workspace_bytes"),
    )
    lines: Lines = []
    for result, function, declared, passed in forms:
        first = "".join([f"{p}, " for p in _context_parameter(emission)])
        lines += [
            f"BP_EXPORT {result} {function}_argv({first}void **args{declared}) {{",
            "    (void)args;",
            f"    return {function}({given}{passed});",
            "}",
            "",
        ]
    return lines


def _argument_memory(t: Type) -> str:
    return "uint8_t" if t.width == 1 else scalar_type(t)
