"""``bayplan config``: where build systems find what they need of this installation."""

from __future__ import annotations

from pathlib import Path

from bayplan.cli.failure import CommandError


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


def show_config(what: str | None) -> None:
    """Carries out ``bayplan config``."""
    if what is None:
        names = ", ".join([f"--{name}" for name in list_config()])
        raise CommandError(f"config: what? one of {names}")
    print(list_config()[what])
