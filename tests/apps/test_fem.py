"""The finite-element kernels agree with numpy.einsum, on small stacks, and take what they say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bayplan as bp
from apps import harness
from apps.fem import batched_mass, element_mass, hex_laplacian
from apps.fem.elements import factors, legendre_points, lobatto_nodes

SMALL_STACK = 524288
DEGREES = (*range(1, 17), 32, 48)
Arrays = dict[str, Any]


def _einsum(formula: str, *operands: Any) -> Any:
    return np.einsum(formula, *operands, optimize=True)


def laplacian_formula(arrays: Arrays) -> Any:
    """All of it at once: derivatives at the points, flux, and back."""
    u, g, b, d = (arrays[name] for name in ("u", "G", "B", "D"))
    axes = ((b, b, d), (b, d, b), (d, b, b))
    slope = [_einsum("ezyx,cz,by,ax->ecba", u, *f) for f in axes]
    flux = [sum(g[:, m] * s for m, s in zip(row, slope)) for row in hex_laplacian.METRIC]
    return sum(_einsum("ecba,cz,by,ax->ezyx", f, *fs) for f, fs in zip(flux, axes))


def mass_formula(arrays: Arrays) -> Any:
    """To the points, times the weights, and back."""
    b = arrays["B"]
    at_points = _einsum("gezyx,cz,by,ax->gecba", arrays["u"], b, b, b)
    return _einsum("gecba,cz,by,ax->gezyx", arrays["w"] * at_points, b, b, b)


def matrix_formula(arrays: Arrays) -> Any:
    """The sum over all points, then the order of the mesh."""
    b, order = arrays["B"], arrays["order"]
    n = b.shape[1]
    local = _einsum("eyx,yi,yk,xj,xl->eijkl", arrays["w"], b, b, b, b)
    local = local.reshape(-1, n * n, n * n)
    return local[:, order][:, :, order]


@pytest.fixture(params=[1, 3], ids=["one worker", "three workers"])
def workers(request: pytest.FixtureRequest) -> Iterator[int]:
    before = bp.set_num_threads(request.param)
    yield request.param
    bp.set_num_threads(before)


def on_small_stack(call: Callable[[], Any]) -> None:
    """Calls in a thread whose stack is much smaller than the temporaries."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            failures.append(error)

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    if failures:
        raise failures[0]


def _check(hl: Any, app: Any, extents: tuple[int, ...], formula: Any, seed: int = 0) -> Any:
    arrays = harness.make_inputs(app, app.mins, extents, seed)
    app.output.compile_jit()
    prepared = harness.Prepared(hl, app, arrays, app.mins, extents)
    on_small_stack(prepared.run)
    want = formula(arrays)
    scale = float(np.max(np.abs(want), initial=0.0))
    np.testing.assert_allclose(prepared.out, want, rtol=1e-10, atol=1e-12 * scale)
    return prepared.out


@pytest.mark.parametrize("degree", DEGREES)
def test_factors_are_exact_for_polynomials(degree: int) -> None:
    nodes, (points, weights) = lobatto_nodes(degree + 1), legendre_points(degree + 2)
    b, d, _ = factors(degree)
    np.testing.assert_allclose(b @ nodes**degree, points**degree, atol=1e-13)
    np.testing.assert_allclose(d @ nodes**degree, degree * points ** (degree - 1), atol=1e-11)
    np.testing.assert_allclose(weights @ b @ nodes**0, 2.0)


@pytest.fixture(scope="module")
def any_laplacian() -> Any:
    return hex_laplacian.build(bp)


@pytest.fixture(scope="module")
def any_mass() -> Any:
    return batched_mass.build(bp)


@pytest.mark.parametrize("degree", DEGREES)
def test_one_laplacian_for_all_degrees(any_laplacian: Any, degree: int, workers: int) -> None:
    n = degree + 1
    cells = 5 if degree <= 16 else 2
    _check(bp, any_laplacian, (n, n, n, cells), laplacian_formula, degree)


@pytest.mark.parametrize("degree", [1, 2, 3, 5, 8, 16, 48])
def test_laplacian_of_a_known_degree(degree: int, workers: int) -> None:
    app = hex_laplacian.build(bp, degree=degree)
    _check(bp, app, (*app.extents[:3], 3), laplacian_formula, degree)


def test_no_cells(any_laplacian: Any, any_mass: Any) -> None:
    _check(bp, any_laplacian, (9, 9, 9, 0), laplacian_formula)
    any_mass.values["V"] = 4
    _check(bp, any_mass, (9, 9, 9, 4, 0), mass_formula)


@pytest.mark.parametrize("degree", [None, 48])
def test_storage_of_the_laplacian(degree: int | None) -> None:
    app = hex_laplacian.build(bp, degree=degree)
    b, d, _ = factors(48)
    report = bp.Pipeline(app.output).storage(
        [49, 49, 49, 2], workers=1, B=bp.Buffer(b), D=bp.Buffer(d)
    )
    cell = [t for t in report if t.per_worker and t.kind == "heap" and t.bytes]
    assert len(cell) == 16
    total = sum(t.bytes for t in cell)
    assert total == 8 * 1_965_200
    assert round(total / 2**20, 1) == 15.0
    alive = [
        sum(t.bytes for t in cell if t.life_begin <= step < t.life_end)
        for step in range(len(report.steps))
    ]
    assert max(alive) == 6 * 8 * 50**3
    assert 0.38 <= max(alive) / total <= 0.41
    outside = 2 * 8 * 49 * 50
    assert report.peak_bytes <= max(alive) + outside + 64 * 18


@pytest.mark.parametrize("degree", [1, 2, 4, 7, 8, 12])
def test_batches_of_any_size(any_mass: Any, degree: int, workers: int) -> None:
    n = degree + 1
    for batch in (1, 0, 7, 2, 0, 16, 1):
        any_mass.values["V"] = batch
        _check(bp, any_mass, (n, n, n, batch, 3), mass_formula, batch)


def test_bytes_grow_with_the_batch(any_mass: Any) -> None:
    def peak(batch: int) -> int:
        report = bp.Pipeline(any_mass.output).storage(
            [9, 9, 9, batch, 2], workers=1, V=batch, B=bp.Buffer(factors(8)[0])
        )
        return int(report.peak_bytes)

    one, many = peak(1), peak(1000)
    assert 990 <= (many - peak(0)) / (one - peak(0)) <= 1000
    # The weighted values and those before or after them, in whole batches.
    assert many <= 1000 * 8 * (10 * 10 * 10 + 9 * 10 * 10) + 8 * 90 + 64 * 6


def test_an_array_of_another_batch_is_refused(any_mass: Any) -> None:
    any_mass.values["V"] = 4
    with pytest.raises(bp.BayplanError):
        _check(bp, any_mass, (9, 9, 9, 5, 2), mass_formula)


@pytest.mark.parametrize("degree", [3, 8])
def test_element_matrices(degree: int, workers: int) -> None:
    app = element_mass.build(bp, degree=degree)
    _check(bp, app, app.extents, matrix_formula)


def test_a_matrix_larger_than_the_stack() -> None:
    before = bp.set_num_threads(4)
    try:
        app = element_mass.build(bp, degree=32)
        got = _check(bp, app, app.extents, matrix_formula)
        report = bp.Pipeline(app.output).storage(list(app.extents), workers=4)
    finally:
        bp.set_num_threads(before)
    local = next(t for t in report if t.name.split("$")[0] == "local")
    assert (local.kind, local.bytes, local.per_worker) == ("heap", 9_487_368, True)
    assert report.stack_bytes < 64 * 1024
    np.testing.assert_allclose(got, got.transpose(0, 2, 1), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("module", [hex_laplacian, batched_mass])
@pytest.mark.parametrize("degree", [None, 5, 9])
def test_the_wheel_agrees(module: Any, degree: int | None) -> None:
    hl = pytest.importorskip("halide")
    theirs, ours = module.build(hl, degree=degree), module.build(bp, degree=degree)
    extents = (*theirs.extents[:-1], 2)
    arrays = harness.make_inputs(theirs, theirs.mins, extents)
    want = harness.run(hl, theirs, arrays, theirs.mins, extents)
    got = harness.run(bp, ours, arrays, ours.mins, extents)
    assert harness.check_close(ours, got, want) is None
