"""Runs statements before and after flattening in plain Python, for tests of passes.

Reads of what was never written and accesses outside of a realization are errors, and how often
each Func was written is counted: what compiled code would hide shows here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.build import euclidean_div, floor_mod
from bayplan.lower.lanes import lane_of

Image = Callable[..., Any]


class Faulty(AssertionError):
    """The program did what it must not do."""


_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    E.Add: lambda a, b: a + b,
    E.Sub: lambda a, b: a - b,
    E.Mul: lambda a, b: a * b,
    E.Div: lambda a, b: a / b if isinstance(a, float) else euclidean_div(a, b),
    E.Mod: floor_mod,
    E.Min: min,
    E.Max: max,
    E.EQ: lambda a, b: int(a == b),
    E.NE: lambda a, b: int(a != b),
    E.LT: lambda a, b: int(a < b),
    E.LE: lambda a, b: int(a <= b),
    E.GT: lambda a, b: int(a > b),
    E.GE: lambda a, b: int(a >= b),
    E.And: lambda a, b: int(bool(a) and bool(b)),
    E.Or: lambda a, b: int(bool(a) or bool(b)),
}


class Interpreter:
    """The state of one run.

    Attributes:
        values: variables by name.
        images: functions of the coordinates that stand for input buffers.
        memory: elements written, by name of the storage and coordinates (or flat index).
        writes: how often each name was written.
        sizes: largest number of elements each name had storage for.
    """

    def __init__(self, values: Mapping[str, Any], images: Mapping[str, Image]) -> None:
        self.values = dict(values)
        self.images = dict(images)
        self.memory: dict[str, dict[Any, Any]] = {}
        self.writes: Counter[str] = Counter()
        self.sizes: dict[str, int] = {}
        self.regions: dict[str, list[tuple[int, int]]] = {}

    # Expressions

    def value(self, e: Any) -> Any:
        cls = type(e)
        if cls is E.Const:
            return e.value
        if cls is E.Variable:
            if e.name not in self.values:
                raise Faulty(f"{e.name} is not defined")
            return self.values[e.name]
        if isinstance(e, E.Binary):
            found = _OPERATIONS[cls](self.value(e.a), self.value(e.b))
            return e.type.wrap(found)
        if cls is E.Select:
            return self.value(e.true_value if self.value(e.condition) else e.false_value)
        if cls is E.Cast:
            return e.type.wrap(self.value(e.value))
        if cls is E.Not:
            return int(not self.value(e.value))
        if cls is E.Let:
            return self._with(e.name, self.value(e.value), lambda: self.value(e.body))
        if cls is E.Load:
            return self._read(e.name, self.value(e.index))
        if cls is E.Call:
            return self._call(e)
        raise Faulty(f"cannot compute {cls.__name__}")

    def _call(self, e: E.Call) -> Any:
        if e.kind is E.CallKind.FUNC:
            return self._read(e.name, tuple([self.value(a) for a in e.args]))
        if e.kind is E.CallKind.IMAGE:
            return self.images[e.name](*[self.value(a) for a in e.args])
        if e.name in ("likely", "likely_if_innermost", "promise_clamped", "unsafe_promise_clamped"):
            return self.value(e.args[0])
        if e.name == "if_then_else":
            return self.value(e.args[1] if self.value(e.args[0]) else e.args[2])
        if e.name in ("buffer_is_bounds_query", "buffer_host_is_null", "buffers_overlap"):
            return 0
        if e.name == "absd":
            return abs(self.value(e.args[0]) - self.value(e.args[1]))
        raise Faulty(f"cannot call {e.name}")

    def _read(self, name: str, where: Any) -> Any:
        if name in self.images:
            return self.images[name](*self._coordinates(name, where))
        found = self.memory.get(name, {})
        if where not in found:
            raise Faulty(f"{name} is read at {where} before it is written")
        self._check(name, where)
        return found[where]

    def _coordinates(self, name: str, index: int) -> list[int]:
        """The place of an element of a dense input by its flat index."""
        where = []
        d = 0
        while f"{name}.extent.{d}" in self.values:
            extent = self.values[f"{name}.extent.{d}"]
            where.append(index % extent + self.values[f"{name}.min.{d}"])
            index //= extent
            d += 1
        return where

    def _check(self, name: str, where: Any) -> None:
        region = self.regions.get(name)
        if region is None:
            return
        if isinstance(where, tuple):
            for at, (low, extent) in zip(where, region, strict=True):
                if not low <= at < low + extent:
                    raise Faulty(f"{name} has no storage at {where}: {region}")
        elif not 0 <= where < self.sizes[name]:
            raise Faulty(f"{name} has no element {where} of {self.sizes[name]}")

    def _with(self, name: str, value: Any, action: Callable[[], Any]) -> Any:
        missing = object()
        saved = self.values.get(name, missing)
        self.values[name] = value
        result = action()
        if saved is missing:
            del self.values[name]
        else:
            self.values[name] = saved
        return result

    # Statements

    def run(self, s: Any) -> None:
        cls = type(s)
        if cls is S.Block:
            for part in s.stmts:
                self.run(part)
        elif cls is S.LetStmt:
            self._with(s.name, self.value(s.value), lambda: self.run(s.body))
        elif cls is S.For:
            low, extent = self.value(s.min), self.value(s.extent)
            for i in range(low, low + extent):
                self._with(s.name, i, lambda: self.run(s.body))
        elif cls is S.IfThenElse:
            if self.value(s.condition):
                self.run(s.then_case)
            elif s.else_case is not None:
                self.run(s.else_case)
        elif cls is S.AssertStmt:
            if not self.value(s.condition):
                raise s.site.error(tuple([self.value(a) for a in s.args]))
        elif cls in (S.ProducerConsumer, S.HoistedStorage, S.Atomic, S.Prefetch):
            self.run(s.body)
        elif cls is S.Provide:
            where = tuple([self.value(a) for a in s.args])
            self._write(s.name, where, self.value(s.values[0]))
        elif cls is S.Store:
            self._store(s)
        elif cls in (S.Realize, S.Allocate):
            self._storage(s)
        elif cls not in (S.Evaluate, S.Free):
            raise Faulty(f"cannot run {cls.__name__}")

    def _store(self, s: S.Store) -> None:
        parts = []
        for lane in range(s.index.type.lane_count):
            if s.predicate is not None and not self.value(lane_of(s.predicate, lane)):
                continue
            parts.append((self.value(lane_of(s.index, lane)), self.value(lane_of(s.value, lane))))
        for index, value in parts:
            self._write(s.name, index, value)

    def _write(self, name: str, where: Any, value: Any) -> None:
        self._check(name, where)
        self.memory.setdefault(name, {})[where] = value
        self.writes[name] += 1

    def _storage(self, s: Any) -> None:
        size = 1
        if type(s) is S.Realize:
            region = [(self.value(low), self.value(extent)) for low, extent in s.bounds]
        else:
            region = [(0, self.value(extent)) for extent in s.extents]
        for _, extent in region:
            size *= max(extent, 0)
        saved = self.memory.pop(s.name, None), self.regions.get(s.name)
        self.regions[s.name] = region
        self.sizes[s.name] = max(self.sizes.get(s.name, 0), size)
        self.run(s.body)
        self.memory.pop(s.name, None)
        if saved[0] is not None:
            self.memory[s.name] = saved[0]
        if saved[1] is None:
            del self.regions[s.name]
        else:
            self.regions[s.name] = saved[1]
