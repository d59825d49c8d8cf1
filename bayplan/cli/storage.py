"""``bayplan storage``: the report before the run, and how a run compares with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayplan.cli.inputs import Prepared, prepare, split_arguments
from bayplan.cli.program import load_program
from bayplan.cli.run import make_options
from bayplan.cli.talk import progress, say, show_json, show_report
from bayplan.view.storage_json import describe_storage
from bayplan.view.storage_rows import format_bytes


def report_storage(spec: str, arguments: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Carries out ``bayplan storage``: lowers the program; runs it only for ``--run``."""
    program = load_program(spec)
    given = split_arguments(program, arguments)
    options = make_options(flags)
    # The report needs sizes, not values: what is not given has zeros of the size that is read.
    options.default_buffers = options.default_buffers or "zero:auto"
    prepared = prepare(program, given, options)
    for note in prepared.notes:
        say(note)
    target = program.hl.Target(flags["target"]) if flags["target"] else None
    prepared.target = target
    with progress(f"lowering {program.name}"):
        report = program.pipeline.storage(prepared.buffers, target=target)
    _write(flags["html_path"], report.to_html, "page")
    _write(flags["svg_path"], report.to_svg, "picture")
    counts = _measure(program.name, prepared, report) if flags["measured"] else None
    if flags["as_json"]:
        found = {**describe_storage(report), "program": program.name}
        if counts is not None:
            found["measured"] = {
                "peak_bytes": counts.peak_bytes,
                "allocations": counts.allocations,
                "system_calls": counts.system_calls,
                "device_bytes": counts.device_bytes,
            }
        show_json(found)
        return
    sizes = ", ".join(f"{slot.name} {box}" for slot, box in zip(program.outputs, prepared.boxes))
    print(f"{program.name}: {sizes}")
    if flags["explain"]:
        print(report.explain(), end="")
    else:
        show_report(report)
    if counts is not None:
        print(f"run   {_compare(report, counts)}")


def _write(path: Path | None, draw: Callable[[], str], what: str) -> None:
    if path is not None:
        path.write_text(draw(), "utf-8")
        say(f"{what} written to {path}")


class Measured:
    """What one call took, as its allocators counted it.

    Attributes:
        peak_bytes, allocations, system_calls: of the host's memory.
        device_bytes: the most bytes of temporaries on the device; None for a call without kernels.
    """

    __slots__ = ("allocations", "device_bytes", "peak_bytes", "system_calls")

    def __init__(self, counts: Any, device_bytes: int | None) -> None:
        self.peak_bytes: int = counts.peak_bytes
        self.allocations: int = counts.allocations
        self.system_calls: int = counts.system_calls
        self.device_bytes = device_bytes


def _measure(name: str, prepared: Prepared, report: Any) -> Measured:
    from bayplan import driver

    device = _find_device(prepared.target) if report.kernels else None
    if device is not None:
        device.reset_most()
    with progress(f"running {name}"):
        prepared.run()
    taken = None if device is None else device.memory().most_temporaries
    return Measured(driver.context().counts, taken)


def _find_device(target: Any) -> Any:
    """The device that kernels for a target run on."""
    from bayplan.driver.compile import default_target
    from bayplan.driver.contexts import runtime
    from bayplan.targets.device_language import find_language

    target = default_target() if target is None else target
    api = "emulated" if target.is_emulated else find_language(target).name
    return runtime().devices.find(api)


def _compare(report: Any, counts: Measured) -> str:
    """Says what a call took, and whether that is what was planned."""
    times = "1 allocation" if counts.allocations == 1 else f"{counts.allocations} allocations"
    text = f"{format_bytes(counts.peak_bytes)} bytes in {times}, measured: "
    text += _judge(counts.peak_bytes, report.peak_bytes, report.exact)
    if counts.device_bytes is not None:
        text += f"; {format_bytes(counts.device_bytes)} bytes on the device: "
        text += _judge(counts.device_bytes, report.device_bytes, report.exact)
    return text


def _judge(taken: int, planned: int, exact: bool) -> str:
    if taken == planned:
        return "as planned"
    if not exact and taken < planned:
        return "within what was planned"
    return f"the plan said {format_bytes(planned)}"
