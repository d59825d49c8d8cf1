"""Whether statements store no element twice, tried out: their loops run with the sizes of a call.

For what the checker cannot prove about indices: masked last vectors, unrolled loops, coordinates
that are quotients. Only loops, conditions and indices run, written as Python text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from bayplan.analysis.evaluate import Unknown
from bayplan.ir import exprs as E
from bayplan.ir.stmts import Store
from bayplan.ir.types import Type
from bayplan.ir.walk import free_variables
from bayplan.storage.check_numbers import Numbers
from bayplan.storage.check_walk import Leaf, Scope

_MOST_STORES: Final = 100_000
"""Elements stored by one statement after which the rest is believed."""

_SIGNS: Final[dict[type, str]] = {
    E.Add: "+", E.Sub: "-", E.Mul: "*", E.EQ: "==", E.NE: "!=", E.LT: "<", E.LE: "<=",
    E.GT: ">", E.GE: ">=", E.And: "and", E.Or: "or",
}  # fmt: skip
_CALLS: Final[dict[type, str]] = {E.Min: "min", E.Max: "max", E.Div: "div", E.Mod: "mod"}
_WRAPPING: Final = frozenset([E.Add, E.Sub, E.Mul])
_REDUCTIONS: Final = {
    E.ReduceOp.MIN: "min", E.ReduceOp.MAX: "max", E.ReduceOp.AND: "all", E.ReduceOp.OR: "any",
}  # fmt: skip
_TRANSPARENT: Final = frozenset(
    ["likely", "likely_if_innermost", "promise_clamped", "unsafe_promise_clamped"]
)


class NoText(Exception):
    """An expression that depends on data, or has no form here."""


def find_repeated(leaves: Sequence[Leaf], depth: int, samples: Sequence[Numbers]) -> int | None:
    """An element that is stored twice in some sample call, None if there is none.

    Args:
        leaves: stores of one temporary.
        depth: loops further out than so many run for their first iteration only.
        samples: the calls that are tried.

    Raises:
        Unknown: no sample could be tried.
    """
    tried = False
    for numbers in samples:
        seen: set[int] = set()
        try:
            for leaf in leaves:
                repeated = NestOfStores(leaf, depth, numbers).run(seen)
                if repeated is not None:
                    return repeated
            tried = True
        except (Unknown, NoText):
            continue
    if not tried:
        raise Unknown("the indices of its stores")
    return None


class _Repeated(Exception):
    """An element is stored for the second time."""

    def __init__(self, element: int) -> None:
        self.element = element


class _Text:
    """Writes expressions as Python text.

    Attributes:
        names: what has a name in the text.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.names: dict[Scope, str] = {}

    def _text(self, e: Any, scope: Scope | None, lane: int) -> str:
        """The Python text of one lane."""
        cls = type(e)
        if cls is E.Const:
            return f"({e.value})"
        if cls is E.Variable:
            return self._variable(e, scope, lane)
        if cls in _SIGNS or cls in _CALLS:
            if e.a.type.kind not in ("int", "uint"):
                raise NoText
            a, b = self._text(e.a, scope, lane), self._text(e.b, scope, lane)
            if cls in _CALLS:
                return f"{_CALLS[cls]}({a}, {b})"
            text = f"({a} {_SIGNS[cls]} {b})"
            return _wrapped(text, e.type) if cls in _WRAPPING else text
        if cls is E.Not:
            return f"(not {self._text(e.value, scope, lane)})"
        if cls is E.Cast and e.type.kind in ("int", "uint"):
            if e.value.type.kind not in ("int", "uint"):
                raise NoText
            return _wrapped(self._text(e.value, scope, lane), e.type)
        if cls is E.VectorReduce and e.op in _REDUCTIONS:
            each = e.value.type.lane_count // e.lanes
            group = range(lane * each, lane * each + each)
            parts = ", ".join([self._text(e.value, scope, k) for k in group])
            return f"{_REDUCTIONS[e.op]}([{parts}])"
        if cls is E.Select:
            condition = self._text(
                e.condition, scope, lane if e.condition.type.lane_count > 1 else 0
            )
            a, b = self._text(e.true_value, scope, lane), self._text(e.false_value, scope, lane)
            return f"({a} if {condition} else {b})"
        if cls is E.Broadcast:
            return self._text(e.value, scope, lane % e.value.type.lane_count)
        if cls is E.Ramp:
            inner = e.base.type.lane_count
            base = self._text(e.base, scope, lane % inner)
            stride = self._text(e.stride, scope, lane % inner)
            return f"({base} + {stride} * {lane // inner})"
        if cls is E.Call and e.name in _TRANSPARENT:
            return self._text(e.args[0], scope, lane)
        raise NoText

    def _variable(self, e: E.Variable, scope: Scope | None, lane: int) -> str:
        binding = None if scope is None else scope.find(e.name)
        if binding is not None:
            name = self.names.get(binding)
            if name is None:
                raise NoText
            return name if e.type.lane_count == 1 else f"{name}[{lane}]"
        if e.name not in self.numbers.values:
            raise Unknown(e.name)
        return f"({int(self.numbers.values[e.name])})"


class NestOfStores(_Text):
    """The loops, lets and conditions around one store, as a Python function.

    Attributes:
        is_cut: whether the loops had run so long that the rest was left out.
    """

    def __init__(self, leaf: Leaf, depth: int, numbers: Numbers) -> None:
        super().__init__(numbers)
        assert isinstance(leaf.node, Store)
        self.store = leaf.node
        self.leaf = leaf
        self.outside = {id(loop.node) for loop in leaf.loops[:depth]}
        self.values: dict[str, int] = {}
        self.lines: list[str] = []
        self.indent = "    "
        self.is_cut = False

    def run(self, seen: set[int]) -> int | None:
        """Runs the loops; adds the elements to those seen, or gives one that was seen before."""
        self._write()
        scope: dict[str, Any] = {"div": _div, "mod": _mod, "Repeated": _Repeated}
        text = "def nest(seen, stores):\n" + "\n".join(self.lines)
        exec(compile(text, "<nest>", "exec"), scope)
        nest: Callable[[set[int], int], bool | None] = scope["nest"]
        try:
            self.is_cut = bool(nest(seen, _MOST_STORES))
        except _Repeated as repeated:
            return repeated.element
        return None

    def _line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def _write(self) -> None:
        chain: list[Scope] = []
        scope = self.leaf.scope
        while scope is not None:
            chain.append(scope)
            scope = scope.outer
        chain.reverse()
        used = self._used(chain)
        # What is further out is a number in this call.
        for scope in chain:
            if scope.loop is not None:
                self._loop(scope)
            elif scope.name == "":
                self._condition(scope)
            elif scope in used and scope.value is not None:
                name = self.names[scope] = f"v{len(self.names)}"
                self._line(f"{name} = {self._value(scope.value, scope.outer)}")
        for lane in range(self.store.index.type.lane_count):
            self._store(lane)

    def _used(self, chain: list[Scope]) -> set[Scope]:
        """The lets that indices, bounds and conditions need."""
        inner = chain[-1] if chain else None
        wanted: list[tuple[E.Expr, Scope | None]] = [(self.store.index, inner)]
        if self.store.predicate is not None:
            wanted.append((self.store.predicate, inner))
        for scope in chain:
            if scope.loop is not None:
                wanted += [(scope.loop.min, scope.outer), (scope.loop.extent, scope.outer)]
            elif scope.name == "" and scope.value is not None:
                wanted.append((scope.value, scope.outer))
        used: set[Scope] = set()
        while wanted:
            e, scope_of_e = wanted.pop()
            for name in free_variables(e):
                binding = None if scope_of_e is None else scope_of_e.find(name)
                if binding is not None and binding.value is not None and binding not in used:
                    used.add(binding)
                    wanted.append((binding.value, binding.outer))
        return used

    def _value(self, e: E.Expr, scope: Scope | None) -> str:
        """The text of a let's value: a list of lanes if it is a vector."""
        lanes = e.type.lane_count
        if lanes == 1:
            return self._text(e, scope, 0)
        return f"[{', '.join([self._text(e, scope, lane) for lane in range(lanes)])}]"

    def _loop(self, scope: Scope) -> None:
        assert scope.loop is not None
        name = self.names[scope] = f"v{len(self.names)}"
        low = self._text(scope.loop.min, scope.outer, 0)
        if id(scope.loop) in self.outside:
            self._line(f"{name} = {low}")
            return
        extent = self._text(scope.loop.extent, scope.outer, 0)
        self._line(f"for {name} in range({low}, {low} + {extent}):")
        self.indent += "    "

    def _condition(self, scope: Scope) -> None:
        assert scope.value is not None
        try:
            text = self._text(scope.value, scope.outer, 0)
        except NoText:
            return
        self._line(f"if {text}:")
        self.indent += "    "

    def _store(self, lane: int) -> None:
        saved = self.indent
        if self.store.predicate is not None:
            self._line(f"if {self._text(self.store.predicate, self.leaf.scope, lane)}:")
            self.indent += "    "
        self._line(f"at = {self._text(self.store.index, self.leaf.scope, lane)}")
        self._line("if at in seen: raise Repeated(at)")
        self._line("seen.add(at)")
        self.indent = saved
        self._line("stores -= 1")
        self._line("if not stores: return True")


def value_of_lane(e: E.Expr, lane: int, numbers: Numbers) -> int:
    """One lane of an expression without lets, with the values of the numbers.

    Raises:
        Unknown: a name has no value, or it depends on data.
    """
    try:
        text = _Text(numbers)._text(e, None, lane)
    except NoText:
        raise Unknown(str(e)) from None
    return int(eval(text, {"div": _div, "mod": _mod}))


class NestOfDistance(NestOfStores):
    """The same for a number that must be 0 in each lane of each execution of the store."""

    def __init__(self, leaf: Leaf, distance: E.Expr, numbers: Numbers) -> None:
        super().__init__(leaf, 0, numbers)
        self.store = Store(self.store.name, self.store.value, distance, self.store.predicate)

    def _store(self, lane: int) -> None:
        saved = self.indent
        if self.store.predicate is not None:
            self._line(f"if {self._text(self.store.predicate, self.leaf.scope, lane)}:")
            self.indent += "    "
        self._line(f"at = {self._text(self.store.index, self.leaf.scope, lane)}")
        self._line("if at: raise Repeated(at)")
        self.indent = saved
        self._line("stores -= 1")
        self._line("if not stores: return True")


def _wrapped(text: str, type: Type) -> str:
    """The text of a number that is kept in so many bits; signed indices do not overflow."""
    if type.width == 1:
        return f"({text} != 0)"
    if type.kind == "uint":
        return f"({text} & {2**type.width - 1})"
    if type.width >= 32:
        return text
    half = 2 ** (type.width - 1)
    return f"(({text} + {half} & {2 * half - 1}) - {half})"


def _div(a: int, b: int) -> int:
    return (a - a % abs(b)) // b if b else 0


def _mod(a: int, b: int) -> int:
    return a % abs(b) if b else 0
