"""How the C functions of external stages are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.errors import DefinitionError, ErrorSite, ExternError, InternalError
from bayplan.ir.types import Type
from bayplan.targets.c_callee import call_callee, callee_lines, give_bytes, largest_over
from bayplan.targets.c_device import bring_back
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_text import ATOM, UNARY, Text, wrap

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Unit, Writer

FROM_TABLE: Final = "BP_EXTERNS_FROM_TABLE"
"""Defined where a loader fills the table of external functions, instead of a linker."""

_CODES: Final = {"int": 0, "uint": 1, "float": 2, "handle": 3}
_FIELDS: Final = 3
_LINE_BYTES: Final = 64

_HOST: Final = """
/* The first element of a buffer; never NULL, which would be a question for its bounds. */
__attribute__((unused)) static uint8_t *bp_first(const void *memory, int64_t offset, void *other) {
    return memory ? (uint8_t *)(uintptr_t)memory + offset : (uint8_t *)other;
}

/* Bytes in lines of 64; the largest number where there are more. */
__attribute__((unused)) static int32_t bp_lines(int64_t bytes) {
    return bytes > (int64_t)INT32_MAX * 64 ? INT32_MAX : (int32_t)((bytes + 63) / 64);
}
"""


class ExternFunction:
    """A C function that the program calls.

    Attributes:
        symbol: its name.
        wrapper: the function of the program through which it is called.
        parameters: C types.
        extern: the stage's record, for whoever looks the function up.
    """

    __slots__ = ("extern", "parameters", "symbol", "wrapper")

    def __init__(self, symbol: str, wrapper: str, parameters: list[str], extern: Any) -> None:
        self.symbol = symbol
        self.wrapper = wrapper
        self.parameters = parameters
        self.extern = extern


def _function(w: Writer, extern: Any) -> ExternFunction:
    unit = w.unit
    found = unit.extern_functions.get(extern.symbol)
    if found is None:
        parameters = [
            scalar_type(t) if dimensions is None else "bp_buffer *"
            for t, dimensions in extern.parameters
        ]
        wrapper = unit.global_name(f"{unit.name}_call_{extern.symbol}")
        found = ExternFunction(extern.symbol, wrapper, parameters, extern)
        unit.extern_functions[extern.symbol] = found
    return found


def extern_text(unit_name: str, functions: list[ExternFunction]) -> list[str]:
    """Declarations of the functions and the wrappers through which they are called."""
    lines = [_HOST]
    if not functions:
        return lines
    table = f"{unit_name}_externs"
    lines += [f"#if defined({FROM_TABLE})", f"BP_EXPORT void *{table}[{len(functions)}];"]
    lines.append("#else")
    for f in functions:
        lines.append(f"extern int32_t {f.symbol}({', '.join(f.parameters)});")
    lines.append("#endif")
    for i, f in enumerate(functions):
        names = [f"a{k}" for k in range(len(f.parameters))]
        space = ["" if p.endswith("*") else " " for p in f.parameters]
        declared = [p + s + n for p, s, n in zip(f.parameters, space, names, strict=True)]
        pointer = f"int32_t (*)({', '.join(f.parameters)})"
        lines += [
            "",
            f"static int32_t {f.wrapper}({', '.join(declared)}) {{",
            f"#if defined({FROM_TABLE})",
            f"    return (({pointer}){table}[{i}])({', '.join(names)});",
            "#else",
            f"    return {f.symbol}({', '.join(names)});",
            "#endif",
            "}",
        ]
    lines.append("")
    return lines


def check_names(unit: Unit) -> None:
    """Refuses functions that are called like what the file itself defines.

    Raises:
        DefinitionError: no linker could tell them apart.
    """
    own = {unit.name, *unit.callee_names.values()}
    for f in unit.extern_functions.values():
        if f.symbol in own:
            raise DefinitionError(
                f"the pipeline {f.symbol} calls a C function of the same name; give one of them "
                "another name",
                f.extern.where,
            )


# Buffers and calls


def _type_text(t: Type) -> str:
    return f"{{{_CODES[t.kind]}, {t.width}, 1}}"


class _Passed:
    """What a function is given.

    Attributes:
        args: the arguments of the call.
        extents: of the outputs.
        dims: the array of all dimensions.
        buffers: the array of buffers.
        count: how many they are.
        written: the numbers of the outputs.
    """

    __slots__ = ("args", "buffers", "count", "dims", "extents", "written")

    def __init__(self, dims: str, buffers: str) -> None:
        self.args: list[str] = []
        self.extents: list[str] = []
        self.dims = dims
        self.buffers = buffers
        self.count = 0
        self.written: list[int] = []


def _write_buffers(w: Writer, e: E.Call, stem: str) -> _Passed:
    """Declares the buffers of a call."""
    dims: list[str] = []
    described: list[tuple[Type, int, str]] = []
    passed = _Passed(w.fresh(f"{stem}_dims"), w.fresh(f"{stem}_buffers"))
    for argument in e.args:
        if type(argument) is E.Call and argument.name in _BUFFERS:
            element, *fields = argument.args
            texts = [w.scalar(field)[0] for field in fields]
            if argument.name == "written_buffer":
                passed.extents += texts[1::_FIELDS]
                passed.written.append(len(described))
            host = "NULL"
            if type(element) is E.Load:
                host = _first(w, element, passed.dims)
            passed.args.append(f"&{passed.buffers}[{len(described)}]")
            described.append((element.type.element_of(), len(dims), host))
            for d in range(0, len(texts), _FIELDS):
                dims.append(f"{{{', '.join(texts[d : d + _FIELDS])}, 0}}")
        else:
            passed.args.append(w.scalar(argument)[0])
    w.line(f"bp_dim {passed.dims}[] = {{{', '.join(dims) or '{0, 0, 0, 0}'}}};")
    rows = []
    ends = [first for _, first, _ in described[1:]] + [len(dims)]
    for (t, first, host), end in zip(described, ends, strict=True):
        rows.append(
            f"{{0, NULL, {host}, 0, {_type_text(t)}, {end - first}, {passed.dims} + {first}, NULL}}"
        )
    w.line(f"bp_buffer {passed.buffers}[] = {{{', '.join(rows)}}};")
    passed.count = len(rows)
    return passed


def _first(w: Writer, element: E.Load, other: str) -> str:
    """The address of an element, or of something else where there is no memory."""
    pointer = w.lookup(element.name)
    if pointer is None:
        raise InternalError(f"nothing stores {element.name}, which an external function is given")
    index = w.scalar(element.index)
    size = element.type.element_of().bytes()
    offset = "0" if index[0] == "0" else f"(int64_t){wrap(index, UNARY)} * {size}"
    return f"bp_first({pointer.text}, {offset}, {other})"


def _run_function(w: Writer, passed: _Passed, extern: Any) -> str:
    """Calls a C function; gives the name of its result."""
    called = f"{_function(w, extern).wrapper}({', '.join(passed.args)})"
    return w.local("int32_t", called)[0]


def _check(w: Writer, result: str, purpose: str, extern: Any) -> None:
    text = f"returned {{0}} when it {purpose} {extern.func}"
    _fail_if(w, f"{result} != 0", text, extern, [f"bp_int({result})"])


def _fail_if(w: Writer, condition: str, text: str, extern: Any, args: list[str]) -> None:
    """An error of an external function."""
    site_key = ("extern", extern.func, extern.symbol, text)
    site = w.unit.requirements.get(site_key)
    if site is None:
        message = f"the external function {extern.symbol} {text}"
        site = w.unit.requirements[site_key] = ErrorSite(ExternError, message, extern.where)
    w.line(f"if ({condition}) {{")
    w.depth += 1
    w.fail(site, args)
    w.depth -= 1
    w.line("}")


def _compute(w: Writer, passed: _Passed, extern: Any) -> None:
    """Calls a C function that computes; its values are on the host behind it."""
    result = _run_function(w, passed, extern)
    if w.unit.may_have_device:
        # Also where it failed, as it may have left memory there.
        status = f"{result} != 0 ? BP_ERROR : 0"
        bring_back(w, extern.func, passed.buffers, passed.count, status)
        _check(w, result, "computed", extern)
        w.leave_if_failed()
        return
    _check(w, result, "computed", extern)
    flags = " | ".join([f"{passed.buffers}[{i}].flags" for i in passed.written])
    text = f"left {extern.func} on a device, where programs for this target cannot fetch it"
    _fail_if(w, f"({flags}) & BP_DEVICE_DIRTY", text, extern, [])


def _call_extern(w: Writer, e: E.Call) -> Text:
    extern = e.target
    passed = [a for a in e.args if not _is_dropped(a)]
    count = len(extern.parameters)
    call = E.Call(e.type, e.name, tuple(passed[:count]), e.kind, extern)
    given = _write_buffers(w, call, extern.func)
    extents = dict.fromkeys(given.extents)
    conditions = [f"{extent} > 0" for extent in extents if not _positive(extent)]
    if conditions:
        # Nothing to compute is no call.
        w.line(f"if ({' && '.join(conditions)}) {{")
        w.depth += 1
    if extern.lowered is None:
        _compute(w, given, extern)
    else:
        call_callee(w, extern, given.args, *_workspace(w, passed, given.dims))
        if w.unit.may_have_device:
            bring_back(w, extern.func, given.buffers, given.count, "status")
        w.leave_if_failed()
    if conditions:
        w.depth -= 1
        w.line("}")
    return "0", ATOM


def _workspace(w: Writer, passed: list[E.Expr], array: str) -> tuple[str, str]:
    """Address and bytes of a callee's workspace; none: it takes memory from the context."""
    for argument in passed:
        if type(argument) is E.Call and argument.name == "callee_workspace":
            element, lines = argument.args
            assert type(element) is E.Load
            # One that needs nothing is still a workspace.
            address = _first(w, element, array)
            return address, f"(uint64_t){wrap(w.scalar(lines), UNARY)} * {_LINE_BYTES}"
    return "NULL", "0"


def _positive(text: str) -> bool:
    return text.isdigit() and text != "0"


def _is_dropped(argument: E.Expr) -> bool:
    return type(argument) is E.Call and argument.name == "required_region"


def _query_extern(w: Writer, e: E.Call) -> Text:
    extern = e.target
    given = _write_buffers(w, e, f"{extern.func}_query")
    if extern.lowered is None:
        _check(w, _run_function(w, given, extern), "was asked for the regions of", extern)
    else:
        call_callee(w, extern, given.args, "NULL", "0")
        w.leave_if_failed()
    return given.dims, ATOM


def _query_result(w: Writer, e: E.Call) -> Text:
    handle, dimension, field = e.args
    assert isinstance(field, E.StringImm)
    name = w.scalar(handle)[0]
    index = build.constant_value(dimension)
    return f"((const bp_dim *){name})[{index}].{field.value}", ATOM


_BUFFERS: Final = ("read_buffer", "written_buffer", "query_buffer")

RULES: Final[dict[str, Callable[[Any, E.Call], Text]]] = {
    "call_extern": _call_extern,
    "query_extern": _query_extern,
    "query_result": _query_result,
    "callee_lines": callee_lines,
    "give_bytes": give_bytes,
    "largest_over": largest_over,
}
