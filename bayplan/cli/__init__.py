"""The command line: ``bayplan run | compile | storage | plan | doctor``.

Results go to stdout, talk and progress to stderr. Exit codes: 0 done, 1 the program or its run
failed (or ``doctor`` found no way to run), 2 the command line itself was wrong, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line for the script ``bayplan`` and ``python -m bayplan``."""
    from bayplan.cli.commands import run_command_line

    raise SystemExit(run_command_line(argv))
