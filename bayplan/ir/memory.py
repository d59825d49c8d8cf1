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
    # Device memory that the host allocates; the storage plan's, users write Heap.
    GPUGlobal = "gpu_global"
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

    @property
    def is_gpu(self) -> bool:
        """Whether the loop is part of a kernel's grid."""
        return self in (ForKind.GPUBlock, ForKind.GPUThread, ForKind.GPULane)

    @property
    def is_parallel(self) -> bool:
        """Whether iterations run at the same time, on the host or on a device."""
        return self is ForKind.Parallel or self.is_gpu


class Partition(Enum):
    """Whether a loop may be split into prologue, steady state and epilogue."""

    Auto = "auto"
    Never = "never"
    Always = "always"
