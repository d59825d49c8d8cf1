"""Every environment variable that Bayplan reads, typed, in one table.

A room that needs one calls ``value("NAME")`` (without the prefix ``BAYPLAN_``); nothing else in the
package reads ``BAYPLAN_*`` from the environment. A variable with the prefix that the table does not
know is most likely a misspelling, so the first look at a setting warns about it once.
"""

from __future__ import annotations

import os
from typing import Any

PREFIX = "BAYPLAN_"

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


class SettingError(ValueError):
    """Tells the user that an environment variable holds a text that its type does not allow."""


class Setting:
    """One environment variable: its name without prefix, type, default and meaning.

    Attributes:
        name: The variable is ``BAYPLAN_`` + name.
        kind: ``bool``, ``int``, ``str`` or ``path``.
        default: The value when the variable is not set; None means "not given".
        changes_code: True when the emitted code depends on it, so it is part of the cache key.
        meaning: One sentence for the documentation.
    """

    __slots__ = ("changes_code", "default", "kind", "meaning", "name")

    def __init__(
        self, name: str, kind: str, default: Any, meaning: str, *, changes_code: bool = False
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.meaning = meaning
        self.changes_code = changes_code

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return PREFIX + self.name

    def parse(self, text: str) -> Any:
        """Turns the variable's text into a value of its kind, for ``value``.

        Raises:
            SettingError: The text is not of the kind.
        """
        if self.kind == "bool":
            lowered = text.strip().lower()
            if lowered in _TRUE:
                return True
            if lowered in _FALSE:
                return False
            raise SettingError(f"{self.variable}={text!r}: expected 1 or 0")
        if self.kind == "int":
            try:
                return int(text.strip(), 0)
            except ValueError:
                raise SettingError(f"{self.variable}={text!r}: expected a whole number") from None
        return text


_ALL = (
    Setting("DEBUG", "bool", False, "Show the full traceback of an error on the command line."),
    Setting(
        "NUM_THREADS",
        "int",
        None,
        "Workers of a parallel loop. Not set: `HL_NUM_THREADS`, else the processors this process "
        "may use.",
    ),
    Setting(
        "MEMORY_LIMIT",
        "int",
        None,
        "Most bytes that the pool of temporaries holds. Not set, or 0: no limit.",
    ),
    Setting(
        "CACHE_DIR",
        "path",
        None,
        "Folder of compiled programs. Not set: the user's cache folder (see `bayplan doctor`).",
    ),
    Setting("NO_CACHE", "bool", False, "Neither read nor write the folder of compiled programs."),
    Setting(
        "CFLAGS", "str", "", "Flags added at the end of each compiler command.", changes_code=True
    ),
    Setting(
        "VERIFY",
        "bool",
        False,
        "Check the form of the program between any two passes, and its storage plan.",
    ),
    Setting(
        "STORAGE_PLAN",
        "bool",
        True,
        "Place temporaries in arenas. 0: each one has memory of its own, to look for faults.",
        changes_code=True,
    ),
    Setting(
        "OPENCL_LIBRARY",
        "path",
        None,
        "The OpenCL loader to take. Not set: that of pyopencl's wheel, else the system's.",
    ),
    Setting(
        "OPENCL_DEVICE",
        "str",
        None,
        "A part of the name of the OpenCL device, or of its platform, to run kernels on. Not set: "
        "a GPU, else any.",
    ),
    Setting("CUDA_LIBRARY", "path", None, "The library of the CUDA driver. Not set: the system's."),
    Setting("CUDA_DEVICE", "int", None, "The number of the CUDA device to run kernels on."),
    Setting("DUMP_DIR", "path", None, "Write the program after each pass into this folder."),
    Setting("RANDOM_PROGRAMS", "int", 300, "Random programs in a run of Bayplan's own tests."),
    Setting(
        "HALIDE_TUTORIAL",
        "path",
        None,
        "Folder of Halide's Python lessons, which Bayplan's own tests then run.",
    ),
)

SETTINGS: dict[str, Setting] = {setting.name: setting for setting in _ALL}

_warned = False


def find_unknown(environ: dict[str, str] | None = None) -> list[str]:
    """Lists the variables with the prefix ``BAYPLAN_`` that mean nothing, sorted."""
    names = os.environ if environ is None else environ
    return sorted(
        name for name in names if name.startswith(PREFIX) and name[len(PREFIX) :] not in SETTINGS
    )


def warn_unknown() -> None:
    """Warns once a process about variables that look like settings and are none."""
    global _warned
    if _warned:
        return
    _warned = True
    unknown = find_unknown()
    if not unknown:
        return
    import difflib
    import warnings

    known = [setting.variable for setting in _ALL]
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
        warnings.warn(f"unknown setting {name}{hint}", RuntimeWarning, stacklevel=3)


def value(name: str) -> Any:
    """Reads a setting for the room that needs it, from the environment, at each call.

    Args:
        name: The name without ``BAYPLAN_``.

    Returns:
        The typed value, or the default when the variable is not set.

    Raises:
        SettingError: The variable's text does not fit its type.
        KeyError: No such setting is in the table.

    >>> value("DEBUG")
    False
    """
    setting = SETTINGS[name]
    warn_unknown()
    text = os.environ.get(setting.variable)
    return setting.default if text is None else setting.parse(text)
