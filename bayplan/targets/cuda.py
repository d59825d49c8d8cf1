"""CUDA C++, which nvrtc compiles at run time; or a C++ compiler, with `emulated_cuda.hpp`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bayplan.language.target_names import TargetFeature
from bayplan.targets.c_text import break_list
from bayplan.targets.device_language import (
    AXES,
    CONSTANT,
    GLOBAL,
    MATHS_FUNCTIONS,
    MATHS_NAMES,
    PRIVATE,
    SHARED,
    DeviceLanguage,
    register,
)
from bayplan.targets.header import read_emulated_header

if TYPE_CHECKING:
    from bayplan.ir.types import Type
    from bayplan.targets.kernels import DeviceUnit

_RESERVED: Final = frozenset(
    """threadIdx blockIdx blockDim gridDim warpSize dim3 uint uchar ushort ulong min max
    umin umax llmin ullmin rsqrt rsqrtf rcbrt sincos float2 float3 float4 double2 double3 double4
    int2 int3 int4 uint2 uint3 uint4 char2 char4 uchar4 short2 short4 ushort4 half half2 clock
    atomicAdd atomicSub atomicMin atomicMax atomicAnd atomicOr atomicXor atomicCAS atomicExch
    isnan isinf isfinite cudaError printf assert std shared_memory""".split()
)

_OPERATIONS: Final = {
    "add": "Add", "sub": "Sub", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor",
}  # fmt: skip


class CUDA(DeviceLanguage):
    """CUDA C++ for compute capability 6.0 and up."""

    name = "cuda"
    feature = TargetFeature.CUDA
    reserved = _RESERVED | MATHS_FUNCTIONS | frozenset([f"{name}f" for name in MATHS_FUNCTIONS])
    spaces = {GLOBAL: "", SHARED: "", PRIVATE: "", CONSTANT: ""}
    restrict = "__restrict__ "
    atomics = {
        **{
            (operation, kind, 32): f"atomic{name}"
            for operation, name in _OPERATIONS.items()
            for kind in ("int", "uint")
        },
        ("add", "float", 32): "atomicAdd",
        ("add", "float", 64): "atomicAdd",
    }

    def prelude(self, unit: DeviceUnit, text: str) -> str:
        folder = Path(__file__).parent
        parts = [(folder / "prelude_cuda.cuh").read_text()]
        if "_half" in text:
            half = (folder / "prelude_half.c").read_text()
            parts.append(half.replace("static inline", "BP_INLINE"))
        if "bp_swap" in text:
            parts.append((folder / "prelude_swap.cuh").read_text())
        return "\n".join(parts)

    def ending(self, unit: DeviceUnit) -> str:
        """Where the emulation finds the kernels."""
        rows = "\n".join([f"    BP_KERNEL({kernel.name})," for kernel in unit.kernels])
        return (
            "#ifdef BP_EMULATED\n"
            f"BP_KERNELS({len(unit.kernels)}) = {{\n{rows}\n}};\n"
            "#endif\n"
        )

    def head(
        self, name: str, parameters: list[str], threads: tuple[int, ...] | None, exchanges: bool
    ) -> list[str]:
        bounds = ""
        if threads is not None:
            bounds = f"__launch_bounds__({threads[0] * threads[1] * threads[2]}) "
        head = f'extern "C" __global__ void {bounds}{name}('
        return break_list(head, parameters, ") {", "")

    def block_id(self, axis: int) -> str:
        return f"(int32_t)blockIdx.{AXES[axis]}"

    def thread_id(self, axis: int) -> str:
        return f"(int32_t)threadIdx.{AXES[axis]}"

    def barrier(self, fence: int) -> str:
        return "__syncthreads();"

    def shared_array(self, c_type: str, name: str, count: int, alignment: int) -> str:
        return f"BP_SHARED({c_type}, {name}, {count}, {alignment});"

    def shared_parameter(self, c_type: str, name: str) -> str | None:
        return None

    def shared_pointer(self, c_type: str, name: str) -> str | None:
        return f"BP_SHARED_OF_LAUNCH({c_type}, {name});"

    def table(self, c_type: str, name: str, count: int) -> str:
        return f"static __device__ const {c_type} {name}[{count}]"

    def maths(self, name: str, width: int) -> str:
        function = MATHS_NAMES.get(name, name)
        if function.startswith("is"):
            return function
        return function if width == 64 else function + "f"

    def count_bits(self, name: str, width: int) -> str:
        ll, c_type = ("ll", "long long") if width == 64 else ("", "int")
        if name == "popcount":
            return f"__popc{ll}(a)"
        if name == "count_leading_zeros":
            return f"__clz{ll}(({c_type})a)"
        return f"__ffs{ll}(({c_type})a) - 1"

    def strict_product(self, t: Type) -> str | None:
        return "__dmul_rn" if t.width == 64 else "__fmul_rn"

    def shuffle(self, name: str, value: str, which: str, lanes: int) -> str | None:
        way = name.removeprefix("warp_shuffle")
        return f"__shfl{way}_sync({hex((1 << lanes) - 1)}u, {value}, {which})"

    def compare_and_swap(self, unit: DeviceUnit, width: int, space: str) -> str:
        return "bp_swap"


def read_emulation() -> str:
    """What stands before kernels that a C++ compiler of the host compiles."""
    text = Path(__file__).with_name("emulated_cuda.hpp").read_text()
    return text.replace('#include "emulated.h"\n', read_emulated_header())


register(CUDA())
