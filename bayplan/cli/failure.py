"""The one error of the command line's own making."""

from __future__ import annotations


class CommandError(Exception):
    """Tells the user in one line what is wrong with the command or the file it names.

    Attributes:
        exit_code: 2 for a wrong command line, 1 for everything else.
    """

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code
