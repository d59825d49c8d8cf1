"""Compilers of CUDA text, for which a warning is an error: nvcc, and NVRTC of a wheel."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

from bayplan.runtime.devices import find_nvrtc

ARCHITECTURES: Final = ("sm_75", "sm_90")
_PLACE: Final = "/usr/local/cuda/bin/nvcc"
NVCC: Final = shutil.which("nvcc") or (_PLACE if Path(_PLACE).exists() else None)


def compile_by_nvcc(text: str, folder: Path, architecture: str) -> str:
    """Compiles to PTX; what nvcc has against the text, empty for nothing."""
    source = folder / "kernels.cu"
    source.write_text(text)
    done = subprocess.run(
        [str(NVCC), "-arch", architecture, "-Werror", "all-warnings", "-ptx", "-o",
         str(folder / "kernels.ptx"), str(source)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return f"{done.stderr[-3000:]} status {done.returncode}" if done.returncode else ""


@cache
def load_nvrtc() -> Any:
    """The library of NVRTC that the runtime would take from a wheel; None where there is none."""
    for path in find_nvrtc():
        library = ctypes.CDLL(str(path))
        if hasattr(library, "nvrtcCompileProgram"):
            return library
    return None


def compile_by_nvrtc(text: str, architecture: str) -> str:
    """Compiles as the runtime does; what NVRTC has against the text, empty for nothing."""
    library = load_nvrtc()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = text.encode()
    status = library.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels", 0, None, None)
    assert status == 0
    words = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    status = library.nvrtcCompileProgram(program, 2, (ctypes.c_char_p * 2)(*words))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    said = log.value.decode().strip()
    return said or (f"status {status}" if status else "")
