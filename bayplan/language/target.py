"""Target: the machine that code is made for, named as Halide names it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.ir.errors import DefinitionError
from bayplan.ir.types import Type
from bayplan.language.target_names import (
    DeviceAPI,
    TargetArch,
    TargetFeature,
    TargetOS,
    TargetProcessorTune,
)

_GPU = (
    TargetFeature.CUDA,
    TargetFeature.OpenCL,
    TargetFeature.Metal,
    TargetFeature.D3D12Compute,
    TargetFeature.Vulkan,
    TargetFeature.WebGPU,
)

_DEVICE_FEATURES = {
    DeviceAPI.CUDA: TargetFeature.CUDA,
    DeviceAPI.OpenCL: TargetFeature.OpenCL,
    DeviceAPI.Metal: TargetFeature.Metal,
    DeviceAPI.D3D12Compute: TargetFeature.D3D12Compute,
    DeviceAPI.Vulkan: TargetFeature.Vulkan,
    DeviceAPI.WebGPU: TargetFeature.WebGPU,
    DeviceAPI.Hexagon: TargetFeature.HVX,
}

_AVX512_FULL = (
    TargetFeature.AVX512_Skylake,
    TargetFeature.AVX512_Cannonlake,
    TargetFeature.AVX512_SapphireRapids,
    TargetFeature.AVX512_Zen4,
    TargetFeature.AVX512_Zen5,
    TargetFeature.AVX10_1,
)


_EMULATED = "emulated"

_BITS = ("32", "64")

STACK_BUDGET_BYTES = 64 * 1024
MOST_ALIGNMENT = 64


class Target:
    """An operating system, an architecture and the features of a processor.

    Args:
        os: a TargetOS; or the whole target as text, "x86-64-linux-avx2", "host-opencl", "host".
            Text that does not say for which machine, "opencl", means this one.
        arch: a TargetArch.
        bits: 32 or 64.
        rest: a TargetProcessorTune, a list of TargetFeatures, or both.

    Attributes:
        stack_budget_bytes: the most that temporaries alive together take on the stack of one
            thread; "stack_bytes_N" in the target's text.
        is_emulated: kernels for CUDA run on the host, compiled by its C++ compiler, to debug a
            schedule without a GPU; "emulated" behind "cuda" in the target's text.
    """

    __slots__ = (
        "os", "arch", "bits", "processor_tune", "_features", "stack_budget_bytes",
        "_storage_alignment", "is_emulated",
    )

    def __init__(self, os: Any = None, arch: Any = None, bits: int = 0, *rest: Any) -> None:
        self.os = TargetOS.OSUnknown
        self.arch = TargetArch.ArchUnknown
        self.bits = bits
        self.processor_tune = TargetProcessorTune.TuneGeneric
        self._features: frozenset[TargetFeature] = frozenset()
        self.stack_budget_bytes = STACK_BUDGET_BYTES
        self._storage_alignment = 0  # as wide as a vector
        self.is_emulated = False
        if os is None:
            return
        if isinstance(os, str):
            self._copy(parse_target(os))
            return
        if isinstance(os, Target):
            self._copy(os)
            return
        self.os = os
        self.arch = arch
        for part in rest:
            if isinstance(part, TargetProcessorTune):
                self.processor_tune = part
            else:
                features = list(part)
                for f in features:
                    if not isinstance(f, TargetFeature):
                        raise TypeError(
                            "incompatible constructor arguments: a Target takes a list of "
                            f"TargetFeatures, not {f!r}"
                        )
                self._features = frozenset(features)

    def _copy(self, other: Target) -> None:
        self.os = other.os
        self.arch = other.arch
        self.bits = other.bits
        self.processor_tune = other.processor_tune
        self._features = other._features
        self.stack_budget_bytes = other.stack_budget_bytes
        self._storage_alignment = other._storage_alignment
        self.is_emulated = other.is_emulated

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        rest = (self.stack_budget_bytes, self._storage_alignment, self.is_emulated)
        return (self.os, self.arch, self.bits, self.processor_tune, self._features, rest)

    def features(self) -> frozenset[TargetFeature]:
        """All features that are set."""
        return self._features

    def has_feature(self, feature: TargetFeature) -> bool:
        """Whether a feature is set."""
        return feature in self._features

    def features_any_of(self, features: Iterable[TargetFeature]) -> bool:
        """Whether one of the features is set."""
        return not self._features.isdisjoint(features)

    def features_all_of(self, features: Iterable[TargetFeature]) -> bool:
        """Whether all of the features are set."""
        return self._features.issuperset(features)

    def set_feature(self, f: TargetFeature, value: bool = True) -> None:
        """Set or clear a feature."""
        self.set_features([f], value)

    def set_features(self, features: Iterable[TargetFeature], value: bool = True) -> None:
        """Set or clear features."""
        some = frozenset(features)
        self._features = self._features | some if value else self._features - some

    def with_feature(self, feature: TargetFeature) -> Target:
        """The same target with a feature more."""
        result = Target(self)
        result.set_feature(feature)
        return result

    def without_feature(self, feature: TargetFeature) -> Target:
        """The same target with a feature less."""
        result = Target(self)
        result.set_feature(feature, False)
        return result

    def with_stack_budget(self, size_bytes: int) -> Target:
        """The same target with another limit for temporaries on the stack of a thread."""
        if size_bytes < 0:
            raise DefinitionError(f"a stack budget of {size_bytes} bytes is negative")
        result = Target(self)
        result.stack_budget_bytes = size_bytes
        return result

    @property
    def storage_alignment(self) -> int:
        """Bytes that temporaries in memory are aligned to: those of a vector, 16 at least.

        A power of two up to 64; "storage_align_N" in the target's text sets another.
        """
        return self._storage_alignment or max(16, self.vector_bytes(Type("uint", 8)))

    def with_storage_alignment(self, alignment: int) -> Target:
        """The same target with another alignment of temporaries in memory.

        Less saves padding where memory is scarce; the code needs no more than that of elements.
        """
        if not 1 <= alignment <= MOST_ALIGNMENT or alignment & (alignment - 1):
            raise DefinitionError(
                f"temporaries cannot be aligned to {alignment} bytes: a power of two from 1 to "
                f"{MOST_ALIGNMENT} is needed"
            )
        result = Target(self)
        result._storage_alignment = alignment
        return result

    def with_emulation(self, emulated: bool = True) -> Target:
        """The same target, whose CUDA kernels run on the host."""
        result = Target(self)
        result.is_emulated = emulated
        return result.with_feature(TargetFeature.CUDA) if emulated else result

    def device_api(self) -> DeviceAPI:
        """The kind of device that kernels run on where a schedule does not say; else None_."""
        for api in (DeviceAPI.OpenCL, DeviceAPI.CUDA):
            if self.has_feature(_DEVICE_FEATURES[api]):
                return api
        return DeviceAPI.None_

    def has_gpu_feature(self) -> bool:
        """Whether code may run on a GPU."""
        return self.features_any_of(_GPU)

    def has_large_buffers(self) -> bool:
        """Whether buffers may have more than 2**31 - 1 bytes."""
        return self.bits == 64 and self.has_feature(TargetFeature.LargeBuffers)

    def maximum_buffer_size(self) -> int:
        """The most bytes a buffer may have."""
        return (1 << 63) - 1 if self.has_large_buffers() else (1 << 31) - 1

    def supported(self) -> bool:
        """Whether code can be made for it: C for 64-bit x86 or ARM."""
        return self.arch in (TargetArch.X86, TargetArch.ARM) and self.os is not TargetOS.OSUnknown

    def supports_device_api(self, device: DeviceAPI) -> bool:
        """Whether code may use a kind of device."""
        if device in (DeviceAPI.None_, DeviceAPI.Host):
            return True
        if device is DeviceAPI.Default_GPU:
            return self.has_gpu_feature()
        feature = _DEVICE_FEATURES.get(device)
        return feature is not None and self.has_feature(feature)

    def supports_type(self, type: Type, device: DeviceAPI | None = None) -> bool:
        """Whether the host (and the device) computes with values of a type."""
        if type.kind == "float" and type.width == 64:
            metal = self.has_feature(TargetFeature.Metal)
            if device is None:
                return not metal
            if device is DeviceAPI.OpenCL:
                return self.has_feature(TargetFeature.CLDoubles)
            return device is not DeviceAPI.Metal
        return True

    def vector_bytes(self, type: Type) -> int:
        """Bytes of the widest vector register for values of a type."""
        if self.arch is TargetArch.X86:
            if self.features_any_of(_AVX512_FULL):
                return 64
            # The first AVX-512 processors have no 512-bit operations on bytes and words.
            if self.features_any_of((TargetFeature.AVX512, TargetFeature.AVX512_KNL)):
                return 64 if type.kind == "float" else 32
            if self.has_feature(TargetFeature.AVX2):
                return 32
            if self.has_feature(TargetFeature.AVX) and type.kind == "float":
                return 32
        return 16

    def natural_vector_size(self, type: Type) -> int:
        """Values of a type in the widest vector register."""
        if self.arch is TargetArch.ArchUnknown or self.os is TargetOS.OSUnknown:
            raise DefinitionError(
                f"{self} does not say for which machine it is, so it has no vector size"
            )
        return max(1, self.vector_bytes(type) // type.bytes())

    def to_string(self) -> str:
        """The target as text; features in order of their names."""
        parts = [self.arch.value, str(self.bits), self.os.value]
        if self.processor_tune is not TargetProcessorTune.TuneGeneric:
            parts.append(self.processor_tune.value)
        for name in sorted([f.value for f in self._features]):
            parts.append(name)
            if self.is_emulated and name == TargetFeature.CUDA.value:
                parts.append(_EMULATED)
        if self.stack_budget_bytes != STACK_BUDGET_BYTES:
            parts.append(f"stack_bytes_{self.stack_budget_bytes}")
        if self._storage_alignment:
            parts.append(f"storage_align_{self._storage_alignment}")
        return "-".join(parts)

    @staticmethod
    def validate_target_string(name: str) -> bool:
        """Whether text names a target."""
        try:
            target = parse_target(name)
        except DefinitionError:
            return False
        return target.arch is not TargetArch.ArchUnknown and target.os is not TargetOS.OSUnknown

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<bayplan.Target {self.to_string()}>"


def parse_target(text: str) -> Target:
    """The Target for its text; what it does not say about the machine is that of this one."""
    tokens = text.split("-") if text else ["host"]
    known = (TargetArch, TargetOS, TargetProcessorTune, TargetFeature)
    names: list[dict[str, Any]] = [{member.value: member for member in kind} for kind in known]
    if not any(t in names[0] or t in names[1] or t in (*_BITS, "host") for t in tokens):
        tokens.insert(0, "host")
    result = Target()
    features: set[TargetFeature] = set()
    for i, token in enumerate(tokens):
        if token == "host" and i == 0:
            result._copy(get_host_target())
            features |= result._features
        elif token in _BITS:
            result.bits = int(token)
        elif token in names[0]:
            result.arch = names[0][token]
        elif token in names[1]:
            result.os = names[1][token]
        elif token in names[2]:
            result.processor_tune = names[2][token]
        elif token in names[3]:
            features.add(names[3][token])
        elif token == _EMULATED:
            result.is_emulated = True
        elif token.startswith("stack_bytes_") and token[12:].isdigit():
            result = result.with_stack_budget(int(token[12:]))
        elif token.startswith("storage_align_") and token[14:].isdigit():
            result = result.with_storage_alignment(int(token[14:]))
        else:
            raise DefinitionError(
                f'"{text}" does not name a target: "{token}" is none of its words',
                hint="arch-bits-os-feature-feature..., such as x86-64-linux-avx2-fma, or host",
            )
    _check_machine(text, result, features)
    result._features = frozenset(features)
    return result


def _check_machine(text: str, target: Target, features: set[TargetFeature]) -> None:
    if target.bits == 0:
        raise DefinitionError(f'"{text}" does not name a target: it does not say 32 or 64 bits')
    if target.is_emulated and TargetFeature.CUDA not in features:
        raise DefinitionError(
            f'"{text}" does not name a target: only kernels for CUDA can be emulated',
            hint="cuda-emulated, or host-cuda-emulated",
        )


def get_host_target() -> Target:
    """The Target for the machine this runs on."""
    from bayplan.language.host import host_target

    return host_target()


def get_target_from_environment() -> Target:
    """The Target that the variable HL_TARGET names, else this machine's."""
    import os

    return parse_target(os.environ.get("HL_TARGET", "host"))


def get_jit_target_from_environment() -> Target:
    """The Target for code that runs in this process; HL_JIT_TARGET adds to it."""
    import os

    text = os.environ.get("HL_JIT_TARGET", "")
    return (parse_target(text) if text else get_host_target()).with_feature(TargetFeature.JIT)


def target_feature_for_device_api(api: DeviceAPI) -> TargetFeature:
    """The feature that stands for a kind of device."""
    return _DEVICE_FEATURES.get(api, TargetFeature.FeatureEnd)


def host_supports_target_device(target: Target) -> bool:
    """Whether kernels of the target can run on this machine: its driver is there, with a device."""
    if not target.has_gpu_feature() or target.is_emulated:
        return True
    from bayplan.language.runnable import has_device

    return has_device(target.device_api())
