"""Directives for devices: present, and refused until there is a target for them."""

from __future__ import annotations

from typing import Any, NoReturn

from bayplan.ir.errors import ScheduleError


class GpuDirectives:
    """The names of Halide's device directives; each says what is missing."""

    __slots__ = ()

    def _refuse_device(self, directive: str) -> NoReturn:
        raise ScheduleError(
            f"{directive} asks for a device, and this version compiles for the host only: GPU "
            "schedules come with the opencl and cuda targets",
            hint="leave the directive out; parallel and vectorize run on the host",
        )

    def gpu(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: map loops to blocks and threads of a GPU."""
        self._refuse_device("gpu")

    def gpu_blocks(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: map loops to blocks of a GPU."""
        self._refuse_device("gpu_blocks")

    def gpu_threads(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: map loops to threads of a GPU."""
        self._refuse_device("gpu_threads")

    def gpu_lanes(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: map a loop to the lanes of a warp."""
        self._refuse_device("gpu_lanes")

    def gpu_single_thread(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: run a stage in one thread of a GPU."""
        self._refuse_device("gpu_single_thread")

    def gpu_tile(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: tile loops and map them to blocks and threads of a GPU."""
        self._refuse_device("gpu_tile")

    def hexagon(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: run a loop on a Hexagon processor."""
        self._refuse_device("hexagon")

    def sme_streaming(self, *args: Any, **named: Any) -> NoReturn:
        """Refused: run a loop in the streaming mode of a processor."""
        self._refuse_device("sme_streaming")
