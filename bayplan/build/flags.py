"""The flags an emitted program is compiled with, by compiler and by what is built."""

from __future__ import annotations

import shlex

from bayplan import settings
from bayplan.build.compilers import Compiler

# Contraction to fused multiply-adds is what Halide allows too; strict_float is kept apart by the
# emitter. Errno and traps of floats are never looked at.
_COMMON = (
    "-std=c11",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
)

# Vectors are explicit, so gcc needs little of -O2: with these flags the six applications run as
# fast as with -O2 and compile in 0.6 to 0.7 of the time. The loops over lanes in helper functions
# become single instructions in the loop vectorizer. Scheduling before register allocation
# interleaves the chains of an unrolled stencil: 1.25 to 1.5 times as fast on harris and
# stencil_chain, never slower. Without "expensive" optimisations gcc makes no fused multiply-adds:
# sums of products take up to 1.5 times as long.
_OPTIMISE = {
    "gcc": (
        "-O1",
        "-fexpensive-optimizations",
        "-ftree-loop-vectorize",
        "-fvect-cost-model=very-cheap",
        "-fstrict-aliasing",
        "-fschedule-insns",
        "-fsched-pressure",
        "-fschedule-insns2",
    ),
}


def emitted_flags(compiler: Compiler) -> list[str]:
    """What every emitted program is compiled with, whatever is made of it and for which machine."""
    flags = [*_COMMON, "-fPIC", *_OPTIMISE.get(compiler.kind, ("-O2",))]
    if compiler.kind == "zig":
        # zig cc turns the undefined-behaviour sanitizer on by itself.
        flags.append("-fno-sanitize=all")
    else:
        flags.append("-pipe")
    if compiler.kind == "gcc":
        # Passing wide vectors by value changes with the instruction set; all is in one file here.
        flags.append("-Wno-psabi")
    return flags


def choose_flags(compiler: Compiler, *, native: bool = True) -> list[str]:
    """Flags for a shared library of an emitted program or of the runtime.

    Args:
        compiler: the compiler they are for.
        native: use all the instructions of this machine.
    """
    flags = [*emitted_flags(compiler), "-shared"]
    if native:
        flags.append("-march=native")
    flags += shlex.split(settings.value("CFLAGS"))
    return flags


def emulation_flags(compiler: Compiler, *, shared: bool = True) -> list[str]:
    """Flags for emulated kernels; jumps between stacks must not be taken for faults.

    Args:
        compiler: a C++ compiler.
        shared: for a shared library of this machine, not an object file.
    """
    flags = [
        "-std=c++17", "-O1", "-fPIC", "-ffp-contract=fast", "-fno-math-errno",
        "-fno-strict-aliasing", "-fvisibility=hidden", "-U_FORTIFY_SOURCE",
        "-fno-exceptions", "-fno-rtti",
    ]  # fmt: skip
    if compiler.kind == "zig":
        flags.append("-fno-sanitize=all")
    if shared:
        flags += ["-shared", "-march=native"]
    return flags + shlex.split(settings.value("CFLAGS"))
