"""Lets one Func slide along one loop, for slide_windows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.analysis.bounds import box_provided
from bayplan.analysis.facts import Facts
from bayplan.analysis.monotonic import Monotonic, is_monotonic
from bayplan.analysis.purity import is_pure
from bayplan.analysis.simplify import can_prove, simplify
from bayplan.analysis.solve import solve_for_inner_interval
from bayplan.ir import build
from bayplan.ir.exprs import LE, Call, Expr, Variable
from bayplan.ir.node import Node
from bayplan.ir.stmts import For, IfThenElse, LetStmt, ProducerConsumer, Stmt
from bayplan.ir.walk import (
    Rewriter,
    free_variables,
    iterate,
    replace_nodes,
    substitute,
    uses_variable,
)
from bayplan.language.function import Definition, Function
from bayplan.language.schedule import SplitKind, TailStrategy
from bayplan.lower.scoped import strip_likely

_SHIFTED = (TailStrategy.ShiftInwards, TailStrategy.ShiftInwardsAndBlend)
_ROUNDED = (TailStrategy.RoundUp, TailStrategy.PredicateLoads)
_SOLVE_FOR = "rewound start"


class Producers:
    """The Funcs that statements produce, remembered by statement."""

    def __init__(self) -> None:
        self._known: dict[Node, frozenset[str]] = {}

    def of(self, stmt: Node) -> frozenset[str]:
        """Names of the Funcs produced in the statement."""
        found = self._known.get(stmt)
        if found is None:
            found = frozenset()
            for child in stmt.children():
                if isinstance(child, Stmt):
                    inner = self.of(child)
                    if not inner <= found:
                        found = found | inner if found else inner
            if type(stmt) is ProducerConsumer and stmt.is_producer and stmt.name not in found:
                found = found | {stmt.name}
            self._known[stmt] = found
        return found


class _Window:
    """The region that an iteration needs along the dimension that slides, `up` or down.

    `steady_low` and `steady_high` leave out what consumers that do not slide would need before the
    first original iteration.
    """

    __slots__ = ("dim", "high", "low", "steady_high", "steady_low", "up")

    def __init__(
        self, dim: int, low: Expr, high: Expr, steady_low: Expr, steady_high: Expr
    ) -> None:
        self.dim = dim
        self.low = low
        self.high = high
        self.steady_low = steady_low
        self.steady_high = steady_high
        self.up = True


class _Binding:
    """A let: its value, and the lets that the names in it mean. Expanded only when asked for.

    The steady value is the one that holds in the first original iteration in all iterations before
    it: what does not slide does not run there.
    """

    __slots__ = ("_expanded", "_names", "_steady", "_steady_value", "_value")

    def __init__(
        self, value: Expr, names: dict[str, _Binding], steady_value: Expr | None = None
    ) -> None:
        self._value = value
        self._names = names
        self._expanded: Expr | None = None
        self._steady_value = value if steady_value is None else steady_value
        self._steady: Expr | None = None

    def steady(self) -> Expr:
        """The steady value with all lets put in."""
        if self._steady is None:
            values = {name: binding.steady() for name, binding in self._names.items()}
            self._steady = substitute(values, self._steady_value)
        return self._steady

    def expanded(self) -> Expr:
        """The value with all lets put in."""
        if self._expanded is None:
            values = {name: binding.expanded() for name, binding in self._names.items()}
            self._expanded = substitute(values, self._value)
        return self._expanded


class SlideFunction(Rewriter):
    """Shrinks what each iteration of the loop `loop` makes of `function` to what is new.

    Attributes:
        new_start: where the loop must begin for the window to be complete at `start`; None if the
            loop need not or cannot be rewound.
    """

    memoise = False

    def __init__(
        self,
        function: Function,
        loop: str,
        start: Expr,
        first: Expr,
        slid: set[int],
        lets: Mapping[str, Expr],
        facts: Facts,
        outer: Facts,
        producers: Producers,
        original: Expr,
        replaced: set[tuple[str, Expr]],
    ) -> None:
        """Takes the place where the Func is to slide.

        Args:
            function: the Func.
            loop: the variable of the loop.
            start: the window must be complete from this iteration on.
            first: where the loop begins now.
            slid: dimensions along which the Func slides already; the new one is added.
            lets: values of lets around the loop, as far as they are to be put in.
            facts: what is known inside the loop.
            outer: what is known around it, and in iterations before its first one.
            producers: of the statements inside.
            original: where the loop began at first.
            replaced: names and values of the lets of what slides already.
        """
        super().__init__()
        self.steady_loop: dict[str, Expr] = {}
        if first is not original:
            self.steady_loop[loop] = build.maximum(build.var(loop), original)
        self.slides_already = replaced
        self.function = function
        self.loop = loop
        self.start = start
        self.first = first
        self.slid = slid
        self.facts = facts
        self.outer = outer
        self.producers = producers
        self.new_start: Expr | None = None
        # Lets by name, for the place at hand: names are defined again further in.
        self.lets: dict[str, _Binding] = {name: _Binding(value, {}) for name, value in lets.items()}
        self.inner_loops: list[str] = []
        # New values of the lets that define the region, and the loop in whose body they stand.
        self.replacements: dict[str, Expr] = {}
        self.producer_depth = -1
        self.outer_replacements: dict[str, Expr] = {}
        # Names and values of the lets that were replaced.
        self.replaced: set[tuple[str, Expr]] = set()

    def __call__(self, node: Any) -> Any:
        if isinstance(node, Expr):
            return node
        if self.new_start is None and not self._made_in(node):
            # Nothing is made here, and nothing has to be guarded yet.
            return node
        return super().__call__(node)

    # Scopes.

    def expand(self, e: Expr) -> Expr:
        """The expression in terms of loop variables and of what is defined outside the loop."""
        return self._bind("", e).expanded()

    def _bind(self, name: str, value: Expr) -> _Binding:
        lets = self.lets
        steady = value
        if (name, value) not in self.slides_already:
            steady = substitute(self.steady_loop, value)
        names = {n: lets[n] for n in free_variables(value) if n in lets}
        return _Binding(value, names, steady)

    def _made_in(self, stmt: Stmt) -> bool:
        return self.function.name in self.producers.of(stmt)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        if not self._made_in(node.body):
            return self.rebuild(node)  # type: ignore[no-any-return]
        saved = self.lets.get(node.name)
        self.lets[node.name] = self._bind(node.name, node.value)
        body = self(node.body)
        if saved is None:
            del self.lets[node.name]
        else:
            self.lets[node.name] = saved
        value = node.value
        name = node.name
        if name in self.replacements and len(self.inner_loops) == self.producer_depth:
            value = self.replacements.pop(name)
            self.replaced.add((name, value))
            if free_variables(value).isdisjoint(self.inner_loops):
                self.outer_replacements[name] = value
        elif name in self.outer_replacements:
            # The region as loops further out define it, for what its production needs.
            value = self.outer_replacements[name]
        if value is node.value and body is node.body:
            return node
        return LetStmt(node.name, value, body)

    def rewrite_For(self, node: For) -> Stmt:
        if not self._made_in(node.body):
            self.inner_loops.append(node.name)
            result: Stmt = self.rebuild(node)
            self.inner_loops.pop()
            return result
        low = simplify(self.expand(node.min), self.facts)
        extent = simplify(self.expand(node.extent), self.facts)
        self.inner_loops.append(node.name)
        saved_facts = self.facts
        saved_let = self.lets.get(node.name)
        enter = True
        if build.is_one(extent):
            self.lets[node.name] = _Binding(low, {})
        elif uses_variable(low, self.loop) or uses_variable(extent, self.loop):
            # The iterations of the inner loop are others each time.
            enter = False
        else:
            self.facts = self.facts.loop(node.name, low, extent)
        body = self(node.body) if enter else node.body
        self.facts = saved_facts
        self.inner_loops.pop()
        if saved_let is not None:
            self.lets[node.name] = saved_let
        else:
            self.lets.pop(node.name, None)
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    # Production and consumption.

    def rewrite_ProducerConsumer(self, node: ProducerConsumer) -> Stmt:
        if node.is_producer:
            return self._slide(node) if node.name == self.function.name else self.rebuild(node)
        if self.new_start is None or self._made_in(node):
            return self.rebuild(node)  # type: ignore[no-any-return]
        # The loop begins earlier now; what only consumes does so as before.
        body = node.body
        if not _is_guarded(body, self.loop):
            mark = build.le(self.first, build.var(self.loop))
            # Inside an inner loop the test would be made again and again; there the loop is parted.
            kind = "likely" if self.inner_loops else "likely_if_innermost"
            mark = build.intrinsic(mark.type, kind, mark)
            body = IfThenElse(mark, body)
        return ProducerConsumer(node.name, False, body)

    def _slide(self, node: ProducerConsumer) -> Stmt:
        window = self._find_window()
        if window is None or not self._choose_direction(window):
            return node
        low, high = self._new_region(window)
        # What tails make again, at the edge to the iteration before, needs its arguments too.
        arg = self.function.args[window.dim]
        shifted = _span_of_tails(self.function, arg, _SHIFTED)
        rounded = _span_of_tails(self.function, arg, _ROUNDED)
        if window.up and shifted > 1:
            low = simplify(build.minimum(low, high - (shifted - 1)), self.outer)
        if not window.up and shifted > 1:
            high = simplify(build.maximum(high, low + (shifted - 1)), self.outer)
        if not window.up and rounded > 1:
            count = build.div(high - low + rounded, build.int32(rounded)) * rounded
            high = simplify(low + count - 1, self.outer)
        self.slid.add(window.dim)
        self.producer_depth = len(self.inner_loops)
        return self._replace_region(node, window, low, high)

    def _find_window(self) -> _Window | None:
        """The one dimension whose region depends on the loop, if there is just one.

        If none does, the last dimension is taken: all is computed in the first iteration.
        """
        function = self.function
        prefix = f"{function.name}.s{len(function.updates)}."
        found: _Window | None = None
        constant: _Window | None = None
        for dim, arg in enumerate(function.args):
            least = self.lets.get(f"{prefix}{arg}.min")
            greatest = self.lets.get(f"{prefix}{arg}.max")
            if least is None or greatest is None:
                return None
            low = simplify(least.expanded(), self.facts)
            high = simplify(greatest.expanded(), self.facts)
            steady_low, steady_high = low, high
            if self.steady_loop:
                steady_low = simplify(least.steady(), self.facts)
                steady_high = simplify(greatest.steady(), self.facts)
            if uses_variable(low, self.loop) or uses_variable(high, self.loop):
                if found is not None:
                    return None
                found = _Window(dim, low, high, steady_low, steady_high)
            elif dim == len(function.args) - 1 and is_pure(low) and is_pure(high):
                constant = _Window(dim, low, high, steady_low, steady_high)
        window = found if found is not None else constant
        if window is None or window.dim in self.slid:
            return None
        if any(uses_variable(e, v) for e in (window.low, window.high) for v in self.inner_loops):
            # It moves in an inner loop too, and can slide along that.
            return None
        arg = function.args[window.dim]
        for update in function.updates:
            if not _always_pure(update, arg, window.dim):
                return None
        return window

    def _choose_direction(self, window: _Window) -> bool:
        """Whether the window can slide; sets its direction."""
        rises = is_monotonic(window.low, self.loop)
        falls = is_monotonic(window.high, self.loop)
        if rises in (Monotonic.Increasing, Monotonic.Constant):
            window.up = True
        elif falls in (Monotonic.Decreasing, Monotonic.Constant):
            window.up = False
        else:
            return False
        # Without anything in common with the iteration before there is nothing to keep. What the
        # last iteration has in common with it, where a tail is shifted inwards, is made again.
        low, high = _mostly(window.low), _mostly(window.high)
        after = self._before(high) + 1
        below = self._before(low) - 1
        return not (
            can_prove(build.ge(low, after), self.facts)
            or can_prove(build.le(high, below), self.facts)
        )

    def _before(self, e: Expr) -> Expr:
        """The value in the iteration before."""
        return self._at(build.var(self.loop) - 1, e)

    def _at(self, value: Expr, e: Expr) -> Expr:
        return substitute({self.loop: value}, e)

    def _new_region(self, window: _Window) -> tuple[Expr, Expr]:
        """What an iteration computes, and the decision whether the loop is rewound."""
        low, high = window.low, window.high
        if window.up:
            low = self._before(high) + 1
        else:
            high = self._before(window.low) - 1
        start = self._solve_for_start(window, low, high)
        if start is not None:
            self.new_start = start
            # Nothing outside of what the original loop needs; production begins at new_start.
            facts = self.outer.child().assume(build.ge(build.var(self.loop), start))
            if window.up:
                edge = self._at(self.start, window.steady_low)
                if not can_prove(build.ge(low, edge), facts):
                    low = build.maximum(low, edge)
            else:
                edge = self._at(self.start, window.steady_high)
                if not can_prove(build.le(high, edge), facts):
                    high = build.minimum(high, edge)
        else:
            start = simplify(self.expand(self.start), self.outer)
            at_start = simplify(build.le(build.var(self.loop), start), self.outer)
            # Regions of consumers that make their whole window in the same iteration ask as well.
            whole = {at_start: build.true()}
            if window.up:
                first = replace_nodes(whole, window.steady_low)
                low = build.select(at_start, first, _likely_inside(low))
            else:
                first = replace_nodes(whole, window.steady_high)
                high = build.select(at_start, first, _likely_inside(high))
        return simplify(low, self.outer), simplify(high, self.outer)

    def _solve_for_start(self, window: _Window, low: Expr, high: Expr) -> Expr | None:
        """The last iteration from which on what is new makes up the window until `start`.

        The iteration must not lie after `start`, its new part must reach back to the window of
        `start`, and it must not be empty.
        """
        x = Variable(build.var("").type, _SOLVE_FOR)
        new_low, new_high = self._at(x, low), self._at(x, high)
        parts = [build.le(x, self.start), build.ge(new_high, new_low)]
        if window.up:
            parts.append(build.le(new_low, self._at(self.start, window.steady_low)))
        else:
            parts.append(build.ge(new_high, self._at(self.start, window.steady_high)))
        condition = simplify(build.conjunction(parts), self.outer)
        found = solve_for_inner_interval(condition, _SOLVE_FOR).max
        if found is None:
            return None
        found = simplify(found, self.outer)
        if found is self.start or any(uses_variable(found, v) for v in self.inner_loops):
            return None
        if uses_variable(found, _SOLVE_FOR) or uses_variable(found, self.loop):
            return None
        return found

    def _replace_region(
        self, node: ProducerConsumer, window: _Window, low: Expr, high: Expr
    ) -> Stmt:
        """Note the new region for the lets around, and widen it for stages before the last."""
        function = self.function
        arg = function.args[window.dim]
        last = f"{function.name}.s{len(function.updates)}.{arg}"
        # In iterations before the first both ends must follow the same formula.
        if window.up or self.new_start is not None:
            # One point stays visibly one point.
            self.replacements[f"{last}.min"] = build.var(f"{last}.max") if low is high else low
        if not window.up or self.new_start is not None:
            self.replacements[f"{last}.max"] = high
        for stage in range(len(function.updates)):
            name = f"{function.name}.s{stage}.{arg}"
            self.replacements[f"{name}.min"] = build.var(f"{last}.min")
            self.replacements[f"{name}.max"] = build.var(f"{last}.max")
        if not function.updates:
            return node
        # An earlier stage may write more than the last one, for instance when it is unrolled.
        box = box_provided(node.body, function.name)
        if box is None:
            return node
        if window.up:
            edge, name = box[window.dim].min, f"{last}.min"
            maker = build.minimum
        else:
            edge, name = box[window.dim].max, f"{last}.max"
            maker = build.maximum
        if edge is None:
            return node
        value = maker(build.var(name), edge)
        self.replaced.add((name, value))
        return LetStmt(name, value, node)


class _Mostly(Rewriter):
    """Replaces a min or max by the operand that is marked as likely."""

    def _pick(self, node: Any) -> Expr:
        a, b = _is_likely(node.a), _is_likely(node.b)
        return self.rebuild(node) if a == b else self(node.a if a else node.b)  # type: ignore[no-any-return]

    rewrite_Min = _pick
    rewrite_Max = _pick


def _is_likely(e: Expr) -> bool:
    return any(type(n) is Call and n.name in ("likely", "likely_if_innermost") for n in iterate(e))


def _mostly(e: Expr) -> Expr:
    """The value in nearly all iterations."""
    return simplify(strip_likely(_Mostly()(e)))


def _likely_inside(e: Expr) -> Expr:
    return build.intrinsic(e.type, "likely_if_innermost", e)


def _always_pure(definition: Definition, arg: str, dim: int) -> bool:
    """Whether the definition, in all its specializations, computes `arg` at `arg`."""
    own = definition.args[dim]
    if type(own) is not Variable or own.name != arg:
        return False
    return all(_always_pure(s.definition, arg, dim) for s in definition.specializations)


def _span_of_tails(function: Function, arg: str, tails: tuple[TailStrategy, ...]) -> int:
    """How many points along a dimension a split with one of these tails makes at once."""
    least = 1
    left = [d for d in (function.init, *function.updates) if d is not None]
    while left:
        definition = left.pop()
        left += [s.definition for s in definition.specializations]
        spans = {arg: 1}
        for split in definition.schedule.splits:
            span = spans.get(split.old)
            if split.kind is not SplitKind.Split or span is None:
                continue
            factor = build.constant_value(split.factor)
            spans[split.outer] = span * int(factor or 1)
            spans[split.inner] = span
            if split.tail in tails:
                least = max(least, spans[split.outer])
    return least


def _is_guarded(body: Stmt, loop: str) -> bool:
    """Whether the statement runs only from some iteration of the loop on."""
    if type(body) is not IfThenElse or body.else_case is not None:
        return False
    condition = strip_likely(body.condition)
    return type(condition) is LE and condition.b is build.var(loop)
