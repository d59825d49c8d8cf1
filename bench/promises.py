"""Tables of what is promised, each row beside what is known from elsewhere."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

Row = dict[str, Any]
"""What a measurement gives: `elsewhere` and `here` as text, `met` (None: nothing was promised)."""

Rows = Mapping[str, Callable[[argparse.Namespace], Row]]


def add_arguments(parser: argparse.ArgumentParser, rows: Rows) -> None:
    """The arguments that choose rows and the form of the answer."""
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(rows)}; or all")
    parser.add_argument("--json", action="store_true")


def parse(parser: argparse.ArgumentParser, rows: Rows) -> argparse.Namespace:
    """The command line, its rows known."""
    args = parser.parse_args()
    unknown = [name for name in args.rows if name not in rows]
    if unknown:
        parser.error(f"no row {unknown[0]}; there are: {', '.join(rows)}")
    return args


def run_rows(rows: Rows, args: argparse.Namespace, title: str, head: dict[str, Any]) -> int:
    """Measures the rows of the command line and prints them.

    Args:
        title: of the table.
        head: what stands before the rows in JSON.

    Returns:
        The status to exit with: 1 where a row ended in an error.
    """
    found = []
    for name in args.rows or rows:
        print(name, file=sys.stderr)
        found.append(measure(name, rows[name], args))
    if args.json:
        print(json.dumps({**head, "rows": found}, indent=2))
    else:
        _print_table(found, title)
    return 1 if any(row.get("error") for row in found) else 0


def measure(
    name: str, function: Callable[[argparse.Namespace], Row], args: argparse.Namespace
) -> Row:
    """Measures one row; an error becomes part of the row, as the others are still worth having."""
    row: Row = {"row": name, "what": (function.__doc__ or "").strip()}
    try:
        row |= function(args)
    except Exception as error:
        text = str(error).splitlines() or ["no message"]
        row |= {"elsewhere": "-", "here": f"{type(error).__name__}: {text[0]}", "met": False}
        row["error"] = True
    return row


def _print_table(rows: list[Row], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in ("what", "elsewhere", "here", "as promised"):
        table.add_column(column, overflow="fold")
    for row in rows:
        met = {True: "yes", False: "NO", None: "-"}[row["met"]]
        table.add_row(row["what"], row["elsewhere"], row["here"], met)
    Console().print(table)
