"""A call in a workspace makes no system call at all: it runs where the kernel allows none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.targets.c_names import sanitise
from tests.runtime.native import build_native

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's seccomp")

# In strict mode any system call but read, write and exit kills the process.
MAIN = """
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static uint8_t workspace[1 << 20];
static float in[1010], out[1000];

int main(int argc, char **argv) {{
    (void)argv;
    bp_rt_context ctx;
    bp_rt_context_init(&ctx);
    bp_dim in_dim = {{0, 1010, 1, 0}}, out_dim = {{0, 1000, 1, 0}};
    bp_buffer image = {{.host = (uint8_t *)in, .type = {{BP_FLOAT, 32, 1}}, .dimensions = 1,
                       .dim = &in_dim}};
    bp_buffer result = {{.host = (uint8_t *)out, .type = {{BP_FLOAT, 32, 1}}, .dimensions = 1,
                        .dim = &out_dim}};
    for (int i = 0; i < 1010; i++) in[i] = (float)i;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 77;
    int32_t status = 0;
    for (int i = 0; i < 3 && !status; i++) {{
        const int64_t bytes = {name}_workspace_bytes(&ctx.base, &image, &result);
        status = bytes > 0 && bytes < (int64_t)sizeof workspace - 64 ? 0 : 5;
        if (!status)
            status = {name}_with_workspace(&ctx.base, &image, &result, workspace + i,
                                          sizeof workspace - (uint64_t)i);
    }}
    if (argc > 5) status = {name}(&ctx.base, &image, &result);
    if (!status && write(1, out, sizeof out) != sizeof out) status = 6;
    syscall(SYS_exit, status ? 1 : 0);
    return 0;
}}
"""


def make_program() -> Any:
    x = hl.Var("x")
    image = hl.ImageParam(hl.Float(32), 1, "image")
    funcs: list[Any] = [image]
    for i in range(4):
        f = hl.Func(f"stage{i}")
        f[x] = funcs[-1][x] + funcs[-1][x + 1]
        if i < 3:
            f.compute_root().store_in(hl.MemoryType.Heap).vectorize(x, 8)
        funcs.append(f)
    return driver.compile_pipeline([funcs[-1].function()])


def test_no_system_call(tmp_path: Path) -> None:
    compiled = make_program()
    main = compiled.source + MAIN.format(name=sanitise(compiled.program.name))
    flags = ("-march=native", "-Wno-psabi", "-Wno-ignored-attributes")
    program = str(build_native(main, tmp_path, *flags))
    done = subprocess.run([program], capture_output=True, timeout=60)
    if done.returncode == 77:
        pytest.skip("the kernel has no seccomp")
    assert done.returncode == 0, done
    got = np.frombuffer(done.stdout, np.float32)
    want = np.arange(1010, dtype=np.float32)
    for _ in range(4):
        want = want[:-1] + want[1:]
    assert (got == want[:1000]).all()
    # The same with the pool would be killed.
    killed = subprocess.run([program, *"abcde"], capture_output=True, timeout=60)
    assert killed.returncode == -9
