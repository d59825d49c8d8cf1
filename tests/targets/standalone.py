"""An emitted program with the runtime appended and a main function: built and run on its own.

Every buffer and temporary is a block of exactly its bytes from malloc, so that the address
sanitizer sees each access beyond it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from bayplan.runtime import read_sources
from bayplan.targets.c_names import sanitise

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
SANITIZE = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

_PRELUDE = """
#include <stdio.h>
#include <stdlib.h>

static void *exact_alloc(bp_context *ctx, uint64_t bytes, uint64_t alignment, const char *name) {
    (void)ctx, (void)alignment, (void)name;
    return malloc(bytes);
}
static void exact_release(bp_context *ctx, void *block, const char *name) {
    (void)ctx, (void)name;
    free(block);
}
static uint8_t *read_bytes(const char *path, size_t bytes) {
    uint8_t *data = malloc(bytes);
    FILE *f = fopen(path, "rb");
    if (!f || fread(data, 1, bytes, f) != bytes) exit(3);
    fclose(f);
    return data;
}
"""


def _scalar(t: Any, value: Any) -> str:
    if t.kind == "float":
        return f"{float(value)!r}{'f' if t.width == 32 else ''}"
    return str(int(value))


def make_main(compiled: Any, records: list[Any], folder: Path) -> str:
    """The C text of main: the arguments of `compiled`, the call, the outputs into files.

    Args:
        compiled: the driver's CompiledPipeline.
        records: for each argument (array, mins), or a number.
        folder: where the arrays lie.
    """
    lines = ["int main(void) {", "    bp_rt_context ctx;", "    bp_rt_context_init(&ctx);",
             "    ctx.base.alloc = exact_alloc;", "    ctx.base.release = exact_release;",
             "    bp_rt_set_num_threads(2);", "    ctx.base.workers = 2;"]
    names, after = ["&ctx.base"], []
    for i, (argument, record) in enumerate(zip(compiled.arguments, records)):
        if not argument.is_buffer():
            names.append(_scalar(argument.type, record))
            continue
        array, mins = record
        path = folder / f"{i}.bin"
        path.write_bytes(array.tobytes())
        size, t = array.nbytes, argument.type
        code = {"int": 0, "uint": 1, "float": 2}[t.kind]
        dims = []
        for d in range(array.ndim):
            axis = array.ndim - 1 - d
            stride = array.strides[axis] // array.itemsize
            dims.append(f"{{{mins[d]}, {array.shape[axis]}, {stride}, 0}}")
        lines.append(f"    bp_dim dims{i}[] = {{{', '.join(dims)}}};")
        lines.append(f'    uint8_t *data{i} = read_bytes("{path}", {size});')
        lines.append(
            f"    bp_buffer b{i} = {{.host = data{i}, .type = {{{code}, {t.width}, 1}}, "
            f".dimensions = {array.ndim}, .dim = dims{i}}};"
        )
        names.append(f"&b{i}")
        if argument.kind == "output_buffer":
            after.append(f'    {{ FILE *f = fopen("{folder}/{i}.out", "wb"); '
                         f"fwrite(data{i}, 1, {size}, f); fclose(f); }}")
        after.append(f"    free(data{i});")
    name = sanitise(compiled.program.name)
    lines += [f"    const int32_t status = {name}({', '.join(names)});",
              "    if (status) {", "        char text[1000];",
              "        bp_format_error(&ctx.base, text, sizeof text);",
              '        fprintf(stderr, "%d %s\\n", (int)status, text);',
              "        return 2;", "    }",
              *after, "    return 0;", "}"]
    return "\n".join(lines) + "\n"


def run_standalone(
    compiled: Any, records: list[Any], folder: Path, compiler: str, flags: list[str]
) -> list[Any]:
    """Builds and runs the program; the arrays of its outputs."""
    text = folder / "program.c"
    main = make_main(compiled, records, folder)
    text.write_text(read_sources() + compiled.source + _PRELUDE + main)
    program = folder / "program"
    subprocess.run([compiler, *STRICT, *flags, str(text), "-o", str(program), "-lm", "-lpthread"],
                   check=True, capture_output=True, text=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = []
    for i, (argument, record) in enumerate(zip(compiled.arguments, records)):
        if argument.kind == "output_buffer":
            array = record[0]
            raw = np.fromfile(folder / f"{i}.out", array.dtype)
            outputs.append(raw.reshape(array.shape))
    return outputs
