"""What is known where an expression stands: ranges and alignments of variables, true conditions.

A `Facts` is a scope; a child knows what its parent knows and more. Whatever is computed under some
facts (simplified nodes, ranges, alignments) is remembered in the outermost scope in which it is
the same, so that entering a loop does not throw away what was found outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any, Final

from bayplan.analysis.linear import ZERO, Linear, cache, is_index_type, linear_of
from bayplan.ir.build import const, logical_not
from bayplan.ir.exprs import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    And,
    Call,
    Const,
    Div,
    Expr,
    Max,
    Min,
    Not,
    Or,
    Variable,
)
from bayplan.ir.walk import free_variables, substitute

Range = tuple[int | None, int | None]

_UNBOUNDED: Final[Range] = (None, None)
_UNALIGNED: Final = (1, 0)
_MOST_EXPANSIONS: Final = 4
_TABLES: Final = ("owners", "bounds", "alignments", "truths", "lower", "values", "definitions")


class Facts:
    """Scope of known things.

    A child starts with its parent's tables and copies one when it first adds to it, so that a
    look-up costs the same at any depth. What a parent learns after a child was made is not known
    to the child.

    Attributes:
        parent: the scope around this one.
        depth: number of scopes around this one.
        owners: the innermost scope that says something about a variable.
        floor: the innermost scope that knows something that does not hang on a variable.
        bounds: constant range of variables.
        alignments: (modulus, remainder) of variables.
        truths: conditions known to hold (True) or fail (False).
        lower: terms of a linear form -> a constant it is at least.
        values: variables that stand for another expression wherever they occur.
        definitions: values of lets whose names are kept.
        forms: per variable, in the order known in this scope, linear forms that are at least 0.
        simplified, ranges, aligned, simplifier: memos; only `analysis` touches them.
    """

    __slots__ = (
        "parent",
        "depth",
        "owners",
        "floor",
        "bounds",
        "alignments",
        "truths",
        "lower",
        "values",
        "definitions",
        "forms",
        "simplified",
        "ranges",
        "aligned",
        "simplifier",
        "_copied",
    )

    def __init__(self, parent: Facts | None = None) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.owners: dict[str, Facts] = {} if parent is None else parent.owners
        self.floor: Facts = self if parent is None else parent.floor
        self.bounds: dict[str, Range] = {} if parent is None else parent.bounds
        self.alignments: dict[str, tuple[int, int]] = {} if parent is None else parent.alignments
        self.truths: dict[Expr, bool] = {} if parent is None else parent.truths
        self.lower: dict[frozenset[tuple[Expr, int]], int] = {} if parent is None else parent.lower
        self.values: dict[str, Expr] = {} if parent is None else parent.values
        self.definitions: dict[str, Expr] = {} if parent is None else parent.definitions
        self.forms: dict[str, list[Linear]] = {}
        self.simplified: dict[Expr, Expr] = {}
        self.ranges: dict[Expr, Range] = {}
        self.aligned: dict[Expr, tuple[int, int]] = {}
        self.simplifier: Any = None
        # The tables that are this scope's own copies.
        self._copied: set[str] = set(_TABLES) if parent is None else set()

    @staticmethod
    def none() -> Facts:
        """The facts that hold everywhere in this compilation: none."""
        known = cache("analysis.facts")
        found = known.get(0)
        if found is None:
            found = known[0] = Facts()
        return found

    def child(self) -> Facts:
        """A scope inside this one, to which more can be added."""
        return Facts(self)

    def scope_for(self, e: Expr) -> Facts:
        """The outermost scope that knows as much about `e` as this one."""
        free = e._free
        if free is None:
            free = free_variables(e)
        scope = self.floor
        owners = self.owners
        for name in free:
            owner = owners.get(name)
            if owner is not None and owner.depth > scope.depth:
                scope = owner
        return scope

    def chain(self) -> Iterator[Facts]:
        """This scope and those around it, innermost first."""
        scope: Facts | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def _own(self, table: str) -> dict[Any, Any]:
        """One of the tables, to be written to."""
        if table not in self._copied:
            self._copied.add(table)
            setattr(self, table, dict(getattr(self, table)))
        return getattr(self, table)  # type: ignore[no-any-return]

    def _changed(self, name: str | None) -> None:
        if name is None:
            self.floor = self
        elif self.owners.get(name) is not self:
            self._own("owners")[name] = self
        if self.simplified or self.ranges or self.aligned:
            self.simplified = {}
            self.ranges = {}
            self.aligned = {}
            self.simplifier = None

    def bound_variable(self, name: str, low: int | None, high: int | None) -> Facts:
        """Know that the variable lies in [low, high]; None: not bounded there."""
        known_low, known_high = self.range_of_variable(name)
        if low is None or (known_low is not None and known_low > low):
            low = known_low
        if high is None or (known_high is not None and known_high < high):
            high = known_high
        self._own("bounds")[name] = (low, high)
        self._changed(name)
        return self

    def align_variable(self, name: str, modulus: int, remainder: int) -> Facts:
        """Know that the variable leaves `remainder` when divided by `modulus`."""
        self._own("alignments")[name] = (modulus, remainder)
        self._changed(name)
        return self

    def define(self, name: str, value: Expr) -> Facts:
        """Know that the variable stands for `value`, which replaces it wherever it occurs."""
        self._own("values")[name] = value
        self._changed(name)
        return self

    def range_of_variable(self, name: str) -> Range:
        """The constant range of a variable, (None, None) where nothing is known."""
        return self.bounds.get(name, _UNBOUNDED)

    def alignment_of_variable(self, name: str) -> tuple[int, int]:
        """(modulus, remainder) of a variable, (1, 0) where nothing is known."""
        return self.alignments.get(name, _UNALIGNED)

    def value_of_variable(self, name: str) -> Expr | None:
        """What stands for a variable, if anything does."""
        return self.values.get(name)

    def truth_of(self, condition: Expr) -> bool | None:
        """Whether the condition was assumed to hold or to fail."""
        return self.truths.get(condition)

    def lower_bound_of(self, key: frozenset[tuple[Expr, int]]) -> int | None:
        """A constant that the linear form with these terms is at least, by assumed conditions."""
        return self.lower.get(key)

    def knows_forms(self) -> bool:
        """Whether any linear condition is assumed here."""
        return bool(self.lower)

    def assume(self, condition: Expr) -> Facts:
        """Know that the condition holds from here on; also what follows from it at once."""
        from bayplan.analysis.simplify import simplify

        condition = without_likely(condition)
        self._assume(condition, True)
        simplified = simplify(condition, self.parent)
        if simplified is not condition:
            self._assume(simplified, True)
        return self

    def assume_checked(self, condition: Expr) -> Facts:
        """As `assume`, also in terms of what the names of lets stand for: for checks of the call.

        That a required minimum, which is a minimum of several, is not below the buffer's says as
        much of each of the several.
        """
        from bayplan.analysis.simplify import simplify

        self.assume(condition)
        for _ in range(_MOST_EXPANSIONS):
            free = free_variables(condition)
            known = {n: self.definitions[n] for n in free if n in self.definitions}
            if not known:
                break
            # Without facts, so that the answer is remembered for the whole compilation.
            condition = simplify(substitute(known, condition))
            self._assume(condition, True)
        return self

    def _assume(self, condition: Any, holds: bool) -> None:
        cls = type(condition)
        if (cls is And and holds) or (cls is Or and not holds):
            self._assume(condition.a, holds)
            self._assume(condition.b, holds)
            return
        if cls is Not:
            self._assume(condition.value, not holds)
            return
        if cls is Call and condition.name in ("likely", "likely_if_innermost"):
            self._assume(condition.args[0], holds)
            return
        free = free_variables(condition)
        if not condition.children():
            return
        truths = self._own("truths")
        truths[condition] = holds
        truths[logical_not(condition)] = not holds
        for name in free:
            self._changed(name)
        if not free:
            self._changed(None)
        if condition.type.lane_count == 1:
            self._assume_linear(condition, holds)

    def _assume_linear(self, condition: Any, holds: bool) -> None:
        cls = type(condition)
        if cls not in _FORM_OF or not is_index_type(condition.a.type):
            return
        form = linear_of(condition.b).plus(linear_of(condition.a), -1)
        if cls is EQ:
            if holds:
                self.add_form(form)
                self.add_form(form.times(-1))
            return
        strict, turned = _FORM_OF[cls]
        if turned:
            form = form.times(-1)
        if not holds:
            # not (form >= strict)  is  -form >= 1 - strict
            form = form.times(-1)
            strict = 1 - strict
        self.add_form(form.plus_constant(-strict))

    def add_form(self, form: Linear, owner: str | None = None) -> None:
        """Know that the linear form is at least 0.

        It serves to eliminate `owner` from other forms; any of its variables when not said.
        """
        terms = form.terms
        if not terms:
            return
        divisor = gcd(*terms.values())
        # divisor * T + c >= 0  is  T >= ceil(-c / divisor)
        least = -(form.constant // divisor)
        if divisor != 1:
            terms = {a: c // divisor for a, c in terms.items()}
            form = Linear(terms, -least)
        if len(terms) == 1:
            ((atom, c),) = terms.items()
            if type(atom) is Variable:
                if c > 0:
                    self.bound_variable(atom.name, least, None)
                else:
                    self.bound_variable(atom.name, None, -least)
                return
        key = frozenset(terms.items())
        known = self.lower.get(key)
        if known is None or known < least:
            self._own("lower")[key] = least
        free: set[str] = set()
        for atom in terms:
            free |= free_variables(atom)
            if type(atom) is Variable and owner in (None, atom.name):
                self.forms.setdefault(atom.name, []).append(form)
        for name in free:
            self._changed(name)
        if not free:
            self._changed(None)

    def loop(self, name: str, minimum: Expr, extent: Expr) -> Facts:
        """The scope of the body of a loop over `name` from `minimum`, `extent` times."""
        from bayplan.analysis.ranges import alignment_of, range_of

        inner = self.child()
        low, high = range_of(minimum, self)
        _, longest = range_of(extent, self)
        last = None if high is None or longest is None else high + longest - 1
        inner._own("bounds")[name] = (low, last)
        inner._changed(name)
        variable = Variable(minimum.type, name)
        first = linear_of(minimum)
        own = Linear({variable: 1}, 0)
        length = linear_of(_when_positive(extent))
        if first.terms:
            inner.add_form(own.plus(first, -1), name)
        if first.terms or length.terms:
            # own - first + 1 is at most the length, also each side of it if that is a minimum.
            distance = own.plus(first, -1).plus_constant(1)
            inner.add_form(length.plus(distance, -1), name)
            inner._add_sides(distance, length, name, (Min,))
        if length.terms:
            # The body runs, so the loop is not empty.
            inner.add_form(length.plus_constant(-1))
        if extent is const(extent.type, 1):
            modulus, remainder = alignment_of(minimum, self)
            if modulus != 1:
                inner.align_variable(name, modulus, remainder)
        return inner

    def let(self, name: str, value: Expr) -> Facts:
        """The scope in which `name` stands for `value` and keeps its name."""
        from bayplan.analysis.ranges import alignment_of, range_of

        inner = self.child()
        inner._changed(name)
        if value.type.kind not in ("int", "uint"):
            return inner
        inner._own("bounds")[name] = range_of(value, self)
        inner._own("definitions")[name] = value
        if is_index_type(value.type):
            modulus, remainder = alignment_of(value, self)
            if modulus != 1:
                inner._own("alignments")[name] = (modulus, remainder)
            form = linear_of(value)
            if form.terms:
                own = Linear({Variable(value.type, name): 1}, 0).plus(form, -1)
                inner.add_form(own, name)
                inner.add_form(own.times(-1), name)
                own = Linear({Variable(value.type, name): 1}, 0)
                inner._add_sides(own, form, name)
                inner._add_quotient(own.plus_constant(-form.constant), form)
        return inner

    def _add_quotient(self, own: Linear, form: Linear) -> None:
        """Know that q == x / c means c q <= x <= c q + c - 1."""
        if len(form.terms) != 1:
            return
        ((atom, c),) = form.terms.items()
        if c != 1 or type(atom) is not Div or type(atom.b) is not Const or atom.b.value <= 0:
            return
        by = int(atom.b.value)
        rest = linear_of(atom.a).plus(own, -by)
        self.add_form(rest)
        self.add_form(rest.times(-1).plus_constant(by - 1))

    def _add_sides(
        self, own: Linear, form: Linear, owner: str, choices: tuple[type, ...] = (Min, Max)
    ) -> None:
        """Know that what is a minimum is at most each of its sides, a maximum at least.

        With `choices` of Min alone, `own` need only be at most the form.
        """
        if len(form.terms) != 1:
            return
        ((atom, c),) = form.terms.items()
        if c != 1 or type(atom) not in choices:
            return
        sign = -1 if type(atom) is Min else 1
        choice: Any = atom
        for side in (choice.a, choice.b):
            value = linear_of(side).plus_constant(form.constant)
            self.add_form(own.plus(value, -1).times(sign), owner)
            if type(side) is type(atom):
                self._add_sides(own, value, owner, choices)


def _when_positive(extent: Any) -> Expr:
    """What the extent of a loop is where its body runs: max(n, 0) is n there."""
    while type(extent) is Max and type(extent.b) is Const and extent.b.value <= 0:
        extent = extent.a
    return extent  # type: ignore[no-any-return]


# For a comparison of a and b: the form b - a (turned: a - b) is at least this.
_FORM_OF: dict[type, tuple[int, bool]] = {
    LT: (1, False),
    LE: (0, False),
    GT: (1, True),
    GE: (0, True),
    EQ: (0, False),
}


def without_likely(e: Expr) -> Expr:
    """The expression without its likely marks, for proofs."""
    known = cache("analysis.unlikely")
    return _strip(e, known)


def _strip(e: Any, known: dict[Expr, Expr]) -> Expr:
    found = known.get(e)
    if found is not None:
        return found
    if type(e) is Call and e.name in ("likely", "likely_if_innermost"):
        result = _strip(e.args[0], known)
    else:
        result = e
        children = e.children()
        if children:
            stripped = [_strip(c, known) for c in children]
            for old, new in zip(children, stripped):
                if old is not new:
                    result = e.with_children(stripped)
                    break
    known[e] = result
    return result


__all__ = ["ZERO", "Facts", "Range", "without_likely"]
