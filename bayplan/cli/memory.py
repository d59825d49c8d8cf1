"""What the memory of one call came to, on the host and on its device."""

from __future__ import annotations

from typing import Any

from bayplan.cli.inputs import Prepared


class Measured:
    """What one call took, as its allocators counted it.

    Attributes:
        peak_bytes, allocations, system_calls: of the host's memory.
        device_bytes: the most bytes of temporaries on the device; None for a call without kernels.
    """

    __slots__ = ("allocations", "device_bytes", "peak_bytes", "system_calls")

    def __init__(self, counts: Any, device_bytes: int | None) -> None:
        self.peak_bytes: int = counts.peak_bytes
        self.allocations: int = counts.allocations
        self.system_calls: int = counts.system_calls
        self.device_bytes = device_bytes


def measure_memory(prepared: Prepared) -> Measured:
    """Makes one call and reads the counters."""
    from bayplan import driver

    device = None
    if prepared.program.pipeline.device_source(prepared.target):
        device = _find_device(prepared.target)
        device.reset_most()
    prepared.run()
    taken = None if device is None else device.memory().most_temporaries
    return Measured(driver.context().counts, taken)


def _find_device(target: Any) -> Any:
    """The device that kernels for a target run on."""
    from bayplan.driver.compile import default_target
    from bayplan.driver.contexts import runtime
    from bayplan.targets.device_language import find_language

    target = default_target() if target is None else target
    api = "emulated" if target.is_emulated else find_language(target).name
    return runtime().devices.find(api)
