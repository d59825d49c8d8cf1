"""The flags an emitted program is compiled with, by compiler and by what is built."""

from __future__ import annotations

import shlex

from bayplan import settings
from bayplan.build.compilers import Compiler

# Contraction to fused multiply-adds is what Halide allows too; strict_float is kept apart by the
# emitter. Errno and traps of floats are never looked at.
_COMMON = (
    "-std=c11",
    "-O2",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
)


def choose_flags(compiler: Compiler, *, native: bool = True) -> list[str]:
    """Flags for a shared library of an emitted program or of the runtime.

    Args:
        compiler: the compiler they are for.
        native: use all the instructions of this machine.
    """
    flags = [*_COMMON, "-fPIC", "-shared"]
    if native:
        flags.append("-march=native")
    if compiler.kind == "zig":
        # zig cc turns the undefined-behaviour sanitizer on by itself.
        flags.append("-fno-sanitize=all")
    else:
        flags.append("-pipe")
    if compiler.kind == "gcc":
        # Passing wide vectors by value changes with the instruction set; all is in one file here.
        # Scheduling before register allocation interleaves the chains of an unrolled stencil:
        # measured 1.25 to 1.5 times as fast on harris and stencil_chain, never slower.
        flags += ["-Wno-psabi", "-fschedule-insns", "-fsched-pressure"]
    flags += shlex.split(settings.value("CFLAGS"))
    return flags
