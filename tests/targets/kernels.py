"""Kernels made by hand in kernel form, and what runs them: PyOpenCL, nvcc, the emulation."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.types import INT32, Handle, Int, Type
from bayplan.language.target_names import TargetFeature
from bayplan.lower.program import Argument, LoweredProgram
from bayplan.targets.c import Emission
from bayplan.targets.c_stmts import StatementWriter
from bayplan.targets.c_writer import Binding, Writer
from bayplan.targets.cuda import read_emulation
from bayplan.targets.kernels import Kernel, write_kernel
from tests.targets.interpret import evaluate

TITLE = "f.s0.kernel"


class DeviceTarget:
    """What a program's target must answer to have kernels."""

    def __init__(self, feature: TargetFeature) -> None:
        self.feature = feature

    def has_feature(self, feature: Any) -> bool:
        """Whether it is the one device it has."""
        return feature is self.feature

    def natural_vector_size(self, t: Type) -> int:
        """Lanes of the host's registers."""
        return 16 // t.bytes()


OPENCL = DeviceTarget(TargetFeature.OpenCL)
CUDA = DeviceTarget(TargetFeature.CUDA)


def block_id(axis: str = "x") -> E.Variable:
    """The number of a block."""
    return E.Variable(INT32, f"{TITLE}.block_id_{axis}")


def thread_id(axis: str = "x") -> E.Variable:
    """The number of a thread."""
    return E.Variable(INT32, f"{TITLE}.thread_id_{axis}")


def loops(kind: ForKind, name: str, extents: tuple[Any, ...], body: S.Stmt) -> S.Stmt:
    """Nested loops, x innermost."""
    for axis, extent in zip("xyz", extents):
        if not isinstance(extent, E.Expr):
            extent = build.int32(extent)
        full = f"{TITLE}.{name}_{axis}"
        body = S.For(full, build.int32(0), extent, kind, Partition.Auto, body)
    return body


def blocks(extents: tuple[Any, ...], body: S.Stmt) -> S.For:
    """A kernel of so many blocks."""
    made = loops(ForKind.GPUBlock, "block_id", extents, body)
    assert isinstance(made, S.For)
    return made


def stretch(extents: tuple[Any, ...], body: S.Stmt) -> S.Stmt:
    """What so many threads do."""
    return loops(ForKind.GPUThread, "thread_id", extents, body)


def barrier(fence: int = 1) -> S.Stmt:
    """The threads of the block wait."""
    return S.Evaluate(
        E.Call(INT32, "gpu_thread_barrier", (build.int32(fence),), E.CallKind.INTRINSIC)
    )


def shared(name: str, t: Type, extents: tuple[Any, ...], body: S.Stmt) -> S.Stmt:
    """Memory of the block around a body."""
    sizes = tuple([e if isinstance(e, E.Expr) else build.int32(e) for e in extents])
    return S.Allocate(name, t, MemoryType.GPUShared, sizes, build.true(), 0, body)


def alias(name: str, t: Type, count: int, arena: str, offset: Any, body: S.Stmt) -> S.Stmt:
    """Bytes of an arena under a name of their own."""
    if not isinstance(offset, E.Expr):
        offset = build.const(Int(64), offset)
    address = E.Call(
        Handle(), "offset_pointer", (E.Variable(Handle(), arena), offset), E.CallKind.INTRINSIC
    )
    kind = MemoryType.GPUShared
    return S.Allocate(
        name, t, kind, (build.int32(count),), build.true(), 0, body, 64, address
    )


class Program:
    """A kernel with its device text."""

    def __init__(
        self, body: S.Stmt, target: DeviceTarget, scalars: dict[str, Type] | None = None,
        tables: Any = (), scope: dict[str, Binding] | None = None,
    ) -> None:
        arguments = [Argument("scalar", n, t, 0, None, None) for n, t in (scalars or {}).items()]
        program = LoweredProgram("p", target, arguments, body, body, {})
        program.tables = list(tables)
        self.emission = Emission(program, 16, False, True)
        self.writer = StatementWriter(self.emission, Writer(self.emission.unit))
        from bayplan.targets.c_names import scalar_type

        for n, t in (scalars or {}).items():
            self.writer.w.scope[n] = Binding(n, scalar_type(t))
        self.writer.w.scope.update(scope or {})
        assert isinstance(body, S.For)
        self.kernel: Kernel = write_kernel(self.writer, body)
        assert self.emission.unit.device is not None
        self.text: str = self.emission.unit.device.text()  # type: ignore[attr-defined]

    def size(self, sizes: tuple[E.Expr, ...], values: dict[str, Any]) -> tuple[int, int, int]:
        """Numbers of blocks or threads for values of the scalars."""
        found = [_evaluate(e, values) for e in sizes]
        return found[0], found[1], found[2]


def _evaluate(e: E.Expr, values: dict[str, Any]) -> int:
    from bayplan.ir.walk import substitute

    numbers = {n: v for n, v in values.items() if not isinstance(v, list)}
    given = {n: build.const(INT32, v) for n, v in numbers.items()}
    return int(evaluate(substitute(given, e), {})[0])


class OpenCLDevice:
    """A device of PyOpenCL."""

    def __init__(self, platform: str) -> None:
        import pyopencl as cl

        for p in cl.get_platforms():
            if platform.lower() in p.name.lower():
                self.context = cl.Context(p.get_devices())
                self.queue = cl.CommandQueue(self.context)
                return
        raise LookupError(platform)

    def run(
        self, program: Program, arrays: dict[str, Any], values: dict[str, Any] | None = None,
        offsets: dict[str, int] | None = None,
    ) -> dict[str, Any]:
        """Builds and runs the kernel; the arrays as it leaves them.

        Args:
            program: with the OpenCL text.
            arrays: numpy arrays by the names of allocations and buffers.
            values: of the scalars by their C names.
            offsets: bytes by which the memories begin behind their buffers' begins.
        """
        import pyopencl as cl

        values, offsets = values or {}, offsets or {}
        kernel = program.kernel
        built = cl.Program(self.context, program.text).build()
        function = getattr(built, kernel.name)
        buffers, args = {}, []
        for _, ir_name in kernel.memories:
            array = arrays[ir_name]
            offset = offsets.get(ir_name, 0)
            data = np.zeros(offset + max(4, -(-array.nbytes // 4) * 4), np.uint8)
            data[offset : offset + array.nbytes] = array.view(np.uint8).ravel()
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            buffers[ir_name] = (cl.Buffer(self.context, flags, hostbuf=data), data, offset)
            args += [buffers[ir_name][0], np.int64(offset)]
        for _, c_type, text in kernel.scalars:
            args.append(_NUMPY[c_type](_value(text, values)))
        if kernel.dynamic:
            assert kernel.shared is not None
            args.append(cl.LocalMemory(_evaluate(kernel.shared, values)))
        local = program.size(kernel.threads, values)
        groups = program.size(kernel.blocks, values)
        total = tuple([a * b for a, b in zip(local, groups)])
        function(self.queue, total, local, *args)
        result = {}
        for ir_name, (buffer, data, offset) in buffers.items():
            cl.enqueue_copy(self.queue, data, buffer)
            array = arrays[ir_name]
            result[ir_name] = (
                data[offset : offset + array.nbytes].copy().view(array.dtype).reshape(array.shape)
            )
        self.queue.finish()
        return result


class Emulation:
    """The host's C++ compiler with the emulation of CUDA before the kernels.

    Args:
        folder: for files.
        flags: more flags of the compiler.
        compiler: g++ or clang++.
    """

    def __init__(self, folder: Path, flags: Sequence[str] = (), compiler: str = "g++") -> None:
        self.folder = folder
        self.flags = [*flags]
        self.compiler = compiler

    def build(self, program: Program) -> Path:
        """A program that runs the kernel with memories from files and scalars given as text."""
        kernel = program.kernel
        text = self.folder / "kernels.cpp"
        text.write_text(read_emulation() + program.text + _main(program))
        out = self.folder / "program"
        done = subprocess.run(
            [self.compiler, "-std=c++17", "-O1", "-fno-strict-aliasing", "-Wall", "-Wextra",
             "-Werror", *self.flags, str(text), "-o", str(out), "-lm"],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{kernel.name}: {done.stderr[-4000:]}"
        return out

    def start(
        self, program: Program, arrays: dict[str, Any], values: dict[str, Any] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Builds and runs the kernel; what the process says."""
        values = values or {}
        kernel = program.kernel
        built = self.build(program)
        for i, (_, ir_name) in enumerate(kernel.memories):
            (self.folder / f"{i}.bin").write_bytes(arrays[ir_name].tobytes())
        shared = 0
        if kernel.dynamic:
            assert kernel.shared is not None
            shared = _evaluate(kernel.shared, values)
        numbers = [*program.size(kernel.blocks, values), *program.size(kernel.threads, values),
                   shared]
        sizes = [arrays[ir_name].nbytes for _, ir_name in kernel.memories]
        scalars = [repr(_value(text, values)) for _, _, text in kernel.scalars]
        return subprocess.run(
            [str(built), str(self.folder), *[str(n) for n in (*numbers, *sizes)], *scalars],
            capture_output=True, text=True, check=False, timeout=300,
        )

    def run(
        self, program: Program, arrays: dict[str, Any], values: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Builds and runs the kernel; the arrays as it leaves them."""
        done = self.start(program, arrays, values)
        assert done.returncode == 0, done.stderr[-4000:]
        result = {}
        for i, (_, ir_name) in enumerate(program.kernel.memories):
            array = arrays[ir_name]
            raw = np.fromfile(self.folder / f"{i}.bin", np.uint8)
            result[ir_name] = raw.view(array.dtype).reshape(array.shape)
        return result


def _main(program: Program) -> str:
    """A main function that reads memories from files, and writes them back."""
    kernel = program.kernel
    lines = ["", "int main(int argc, char **argv) {", "    (void)argc;", "    char why[300];",
             "    bp_emulated_launch launch = {};",
             "    for (int k = 0; k < 3; k++) {",
             "        launch.blocks[k] = atoll(argv[2 + k]);",
             "        launch.threads[k] = atoll(argv[5 + k]);", "    }",
             "    launch.shared_bytes = (uint64_t)atoll(argv[8]);",
             "    const int64_t offset = 0;", "    (void)offset;",
             "    const void *given[100];", "    launch.parameters = given;",
             "    int n = 0, at = 9;", "    (void)n, (void)at;", "    char path[400];",
             "    (void)path;"]
    for i, _ in enumerate(kernel.memories):
        lines += [
            f"    const size_t bytes{i} = (size_t)atoll(argv[at++]);",
            f"    uint8_t *memory{i} = (uint8_t *)malloc(bytes{i});",
            f'    snprintf(path, sizeof path, "%s/{i}.bin", argv[1]);',
            f'    FILE *file{i} = fopen(path, "rb");',
            f"    if (fread(memory{i}, 1, bytes{i}, file{i}) != bytes{i}) return 3;",
            f"    fclose(file{i});",
            f"    given[n++] = &memory{i}, given[n++] = &offset;",
        ]
    for name, c_type, _ in kernel.scalars:
        read = "atof" if c_type in ("float", "double") else "atoll"
        lines += [f"    const {c_type} {name}_value = ({c_type}){read}(argv[at++]);",
                  f"    given[n++] = &{name}_value;"]
    lines += ["    launch.parameter_count = n;",
              "    int status = 0;",
              "    if (BP_MODULE_TABLE[0].run(&launch, why, sizeof why) < 0) {",
              '        fprintf(stderr, "%s\\n", why);', "        status = 2;", "    }"]
    for i, _ in enumerate(kernel.memories):
        lines += [f'    snprintf(path, sizeof path, "%s/{i}.bin", argv[1]);',
                  f'    file{i} = fopen(path, "wb");',
                  f"    fwrite(memory{i}, 1, bytes{i}, file{i});", f"    fclose(file{i});",
                  f"    free(memory{i});"]
    return "\n".join([*lines, "    return status;", "}", ""])


def _value(text: str, values: dict[str, Any]) -> Any:
    """A scalar's value; the host's text of it is a name or as good as Python."""
    value = eval(text.replace("(uint8_t)", ""), {}, dict(values))
    return int(value) if isinstance(value, bool) else value


_NUMPY = {
    "int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "uint16_t": np.uint16,
    "int32_t": np.int32, "uint32_t": np.uint32, "int64_t": np.int64, "uint64_t": np.uint64,
    "float": np.float32, "double": np.float64,
}  # fmt: skip

__all__ = [
    "CUDA", "OPENCL", "DeviceTarget", "Emulation", "OpenCLDevice", "Program", "alias", "barrier",
    "block_id", "blocks", "shared", "stretch", "thread_id",
]  # fmt: skip
