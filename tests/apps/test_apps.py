"""The applications agree with plain numpy and, where it is installed, with the halide wheel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import apps
from apps import harness
from tests.apps import formulas

# Small builds: whole-image numpy formulas are slow, and some sizes are compiled in.
SMALL: dict[str, dict[str, Any]] = {
    "iir_blur": {"width": 147, "height": 83},
    "stencil_chain": {"stencils": 13, "width": 200, "height": 160},
    "camera_pipe": {"width": 192, "height": 96},
}
FORMULA_ARGUMENTS: dict[str, dict[str, Any]] = {"stencil_chain": {"stencils": 13}}


def _module(name: str) -> Any:
    return pytest.importorskip(name)


@pytest.mark.parametrize("module", ["bayplan", "halide"])
@pytest.mark.parametrize("name", apps.NAMES)
def test_small_sizes_agree_with_numpy(name: str, module: str) -> None:
    hl = _module(module)
    app = harness.load(name, hl, **SMALL.get(name, {}))
    boxes = app.boxes()[1:] if app.cases else app.boxes()
    for seed, (mins, extents) in enumerate(boxes):
        arrays = harness.make_inputs(app, mins, extents, seed)
        got = harness.run(hl, app, arrays, mins, extents)
        want = getattr(formulas, name)(arrays, mins, extents, **FORMULA_ARGUMENTS.get(name, {}))
        if app.rtol:
            scale = float(np.max(np.abs(want)))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale)
        else:
            assert harness.check_close(app, got, want) is None


@pytest.mark.parametrize("name", apps.NAMES)
def test_all_sizes_agree_with_the_wheel(name: str) -> None:
    hl, bp = _module("halide"), _module("bayplan")
    theirs, ours = harness.load(name, hl), harness.load(name, bp)
    for seed, (mins, extents) in enumerate(theirs.boxes()):
        arrays = harness.make_inputs(theirs, mins, extents, seed)
        want = harness.run(hl, theirs, arrays, mins, extents)
        got = harness.run(bp, ours, arrays, mins, extents)
        assert harness.check_close(ours, got, want) is None


@pytest.mark.parametrize("shape", [(147, 83), (333, 197)])
def test_compiled_in_sizes_agree_with_the_wheel(shape: tuple[int, int]) -> None:
    hl, bp = _module("halide"), _module("bayplan")
    size = {"width": shape[0], "height": shape[1]}
    theirs, ours = (harness.load("iir_blur", m, **size) for m in (hl, bp))
    arrays = harness.make_inputs(theirs, theirs.mins, theirs.extents)
    want, got = harness.run(hl, theirs, arrays), harness.run(bp, ours, arrays)
    assert harness.check_close(ours, got, want) is None
