"""The applications' C builds without warnings and runs clean under the sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from apps import harness
from bayplan.driver import compile_pipeline
from tests.targets.standalone import SANITIZE, run_standalone


def find_sanitizing_compilers() -> dict[str, str]:
    """Compilers that can link with the address sanitizer."""
    found = {}
    for name in ("gcc", "clang"):
        path = shutil.which(name)
        if path is None:
            continue
        probe = subprocess.run(
            [path, "-fsanitize=address,undefined", "-x", "c", "-", "-o", "/dev/null"],
            input="int main(void) { return 0; }", capture_output=True, text=True,
        )
        if probe.returncode == 0:
            found[name] = path
    return found


COMPILERS = find_sanitizing_compilers()


def prepare(name: str, box: Any) -> tuple[Any, list[Any], Any]:
    """The compiled application, its arguments and what this process computes."""
    app = harness.load(name, hl)
    mins, extents = box(app)
    arrays = harness.make_inputs(app, mins, extents)
    want = harness.run(hl, app, arrays, mins, extents)
    compiled = compile_pipeline([app.output.function()])
    records: list[Any] = []
    for argument in compiled.arguments:
        if argument.kind == "scalar":
            records.append(app.values[argument.name])
        elif argument.kind == "output_buffer":
            records.append((np.zeros_like(want), mins))
        else:
            array = arrays[argument.name]
            low = [0] * array.ndim
            if argument.name not in app.values:
                low = list(app.input_box(argument.name, mins, extents)[0])
            records.append((np.ascontiguousarray(array), low))
    return compiled, records, want


CASES = [
    ("blur", "gcc"), ("blur", "clang"), ("unsharp", "clang"), ("harris", "gcc"),
    pytest.param("camera_pipe", "gcc", marks=pytest.mark.slow),
    pytest.param("stencil_chain", "clang", marks=pytest.mark.slow),
    pytest.param("camera_pipe", "clang", marks=pytest.mark.slow),
]  # fmt: skip


@pytest.mark.sanitize
@pytest.mark.parametrize(("name", "compiler"), CASES)
def test_applications_run_clean(name: str, compiler: str, tmp_path: Path) -> None:
    path = COMPILERS.get(compiler)
    if path is None:
        pytest.skip(f"no {compiler} that links with the sanitizers")
    compiled, records, want = prepare(
        name, lambda app: app.cases[0] if app.cases else (app.mins, app.smallest)
    )
    (got,) = run_standalone(compiled, records, tmp_path, path, SANITIZE)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6 * float(np.abs(want).max()))
    else:
        assert np.array_equal(got, want)
