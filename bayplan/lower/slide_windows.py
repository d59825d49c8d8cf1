"""Computes only what is new in each iteration where a Func is stored outside of where it is made.

A Func whose store level lies outside its compute level keeps its values between the iterations of
the loops in between. If the region that an iteration needs moves in one direction along one
dimension, an iteration need only compute what the one before did not. The first iteration would
have to compute its whole region; where the loop can be begun earlier, so that the earlier
iterations make up the window piece by piece, it is ("rewound"), and what consumes the window is
guarded. Else the first iteration chooses the whole region by a select.
"""

from __future__ import annotations

from bayplan.analysis.facts import Facts
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, StringImm
from bayplan.ir.memory import ForKind
from bayplan.ir.node import Node
from bayplan.ir.stmts import (
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    ProducerConsumer,
    Realize,
    Stmt,
)
from bayplan.ir.types import INT32
from bayplan.ir.walk import StmtRewriter, free_variables, iterate, substitute
from bayplan.language.function import Function
from bayplan.lower.context import Lowering
from bayplan.lower.extern_buffers import plain_storage
from bayplan.lower.loop_gaps import has_gaps
from bayplan.lower.rewound_loops import guard_rewound_loop
from bayplan.lower.slide_function import Producers, SlideFunction

MARKER = "sliding_window_marker"


def slide_windows(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which Funcs slide along the serial loops between storage and computation.

    A marker is left in each loop along which a Func slides: its storage holds values for the next
    iteration of that loop.

    Order: after infer_bounds, whose lets of regions it changes; before infer_allocation_bounds,
    as less is touched afterwards (and sometimes more, in rewound loops).
    """
    return _SlideWindows(lowering)(stmt)


def sliding_func(stmt: Stmt) -> str:
    """The Func that a marker statement names, "" for all other statements."""
    if type(stmt) is Evaluate and type(stmt.value) is Call and stmt.value.name == MARKER:
        name = stmt.value.args[0]
        assert type(name) is StringImm
        return name.value
    return ""


def _marker(func: str) -> Stmt:
    return Evaluate(Call(INT32, MARKER, (StringImm(func),), CallKind.INTRINSIC))


class _SlideWindows(StmtRewriter):
    memoise = False

    def __init__(self, lowering: Lowering) -> None:
        super().__init__()
        self.lowering = lowering
        # Funcs that may slide here, consumers before producers.
        self.sliding: list[Function] = []
        self.place = {name: i for i, name in enumerate(lowering.order)}
        # What external functions are given is computed anew for each call.
        self.plain = plain_storage(lowering)
        # Dimensions along which a Func slides already, by its name.
        self.slid: dict[str, set[int]] = {}
        self.facts = Facts()
        self.producers = Producers()
        # Lets around whose value is a constant.
        self.constants: dict[str, Expr] = {}

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        # Names are defined again further in, so this is a matter of scopes, not of facts.
        saved = self.constants.pop(node.name, None)
        known = self.constants
        used = {n: known[n] for n in free_variables(node.value) if n in known}
        if used or build.constant_value(node.value) is not None:
            value = simplify(substitute(used, node.value))
            if build.constant_value(value) is not None:
                self.constants[node.name] = value
        body = self(node.body)
        self.constants.pop(node.name, None)
        if saved is not None:
            self.constants[node.name] = saved
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def rewrite_Realize(self, node: Realize) -> Stmt:
        function = self.lowering.env.get(node.name)
        if (
            function is None
            or function.schedule.compute_level == function.schedule.store_level
            or node.name in self.plain
        ):
            return self.rebuild(node)  # type: ignore[no-any-return]
        outer = self.sliding
        place = self.place.get(node.name, -1)
        later = [f for f in outer if self.place.get(f.name, -1) > place]
        self.sliding = [*later, function, *[f for f in outer if f not in later]]
        body = self(node.body)
        self.sliding = outer
        self.slid.pop(function.name, None)
        if body is node.body:
            return node
        return Realize(node.name, node.types, node.memory_type, node.bounds, node.condition, body)

    def rewrite_IfThenElse(self, node: IfThenElse) -> Stmt:
        # What slides in one case says nothing about the other.
        saved = {name: set(dims) for name, dims in self.slid.items()}
        then_case = self(node.then_case)
        self.slid = {name: set(dims) for name, dims in saved.items()}
        else_case = None if node.else_case is None else self(node.else_case)
        self.slid = saved
        if then_case is node.then_case and else_case is node.else_case:
            return node
        return IfThenElse(node.condition, then_case, else_case)

    def rewrite_For(self, node: For) -> Stmt:
        serial = node.kind in (ForKind.Serial, ForKind.Unrolled)
        made = self.producers.of(node.body)
        if serial and not build.is_one(node.extent):
            if any(function.name in made for function in self.sliding):
                return self._slide_over(node)
        outer = self.facts
        self.facts = outer.loop(node.name, node.min, node.extent)
        result: Stmt = self.rebuild(node)
        self.facts = outer
        return result

    def _slide_over(self, node: For) -> Stmt:
        outer = self.facts
        facts = outer.loop(node.name, node.min, node.extent)
        body = node.body
        first: Expr = node.min
        lets: list[tuple[str, Expr]] = []
        # Where the Funcs that slide begin, those handled last first.
        starts: list[tuple[str, Expr]] = []
        whole_at_start: list[tuple[str, Expr]] = []
        replaced: set[tuple[str, Expr]] = set()
        needs = _Needs(node.body)
        made = self.producers.of(node.body)
        for function in self.sliding:
            if function.name not in made or has_gaps(node, function.name, self.producers):
                continue
            start = node.min
            for other, other_start in starts:
                if needs.depends(other, function.name):
                    start = other_start
                    break
            dims = self.slid.setdefault(function.name, set())
            before = len(dims)
            slider = SlideFunction(
                function,
                node.name,
                start,
                first,
                dims,
                self.constants,
                facts,
                outer,
                self.producers,
                node.min,
                replaced,
            )
            body = slider(body)
            if len(dims) > before:
                replaced |= slider.replaced
                body = build.block([_marker(function.name), body])
                if slider.new_start is None:
                    whole_at_start.append((function.name, start))
            if slider.new_start is not None:
                new = slider.new_start
                if start is not first:
                    # The loop may have been rewound further for another Func.
                    new = build.minimum(new, first)
                name = self.lowering.unique_name(f"{node.name}.rewound")
                lets.append((name, new))
                first = build.var(name)
                # Iterations before the original first one are not covered by what was known.
                facts = outer
                starts.insert(0, (function.name, first))
        if lets:
            body = guard_rewound_loop(
                node, body, needs, replaced, first, [*starts, *whole_at_start], self.producers
            )
        self.facts = facts
        body = self(body)
        self.facts = outer
        return self._rewound(node, first, lets, body)

    def _rewound(self, node: For, first: Expr, lets: list[tuple[str, Expr]], body: Stmt) -> Stmt:
        if body is node.body and not lets:
            return node
        extent = node.min + node.extent - first if lets else node.extent
        result: Stmt = For(node.name, first, extent, node.kind, node.partition, body)
        for name, value in reversed(lets):
            result = LetStmt(name, value, result)
        if lets and build.constant_value(node.extent) is None:
            # An empty loop stays empty.
            result = IfThenElse(build.gt(node.extent, 0), result)
        return result


class _Needs:
    """Which Funcs the production of another uses, directly or by way of others."""

    def __init__(self, stmt: Stmt) -> None:
        self._uses: dict[str, set[str]] = {}
        for node in iterate(stmt):
            if type(node) is ProducerConsumer and node.is_producer:
                used = self._uses.setdefault(node.name, set())
                used |= _called(node.body) - {node.name}
        self._known: dict[str, set[str]] = {}

    def depends(self, func: str, on: str) -> bool:
        """Whether producing `func` needs `on` (a Func needs itself)."""
        return on in self.all_of(func)

    def all_of(self, func: str) -> set[str]:
        """All that producing `func` needs, itself included."""
        found = self._known.get(func)
        if found is None:
            found = {func}
            queue: list[str] = [func]
            while queue:
                for used in self._uses.get(queue.pop(), ()):
                    if used not in found:
                        found.add(used)
                        queue.append(used)
            self._known[func] = found
        return found


def _called(node: Node) -> set[str]:
    return {n.name for n in iterate(node) if type(n) is Call and n.kind is CallKind.FUNC}
