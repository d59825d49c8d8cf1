"""Calls that do more than give a value: prints, requirements, prefetches, buffers' fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.errors import ErrorSite, InternalError, RequirementFailed
from bayplan.ir.types import Type
from bayplan.targets import c_device, c_sanitize, c_storage
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_text import ATOM, Text, string_literal

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer


_MOST_IN_ERROR: Final = 12
"""Arguments that the record of an error has room for."""


def effect(w: Writer, e: E.Call) -> Text:
    """A scalar call with an effect, or about the buffers of the entry point."""
    rule = _EFFECTS.get(e.name)
    if rule is None:
        from bayplan.targets.c_extern import RULES

        rule = RULES.get(e.name)
    if rule is None:
        raise InternalError(f"the C target has no form for the intrinsic {e.name!r}")
    return rule(w, e)


def argument(w: Writer, e: E.Expr) -> str:
    """A value as a `bp_arg`."""
    if isinstance(e, E.StringImm):
        return f"bp_string({string_literal(e.value)})"
    t: Type = e.type
    text = w.scalar(e)[0]
    if t.width == 1:
        return f'bp_string({text} ? "true" : "false")'
    if t.kind == "float":
        return f"bp_double({text})" if t.width == 64 else f"bp_float({text})"
    if t.kind == "handle":
        return f"bp_pointer({text})"
    return f"bp_int({text})" if t.kind == "int" else f"bp_uint({text})"


def fail(w: Writer, site: ErrorSite, args: Sequence[E.Expr]) -> None:
    """Notes the error and leaves the function, inside the block of an if."""
    w.fail(site, [argument(w, a) for a in args[:_MOST_IN_ERROR]])


def _print(w: Writer, e: E.Call) -> Text:
    value = w.scalar(e.args[0])
    args = [argument(w, a) for a in e.args]
    w.line("{")
    w.depth += 1
    w.line(f"ctx->print(ctx, {w.arguments(args)});")
    w.depth -= 1
    w.line("}")
    return value


def _print_when(w: Writer, e: E.Call) -> Text:
    condition = w.scalar(e.args[0])
    value = w.scalar(e.args[1])
    saved = dict(w.memo)
    w.line(f"if ({condition[0]}) {{")
    w.depth += 1
    args = [argument(w, a) for a in e.args[1:]]
    w.line(f"ctx->print(ctx, {w.arguments(args)});")
    w.depth -= 1
    w.line("}")
    w.memo = saved
    return value


def _require(w: Writer, e: E.Call) -> Text:
    """value, or the end of the call with the message."""
    condition, value, *message = e.args
    text = w.scalar(condition)
    parts = []
    values: list[E.Expr] = []
    for part in message:
        if isinstance(part, E.StringImm):
            parts.append(part.value.replace("{", "{{").replace("}", "}}"))
        else:
            parts.append(f"{{{len(values)}}}")
            values.append(part)
    site = _requirement(w, e, " ".join(parts))
    name = scalar_type(value.type)
    saved = dict(w.memo)
    w.line(f"if (!({text[0]})) {{")
    w.depth += 1
    fail(w, site, values)
    w.depth -= 1
    w.line("}")
    w.memo = saved
    result = w.scalar(value)
    # A load of the value must not move before the test.
    return result if result[1] == ATOM else w.local(name, result[0])


def _requirement(w: Writer, e: E.Call, message: str) -> ErrorSite:
    key = ("requirement", e)
    found = w.unit.requirements.get(key)
    if found is None:
        where = getattr(e.target, "where", e.target) if e.target is not None else None
        found = ErrorSite(RequirementFailed, message or "a requirement does not hold", where)
        w.unit.requirements[key] = found
    return found


def _buffer(w: Writer, e: E.Expr) -> str:
    assert isinstance(e, E.StringImm)
    found = w.lookup(f"{e.value}.buffer")
    if found is None:
        raise InternalError(f"the entry point has no buffer {e.value!r}")
    return found.text


def _overlap(w: Writer, e: E.Call) -> Text:
    a, b = _buffer(w, e.args[0]), _buffer(w, e.args[1])
    w.unit.need_overlap = True
    return f"{e.name.replace('buffers', 'bp_buffers')}({a}, {b})", ATOM


def _is_query(w: Writer, e: E.Call) -> Text:
    b = _buffer(w, e.args[0])
    return f"(!query && {b}->host == NULL && {b}->device == 0)", ATOM


def _host_is_null(w: Writer, e: E.Call) -> Text:
    b = _buffer(w, e.args[0])
    return f"(!query && {b}->host == NULL && {b}->device == 0)", ATOM


def _host_address(w: Writer, e: E.Call) -> Text:
    return f"(uint64_t)(uintptr_t){_buffer(w, e.args[0])}->host", 1


def _set_bounds(w: Writer, e: E.Call) -> Text:
    b = _buffer(w, e.args[0])
    d = build.constant_value(e.args[1])
    low, extent, stride = [w.scalar(a)[0] for a in e.args[2:5]]
    w.line(f"{b}->dim[{d}] = (bp_dim){{{low}, {extent}, {stride}, 0}};")
    return "0", ATOM


def _return(w: Writer, e: E.Call) -> Text:
    w.leave("0")
    return "0", ATOM


def _prefetch(w: Writer, e: E.Call) -> Text:
    name = e.args[0]
    if isinstance(name, E.StringImm):
        found = w.lookup(name.value)
        if found is not None:
            w.line(f"__builtin_prefetch({found.text} + {w.scalar(e.args[1])[0]});")
    return "0", ATOM


def _undef(w: Writer, e: E.Call) -> Text:
    return "0", ATOM




_EFFECTS: Final[dict[str, Callable[[Writer, E.Call], Text]]] = {
    "print": _print,
    "print_when": _print_when,
    "require": _require,
    "buffers_overlap": _overlap,
    "buffers_coincide": _overlap,
    "buffer_is_bounds_query": _is_query,
    "buffer_host_is_null": _host_is_null,
    "buffer_host_address": _host_address,
    "buffer_set_bounds": _set_bounds,
    "return_from_call": _return,
    "prefetch": _prefetch,
    "undef": _undef,
    "size_in_bytes": c_storage.size_in_bytes,
    "parallel_slots": c_storage.parallel_slots,
    "worker_slot": c_storage.worker_slot,
    "place_storage": c_storage.place_storage,
    "placed_offset": c_storage.placed_offset,
    "begin_life": c_sanitize.begin_life,
    "end_life": c_sanitize.end_life,
    "device_copy_in": c_device.device_call,
    "device_copy_out": c_device.device_call,
    "device_written": c_device.device_call,
    "host_written": c_device.device_call,
    "device_shared_limit": c_device.shared_limit,
}
