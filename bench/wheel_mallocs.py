"""Counts what a program of the halide wheel allocates: built ahead of time, its malloc replaced."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apps.harness import App, Extents, output_dtype

_SOURCE = """
#include <stdlib.h>
#include <string.h>
#include "HalideRuntime.h"

static long requests, live, peak;

static void *take(void *context, size_t bytes) {
    (void)context;
    char *block = aligned_alloc(128, (bytes + 255) / 128 * 128 + 128);
    if (!block) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    long now = __atomic_add_fetch(&live, (long)bytes, __ATOMIC_RELAXED);
    long most = __atomic_load_n(&peak, __ATOMIC_RELAXED);
    while (now > most && !__atomic_compare_exchange_n(&peak, &most, now, 0, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED)) {}
    return block + 128;
}

static void give(void *context, void *p) {
    (void)context;
    if (!p) return;
    size_t bytes;
    memcpy(&bytes, (char *)p - 128, sizeof bytes);
    __atomic_sub_fetch(&live, (long)bytes, __ATOMIC_RELAXED);
    free((char *)p - 128);
}

int ENTRY(void **args);

int count_mallocs(void **args, int threads, long *result) {
    halide_set_num_threads(threads);
    halide_set_custom_malloc(take);
    halide_set_custom_free(give);
    requests = live = peak = 0;
    int status = ENTRY(args);
    result[0] = requests;
    result[1] = peak;
    return status;
}
"""


class _Dimension(ctypes.Structure):
    _fields_ = [(f, ctypes.c_int32) for f in ("min", "extent", "stride")] + [
        ("flags", ctypes.c_uint32)
    ]


class _Buffer(ctypes.Structure):
    """The layout of `halide_buffer_t`, see HalideRuntime.h of the wheel."""

    _fields_ = [
        ("device", ctypes.c_uint64),
        ("device_interface", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("dimensions", ctypes.c_int32),
        ("dim", ctypes.POINTER(_Dimension)),
        ("padding", ctypes.c_void_p),
    ]


def _buffer(array: Any, mins: Extents | None = None) -> _Buffer:
    rank = array.ndim
    dims = (_Dimension * max(rank, 1))()
    for d in range(rank):
        axis = rank - 1 - d
        dims[d].min = mins[d] if mins else 0
        dims[d].extent = array.shape[axis]
        dims[d].stride = array.strides[axis] // array.itemsize
    code = {"i": 0, "u": 1, "f": 2}[array.dtype.kind]
    made = _Buffer(0, None, array.ctypes.data, 0, code, array.itemsize * 8, 1, rank, dims, None)
    return made


def count_mallocs(
    app: App, arrays: Mapping[str, Any], mins: Extents, extents: Extents, threads: int
) -> tuple[int, int]:
    """The mallocs of one call and the most bytes held at once.

    Args:
        app: Built with the wheel.
        arrays: Its inputs, by name.
        mins, extents: Box of the output.
        threads: Of parallel loops.

    Raises:
        RuntimeError: There is no C compiler, or the call failed.
    """
    import halide
    import numpy as np

    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise RuntimeError("no C compiler")
    arguments = app.output.infer_arguments()
    include = Path(halide.__file__).parent / "include"
    with tempfile.TemporaryDirectory() as folder:
        object_file, source = Path(folder, "program.o"), Path(folder, "count.c")
        library_file = Path(folder, "count.so")
        app.output.compile_to_object(
            str(object_file), arguments, "program", halide.get_host_target()
        )
        source.write_text(_SOURCE.replace("ENTRY", "program_argv"))
        command = [compiler, "-O1", "-shared", "-fPIC", f"-I{include}", str(source)]
        command += [str(object_file), "-o", str(library_file), "-lpthread", "-ldl", "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        library = ctypes.CDLL(str(library_file))
    values: list[Any] = []
    for argument in arguments:
        name = argument.name
        if name in app.inputs:
            known = name in app.values
            values.append(
                _buffer(arrays[name], None if known else app.input_box(name, mins, extents)[0])
            )
            continue
        parameter = app.params[name].type()
        kind = "f" if parameter.is_float() else "u" if parameter.is_uint() else "i"
        dtype = np.dtype(f"{kind}{parameter.bits() // 8}")
        values.append(np.ctypeslib.as_ctypes_type(dtype)(app.values[name]))
    out = np.zeros(tuple(reversed(extents)), output_dtype(app))
    values.append(_buffer(out, mins))
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    result = (ctypes.c_long * 2)()
    status = library.count_mallocs(pointers, threads, result)
    if status:
        raise RuntimeError(f"the program of the wheel failed with {status}")
    return int(result[0]), int(result[1])
