"""Results on stdout, talk on stderr, progress only on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def say(message: str) -> None:
    """Writes a line of talk for the user, apart from the results."""
    print(f"bayplan: {message}", file=sys.stderr)


def show_json(data: dict[str, Any]) -> None:
    """Writes the one JSON object of a command to stdout."""
    print(json.dumps(data, indent=2))


@contextmanager
def progress(message: str) -> Iterator[None]:
    """Shows a running clock beside the message while the body works.

    Only where stderr is a terminal; elsewhere nothing is printed.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(message, total=None)
        yield


def show_report(report: Any) -> None:
    """Prints a storage report: a rich table on a terminal, plain text elsewhere."""
    from bayplan.view.storage_text import render_storage_rich, render_storage_text

    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(render_storage_rich(report))
    else:
        sys.stdout.write(render_storage_text(report))
