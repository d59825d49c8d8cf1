"""Targets: their text, their features, their vectors."""

from __future__ import annotations

import pytest

import bayplan as hl

F = hl.TargetFeature
TEXTS = [
    "x86-64-linux",
    "x86-64-linux-avx",
    "x86-64-linux-avx2-f16c-fma-sse41",
    "x86-64-linux-avx512",
    "x86-64-linux-avx512_skylake",
    "x86-64-linux-avx512_knl",
    "arm-64-linux",
    "arm-32-android-cuda-debug-jit-opencl",
    "x86-64-linux-avx2-stack_bytes_4096-storage_align_16",
    "x86-64-linux-avx2-cuda-emulated",
    "x86-64-linux-cuda-cuda_capability_75-opencl",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_goes_there_and_back(text: str) -> None:
    assert str(hl.Target(text)) == text
    assert hl.Target(text) == hl.Target(hl.Target(text).to_string())


@pytest.mark.parametrize("text", TEXTS[:6])
def test_vector_sizes_are_those_of_halide(text: str) -> None:
    halide = pytest.importorskip("halide")
    for kind, bits in (("UInt", 8), ("Int", 16), ("Int", 32), ("Float", 32), ("Float", 64)):
        ours = hl.Target(text).natural_vector_size(getattr(hl, kind)(bits))
        theirs = halide.Target(text).natural_vector_size(getattr(halide, kind)(bits))
        assert ours == theirs, (kind, bits)


def test_the_host() -> None:
    halide = pytest.importorskip("halide")
    for kind, bits in (("UInt", 8), ("Float", 32)):
        ours = hl.get_host_target().natural_vector_size(getattr(hl, kind)(bits))
        assert ours == halide.get_host_target().natural_vector_size(getattr(halide, kind)(bits))
    assert hl.get_jit_target_from_environment().has_feature(F.JIT)
    assert hl.Target("host-opencl").has_gpu_feature()


def test_features() -> None:
    t = hl.Target(hl.TargetOS.Linux, hl.TargetArch.X86, 64, [F.SSE41])
    assert t.with_feature(F.AVX).has_feature(F.AVX)
    assert not t.has_feature(F.AVX)
    t.set_features([F.AVX, F.AVX2])
    t.set_feature(F.SSE41, False)
    assert str(t) == "x86-64-linux-avx-avx2"
    assert t.features_all_of([F.AVX, F.AVX2]) and not t.features_any_of([F.SSE41])
    assert t.maximum_buffer_size() == 2**31 - 1
    assert t.with_feature(F.LargeBuffers).maximum_buffer_size() == 2**63 - 1


@pytest.mark.parametrize(
    "text",
    [
        "host-unknowntoken",
        "x86-23",
        "x86-0",
        "0-arch_unknown-os_unknown-sse41",
        "sse-host",
        "host-emulated",
        "opencl-emulated",
        "emulated",
        "linux-cuda",
    ],
)
def test_texts_that_are_no_target(text: str) -> None:
    assert not hl.Target.validate_target_string(text)
    with pytest.raises(hl.DefinitionError, match="does not name a target"):
        hl.Target(text)


def test_a_target_without_a_machine_has_no_vectors() -> None:
    with pytest.raises(hl.DefinitionError, match="arch_unknown"):
        hl.Target().natural_vector_size(hl.UInt(8))


def test_storage_of_a_target() -> None:
    host = hl.Target("host")
    assert host.stack_budget_bytes == 65536
    assert host.storage_alignment == host.natural_vector_size(hl.UInt(8))
    assert hl.Target("x86-64-linux-avx512_skylake").storage_alignment == 64
    assert hl.Target("x86-64-linux").storage_alignment == 16
    small = host.with_stack_budget(1024).with_storage_alignment(16)
    assert hl.Target(str(small)) == small != host
    assert (small.stack_budget_bytes, small.storage_alignment) == (1024, 16)
    for alignment in (0, 24, 128):
        with pytest.raises(hl.DefinitionError, match=f"aligned to {alignment} bytes"):
            host.with_storage_alignment(alignment)


def test_text_without_a_machine_means_this_one() -> None:
    host = hl.get_host_target()
    assert hl.Target("opencl") == hl.Target("host-opencl") == host.with_feature(F.OpenCL)
    assert hl.Target("cuda-emulated") == hl.Target("host-cuda-emulated") == host.with_emulation()
    assert hl.Target("avx2-fma") == host.with_feature(F.AVX2).with_feature(F.FMA)
    assert hl.Target("stack_bytes_512") == host.with_stack_budget(512)
    assert hl.Target("") == host


def test_devices_of_a_target() -> None:
    api = hl.DeviceAPI
    cuda, emulated, both = [hl.Target(t) for t in ("cuda", "cuda-emulated", "cuda-opencl")]
    assert cuda != emulated and not cuda.is_emulated and emulated.is_emulated
    assert emulated.has_feature(F.CUDA) and emulated.with_emulation(False) == cuda
    assert [t.device_api() for t in (cuda, emulated, both)] == [api.CUDA, api.CUDA, api.OpenCL]
    assert hl.Target("opencl").device_api() is api.OpenCL
    assert hl.Target("host").device_api() is hl.Target("host-metal").device_api() is api.None_
    assert cuda.supports_device_api(api.Default_GPU) and not cuda.supports_device_api(api.OpenCL)
    assert hl.host_supports_target_device(hl.Target("host"))
    assert hl.host_supports_target_device(emulated)
    assert not hl.host_supports_target_device(hl.Target("host-metal"))
