"""Evaluates a Func over a box: producers first, every definition in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bayplan.ir import exprs as ir
from bayplan.ir.build import is_one
from bayplan.ir.walk import iterate
from bayplan.language.function import Definition, Function
from bayplan.reference.expressions import Values, gather
from bayplan.reference.integers import dtype_of

Array = Any
Box = list[tuple[int, int]]  # for each dimension, first and last coordinate


def evaluate(func: Any, mins: Sequence[int], extents: Sequence[int]) -> Any:
    """What realizing a Func over a box must give.

    Args:
        func: A Func, or the language's Function.
        mins: The box's origin.
        extents: The box's size.

    Returns:
        The values as a numpy array, whose axes are the Func's dimensions reversed; a tuple of
        arrays for a Func with several values. Inputs have the values that are set on them.
    """
    import numpy as np

    function = func if isinstance(func, Function) else func.function()
    box = [(m, m + e - 1) for m, e in zip(mins, extents, strict=True)]
    if 0 in extents:
        # Nothing is computed, so nothing is needed of anything.
        values = [np.zeros(extents[::-1], dtype_of(t)) for t in function.output_types]
        return values[0] if len(values) == 1 else tuple(values)
    with np.errstate(all="ignore"):
        regions = Regions()
        regions.require(function, box)
        values = regions.over(function, box)
    return values[0] if len(values) == 1 else tuple(values)


class Regions:
    """The values of Funcs over boxes, which grow when more of a Func is asked for."""

    def __init__(self) -> None:
        self.wanted: dict[Function, Box] = {}
        self.known: dict[Function, tuple[Box, list[Array]]] = {}

    def over(self, function: Function, box: Box) -> list[Array]:
        """A Func's values over a box."""
        known, arrays = self._ensure(function, box)
        cut = tuple(
            [slice(lo - k[0], hi - k[0] + 1) for (lo, hi), k in zip(box, known, strict=True)]
        )
        return [a[tuple(reversed(cut))].copy() for a in arrays]

    def require(self, function: Function, box: Box) -> None:
        """Works out, consumers first, which box of each Func is needed.

        Only coordinates that call no Func count here; boxes of the others grow on demand.
        """
        self.wanted[function] = box
        for f in _consumers_first(function):
            if f not in self.wanted:
                continue
            for definition in f.stages():
                values = Values(_coordinates(f, definition, self.wanted[f]), _no_call)
                roots = [*definition.args, *definition.values, definition.predicate]
                calls = [c for c in iterate(*roots) if _calls_func(c)]
                for call in calls:
                    if any(_calls_func(n) for n in iterate(*call.args)):
                        continue
                    self._widen(call.target, [_span(values(a)) for a in call.args])
                if not any(_calls_func(n) for n in iterate(*definition.args)):
                    self._widen(f, [_span(values(a)) for a in definition.args])

    def _widen(self, function: Function, box: Box) -> None:
        old = self.wanted.get(function)
        self.wanted[function] = box if old is None else _union(old, box)

    def _ensure(self, function: Function, box: Box) -> tuple[Box, list[Array]]:
        while True:
            found = self.known.get(function)
            if found is not None and _union(found[0], box) == found[0]:
                return found
            self._widen(function, box)
            # Computing it may find that more of it is needed, by itself too.
            begun = self.wanted[function]
            arrays = self._compute(function, begun)
            if arrays is not None:
                self.known[function] = (begun, arrays)

    def _compute(self, function: Function, box: Box) -> list[Array] | None:
        """All definitions over a box; None where an update reads beyond it, which widens it."""
        import numpy as np

        shape = tuple(reversed([hi - lo + 1 for lo, hi in box]))
        arrays = [np.zeros(shape, dtype_of(t)) for t in function.output_types]
        for number, definition in enumerate(function.stages()):
            for point in _points(definition):
                self._step(function, definition, number, box, arrays, point)
                if self.wanted[function] != box:
                    return None
        return arrays

    def _step(
        self,
        function: Function,
        definition: Definition,
        number: int,
        box: Box,
        arrays: list[Array],
        point: dict[str, Array],
    ) -> None:
        """One point of the reduction domain, for all values of the pure Vars at once."""
        import numpy as np

        def call(e: ir.Call, indices: list[Array]) -> Array:
            here = [_span(i) for i in indices]
            if e.target is function and number > 0:
                if _union(box, here) != box:
                    self._widen(function, here)
                    return np.zeros(
                        np.broadcast_shapes(*[i.shape for i in indices]), arrays[0].dtype
                    )
                return gather(arrays[e.value_index], [lo for lo, _ in box], indices, e.name)
            known, values = self._ensure(e.target, here)
            return gather(values[e.value_index], [lo for lo, _ in known], indices, e.name)

        variables = {**_pure_coordinates(function, definition, box), **point}
        values = Values(variables, call)
        keep = np.asarray(True) if is_one(definition.predicate) else values(definition.predicate)
        if not keep.any():
            return
        targets = [values(a) for a in definition.args]
        results = [None if _is_undef(v) else values(v) for v in definition.values]
        if self.wanted[function] != box:
            return
        _store(arrays, box, targets, results, keep, [v.shape for v in variables.values()])


def _store(
    arrays: list[Array],
    box: Box,
    targets: list[Array],
    results: list[Array | None],
    keep: Array,
    shapes: Iterable[tuple[int, ...]],
) -> None:
    """Writes results at coordinates; what lies outside the box is not needed by anyone."""
    import numpy as np

    shape = np.broadcast_shapes(*shapes, keep.shape)
    keep = np.broadcast_to(keep, shape).copy()
    positions = []
    for target, (lo, hi) in zip(targets, box, strict=True):
        target = np.broadcast_to(target, shape)
        keep &= (target >= lo) & (target <= hi)
        positions.append(target.astype(np.int64) - lo)
    where = tuple([p[keep] for p in reversed(positions)])
    for array, result in zip(arrays, results, strict=True):
        if result is None:
            continue
        value = np.broadcast_to(result, shape)[keep]
        if array.ndim:
            array[where] = value
        elif value.size:
            array[()] = value.reshape(-1)[-1]


def _consumers_first(root: Function) -> list[Function]:
    """The Funcs that a Func needs, itself included, each before those that it calls."""
    order: list[Function] = []
    seen: set[Function] = set()
    stack: list[tuple[Function, bool]] = [(root, False)]
    while stack:
        f, done = stack.pop()
        if done:
            order.append(f)
        elif f not in seen:
            seen.add(f)
            stack.append((f, True))
            for d in f.stages():
                for n in iterate(*d.args, *d.values, d.predicate):
                    if isinstance(n, ir.Call) and n.kind is ir.CallKind.FUNC:
                        stack.append((n.target, False))
    return order[::-1]


def _calls_func(n: Any) -> bool:
    return isinstance(n, ir.Call) and n.kind is ir.CallKind.FUNC


def _is_undef(v: ir.Expr) -> bool:
    return isinstance(v, ir.Call) and v.is_intrinsic("undef")


def _no_call(e: ir.Call, indices: list[Array]) -> Array:
    raise AssertionError("coordinates that call a Func are not evaluated here")


def _span(index: Array) -> tuple[int, int]:
    return int(index.min()), int(index.max())


def _union(a: Box, b: Box) -> Box:
    pairs = zip(a, b, strict=True)
    return [(min(p[0], q[0]), max(p[1], q[1])) for p, q in pairs]


def _pure_coordinates(function: Function, definition: Definition, box: Box) -> dict[str, Array]:
    """The pure Vars of a definition over a box, each along its own axis."""
    import numpy as np

    names = {a.name for a in definition.args if isinstance(a, ir.Variable) and a.source is None}
    found: dict[str, Array] = {}
    n = len(function.args)
    for d, name in enumerate(function.args):
        if definition.is_init or name in names:
            lo, hi = box[d]
            shape = [1] * n
            shape[n - 1 - d] = hi - lo + 1
            found[name] = np.arange(lo, hi + 1, dtype=np.int32).reshape(shape)
    return found


def _domain(definition: Definition) -> list[tuple[str, int, int]]:
    """Name, first value and number of values of each RVar."""
    values = Values({}, _no_call)
    rvars = [] if definition.is_init else definition.schedule.rvars
    return [(r.var, int(values(r.min)), int(values(r.extent))) for r in rvars]


def _points(definition: Definition) -> Iterator[dict[str, Array]]:
    """The points of the reduction domain in order, the first RVar running fastest."""
    import numpy as np

    domain = _domain(definition)
    ranges = [range(first, first + count) for _, first, count in reversed(domain)]
    names = [name for name, _, _ in reversed(domain)]
    for values in itertools.product(*ranges):
        yield {n: np.asarray(v, np.int32) for n, v in zip(names, values, strict=True)}


def _coordinates(function: Function, definition: Definition, box: Box) -> dict[str, Array]:
    """All values of the pure Vars and of the RVars, each along an axis of its own."""
    import numpy as np

    found = _pure_coordinates(function, definition, box)
    found = {k: v.reshape(v.shape) for k, v in found.items()}
    domain = _domain(definition)
    n = len(function.args)
    for i, (name, first, count) in enumerate(domain):
        shape = [1] * (len(domain) + n)
        shape[len(domain) - 1 - i] = max(count, 1)
        found[name] = np.arange(first, first + max(count, 1), dtype=np.int32).reshape(shape)
    return found
