"""``bayplan storage``: the report before the run, and how a run compares with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayplan.cli.inputs import Prepared, prepare, split_arguments
from bayplan.cli.memory import Measured, measure_memory
from bayplan.cli.program import load_program
from bayplan.cli.run import chosen_target, make_options
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
    target = prepared.target = chosen_target(program, flags)
    with progress(f"lowering {program.name}"):
        report = program.pipeline.storage(prepared.buffers, target=target)
    _write(flags["html_path"], report.to_html, "page")
    _write(flags["svg_path"], report.to_svg, "picture")
    counts = _measure(prepared) if flags["measured"] else None
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


def _measure(prepared: Prepared) -> Measured:
    with progress(f"running {prepared.program.name}"):
        return measure_memory(prepared)


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
