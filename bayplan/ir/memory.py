"""Where a temporary may live, as a schedule asks for it."""

from __future__ import annotations

from enum import Enum


class MemoryType(Enum):
    """The kind of storage of a temporary, under Halide's names."""

    Auto = "auto"
    Heap = "heap"
    Stack = "stack"
    Register = "register"
    Static = "static"
    GPUShared = "gpu_shared"
    GPUTexture = "gpu_texture"
    LockedCache = "locked_cache"
    VTCM = "vtcm"


class ForKind(Enum):
    """How the iterations of a loop run."""

    Serial = "serial"
    Parallel = "parallel"
    Vectorized = "vectorized"
    Unrolled = "unrolled"
    Extern = "extern"
    GPUBlock = "gpu_block"
    GPUThread = "gpu_thread"
    GPULane = "gpu_lane"


class Partition(Enum):
    """Whether a loop may be split into prologue, steady state and epilogue."""

    Auto = "auto"
    Never = "never"
    Always = "always"
