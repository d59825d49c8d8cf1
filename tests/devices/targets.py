"""The targets that tests of kernels run on: those without a GPU, and CUDA where there is one."""

from __future__ import annotations

from typing import Final

import bayplan as hl

TARGETS: Final = (
    "host-opencl",
    "host-cuda-emulated",
    *(["host-cuda"] if hl.host_supports_target_device(hl.Target("host-cuda")) else []),
)
