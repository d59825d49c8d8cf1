"""The C and C++ header of a program that is built ahead of time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir.stmts import Allocate
from bayplan.ir.types import Type
from bayplan.ir.walk import iterate
from bayplan.targets.c_text import comment
from bayplan.targets.header import read_header

if TYPE_CHECKING:
    from bayplan.lower.program import Argument, LoweredProgram
    from bayplan.targets.c import Emission

_WIDTH: Final = 100

_BUFFER_ARGUMENT: Final = """
/* A buffer as functions take it. Halide's halide_buffer_t is laid out in the same way: C++ may give
 * either, C gives the other one where HalideRuntime.h comes first. */
#ifndef BP_BUFFER_ARGUMENT
#define BP_BUFFER_ARGUMENT
struct halide_buffer_t;
#if defined(__cplusplus) || defined(HALIDE_HALIDERUNTIME_H)
typedef struct halide_buffer_t *bp_buffer_argument;
#else
typedef struct bp_buffer *bp_buffer_argument;
#endif
#endif
"""

_WORKSPACE: Final = """
/* Bytes of the workspace, whatever the arguments are; they begin at a multiple of the alignment.
 * WORKSPACE(w) defines such an array w. WORKSPACE_FITS(w) stops the compiler where an array of the
 * caller's own is too small. */
#define {name}_WORKSPACE_BYTES {bytes}
#if defined(__cplusplus)
#define {name}_WORKSPACE(w) alignas({name}_WORKSPACE_ALIGN) static unsigned char w[{size}]
#define {name}_WORKSPACE_FITS(w) \\
    static_assert(sizeof(w) >= {name}_WORKSPACE_BYTES, "{name} needs {bytes} bytes")
#else
#define {name}_WORKSPACE(w) static _Alignas({name}_WORKSPACE_ALIGN) unsigned char w[{size}]
#define {name}_WORKSPACE_FITS(w) \\
    _Static_assert(sizeof(w) >= {name}_WORKSPACE_BYTES, "{name} needs {bytes} bytes")
#endif
"""


def write_header(emission: Emission, stack_bytes: int | None = None) -> str:
    """The text of the header.

    Args:
        emission: of the program, as `c.emit` made it ahead of time.
        stack_bytes: what its functions take of the stack, where that was measured.
    """
    name = emission.name
    guard = f"BAYPLAN_GENERATED_{name}_H"
    size = workspace_bytes(emission.program)
    plan = emission.program.plan
    alignment = plan.alignment if plan is not None else 1
    parts = [
        _title(emission, size, stack_bytes),
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <stdbool.h>\n",
        read_header().rstrip("\n"),
        _BUFFER_ARGUMENT,
        f"#define {name}_WORKSPACE_ALIGN {alignment}\n"
        "/* Whether a workspace begins where no byte of it is left unused. */\n"
        f"#define {name}_WORKSPACE_ALIGNED(w) ((uintptr_t)(w) % {name}_WORKSPACE_ALIGN == 0)",
    ]
    if size is not None:
        parts.append(_WORKSPACE.format(name=name, bytes=size, size=max(1, size)))
    if stack_bytes is not None:
        parts.append(
            "/* The most bytes of stack that a call takes, hooks not counted; a worker of a\n"
            " * parallel loop takes no more. Measured when the library was built. */\n"
            f"#define {name}_STACK_BYTES {stack_bytes}\n"
        )
    parts += [
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n",
        *[f"{text};" for text in _declarations(emission)],
        "\n/* Names, types, ranges and estimates of the arguments. */\n"
        "struct halide_filter_metadata_t;\n"
        f"const struct halide_filter_metadata_t *{name}_metadata(void);",
        *[_of_callee(called) for called in emission.callees],
        "\n#ifdef __cplusplus\n}\n",
        *_overloads(emission),
        "#endif\n",
        "#endif\n",
    ]
    return "\n".join(parts)


def _of_callee(called: Emission) -> str:
    remark = f"/* {comment(called.program.name)}, which the program calls, alone. */"
    return "\n".join([f"\n{remark}", *[f"{text};" for text in _declarations(called)]])


def workspace_bytes(program: LoweredProgram) -> int | None:
    """The bytes of the workspace where they are the same for every call."""
    plan = program.plan
    if plan is None or plan.unplanned:
        return None
    if plan.call_arena is None:
        return 0
    for node in iterate(program.body):
        if type(node) is Allocate and node.name == plan.call_arena and node.address is None:
            elements = 1
            for extent in node.extents:
                value = build.constant_value(extent)
                if value is None:
                    return None
                elements *= max(0, int(value))
            return (elements + node.padding) * node.type.bytes()
    return None


def _forms(emission: Emission) -> list[tuple[str, str, str, list[str], list[str]]]:
    """Each public function: comment, result type, name, C parameters, names of parameters."""
    name = emission.name
    context = ["struct bp_context *ctx"] if emission.takes_context else []
    own = [*context, *emission.parameters]
    workspace = ["void *workspace", "uint64_t workspace_bytes"]
    listed = [*context, "void **args"]
    text = (
        ("Runs the program: 0, or a negative result.", "int", name, own),
        (
            "Bytes that a call with these arguments needs; or a negative result. The buffers need "
            "no\n * memory for this question.",
            "int64_t",
            f"{name}_workspace_bytes",
            own,
        ),
        (
            "Runs in the workspace and takes no other memory. The bytes count from the first "
            "address in it\n * that is a multiple of the alignment.",
            "int",
            f"{name}_with_workspace",
            [*own, *workspace],
        ),
        (
            "The same with pointers to buffers and to the values of scalars, in order.",
            "int",
            f"{name}_argv",
            listed,
        ),
        ("", "int64_t", f"{name}_workspace_bytes_argv", listed),
        ("", "int", f"{name}_with_workspace_argv", [*listed, *workspace]),
    )
    return [(*form, [p.rpartition(" ")[2].lstrip("*") for p in form[3]]) for form in text]


def _declarations(emission: Emission) -> list[str]:
    found = []
    for remark, result, function, parameters, _ in _forms(emission):
        head = f"\n/* {remark} */\n" if remark else ""
        listed = [_argument_type(p) for p in parameters]
        found.append(head + _wrap(f"{result} {function}(", listed, ")"))
    return found


def _wrap(head: str, parts: list[str], end: str) -> str:
    """head, the parts with commas, end; on several lines where one would be too long."""
    line = head
    lines = []
    for i, part in enumerate(parts):
        text = part + (", " if i + 1 < len(parts) else end)
        if len(line) + len(text.rstrip()) > _WIDTH and line.strip():
            lines.append(line.rstrip())
            line = "        "
        line += text
    return "\n".join([*lines, line])


def _argument_type(parameter: str) -> str:
    return parameter.replace("bp_buffer *", "bp_buffer_argument ", 1)


def _overloads(emission: Emission) -> list[str]:
    """For C++: the functions with buffers, also for bp_buffer."""
    lines = []
    for _, result, function, parameters, names in _forms(emission):
        if function.endswith("_argv"):
            continue
        given = [
            f"reinterpret_cast<halide_buffer_t *>({n})" if p.startswith("bp_buffer *") else n
            for p, n in zip(parameters, names, strict=True)
        ]
        lines.append(
            _wrap(f"inline {result} {function}(", parameters, ") {")
            + "\n"
            + _wrap(f"    return {function}(", given, ");\n}")
        )
    return lines


def _title(emission: Emission, size: int | None, stack_bytes: int | None) -> str:
    """The comment that the header begins with: what it takes, and what it needs."""
    program = emission.program
    lines = [f"{program.name}: built by Bayplan for {program.target}; for C and C++.", ""]
    for argument, parameter in zip(program.arguments, emission.parameters, strict=True):
        lines.append(f"  {parameter.rpartition(' ')[2].lstrip('*')}: {_describe(argument)}")
    lines.append("")
    if emission.takes_context:
        lines.append("ctx gives memory, workers and messages: alloc, release, parallel_for, print.")
        lines.append("One call at a time uses a context; its error is that of the last call.")
    else:
        lines.append(
            "Memory, workers and messages come from bp_default_context(): alloc, release,"
        )
        lines.append("parallel_for, print. bp_format_error tells the error of the last call.")
    lines += _bytes_in_words(emission, size)
    body = "\n".join([f" * {comment(line)}".rstrip() for line in lines])
    return f"/*\n{body}\n */"


def _bytes_in_words(emission: Emission, size: int | None) -> list[str]:
    """What a call takes for temporaries, as a number or as a formula of the call's sizes."""
    from bayplan.storage.formula import write_formulas

    plan = emission.program.plan
    if plan is None or size == 0:
        return ["", "A call needs no memory for temporaries."]
    if plan.unplanned:
        names = ", ".join(plan.unplanned)
        return ["", f"The bytes of {names} depend on data, so they are not known before the call."]
    formulas = write_formulas(plan)
    lines = ["", "Temporaries, each but the last rounded up to a multiple of the alignment:"]
    for temporary, text in zip(plan.temporaries, formulas.sizes, strict=True):
        line = f"  {temporary.name}: {text}"
        # Loops in pieces have the temporaries inside once a piece.
        if temporary.arena and not temporary.slots_of and line not in lines:
            lines.append(line)
    lines += [f"  where {name} = {text}" for name, text in formulas.terms]
    total = formulas.peak or formulas.floor
    if size is not None:
        lines.append(f"Bytes of each call: {size}")
    elif total:
        inside = [t.name for t in plan.temporaries if t.output]
        lines.append(f"Bytes of a call: {'' if formulas.peak else 'at least '}{total}")
        if inside:
            lines.append(f"less {', '.join(inside)} where that fits into a dense output.")
    lines.append(f"{emission.name}_workspace_bytes gives the number.")
    return lines


def _describe(argument: Argument) -> str:
    t: Type = argument.type
    if not argument.is_buffer():
        return f"{t}{_range(argument.source)}"
    kind = "written" if argument.kind == "output_buffer" else "read"
    dims = f"{argument.dimensions} dimension{'' if argument.dimensions == 1 else 's'}"
    promises = _promises(argument.source)
    return f"{t}, {dims}, {kind}" + (f"; {promises}" if promises else "")


def _range(source: Any) -> str:
    low, high = getattr(source, "min_value", None), getattr(source, "max_value", None)
    if low is None and high is None:
        return ""
    return f", {low if low is not None else '...'} to {high if high is not None else '...'}"


def _promises(source: Any) -> str:
    """What the program demands of a buffer's shape."""
    found = []
    for d, constraint in enumerate(getattr(source, "constraints", ())):
        for field in ("min", "extent", "stride"):
            value = getattr(constraint, field)
            if value is not None:
                found.append(f"{field} of dimension {d} is {value}")
    return ", ".join([re.sub(r"\s+", " ", text) for text in found])
