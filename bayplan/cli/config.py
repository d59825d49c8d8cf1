"""``bayplan config``: where build systems find what they need of this installation."""

from __future__ import annotations

from pathlib import Path

from bayplan.cli.failure import CommandError
from bayplan.cli.talk import show_json

SCHEMA = "bayplan.config/1"


def list_config() -> dict[str, str]:
    """The answers by their names."""
    package = Path(__file__).resolve().parent.parent
    include = package / "targets"
    return {
        "cmakedir": str(package / "cmake"),
        "pkgconfigdir": str(package / "cmake"),
        "includedir": str(include),
        "cflags": f"-I{include}",
        "libs": "-lm -pthread",
    }


def show_config(what: str | None, as_json: bool) -> None:
    """Carries out ``bayplan config``."""
    if as_json:
        show_json({"schema": SCHEMA, **list_config()})
        return
    if what is None:
        names = ", ".join([f"--{name}" for name in list_config()])
        raise CommandError(f"config: what? one of {names}")
    print(list_config()[what])
