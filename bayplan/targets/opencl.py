"""OpenCL C 1.2, which drivers compile at run time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bayplan.language.target_names import TargetFeature
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_text import break_list
from bayplan.targets.device_language import (
    CONSTANT,
    GLOBAL,
    MATHS_FUNCTIONS,
    MATHS_NAMES,
    PRIVATE,
    SHARED,
    DeviceLanguage,
    register,
)

if TYPE_CHECKING:
    from bayplan.ir.types import Type
    from bayplan.targets.kernels import DeviceUnit

_RESERVED: Final = frozenset(
    """kernel global local constant private generic pipe uniform read_only write_only read_write
    half uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t sampler_t event_t queue_t
    image1d_t image2d_t image3d_t image1d_array_t image2d_array_t image1d_buffer_t
    MAXFLOAT HUGE_VALF HUGE_VAL INFINITY NAN M_E M_PI M_PI_2 M_PI_4 M_SQRT2 CHAR_BIT CHAR_MAX
    CHAR_MIN INT_MAX INT_MIN LONG_MAX LONG_MIN SCHAR_MAX SCHAR_MIN SHRT_MAX SHRT_MIN UCHAR_MAX
    UINT_MAX ULONG_MAX USHRT_MAX FLT_MAX FLT_MIN FLT_EPSILON FLT_DIG FLT_MANT_DIG DBL_MAX DBL_MIN
    DBL_EPSILON vec_step as_type barrier mem_fence isfinite isnan isinf min max clamp select
    popcount clz rint rsqrt mad24 mul24 rotate mad_hi mul_hi get_local_id get_group_id
    atomic_add atomic_sub atomic_min atomic_max atomic_and atomic_or atomic_xor atomic_cmpxchg
    shared_memory""".split()
    + [f"{t}{n}" for t in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
                           "float", "double", "half") for n in (2, 3, 4, 8, 16)]
    + [f"as_{t}{n}" for t in ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong",
                              "float", "double") for n in ("", 2, 4)]
)  # fmt: skip

_OWN_TYPES: Final = {
    "int8_t": "char", "uint8_t": "uchar", "int16_t": "short", "uint16_t": "ushort",
    "int32_t": "int", "uint32_t": "uint", "int64_t": "long", "uint64_t": "ulong",
}  # fmt: skip

_FENCES: Final = {
    0: "0",
    1: "CLK_LOCAL_MEM_FENCE",
    2: "CLK_GLOBAL_MEM_FENCE",
    3: "CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE",
}

_DOUBLES: Final = """#if !defined(cl_khr_fp64)
#error "the program computes with float64, which this device does not have"
#endif
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
"""

_ATOMICS_64: Final = """#if !defined(cl_khr_int64_base_atomics)
#error "the program updates 64-bit elements atomically, which this device cannot do"
#endif
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
"""


class OpenCL(DeviceLanguage):
    """OpenCL C 1.2."""

    name = "opencl"
    feature = TargetFeature.OpenCL
    reserved = _RESERVED | MATHS_FUNCTIONS
    spaces = {GLOBAL: "__global ", SHARED: "__local ", PRIVATE: "", CONSTANT: "__constant "}
    restrict = "restrict "
    # PoCL, which makes loops of the threads between barriers, never leaves such a loop otherwise.
    waits_in_every_iteration = True
    # PoCL takes what follows such a branch as two ends of the kernel, and the first condition there
    # on which threads differ as one that all threads answer as the first thread does.
    waits_behind_branches = True
    atomics = {
        (operation, kind, 32): f"atomic_{operation}"
        for operation in ("add", "sub", "min", "max", "and", "or", "xor")
        for kind in ("int", "uint")
    }

    def prelude(self, unit: DeviceUnit, text: str) -> str:
        folder = Path(__file__).parent
        parts = [(folder / "prelude_opencl.cl").read_text()]
        if "double" in text:
            parts.append(_DOUBLES)
        if "atom_cmpxchg" in text:
            parts.append(_ATOMICS_64)
        if "bp_shuffle" in text:
            parts.append((folder / "prelude_shuffle.cl").read_text())
        if unit.strict:
            parts.append("#pragma OPENCL FP_CONTRACT OFF\n")
        if "_half" in text:
            parts.append((folder / "prelude_half.cl").read_text())
        return "\n".join(parts)

    def head(
        self, name: str, parameters: list[str], threads: tuple[int, ...] | None, exchanges: bool
    ) -> list[str]:
        warps = " BP_WARPS" if exchanges else ""
        lines = ["__kernel" + warps]
        if threads is not None:
            sizes = ", ".join([str(n) for n in threads])
            lines = [f"__kernel{warps} __attribute__((reqd_work_group_size({sizes})))"]
        return [*lines, *break_list(f"void {name}(", parameters, ") {", "")]

    def block_id(self, axis: int) -> str:
        return f"(int32_t)get_group_id({axis})"

    def thread_id(self, axis: int) -> str:
        return f"(int32_t)get_local_id({axis})"

    def barrier(self, fence: int) -> str:
        return f"barrier({_FENCES[fence]});"

    def shared_array(self, c_type: str, name: str, count: int, alignment: int) -> str:
        return f"__local {c_type} {name}[{count}] __attribute__((aligned({alignment})));"

    def shared_parameter(self, c_type: str, name: str) -> str | None:
        return f"__local {c_type} *const {name}"

    def table(self, c_type: str, name: str, count: int) -> str:
        return f"__constant {c_type} {name}[{count}]"

    def maths(self, name: str, width: int) -> str:
        return MATHS_NAMES.get(name, name)

    def count_bits(self, name: str, width: int) -> str:
        if name == "popcount":
            return "popcount(a)"
        if name == "count_leading_zeros":
            return "clz(a)"
        return f"{width - 1} - clz(a & -a)"

    def reinterpret(self, t: Type) -> str | None:
        c_type = scalar_type(t)
        return f"as_{_OWN_TYPES.get(c_type, c_type)}"

    def shuffle(self, name: str, value: str, which: str, lanes: int) -> str | None:
        return f"{name.replace('warp', 'bp')}({value}, {which})"

    def compare_and_swap(self, unit: DeviceUnit, width: int, space: str) -> str:
        mark, where = self.spaces[space].strip(), space
        name = f"swap_u{width}_{where}"
        c_type = f"uint{width}_t"
        if width in (32, 64):
            function = "atomic_cmpxchg" if width == 32 else "atom_cmpxchg"
            body = f"    return {function}(p, before, after);\n"
        else:
            # The word around it, the rest of which stays as it is.
            word = "volatile " + mark + " uint32_t *"
            body = (
                f"    {word}const word = ({word})((uintptr_t)p & ~(uintptr_t)3);\n"
                "#ifdef __ENDIAN_LITTLE__\n"
                "    const uint32_t shift = (uint32_t)((uintptr_t)p & 3) * 8;\n"
                "#else\n"
                f"    const uint32_t shift = {32 - width} - (uint32_t)((uintptr_t)p & 3) * 8;\n"
                "#endif\n"
                f"    const uint32_t mask = {hex((1 << width) - 1)}u << shift;\n"
                "    uint32_t seen = atomic_cmpxchg(word, 0, 0), old;\n"
                "    do {\n"
                "        old = seen;\n"
                "        if (((old & mask) >> shift) != before) break;\n"
                "        seen = atomic_cmpxchg(word, old, (old & ~mask) | "
                "((uint32_t)after << shift));\n"
                "    } while (seen != old);\n"
                f"    return ({c_type})((old & mask) >> shift);\n"
            )
        return unit.helpers.function(
            name,
            lambda: (
                f"BP_INLINE {c_type} {name}(volatile {mark} {c_type} *p, {c_type} before, "
                f"{c_type} after) {{\n{body}}}"
            ),
        )

    def read_shared(self, swap: str, pointer: str, place: str) -> str:
        # A plain read would be a race with the updates of other threads.
        return f"{swap}({place}, 0, 0)"


register(OpenCL())
