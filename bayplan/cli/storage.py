"""``bayplan storage``: the report before the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayplan.cli.inputs import prepare, split_arguments
from bayplan.cli.program import load_program
from bayplan.cli.run import make_options
from bayplan.cli.talk import progress, say, show_json, show_report


def report_storage(spec: str, arguments: tuple[str, ...], flags: dict[str, Any]) -> None:
    """Carries out ``bayplan storage``: lowers the program, runs nothing."""
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
    path: Path | None = flags["html_path"]
    if path is not None:
        from bayplan.view.storage_html import render_storage_html

        page = render_storage_html(report)
        title = f"storage of {program.name}"
        path.write_text(
            f'<!doctype html><meta charset="utf-8"><title>{title}</title>{page}', "utf-8"
        )
        say(f"page written to {path}")
    if flags["as_json"]:
        from bayplan.view.storage_json import describe_storage

        show_json({**describe_storage(report), "program": program.name})
        return
    sizes = ", ".join(f"{slot.name} {box}" for slot, box in zip(program.outputs, prepared.boxes))
    print(f"{program.name}: {sizes}")
    show_report(report)
