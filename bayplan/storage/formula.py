"""The sizes of temporaries as short formulas in what the user knows: extents and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bayplan.analysis.simplify import simplify
from bayplan.ir.build import constant_value, is_zero
from bayplan.ir.exprs import (
    Add,
    Call,
    Cast,
    Const,
    Expr,
    Max,
    Min,
    Select,
    Sub,
    Variable,
)
from bayplan.ir.node import Node, compilation
from bayplan.ir.types import INT32, INT64
from bayplan.ir.walk import Rewriter, free_variables, iterate, reintern, substitute
from bayplan.storage.plan import Arena, PlannedTemporary, StoragePlan
from bayplan.storage.read_plan import is_element

LONGEST: Final = 120
"""Characters of a formula; what is longer is written with named terms."""

# An extent that is longer gets a name where the formula would be too long otherwise.
_SHORT: Final = 24
# What peak and floor need more is left out.
_MOST_TERMS: Final = 16
# Lets are not written out into more nodes than this.
_MOST_NODES: Final = 150


class Formulas:
    """The formulas of a plan.

    Attributes:
        sizes: bytes of each temporary, in the plan's order; division rounds down. It is what the
            temporary takes where it is needed, and a bound where its size differs in loops.
        names: the user's sizes and parameters that the bytes of each temporary depend on.
        terms: the names in formulas that are neither the user's nor a temporary's, and what they
            stand for, in the order in which they are needed.
        peak: the bytes of the call in its temporaries, each rounded up as it is aligned; "" where
            that depends on their order.
        floor: the least bytes that any plan takes, in the same words; "" where it is too long.
    """

    __slots__ = ("floor", "names", "peak", "sizes", "terms")

    def __init__(
        self,
        sizes: tuple[str, ...],
        names: tuple[tuple[str, ...], ...],
        terms: tuple[tuple[str, str], ...],
        peak: str,
        floor: str,
    ) -> None:
        self.sizes = sizes
        self.names = names
        self.terms = terms
        self.peak = peak
        self.floor = floor


def write_formulas(
    plan: StoragePlan, in_outputs: frozenset[PlannedTemporary] = frozenset()
) -> Formulas:
    """The formulas of all temporaries of a plan and of the call, for the report.

    Args:
        in_outputs: temporaries that take no bytes of the call, as they live in an output's.
    """
    with compilation():
        writer = _Writer(plan.lets)
        sizes = tuple([writer.size(t) for t in plan.temporaries])
        names = tuple([writer.names(t) for t in plan.temporaries])
        slots = {}
        for arena in plan.arenas:
            for member in arena.temporaries:
                if member.slots_of:
                    slots[member.slots_of] = writer.slots(member)
    peak = floor = ""
    if plan.call_arena is not None and not plan.unplanned:
        arenas = {a.name: a for a in plan.arenas}
        size_of = {id(t): text for t, text in zip(plan.temporaries, sizes, strict=True)}
        sums = _Sums(arenas, slots, size_of, in_outputs)
        floor, exact = sums.of(arenas[plan.call_arena])
        if len(floor) > LONGEST:
            known = dict(writer.terms)
            floor, exact = sums.of(arenas[plan.call_arena], writer.terms)
            if len(floor) > LONGEST or len(writer.terms) > len(known) + _MOST_TERMS:
                floor, writer.terms = "", known
        peak = floor if exact else ""
    return Formulas(sizes, names, tuple(writer.terms.items()), peak, floor)


def names_of_size(extents: Sequence[Expr], lets: Sequence[tuple[str, Expr]]) -> tuple[str, ...]:
    """What a size depends on, in the words of the user, for messages.

    Args:
        lets: all that are bound around it, outermost first.
    """
    return _Writer(lets).names_of(extents)


def write_numbers(
    numbers: Sequence[Expr], lets: Sequence[tuple[str, Expr]]
) -> tuple[str, ...]:
    """Numbers of the call as formulas in the words of the user; "" for one that is too long.

    Args:
        lets: all that are bound around them, outermost first.
    """
    with compilation():
        writer = _Writer(lets)
        texts = [_text(writer.expand(reintern(e))) for e in numbers]
        # A term would have to be explained.
        return tuple(["" if writer.terms or len(t) > LONGEST else t for t in texts])


class _Writer:
    """Writes extents with lets written out, and gives names to what is too long."""

    def __init__(self, lets: Sequence[tuple[str, Expr]]) -> None:
        # An element of an input is a size of its own, known by the name that it has.
        self.lets = {
            name: reintern(value)
            for name, value in lets
            if not is_element(value) and not _is_placed(value)
        }
        self.terms: dict[str, str] = {}
        self._written: dict[str, Expr] = {}
        self.term_names: dict[Expr, str] = {}

    def size(self, t: PlannedTemporary) -> str:
        """The bytes of a temporary."""
        extents = [self.expand(reintern(e)) for e in t.extents]
        texts = [_text(e) for e in extents]
        if len(_product(t, texts)) > LONGEST:
            for d, e in enumerate(extents):
                if len(texts[d]) > _SHORT:
                    texts[d] = self.name_for(e, f"{_plain(t.name)}.extent[{d}]")
        return _product(t, texts)

    def names(self, t: PlannedTemporary) -> tuple[str, ...]:
        """What its bytes depend on, in the words of the user."""
        return self.names_of(t.extents)

    def names_of(self, extents: Sequence[Expr]) -> tuple[str, ...]:
        """What extents depend on, in the words of the user."""
        found: set[str] = set()
        for extent in extents:
            found |= free_variables(self.expand(reintern(extent)))
        return tuple(sorted([user_name(name) for name in found]))

    def slots(self, slab: PlannedTemporary) -> str:
        """How many workers' arenas a slab has."""
        extent = self.expand(reintern(slab.extents[0]))
        value = constant_value(extent)
        if value is not None and value >= 2**31 - 1:
            return "workers"
        text = _text(extent)
        if len(text) > 2 * _SHORT:
            text = self.name_for(extent, f"{loop_name(slab.name.removesuffix('.workers'))}.extent")
        return f"min(workers, {text})"

    def expand(self, e: Expr) -> Expr:
        """The expression in the call's own sizes; some lets stay where it would be large."""
        used = [name for name in free_variables(e) if name in self.lets]
        if not used:
            return simplify(e)
        values: dict[str, Expr] = {}
        for name in used:
            if name not in self._written:
                self._written[name] = Variable(e.type, name)  # a let cannot use itself
                self._written[name] = self.expand(self.lets[name])
            values[name] = self._written[name]
        result = simplify(substitute(values, e))
        if len(list(iterate(result))) <= _MOST_NODES:
            return result
        for name, value in values.items():
            values[name] = Variable(value.type, self.name_for(value, _plain(name)))
        return simplify(substitute(values, e))

    def name_for(self, e: Expr, wanted: str) -> str:
        """The name of the term that stands for an expression; it is written down once."""
        if type(e) in (Variable, Const):
            return _text(e)
        found = self.term_names.get(e)
        if found is None:
            found, count = wanted, 1
            while found in self.terms:
                count += 1
                found = f"{wanted}${count}"
            self.term_names[e] = found
            # Terms inside come first.
            text = self.cut(e, found)
            self.terms[found] = text
        return found

    def cut(self, e: Expr, name: str) -> str:
        """The text of an expression, with further terms for parts of it where it is too long."""
        return _text(_Cut(self, name)(e)) if len(_text(e)) > LONGEST else _text(e)


def _is_placed(e: Expr) -> bool:
    """Whether a value is the bytes of an arena whose members only the call can place."""
    return type(e) is Call and e.name == "place_storage"


class _Cut(Rewriter):
    """Makes every part short enough, from the leaves up: its longest operands become terms."""

    def __init__(self, writer: _Writer, name: str) -> None:
        super().__init__()
        self.writer = writer
        self.name = name
        self.count = 0

    def rebuild(self, node: Node) -> Node:
        children = [self(child) for child in node.children()]
        texts = [_text(c) if isinstance(c, Expr) else "" for c in children]
        while sum([len(text) for text in texts]) > LONGEST - 4 * len(texts):
            longest = max(range(len(texts)), key=lambda i: len(texts[i]))
            part = children[longest]
            if not isinstance(part, Expr) or type(part) in (Variable, Const):
                break
            children[longest] = Variable(part.type, self._term(part, texts[longest]))
            texts[longest] = str(children[longest])
        return node.with_children(children)

    def _term(self, part: Expr, text: str) -> str:
        names = self.writer.term_names
        if part not in names:
            self.count += 1
            names[part] = f"{self.name}.{self.count}"
            self.writer.terms[names[part]] = text
        return names[part]


def _product(t: PlannedTemporary, extents: Sequence[str]) -> str:
    """Element bytes times extents, as text."""
    factors = [e if _is_factor(e) else f"({e})" for e in extents if e != "1"]
    size = str(t.type.bytes())
    if size == "1" and factors and not t.padding:
        return factors[0] if len(extents) == 1 else " * ".join(factors)
    if t.padding:
        inside = " * ".join(factors) or "1"
        return f"{size} * ({inside} + {t.padding})"
    return " * ".join([size, *factors])


def _is_factor(text: str) -> bool:
    """Whether a text needs no parentheses in a product: one name, number or call."""
    depth = 0
    for position, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        elif letter == " " and depth == 0 and position:
            return False
    return True


class _Tidy(Rewriter):
    """Writes `a - min(0 - b, -c)` as `max(b, c) + a`."""

    def rewrite_Sub(self, node: Sub) -> Expr:
        a, b = self(node.a), self(node.b)
        plus = _negated(b) if type(b) in (Min, Max, Select) else None
        if plus is None:
            return Sub(a, b)
        return plus if is_zero(a) else Add(plus, a)

    def rewrite_Call(self, node: Call) -> Expr:
        if node.name != "callee_lines":
            return self.rebuild(node)  # type: ignore[no-any-return]
        args = tuple([self(a) for a in node.args])
        return Call(node.type, f"{node.target.program.name}_lines", args, node.kind)


def _negated(e: Expr) -> Expr | None:
    """The negative of an expression where that is not longer."""
    if type(e) is Const:
        return Const(e.type, -e.value)
    if type(e) is Sub and is_zero(e.a):
        return e.b
    if type(e) in (Min, Max):
        a, b = _negated(e.a), _negated(e.b)  # type: ignore[attr-defined]
        if a is None or b is None:
            return None
        return Max(a, b) if type(e) is Min else Min(a, b)
    if type(e) is Select:
        a, b = _negated(e.true_value), _negated(e.false_value)
        return None if a is None or b is None else Select(e.condition, a, b)
    return None


def _text(e: Expr) -> str:
    """The text of an expression in the words of the user."""
    shown = _InWords()(_Tidy()(e))
    while type(shown) is Cast:
        shown = shown.value
    return str(shown)


class _InWords(Rewriter):
    """Gives variables the names that users know; what is of 64 bits is shown without saying so."""

    def rewrite_Variable(self, node: Variable) -> Expr:
        t = INT32 if node.type is INT64 else node.type
        return Variable(t, user_name(node.name))

    def rewrite_Const(self, node: Const) -> Expr:
        return Const(INT32, node.value) if node.type is INT64 else node

    def rewrite_Cast(self, node: Cast) -> Expr:
        value = self(node.value)
        return value if node.type is INT64 and value.type is INT32 else Cast(node.type, value)

    def rewrite_Call(self, node: Call) -> Expr:
        if node.type is not INT64:
            return self.rebuild(node)  # type: ignore[no-any-return]
        args = tuple([self(a) for a in node.args])
        return Call(INT32, node.name, args, node.kind, node.target)


def user_name(name: str) -> str:
    """A field of a buffer as a user writes it: `image.extent.0` as `image.extent[0]`."""
    head, dot, last = name.rpartition(".")
    if dot and last.isdigit() and head.rpartition(".")[2] in ("min", "extent", "stride"):
        return f"{head}[{last}]"
    return _plain(name)


def _plain(name: str) -> str:
    """A name without the number of the pure stage: `f.s0.x.x.loop_max` as `f.x.x.loop_max`."""
    return name.replace(".s0.", ".")


def loop_name(name: str) -> str:
    """A loop by its Func and the variable it runs over: `f.s0.y.yi.yo` as `f.yo`."""
    func, dot, path = name.partition(".s0.")
    return f"{func}.{path.rpartition('.')[2]}" if dot else name


class _Sums:
    """Writes what arenas take in the names of their members."""

    def __init__(
        self,
        arenas: Mapping[str, Arena],
        slots: Mapping[str, str],
        sizes: Mapping[int, str],
        in_outputs: frozenset[PlannedTemporary],
    ) -> None:
        self.in_outputs = in_outputs
        self.arenas = arenas
        self.slots = slots
        self.sizes = sizes
        self.alive: dict[str, str] = {}  # the names of sums

    def of(self, arena: Arena, terms: dict[str, str] | None = None) -> tuple[str, bool]:
        """The floor of an arena, and whether no plan can take more.

        Where `terms` are given, what the workers of a loop take becomes one of them.
        """
        words, exact = {}, True
        groups: dict[int, list[PlannedTemporary]] = {}
        for member in arena.temporaries:
            if member not in self.in_outputs:
                groups.setdefault(member.group, []).append(member)
        if not groups:
            return "0", True
        for group, members in groups.items():
            if members[0].slots_of:
                words[group], same = self._slab(members[0], terms)
                exact = exact and same
            else:
                words[group] = self._shared(members)
        sums = []
        for clique in _alive_together(groups):
            part = " + ".join([words[group] for group in clique])
            if part not in sums:
                sums.append(part)
        if terms is not None and sum([len(text) + 2 for text in sums]) > LONGEST:
            sums = [self._alive(text, terms) for text in sums]
        if len(sums) == 1:
            return sums[0], exact
        return f"max({', '.join(sums)})", False

    def _alive(self, text: str, terms: dict[str, str]) -> str:
        """A sum of what is alive together as a term of its own."""
        if text not in self.alive and (len(text) > LONGEST or _is_factor(text)):
            return text
        if text not in self.alive:
            self.alive[text] = f"alive.{len(self.alive) + 1}"
            terms[self.alive[text]] = text
        return self.alive[text]

    def _slab(self, slab: PlannedTemporary, terms: dict[str, str] | None) -> tuple[str, bool]:
        inside, exact = self.of(self.arenas[slab.slots_of], terms)
        slots = self.slots[slab.slots_of]
        word = f"{slots} * {inside if _is_factor(inside) else f'({inside})'}"
        if terms is None or len(word) > LONGEST:
            return word, exact
        name = f"{loop_name(slab.name.removesuffix('.workers'))}.bytes"
        terms[name] = word
        return name, exact

    def _shared(self, members: Sequence[PlannedTemporary]) -> str:
        """One set of bytes: the largest of those that have it one after the other."""
        by_size = {self.sizes[id(m)]: m.name for m in reversed(members)}
        names = list(by_size.values())[::-1]
        return names[0] if len(names) == 1 else f"max({', '.join(names)})"


def _alive_together(groups: Mapping[int, Sequence[PlannedTemporary]]) -> list[list[int]]:
    """The largest sets of groups that are alive at one step."""
    spans = {
        group: (min([m.life[0] for m in members]), max([m.life[1] for m in members]))
        for group, members in groups.items()
    }
    found: list[list[int]] = []
    for step in sorted({begin for begin, _ in spans.values()}):
        alive = [i for i, (begin, end) in spans.items() if begin <= step < end]
        if not any(set(alive) <= set(other) for other in found):
            found = [other for other in found if not set(other) <= set(alive)]
            found.append(alive)
    return found
