"""Makes the kernels of a loaded program ready for their first launch, where a runtime cannot."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from bayplan.build.compile_kernels import compile_emulated, compile_ptx, find_nvcc
from bayplan.ir.errors import InternalError
from bayplan.runtime.devices import Module
from bayplan.targets.cuda import read_emulation

if TYPE_CHECKING:
    from bayplan.build.loading import LoadedProgram
    from bayplan.runtime.binding import Runtime

# Libraries of emulated kernels stay loaded: the runtime knows them by their keys.
_emulated: dict[str, ctypes.CDLL] = {}


def emulation_text(source: str, key: str) -> str:
    """The C++ text of kernels for CUDA that are to run on the host."""
    return (
        f'#define BP_MODULE_KEY "{key}"\n#define BP_MODULE_TABLE bp_kernels_{key}\n'
        f"{read_emulation()}\n{source}"
    )


def load_kernels(program: LoadedProgram, runtime: Runtime, count: int) -> None:
    """Compiles the kernels of a program and hands them to the runtime.

    Kernels for OpenCL, and for CUDA where there is NVRTC, are left to the device's own compiler.

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
    api, key, source = module.api.decode(), module.key.decode(), module.source.decode()
    if api == "emulated" and key not in _emulated:
        path = compile_emulated(emulation_text(source, key), f"{program.name}_kernels")
        library = ctypes.CDLL(str(path))
        table = ctypes.addressof(ctypes.c_char.in_dll(library, f"bp_kernels_{key}"))
        if devices.library.bp_emulated_register(module.key, table, count) < 0:
            raise InternalError("there is no memory to register emulated kernels")
        _emulated[key] = library
    elif api == "cuda" and not module.binary and find_nvcc() is not None:
        if devices.library.bp_cuda_needs_binary():
            module.binary = compile_ptx(source, program.name)
            module.binary_bytes = len(module.binary)
