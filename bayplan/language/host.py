"""What the machine that this runs on can do, read once and only when asked for."""

from __future__ import annotations

import sys

from bayplan.language.target import Target
from bayplan.language.target_names import TargetArch, TargetFeature, TargetOS

_F = TargetFeature

# Feature and the flags of /proc/cpuinfo that all must be there.
_X86 = (
    (_F.SSE41, ("sse4_1",)),
    (_F.AVX, ("avx",)),
    (_F.F16C, ("f16c",)),
    (_F.FMA, ("fma",)),
    (_F.AVX2, ("avx2",)),
    (_F.AVXVNNI, ("avx_vnni",)),
    (_F.AVX512, ("avx512f", "avx512cd")),
    (_F.AVX512_KNL, ("avx512f", "avx512cd", "avx512pf", "avx512er")),
    (_F.AVX512_Skylake, ("avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq")),
    (_F.AVX512_Cannonlake, ("avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq",
                            "avx512ifma", "avx512vbmi")),
    (_F.AVX512_Zen4, ("avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq", "avx512ifma",
                      "avx512vbmi", "avx512_bf16", "avx512_vnni", "avx512_bitalg",
                      "avx512_vpopcntdq", "avx512_vbmi2")),
    (_F.AVX512_SapphireRapids, ("avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512_bf16",
                                "avx512_fp16", "avx512_vnni", "amx_tile", "amx_int8")),
)  # fmt: skip

_ARM = ((_F.ARMDotProd, ("asimddp",)), (_F.ARMFp16, ("asimdhp",)), (_F.SVE, ("sve",)),
        (_F.SVE2, ("sve2",)))  # fmt: skip

_SYSTEMS = {"linux": TargetOS.Linux, "darwin": TargetOS.OSX, "win32": TargetOS.Windows}

_found: Target | None = None


def processor_flags() -> frozenset[str]:
    """The flags of the processor as Linux names them; none where it cannot be asked."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def _architecture() -> tuple[TargetArch, int]:
    import platform

    machine = platform.machine().lower()
    bits = 64 if sys.maxsize > 1 << 32 else 32
    if machine in ("x86_64", "amd64", "i386", "i686"):
        return TargetArch.X86, bits
    if machine.startswith(("arm", "aarch")):
        return TargetArch.ARM, bits
    if machine.startswith("riscv"):
        return TargetArch.RISCV, bits
    return TargetArch.ArchUnknown, bits


def host_target() -> Target:
    """A new Target for this machine."""
    global _found
    if _found is None:
        arch, bits = _architecture()
        flags = processor_flags()
        table = _X86 if arch is TargetArch.X86 else _ARM
        features = [f for f, needed in table if flags.issuperset(needed)]
        _found = Target(_SYSTEMS.get(sys.platform, TargetOS.OSUnknown), arch, bits, features)
    return Target(_found)
