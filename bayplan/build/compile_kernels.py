"""Compiles the kernels of a program ahead of their first launch: for the host, or to PTX."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from bayplan.build.cache import cache_folder, make_key
from bayplan.build.compile_library import compile_library, run_compiler
from bayplan.build.compilers import Compiler, find_cxx_compiler, search_path
from bayplan.build.flags import emulation_flags

# The oldest processors that the newest nvcc makes code for; drivers compile PTX for newer ones.
_PTX_ARCHITECTURE: Final = "compute_75"


def compile_emulated(source: str, name: str) -> Path:
    """The shared library of emulated kernels, compiled unless the cache has it.

    Raises:
        NoCompiler: There is no C++ compiler.
        CompileError: The compiler failed.
    """
    compiler = find_cxx_compiler()
    flags = emulation_flags(compiler)
    libraries = ("-lm",)
    return compile_library(
        source, name, libraries=libraries, compiler=compiler, flags=flags, suffix=".cpp"
    )


def find_nvcc() -> Compiler | None:
    """NVIDIA's compiler: in `$PATH`, or where its installer puts it; None where there is none."""
    path = search_path("nvcc") or search_path("/usr/local/cuda/bin/nvcc")
    return None if path is None else Compiler((path,), "nvcc", "PATH")


def compile_ptx(source: str, name: str) -> bytes:
    """The PTX of CUDA text made by nvcc, compiled unless the cache has it.

    Raises:
        NoCompiler: There is no nvcc.
        CompileError: It failed.
    """
    from bayplan.ir.errors import NoCompiler

    compiler = find_nvcc()
    if compiler is None:
        raise NoCompiler(
            "no compiler for CUDA: looked for nvcc in PATH and in /usr/local/cuda/bin",
            hint="install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc-cu12`",
        )
    flags = ["--ptx", f"-arch={_PTX_ARCHITECTURE}", "-std=c++17"]
    kept = cache_folder() / f"{make_key(source, *flags, compiler.identity())}.ptx"
    if not kept.is_file():
        folder = Path(tempfile.mkdtemp(prefix="tmp-", dir=cache_folder()))
        try:
            text, made = folder / "kernels.cu", folder / "kernels.ptx"
            text.write_text(source, "utf-8")
            run_compiler([*compiler.command, *flags, str(text), "-o", str(made)], name)
            made.replace(kept)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return kept.read_bytes()
