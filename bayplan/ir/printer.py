"""Stable, readable text of expressions and statements, for people and for tests.

Shared nodes do not make the text grow: an expression whose tree would be large is printed through
numbered sub-terms (`%0`, `%1`, ...), each written once before it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bayplan.ir import exprs, stmts
from bayplan.ir.exprs import Broadcast, Const, Expr
from bayplan.ir.node import Node, deep_recursion

_LARGE_TREE: Final = 400
"""Trees of more nodes than this are printed through numbered sub-terms."""

_SHARED_TERM: Final = 6
"""Sub-terms of fewer nodes than this are repeated rather than numbered."""


def print_node(node: Node) -> str:
    """The text of an expression (one line, unless it is huge) or a statement (indented lines)."""
    with deep_recursion():
        if isinstance(node, Expr):
            terms = _Terms()
            lines: list[str] = []
            text = terms.text_of(node, lines)
            return "\n".join([*lines, text])
        printer = _Statements()
        printer.emit(node)
        return "\n".join(printer.lines) + "\n"


def _const_text(node: Const) -> str:
    t = node.type
    if t.kind == "float":
        text = repr(float(node.value))
        return {16: text + "h", 32: text + "f", 64: text}[t.width]
    if t.width == 1:
        return "true" if node.value else "false"
    if t.kind == "int":
        return str(node.value) if t.width == 32 else f"{node.value}i{t.width}"
    return f"{node.value}u{t.width}"


# Binding strength of each infix operator, and its sign.
_INFIX: Final[dict[type, tuple[int, str]]] = {
    exprs.Or: (1, "||"),
    exprs.And: (2, "&&"),
    exprs.EQ: (3, "=="),
    exprs.NE: (3, "!="),
    exprs.LT: (3, "<"),
    exprs.LE: (3, "<="),
    exprs.GT: (3, ">"),
    exprs.GE: (3, ">="),
    exprs.Add: (4, "+"),
    exprs.Sub: (4, "-"),
    exprs.Mul: (5, "*"),
    exprs.Div: (5, "/"),
    exprs.Mod: (5, "%"),
}
_TIGHTEST: Final = 9


class _Terms:
    """Text of expressions; numbered sub-terms go on counting over one printed node."""

    def __init__(self) -> None:
        self._sizes: dict[Expr, int] = {}
        self._names: dict[Expr, str] = {}
        self._count = 0

    def text_of(self, e: Expr, lines: list[str]) -> str:
        """The text of `e`; the lines that define its sub-terms are appended to `lines`."""
        self._names = {}
        if self._size(e) > _LARGE_TREE:
            for shared in self._shared_terms(e):
                text = self._text(shared, 0)
                name = f"%{self._count}"
                self._count += 1
                lines.append(f"{name} = {text}")
                self._names[shared] = name
        return self._text(e, 0)

    def _size(self, e: Expr) -> int:
        """Nodes of the tree of `e`, shared ones counted as often as they occur."""
        found = self._sizes.get(e)
        if found is None:
            found = 1
            for child in e.children():
                found += self._size(child)  # type: ignore[arg-type]
            self._sizes[e] = found
        return found

    def _shared_terms(self, root: Expr) -> list[Expr]:
        """Nodes with several parents that are worth a number, children before parents."""
        parents: dict[Node, int] = {}
        order: list[Expr] = []

        def walk(node: Any) -> None:
            parents[node] = parents.get(node, 0) + 1
            if parents[node] == 1:
                for child in node.children():
                    walk(child)
                order.append(node)

        walk(root)
        worth = [e for e in order if parents[e] > 1 and self._sizes[e] >= _SHARED_TERM]
        return [e for e in worth if not isinstance(e, exprs.Let)]

    def _text(self, e: Any, strength: int) -> str:
        """The text of `e` where operators weaker than `strength` need parentheses."""
        name = self._names.get(e)
        if name is not None:
            return name
        if type(e) is exprs.Add and type(e.b) is Const and e.b.value < 0 and e.type.width >= 32:
            text = f"{self._text(e.a, 4)} - {_const_text(e.b)[1:]}"
            return f"({text})" if strength > 4 else text
        infix = _INFIX.get(type(e))
        if infix is not None:
            own, sign = infix
            right = own if type(e) in (exprs.And, exprs.Or, exprs.Add) else own + 1
            left = own + 1 if own == 3 else own
            text = f"{self._text(e.a, left)} {sign} {self._text(e.b, right)}"
            return f"({text})" if own < strength else text
        special = _EXPR_TEXT.get(type(e))
        if special is None:
            return f"<{type(e).__name__}>"
        return special(self, e)

    def _list(self, items: tuple[Expr, ...]) -> str:
        return ", ".join([self._text(item, 0) for item in items])

    def _variable(self, e: exprs.Variable) -> str:
        return e.name

    def _const(self, e: Const) -> str:
        return _const_text(e)

    def _string(self, e: exprs.StringImm) -> str:
        return '"' + e.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def _cast(self, e: exprs.Cast) -> str:
        return f"{e.type}({self._text(e.value, 0)})"

    def _min(self, e: exprs.Min) -> str:
        return f"min({self._text(e.a, 0)}, {self._text(e.b, 0)})"

    def _max(self, e: exprs.Max) -> str:
        return f"max({self._text(e.a, 0)}, {self._text(e.b, 0)})"

    def _not(self, e: exprs.Not) -> str:
        return f"!{self._text(e.value, _TIGHTEST)}"

    def _select(self, e: exprs.Select) -> str:
        return f"select({self._list((e.condition, e.true_value, e.false_value))})"

    def _load(self, e: exprs.Load) -> str:
        text = f"{e.name}[{self._text(e.index, 0)}]"
        if e.predicate is not None:
            text = f"({text} if {self._text(e.predicate, 0)})"
        return text

    def _ramp(self, e: exprs.Ramp) -> str:
        return f"ramp({self._text(e.base, 0)}, {self._text(e.stride, 0)}, {e.lanes})"

    def _broadcast(self, e: Broadcast) -> str:
        return f"x{e.lanes}({self._text(e.value, 0)})"

    def _shuffle(self, e: exprs.Shuffle) -> str:
        indices = ", ".join([str(i) for i in e.indices])
        return f"shuffle({self._list(e.vectors)}; {indices})"

    def _reduce(self, e: exprs.VectorReduce) -> str:
        return f"reduce_{e.op.value}({self._text(e.value, 0)}, {e.lanes})"

    def _call(self, e: exprs.Call) -> str:
        part = f".{e.value_index}" if e.value_index else ""
        typed = f"<{e.type}>" if e.name in ("reinterpret", "saturating_cast", "undef") else ""
        return f"{e.name}{part}{typed}({self._list(e.args)})"

    def _let(self, e: exprs.Let) -> str:
        return f"(let {e.name} = {self._text(e.value, 0)} in {self._text(e.body, 0)})"


_EXPR_TEXT: Final[dict[type, Callable[[_Terms, Any], str]]] = {
    exprs.Variable: _Terms._variable,
    exprs.Const: _Terms._const,
    exprs.StringImm: _Terms._string,
    exprs.Cast: _Terms._cast,
    exprs.Min: _Terms._min,
    exprs.Max: _Terms._max,
    exprs.Not: _Terms._not,
    exprs.Select: _Terms._select,
    exprs.Load: _Terms._load,
    exprs.Ramp: _Terms._ramp,
    exprs.Broadcast: _Terms._broadcast,
    exprs.Shuffle: _Terms._shuffle,
    exprs.VectorReduce: _Terms._reduce,
    exprs.Call: _Terms._call,
    exprs.Let: _Terms._let,
}


class _Statements:
    """Collects the lines of a statement."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0
        self._terms = _Terms()

    def emit(self, s: Any) -> None:
        """Append the lines of `s`."""
        method = _STMT_TEXT.get(type(s))
        if method is None:
            self._line(f"<{type(s).__name__}>")
        else:
            method(self, s)

    def _line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def _text(self, e: Expr) -> str:
        before: list[str] = []
        text = self._terms.text_of(e, before)
        for line in before:
            self._line(line)
        return text

    def _braced(self, head: str, body: Any) -> None:
        self._line(head + " {")
        self._depth += 1
        self.emit(body)
        self._depth -= 1
        self._line("}")

    def _region(self, bounds: tuple[tuple[Expr, Expr], ...]) -> str:
        return ", ".join([f"[{self._text(low)}, {self._text(extent)}]" for low, extent in bounds])

    def _list(self, items: tuple[Expr, ...]) -> str:
        return ", ".join([self._text(item) for item in items])

    def _evaluate(self, s: stmts.Evaluate) -> None:
        if type(s.value) is Const:
            self._line("nothing")
        else:
            self._line(f"evaluate {self._text(s.value)}")

    def _let(self, s: stmts.LetStmt) -> None:
        self._line(f"let {s.name} = {self._text(s.value)}")
        self.emit(s.body)

    def _assert(self, s: stmts.AssertStmt) -> None:
        args = "".join([f", {self._text(a)}" for a in s.args])
        self._line(f'assert({self._text(s.condition)}, "{s.site.template}"{args})')

    def _produce(self, s: stmts.ProducerConsumer) -> None:
        self._braced(("produce " if s.is_producer else "consume ") + s.name, s.body)

    def _for(self, s: stmts.For) -> None:
        kind = "" if s.kind.value == "serial" else s.kind.value + " "
        partition = "" if s.partition.value == "auto" else f", partition={s.partition.value}"
        head = f"for ({kind}{s.name}, {self._text(s.min)}, {self._text(s.extent)}{partition})"
        self._braced(head, s.body)

    def _when(self, predicate: Expr | None) -> str:
        return "" if predicate is None else f" if {self._text(predicate)}"

    def _provide(self, s: stmts.Provide) -> None:
        values = self._list(s.values)
        if len(s.values) > 1:
            values = "{" + values + "}"
        self._line(f"{s.name}({self._list(s.args)}) = {values}{self._when(s.predicate)}")

    def _store(self, s: stmts.Store) -> None:
        line = f"{s.name}[{self._text(s.index)}] = {self._text(s.value)}"
        self._line(line + self._when(s.predicate))

    def _condition(self, condition: Expr) -> str:
        always = type(condition) is Const and condition.value
        return "" if always else f" if {self._text(condition)}"

    def _realize(self, s: stmts.Realize) -> None:
        types = ", ".join([str(t) for t in s.types])
        head = f"realize {s.name}({self._region(s.bounds)}) of {types} in {s.memory_type.name}"
        self._braced(head + self._condition(s.condition), s.body)

    def _hoisted(self, s: stmts.HoistedStorage) -> None:
        self._braced(f"hoisted storage of {s.name}", s.body)

    def _allocate(self, s: stmts.Allocate) -> None:
        size = "".join([f" * {_factor(self._text(e))}" for e in s.extents])
        padding = f" + {s.padding}" if s.padding else ""
        head = f"allocate {s.name}[{s.type}{size}{padding}] in {s.memory_type.name}"
        at = "" if s.address is None else f" at {self._text(s.address)}"
        self._line(head + self._condition(s.condition) + at)
        self.emit(s.body)

    def _free(self, s: stmts.Free) -> None:
        self._line(f"free {s.name}")

    def _block(self, s: stmts.Block) -> None:
        for inner in s.stmts:
            scoped = type(inner) in (stmts.LetStmt, stmts.Allocate)
            if scoped and inner is not s.stmts[-1]:
                # Their scope ends before the next statement, which indentation alone must show.
                self._line("{")
                self._depth += 1
                self.emit(inner)
                self._depth -= 1
                self._line("}")
            else:
                self.emit(inner)

    def _if(self, s: stmts.IfThenElse) -> None:
        self._braced(f"if ({self._text(s.condition)})", s.then_case)
        rest = s.else_case
        while rest is not None:
            self.lines.pop()
            if type(rest) is stmts.IfThenElse:
                self._braced(f"}} else if ({self._text(rest.condition)})", rest.then_case)
                rest = rest.else_case
            else:
                self._braced("} else", rest)
                rest = None

    def _prefetch(self, s: stmts.Prefetch) -> None:
        self._line(f"prefetch {s.name}({self._region(s.bounds)}){self._condition(s.condition)}")
        self.emit(s.body)

    def _atomic(self, s: stmts.Atomic) -> None:
        self._braced(f"atomic {s.name}", s.body)


def _factor(text: str) -> str:
    """The text of a factor of a product, in parentheses where it needs them."""
    return text if text.replace(".", "").replace("_", "").isalnum() else f"({text})"


_STMT_TEXT: Final[dict[type, Callable[[_Statements, Any], None]]] = {
    stmts.Evaluate: _Statements._evaluate,
    stmts.LetStmt: _Statements._let,
    stmts.AssertStmt: _Statements._assert,
    stmts.ProducerConsumer: _Statements._produce,
    stmts.For: _Statements._for,
    stmts.Provide: _Statements._provide,
    stmts.Store: _Statements._store,
    stmts.Realize: _Statements._realize,
    stmts.HoistedStorage: _Statements._hoisted,
    stmts.Allocate: _Statements._allocate,
    stmts.Free: _Statements._free,
    stmts.Block: _Statements._block,
    stmts.IfThenElse: _Statements._if,
    stmts.Prefetch: _Statements._prefetch,
    stmts.Atomic: _Statements._atomic,
}


