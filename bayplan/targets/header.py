"""The text that each emitted program begins with, and that C callers include."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def read_header() -> str:
    """The contract between emitted code, the runtime and C callers (`bayplan.h`)."""
    return Path(__file__).with_name("bayplan.h").read_text()


@cache
def read_device_header() -> str:
    """The part of the contract about devices (`bayplan_device.h`), without its own includes."""
    text = Path(__file__).with_name("bayplan_device.h").read_text()
    return text.replace('#include "bayplan.h"\n', "")


@cache
def read_emulated_header() -> str:
    """What kernels compiled for the host and the device that runs them agree on (`emulated.h`)."""
    return Path(__file__).with_name("emulated.h").read_text()
