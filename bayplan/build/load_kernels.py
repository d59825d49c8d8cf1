"""Makes the kernels of a loaded program ready for their first launch, where a runtime cannot."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from bayplan.build.compile_kernels import compile_emulated, compile_ptx, find_nvcc
from bayplan.runtime.devices import Module
from bayplan.targets.cuda import read_emulation

if TYPE_CHECKING:
    from bayplan.build.loading import LoadedProgram
    from bayplan.runtime.binding import Runtime

# What modules point at stays: libraries of emulated kernels, and texts of PTX.
_kept: list[ctypes.CDLL | ctypes.Array[ctypes.c_char]] = []


def emulation_text(source: str, key: str) -> str:
    """The C++ text of kernels for CUDA that are to run on the host."""
    return f"#define BP_MODULE_TABLE bp_kernels_{key}\n{read_emulation()}\n{source}"


def load_kernels(program: LoadedProgram, runtime: Runtime, count: int) -> None:
    """Compiles the kernels of a program where a device has no compiler of its own.

    Kernels for OpenCL, and for CUDA where there is NVRTC, are left to the device's.

    Args:
        program: whose C text is loaded.
        runtime: that runs it.
        count: of its kernels.

    Raises:
        NoCompiler: A compiler is needed, and there is none.
        CompileError: It failed.
    """
    # Order: the runtime learns where devices' libraries are before it looks for one.
    devices = runtime.devices
    accessor = getattr(program.library, f"{program.name}_kernels")
    accessor.restype = ctypes.POINTER(Module)
    module = accessor().contents
    if module.binary:
        return
    api, key, source = module.api.decode(), module.key.decode(), module.source.decode()
    if api == "emulated":
        path = compile_emulated(emulation_text(source, key), f"{program.name}_kernels")
        library = ctypes.CDLL(str(path))
        module.binary = ctypes.addressof(ctypes.c_char.in_dll(library, f"bp_kernels_{key}"))
        module.binary_bytes = count
        _kept.append(library)
    elif api == "cuda" and find_nvcc() is not None and devices.library.bp_cuda_needs_binary():
        text = ctypes.create_string_buffer(compile_ptx(source, program.name))
        module.binary = ctypes.addressof(text)
        module.binary_bytes = len(text)
        _kept.append(text)
