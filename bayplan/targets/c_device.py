"""What the host does about memory of devices: allocations, aliases, and copies between both sides.

A temporary that only kernels use is a `bp_device_pointer`. One that the host uses too has memory on
both sides and a `bp_home`, which knows on which side the newer bytes are; a buffer's own flags say
that of it (see prelude_device.c).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import (
    DeviceError,
    ErrorSite,
    InternalError,
    NoDevice,
    OutOfDeviceMemory,
)
from bayplan.ir.walk import iterate
from bayplan.language.target_names import DeviceAPI
from bayplan.storage.kernels import ON_DEVICE
from bayplan.targets.c_text import ATOM, Text, string_literal
from bayplan.targets.c_writer import Binding, Lines

if TYPE_CHECKING:
    from bayplan.targets.c import Emission
    from bayplan.targets.c_stmts import StatementWriter
    from bayplan.targets.c_writer import Writer

POINTER: Final = "bp_device_pointer"
_HOME: Final = "bp_home *"

_HINTS: Final = {
    "opencl": "pip install 'bayplan[opencl]' brings a loader and a device on the CPU; for a GPU "
    "install its vendor's OpenCL driver; `bayplan doctor` says what is there",
    "cuda": "install NVIDIA's driver; the target host-cuda-emulated runs the same kernels on the "
    "CPU; `bayplan doctor` says what is there",
    "emulated": "",
}  # fmt: skip


# Allocations


def allocate_on_device(sw: StatementWriter, s: S.Allocate) -> None:
    """Memory of the device for `s` and what is done in it."""
    from bayplan.targets.c_storage import describe, release

    w = sw.w
    scope = dict(w.scope)
    first, begins = w.depth == 1 and not w.heap, len(w.lines)
    w.begin_statement(*s.extents, s.condition)
    w.line(f"/* {describe(sw, s, 'device')} */")
    if s.address is not None:
        name = _declare_place(sw, s)
    else:
        name = w.declare(s.name, POINTER, short=False)
        w.heap.append((name, POINTER, s.name, ""))
        sw.heap[s.name] = name
        _take(sw, s, name)
        if first:
            w.first_open = (begins, len(w.lines))
        w.open += 1
    if s.name.endswith(ON_DEVICE):
        declare_home(sw, s, s.name.removesuffix(ON_DEVICE))
    sw.write(s.body)
    release(sw, s.name)
    w.scope = scope


def _declare_place(sw: StatementWriter, s: S.Allocate) -> str:
    """A place in an arena of the device."""
    from bayplan.targets.c_storage import arena_of_alias

    w = sw.w
    _, found, offset = arena_of_alias(w, s)
    w.begin_statement(offset)
    text = w.scalar(offset)[0]
    name = w.declare(s.name, POINTER, short=False)
    w.line(f"const {POINTER} {name} = bp_device_place({found.text}, {text});")
    return name


def _take(sw: StatementWriter, s: S.Allocate, name: str) -> None:
    from bayplan.targets.c_storage import bytes_of, where_of

    w = sw.w
    plan = sw.emission.program.plan
    parts = "" if plan is None else plan.parts_of(s.name)
    site = ErrorSite(
        OutOfDeviceMemory,
        f"no device memory for {s.name}: {{0}} bytes{parts}; {{1}}",
        where_of(sw, s.name),
    )
    size = w.local("int64_t", bytes_of(w, s))[0]
    asking = " && !query" if _asks_inside(sw, s) else ""
    w.line(f"if ({size} > 0{asking}) {{")
    w.depth += 1
    w.line(f"status = bp_device_take(ctx, (uint64_t){size}, {w.unit.site(site)}, &{name});")
    w.leave_if_failed()
    w.depth -= 1
    w.line("}")


def _asks_inside(sw: StatementWriter, s: S.Allocate) -> bool:
    """Whether a question for the bytes of a workspace is answered within: it needs no device."""
    plan = sw.emission.program.plan
    arena = None if plan is None else plan.call_arena
    return arena is not None and any(
        isinstance(n, S.Allocate) and n.name == arena for n in iterate(s.body)
    )


# Temporaries of both sides


def declare_home(sw: StatementWriter, s: S.Allocate, owner: str) -> None:
    """The record of a temporary of both sides, once it has memory on both.

    Args:
        sw: what writes the function.
        s: the inner one of its two allocations.
        owner: the name of the temporary.
    """
    from bayplan.targets.c_storage import bytes_of

    w = sw.w
    host, device = w.lookup(owner), w.lookup(owner + ON_DEVICE)
    if host is None or device is None or not host.c_type.endswith("*"):
        return
    w.begin_statement(*s.extents, s.condition)
    size = bytes_of(w, s)
    record = w.fresh(f"{owner}_home")
    w.line(f"bp_home {record} = {{(void *){host.text}, {device.text}, (uint64_t)({size}), 0, 0}};")
    pointer = w.fresh(f"{owner}_sides")
    w.line(f"bp_home *const {pointer} = &{record};")
    w.scope[f"{owner}.home"] = Binding(pointer, _HOME)


def device_call(w: Writer, e: E.Call) -> Text:
    """A call about where the newer bytes of a buffer or of a temporary are."""
    assert isinstance(e.args[0], E.StringImm)
    w.unit.need_device = True
    name = e.args[0].value
    home, buffer = w.lookup(f"{name}.home"), w.lookup(f"{name}.buffer")
    if home is None and buffer is None:
        raise InternalError(f"{e.name} of {name}, which is neither a buffer nor has two homes")
    if e.name in ("device_written", "host_written"):
        by, other = "BP_DEVICE_DIRTY", "BP_HOST_DIRTY"
        if e.name == "host_written":
            by, other = other, by
        if home is not None:
            w.line(f"__atomic_store_n(&{home.text}->newer, {by}, __ATOMIC_RELEASE);")
        else:
            assert buffer is not None
            w.line(f"bp_buffer_written({buffer.text}, {by}, {other});")
        return "0", ATOM
    way = "in" if e.name == "device_copy_in" else "out"
    what, record = ("home", home) if home is not None else ("buffer", buffer)
    assert record is not None
    site = _copy_site(w, f"{'buffer' if home is None else 'temporary'} {name}")
    w.line(f"status = bp_{what}_{way}(ctx, {record.text}, {site});")
    w.leave_if_failed()
    return "0", ATOM


def bring_back(w: Writer, name: str, buffers: str, count: int, status: str) -> None:
    """Sets the status behind the call of a function that was given buffers made for it.

    Args:
        w: writes the function.
        name: of the Func that the call computes.
        buffers: the array of them.
        count: their number.
        status: that of the call.
    """
    w.unit.need_device = True
    site = _copy_site(w, f"buffers of the call for {name}")
    w.line(f"status = bp_buffers_back(ctx, {buffers}, {count}, {status}, {site});")


def _copy_site(w: Writer, title: str) -> int:
    """The first of the two sites of a copy."""
    key = ("device", title)
    found = w.unit.requirements.get(key)
    if found is None:
        found = ErrorSite(OutOfDeviceMemory, f"no device memory for {title}: {{0}}")
        w.unit.requirements[key] = found
        w.unit.site(found)
        w.unit.site(ErrorSite(DeviceError, f"{title} cannot be copied: {{0}}"))
    return w.unit.site(found)


def shared_limit(w: Writer, e: E.Call) -> Text:
    """The most bytes of shared memory that a block has."""
    text = w.local("int64_t", "bp_shared_limit(ctx)")[0]
    w.line(f"if ({text} < 0) {{")
    w.depth += 1
    w.leave("BP_ERROR")
    w.depth -= 1
    w.line("}")
    return text, ATOM


def memory_of(w: Writer, ir_name: str) -> str:
    """What a kernel is given for a name: a `bp_device_pointer`."""
    for name in (f"{ir_name}{ON_DEVICE}", ir_name):
        found = w.lookup(name)
        if found is not None and found.c_type == POINTER:
            return found.text
    buffer = w.lookup(f"{ir_name}.buffer")
    if buffer is None:
        raise InternalError(f"a kernel uses {ir_name}, which has no memory on the device")
    return f"bp_buffer_twin({buffer.text})"


# The program's part


def api_of(emission: Emission) -> str:
    """The kind of device that a program's kernels run on."""
    from bayplan.targets.device_language import find_language

    target = emission.program.target
    return "emulated" if getattr(target, "is_emulated", False) else find_language(target).name


def has_device(target: Any) -> bool:
    """Whether programs for a target may touch a device."""
    device_api = getattr(target, "device_api", None)
    return device_api is not None and device_api() is not DeviceAPI.None_


def uses_device(emission: Emission) -> bool:
    """Whether a program has kernels, or buffers that may be newer on a device."""
    return emission.unit.device is not None or emission.unit.need_device


def device_sites(emission: Emission) -> None:
    """Adds the program's own error site, before the table of sites is written."""
    unit = emission.unit
    key = ("device", "")
    if key not in unit.requirements:
        api = api_of(emission)
        site = ErrorSite(NoDevice, "{0}", hint=_HINTS[api])
        unit.requirements[key] = site
        unit.site(site)


def device_part(emission: Emission) -> Lines:
    """What stands behind the table of sites: kernels as text, and what launches them."""
    from bayplan.targets.header import read_device_header

    unit = emission.unit
    source = emission.device_source
    api = api_of(emission)
    text = [f"    {string_literal(line + chr(10))}" for line in source.splitlines()]
    key = kernels_key(api, source)
    find = "(ctx->find_device ? ctx->find_device(ctx, api, why) : NULL)"
    declared: Lines = []
    if emission.ahead and not emission.takes_context:
        # Of the runtime that the program is linked with.
        declared = [
            "bp_device *bp_rt_find_device(bp_context *ctx, const char *api, const char **why);",
            "",
        ]
        find = "(ctx->find_device ? ctx->find_device : bp_rt_find_device)(ctx, api, why)"
    binary, count = "NULL", "0"
    if emission.ahead and api == "emulated" and source:
        # A C++ file of the same library.
        binary, count = f"bp_kernels_{key}", str(emission.kernel_count)
        declared.append(f"extern const char {binary}[];")
    site = unit.site(unit.requirements[("device", "")])
    return [
        read_device_header(),
        *declared,
        f"#define BP_FIND_DEVICE(ctx, api, why) {find}",
        f"enum {{ BP_NO_DEVICE = {site} }};",
        "",
        "/* The kernels, as text for the device's compiler. */",
        "static const char bp_kernels_source[] =",
        *text[:-1],
        f"{text[-1] if text else '    ' + chr(34) * 2};",
        "",
        f"static bp_module bp_kernels = {{{string_literal(emission.name)}, {string_literal(api)},",
        f"                               bp_kernels_source, {string_literal('')},",
        f"                               {string_literal(key)}, {binary}, {count}, NULL}};",
        "",
        f"BP_EXPORT bp_module *{emission.name}_kernels(void) {{ return &bp_kernels; }}",
        "",
        (Path(__file__).parent / "prelude_device.c").read_text(),
    ]


def kernels_key(api: str, source: str) -> str:
    """A name of kernels that differs for different text."""
    import hashlib

    return hashlib.sha256(f"{api}\0{source}".encode()).hexdigest()[:24]
