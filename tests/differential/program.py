"""A program as data: lines of an algorithm, lines of a schedule, sizes, and how to run it.

Everything prints as a plain Python script, and what is run is that very text, so a failure is
reported as a script that reproduces it.
"""

from __future__ import annotations

import textwrap
from typing import Any

DTYPES = {
    **{f"{k}{b}": f"{n}{b}" for k, n in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)},
    "f32": "float32",
    "f64": "float64",
}


class Input:
    """An array the program reads: its type and where it lies."""

    __slots__ = ("extents", "kind", "mins", "name")

    def __init__(self, name: str, kind: str, mins: list[int], extents: list[int]) -> None:
        self.name = name
        self.kind = kind
        self.mins = mins
        self.extents = extents

    def data(self) -> Any:
        """The contents, a function of name and shape; all values occur in narrow types."""
        import numpy as np

        rng = np.random.default_rng(sum(map(ord, self.name)))
        shape = tuple(reversed(self.extents))
        if self.kind[0] == "f":
            return (rng.integers(-32, 33, shape) / 4).astype(DTYPES[self.kind])
        dtype = np.dtype(DTYPES[self.kind])
        info = np.iinfo(dtype)
        # Wide types stay small, so that sums of a few products are defined.
        low, high = max(info.min, -1000), min(info.max, 1000)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)


class Program:
    """A whole program; see the module.

    Attributes:
        inputs: Input arrays.
        params: (name, type, value) of each scalar parameter.
        algorithm: Lines that define Vars and Funcs.
        schedule: Lines that schedule them; any subset is a program too.
        output: Name of the output Func.
        kinds: Types of its values.
        exact: Whether each value must agree bit for bit.
        mins: Origin of the region that is computed.
        extents: Size of the region that is computed.
    """

    __slots__ = (
        "algorithm",
        "exact",
        "extents",
        "inputs",
        "kinds",
        "mins",
        "output",
        "params",
        "schedule",
    )

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.params: list[tuple[str, str, int]] = []
        self.algorithm: list[str] = []
        self.schedule: list[str] = []
        self.output = ""
        self.kinds: list[str] = []
        self.exact: list[bool] = []
        self.mins: list[int] = []
        self.extents: list[int] = []

    def with_schedule(self, lines: list[str]) -> Program:
        """The same algorithm under other schedule lines."""
        other = Program()
        for name in Program.__slots__:
            setattr(other, name, getattr(self, name))
        other.schedule = lines
        return other

    def build_source(self) -> str:
        """Source of `build(hl)`, which returns the output Func, the inputs and the params."""
        from tests.differential.values import CONSTRUCTORS

        body = []
        for i in self.inputs:
            body.append(
                f'{i.name} = hl.ImageParam({CONSTRUCTORS[i.kind]}, {len(i.extents)}, "{i.name}")'
            )
        for name, kind, _ in self.params:
            body.append(f'{name} = hl.Param({CONSTRUCTORS[kind]}, "{name}")')
        body += [*self.algorithm, "# Schedule.", *self.schedule]
        names = ", ".join(f'"{i.name}": {i.name}' for i in self.inputs)
        params = ", ".join(f'"{name}": {name}' for name, _, _ in self.params)
        body.append(f"return {self.output}, {{{names}}}, {{{params}}}")
        return "def build(hl):\n" + textwrap.indent("\n".join(body), "    ") + "\n"

    def script(self) -> str:
        """A self-contained script that runs the program with both modules and compares."""
        arrays = "".join(
            f"    {i.name!r}: ({i.kind!r}, {i.mins}, {i.extents}),\n" for i in self.inputs
        )
        values = ", ".join(f"{name!r}: {value}" for name, _, value in self.params)
        return _SCRIPT.format(
            build=self.build_source(),
            arrays=arrays,
            values=values,
            kinds=[DTYPES[k] for k in self.kinds],
            mins=self.mins,
            extents=self.extents,
        )


def prepare(program: Program, hl: Any) -> tuple[Any, list[Any]]:
    """Builds the program with a module and binds its inputs; returns the Func and the arrays."""
    scope: dict[str, Any] = {}
    exec(compile(program.build_source(), "<program>", "exec"), scope)
    func, images, params = scope["build"](hl)
    kept = []
    for spec in program.inputs:
        array = spec.data()
        buffer = hl.Buffer(array)
        buffer.set_min(list(spec.mins))
        images[spec.name].set(buffer)
        kept.append((array, buffer))
    for name, _, value in program.params:
        params[name].set(value)
    return func, kept


def run(program: Program, hl: Any, target: Any = None) -> list[Any]:
    """Builds, compiles and runs the program, for the host or a target; returns the outputs."""
    import numpy as np

    func, _kept = prepare(program, hl)
    outputs, buffers = [], []
    for kind in program.kinds:
        out = np.zeros(tuple(reversed(program.extents)), DTYPES[kind])
        buffer = hl.Buffer(out)
        buffer.set_min(list(program.mins))
        outputs.append(out)
        buffers.append(buffer)
    given = buffers[0] if len(buffers) == 1 else buffers
    if target is None:
        func.realize(given)
    else:
        func.realize(given, target)
    return outputs


_SCRIPT = '''"""A random program on which two compilers disagree."""
import numpy as np


{build}

INPUTS = {{
{arrays}}}
VALUES = {{{values}}}


def data(name, kind, extents):
    rng = np.random.default_rng(sum(map(ord, name)))
    shape = tuple(reversed(extents))
    if kind[0] == "f":
        return (rng.integers(-32, 33, shape) / 4).astype(kind.replace("f", "float"))
    dtype = np.dtype(kind.replace("u", "uint") if kind[0] == "u" else kind.replace("i", "int"))
    info = np.iinfo(dtype)
    low, high = max(info.min, -1000), min(info.max, 1000)
    return rng.integers(low, high, shape, endpoint=True).astype(dtype)


def run(hl):
    func, images, params = build(hl)
    kept = []
    for name, (kind, mins, extents) in INPUTS.items():
        array = data(name, kind, extents)
        buffer = hl.Buffer(array)
        buffer.set_min(mins)
        images[name].set(buffer)
        kept.append(buffer)
    for name, value in VALUES.items():
        params[name].set(value)
    outputs = [np.zeros({extents}[::-1], k) for k in {kinds}]
    buffers = [hl.Buffer(o) for o in outputs]
    for b in buffers:
        b.set_min({mins})
    func.realize(buffers[0] if len(buffers) == 1 else buffers)
    return outputs


if __name__ == "__main__":
    import bayplan
    import halide

    for got, want in zip(run(bayplan), run(halide), strict=True):
        bad = np.argwhere(got != want)
        print(len(bad), "of", got.size, "values differ;", "axes are reversed")
        for i in map(tuple, bad[:5]):
            print("at", i[::-1], "bayplan", got[i], "halide", want[i])
'''
