"""How the host launches a kernel: its arguments, the size of its grid, and what may fail.

What a block of the device does not have room for is found before the launch; a grid without blocks
launches nothing (see `bp_run_kernel` in prelude_device.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayplan.ir import stmts as S
from bayplan.ir.errors import DeviceError, DeviceLimitError, ErrorSite, OutOfDeviceMemory
from bayplan.targets.c_device import memory_of
from bayplan.targets.c_text import break_list, comment, string_literal
from bayplan.targets.kernels import Kernel, write_kernel

if TYPE_CHECKING:
    from bayplan.ir.exprs import Expr
    from bayplan.targets.c_stmts import StatementWriter


def launch(sw: StatementWriter, s: S.For) -> None:
    """Writes the kernel that the loop over blocks is, and its launch."""
    w = sw.w
    scope = dict(w.scope)
    kernel = write_kernel(sw, s)
    w.line(f"/* launch of {comment(kernel.title)} */")
    w.line("{")
    w.depth += 1
    args = [f"bp_memory_arg({memory_of(w, ir_name)})" for _, ir_name in kernel.memories]
    for name, c_type, text in kernel.scalars:
        value = w.fresh(f"{name}_value")
        w.line(f"const {c_type} {value} = {text};")
        args.append(f"bp_value_arg(&{value}, sizeof {value})")
    given, record = w.fresh("kernel_args"), w.fresh("kernel_launch")
    indent = "    " * w.depth
    count = len(args)
    w.lines += break_list(f"const bp_kernel_arg {given}[] = {{", args, "};", indent)
    sizes: list[Expr] = [*kernel.blocks, *kernel.threads]
    if kernel.shared is not None:
        sizes.append(kernel.shared)
    w.begin_statement(*sizes)
    texts = [w.scalar(e)[0] for e in sizes]
    shared = f"(uint64_t)({texts[6]})" if kernel.shared is not None else "0"
    dynamic = shared if kernel.dynamic else "0"
    fields = [
        "&bp_kernels", string_literal(kernel.name), f"{{{', '.join(texts[:3])}}}",
        f"{{{', '.join(texts[3:6])}}}", shared, dynamic, given, str(count),
    ]  # fmt: skip
    w.lines += break_list(f"const bp_launch {record} = {{", fields, "};", indent)
    w.line(f"status = bp_run_kernel(ctx, &{record}, {_sites(sw, kernel)});")
    w.depth -= 1
    w.line("}")
    w.leave_if_failed()
    w.scope = scope


def _sites(sw: StatementWriter, kernel: Kernel) -> int:
    """The first of the sites of a launch, in the order that `bp_run_kernel` has them."""
    where = _where(sw, kernel)
    title = f"the kernel {kernel.title}"
    parts = _parts(sw, kernel)
    sites = [
        ErrorSite(
            DeviceLimitError,
            f"{title} has {{0}} threads in a block ({{1}} x {{2}} x {{3}}), but the device allows "
            "{4} (at most {5} x {6} x {7})",
            where,
        ),
        ErrorSite(
            DeviceLimitError,
            f"{title} has {{0}} x {{1}} x {{2}} blocks, but the device allows {{3}} x {{4}} x "
            "{5}",
            where,
        ),
        ErrorSite(
            DeviceLimitError,
            f"{title} needs {{0}} bytes of a block's shared memory, but the device has {{1}}"
            f"{parts}",
            where,
        ),
        ErrorSite(OutOfDeviceMemory, f"{title} has no memory: {{0}}", where),
        ErrorSite(DeviceError, f"{title} cannot be run: {{0}}", where),
    ]
    numbers = [sw.w.unit.site(site) for site in sites]
    return numbers[0]


def _where(sw: StatementWriter, kernel: Kernel) -> Any:
    """The user's line of the Func that a kernel computes."""
    func = kernel.title.split(".s")[0]
    for origin in sw.emission.program.origins.values():
        if origin.func == func:
            return origin.where
    return None


def _parts(sw: StatementWriter, kernel: Kernel) -> str:
    plan = sw.emission.program.plan
    if plan is None:
        return ""
    for arena in plan.arenas:
        if arena.name.startswith(kernel.title):
            return plan.parts_of(arena.name)
    return ""
