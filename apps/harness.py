"""Describes an application and runs it, with whichever module it was built with.

`App` is what `build(hl)` returns. `make_inputs` fills its inputs deterministically, `run`
realizes it and gives the result as a numpy array whose axes are Halide's, reversed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Extents = tuple[int, ...]
Box = tuple[Extents, Extents]


class App:
    """One application, ready to run: what a caller must know besides the algorithm.

    Attributes:
        name: The application's name, as in `apps.NAMES`.
        output: The scheduled output Func.
        inputs: ImageParams by name.
        params: Scalar Params by name.
        values: The usual value of each scalar Param and of each small table input.
        extents: Extents of the output at the usual size.
        mins: Origin of the output.
        smallest: The least extents that the schedule accepts.
        multiples: What the extents must be multiples of, where the schedule demands it.
        cases: Other (mins, extents) of the output that tests should run.
        input_box: Gives (mins, extents) of each input from those of the output.
        fill: Makes the random contents of an input: (name, shape, generator) -> array.
        rtol: Relative tolerance between two compilers; 0 means bit for bit.
        atol_of_max: Absolute tolerance as a share of the largest absolute output value.
    """

    __slots__ = (
        "atol_of_max",
        "cases",
        "extents",
        "fill",
        "input_box",
        "inputs",
        "mins",
        "multiples",
        "name",
        "output",
        "params",
        "rtol",
        "smallest",
        "values",
    )

    def __init__(
        self,
        name: str,
        output: Any,
        inputs: Mapping[str, Any],
        *,
        extents: Sequence[int],
        smallest: Sequence[int],
        input_box: Callable[[str, Extents, Extents], Box],
        fill: Callable[[str, tuple[int, ...], Any], Any],
        mins: Sequence[int] | None = None,
        multiples: Sequence[int] | None = None,
        params: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        cases: Sequence[Box] = (),
        rtol: float = 0.0,
        atol_of_max: float = 0.0,
    ) -> None:
        self.name = name
        self.output = output
        self.inputs = dict(inputs)
        self.params = dict(params or {})
        self.values = dict(values or {})
        self.extents = tuple(extents)
        self.mins = tuple(mins) if mins is not None else (0,) * len(self.extents)
        self.smallest = tuple(smallest)
        self.multiples = tuple(multiples) if multiples is not None else None
        self.cases = tuple(cases)
        self.input_box = input_box
        self.fill = fill
        self.rtol = rtol
        self.atol_of_max = atol_of_max

    def boxes(self) -> list[Box]:
        """All output boxes worth testing: the usual one first."""
        return [(self.mins, self.extents), *self.cases]


def load(name: str, hl: Any, **parameters: Any) -> App:
    """Builds the application called `name` with the module `hl`."""
    app: App = importlib.import_module(f"apps.{name}").build(hl, **parameters)
    return app


def make_inputs(app: App, mins: Extents, extents: Extents, seed: int = 0) -> dict[str, Any]:
    """Makes the numpy array of each input for one output box, the same for the same seed.

    The axes are Halide's reversed: dimension 0 is the last axis.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for name in app.inputs:
        if name in app.values:
            arrays[name] = np.array(app.values[name])
        else:
            _, size = app.input_box(name, mins, extents)
            arrays[name] = app.fill(name, tuple(reversed(size)), rng)
    return arrays


class Prepared:
    """An application bound to arrays, so that a benchmark repeats only the call itself."""

    __slots__ = ("app", "arrays", "buffers", "out", "out_buffer", "run")

    def __init__(
        self, hl: Any, app: App, arrays: Mapping[str, Any], mins: Extents, extents: Extents
    ) -> None:
        import numpy as np

        self.app = app
        self.arrays = dict(arrays)
        self.buffers = {}
        for name, param in app.inputs.items():
            buffer = hl.Buffer(self.arrays[name])
            if name not in app.values:
                buffer.set_min(list(app.input_box(name, mins, extents)[0]))
            self.buffers[name] = buffer
            param.set(buffer)
        for name, param in app.params.items():
            param.set(app.values[name])
        dtype = output_dtype(app)
        self.out = np.zeros(tuple(reversed(extents)), dtype)
        self.out_buffer = hl.Buffer(self.out)
        self.out_buffer.set_min(list(mins))
        self.run = lambda: app.output.realize(self.out_buffer)


def output_dtype(app: App) -> Any:
    """The numpy dtype of the application's output."""
    import numpy as np

    kind = app.output.types()[0]
    letter = "f" if kind.is_float() else "u" if kind.is_uint() else "i"
    return np.dtype(f"{letter}{kind.bits() // 8}")


def run(
    hl: Any,
    app: App,
    arrays: Mapping[str, Any],
    mins: Extents | None = None,
    extents: Extents | None = None,
) -> Any:
    """Realizes the application over one output box and returns the array."""
    box = (app.mins if mins is None else mins, app.extents if extents is None else extents)
    prepared = Prepared(hl, app, arrays, *box)
    prepared.run()
    return prepared.out


def check_close(app: App, got: Any, want: Any) -> str | None:
    """Says how `got` differs from `want` beyond the application's tolerance, or None."""
    import numpy as np

    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{app.name}: {got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if app.rtol == 0.0:
        bad = got != want
    else:
        atol = app.atol_of_max * float(np.max(np.abs(want)))
        bad = ~np.isclose(got, want, rtol=app.rtol, atol=atol, equal_nan=True)
    count = int(np.count_nonzero(bad))
    if count == 0:
        return None
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    return (
        f"{app.name}: {count} of {bad.size} values differ, "
        f"first at {where[::-1]}: {got[where]!r} instead of {want[where]!r}"
    )
