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
    with progress(f"lowering {program.name}"):
        report = program.pipeline.storage(prepared.buffers)
    _write(flags["html_path"], report.to_html, "page")
    _write(flags["svg_path"], report.to_svg, "picture")
    counts = _measure(program.name, prepared) if flags["measured"] else None
    if flags["as_json"]:
        found = {**describe_storage(report), "program": program.name}
        if counts is not None:
            found["measured"] = {
                "peak_bytes": counts.peak_bytes,
                "allocations": counts.allocations,
                "system_calls": counts.system_calls,
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


def _measure(name: str, prepared: Prepared) -> Any:
    """What the allocator of one call counted."""
    from bayplan import driver

    with progress(f"running {name}"):
        prepared.run()
    return driver.context().counts


def _compare(report: Any, counts: Any) -> str:
    """Says what a call took, and whether that is what was planned."""
    times = "1 allocation" if counts.allocations == 1 else f"{counts.allocations} allocations"
    text = f"{format_bytes(counts.peak_bytes)} bytes in {times}, measured: "
    if counts.peak_bytes == report.peak_bytes:
        return text + "as planned"
    if not report.exact and counts.peak_bytes < report.peak_bytes:
        return text + "within what was planned"
    return text + f"the plan said {format_bytes(report.peak_bytes)}"
