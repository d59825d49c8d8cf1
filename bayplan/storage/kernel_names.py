"""What names stand for inside a kernel, and which values differ between threads or iterations."""

from __future__ import annotations

from typing import Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.linear import cache, is_index_type
from bayplan.analysis.purity import reads_memory
from bayplan.ir.exprs import And, Call, Expr, Let, Variable
from bayplan.ir.types import Type
from bayplan.ir.walk import free_variables, substitute
from bayplan.storage.polynomials import Polynomial, polynomial_of, total

EVERY_THREAD: Final = 1 << 30
"""The depth of what may differ between the threads of a block, or is read from memory."""

_PLACED: Final = frozenset(["placed_offset", "place_storage", "size_in_bytes"])


class Names:
    """The scope at one place of a walk; whoever opens a scope closes it again.

    Lets are written out, and what cannot be (a value read from memory) gets a variable of its
    own, as does each loop, so that equal expressions are equal values.

    Attributes:
        facts: what is known about the variables.
        uppers: by variable, polynomials of the same for all threads that it is at most.
        depths: by variable, how many of the kernel's loops around it must be in the same
            iteration for it to be the same; EVERY_THREAD: it may differ between threads.
    """

    def __init__(self) -> None:
        self.facts = Facts()
        self.uppers: dict[str, list[Polynomial]] = {}
        self.depths: dict[str, int] = {}
        self._values: dict[str, Expr] = {}
        self._made = 0

    def scope(self) -> tuple[Facts, dict[str, list[Polynomial]], dict[str, Expr]]:
        """The scope of now, to go back to with `leave`; changes do not touch it."""
        saved = self.facts, self.uppers, self._values
        self.uppers = dict(self.uppers)
        self._values = dict(self._values)
        return saved

    def leave(self, saved: tuple[Facts, dict[str, list[Polynomial]], dict[str, Expr]]) -> None:
        """Go back to an outer scope."""
        self.facts, self.uppers, self._values = saved

    def written_out(self, e: Expr) -> Expr:
        """The expression without names of lets."""
        e = _without_lets(e)
        values = {n: self._values[n] for n in free_variables(e) if n in self._values}
        return substitute(values, e)

    def let(self, name: str, value: Expr, depth: int) -> None:
        """From here on the name stands for the value."""
        value = self.written_out(value)
        if value.type.kind in ("int", "uint") and not reads_memory(value) and not _acts(value):
            self._values[name] = value
            return
        variable = self._fresh(name, value.type, depth)
        self._values[name] = variable
        self.facts = self.facts.let(variable.name, value)

    def loop(self, name: str, low: Expr, extent: Expr, depth: int) -> Variable:
        """The body of a loop: its variable stands for `low` plus a variable from 0 on."""
        low, extent = self.written_out(low), self.written_out(extent)
        variable = self._fresh(name, low.type, depth)
        self._values[name] = low + variable
        self._count(variable, extent)
        return variable

    def thread(self, name: str, low: Expr, extent: Expr) -> None:
        """A loop over the threads of a block, whose numbers are the same in all loops."""
        low, extent = self.written_out(low), self.written_out(extent)
        variable = Variable(low.type, name)
        self.depths[name] = EVERY_THREAD
        self._values[name] = low + variable
        self._count(variable, extent)

    def assume(self, condition: Expr) -> None:
        """The condition holds from here on."""
        condition = self.written_out(condition)
        self.facts = self.facts.child().assume(condition)
        self._take_uppers(condition)

    def depth_of(self, e: Expr) -> int:
        """The depth of what the expression depends on."""
        if reads_memory(e):
            return EVERY_THREAD
        return max([self.depths.get(n, 0) for n in free_variables(e)], default=0)

    def _fresh(self, name: str, type: Type, depth: int) -> Variable:
        self._made += 1
        variable = Variable(type, f"{name}#{self._made}")
        self.depths[variable.name] = depth
        return variable

    def _count(self, variable: Variable, extent: Expr) -> None:
        zero = extent - extent
        self.facts = self.facts.loop(variable.name, zero, extent)
        self._at_most(variable, total(polynomial_of(extent), {(): 1}, -1))

    def _at_most(self, variable: Variable, most: Polynomial) -> None:
        if all(self.depth_of(atom) < EVERY_THREAD for monomial in most for atom in monomial):
            self.uppers[variable.name] = [*self.uppers.get(variable.name, []), most]

    def _take_uppers(self, condition: Expr) -> None:
        """From a comparison that holds, what its variables are at most."""
        from bayplan.ir.exprs import GE, GT, LE, LT

        if isinstance(condition, And):
            self._take_uppers(condition.a)
            self._take_uppers(condition.b)
            return
        if isinstance(condition, Call) and condition.name.startswith("likely"):
            self._take_uppers(condition.args[0])
            return
        if not isinstance(condition, LT | LE | GT | GE) or not is_index_type(condition.a.type):
            return
        a, b = polynomial_of(condition.a), polynomial_of(condition.b)
        if isinstance(condition, GT | GE):
            a, b = b, a
        rest = total(b, a, -1)
        if isinstance(condition, LT | GT):
            rest = total(rest, {(): 1}, -1)
        for monomial, c in list(rest.items()):
            if c == -1 and len(monomial) == 1 and isinstance(monomial[0], Variable):
                self._at_most(monomial[0], total(rest, {monomial: 1}))


def _acts(e: Expr) -> bool:
    """Whether it is a call that is not a number of the call's sizes alone."""
    from bayplan.analysis.purity import has_side_effect

    if isinstance(e, Call) and e.name in _PLACED:
        return any(has_side_effect(a) and not isinstance(a, Call) for a in e.args)
    return has_side_effect(e)


def _without_lets(e: Expr) -> Expr:
    """The expression with the values of its inner lets written out."""
    known = cache("storage.without_lets")
    found: Expr | None = known.get(e)
    if found is None:
        if isinstance(e, Let):
            found = substitute({e.name: _without_lets(e.value)}, _without_lets(e.body))
        else:
            children = e.children()
            parts = [_without_lets(c) for c in children]  # type: ignore[arg-type]
            same = all(x is y for x, y in zip(children, parts, strict=True))
            found = e if same else e.with_children(parts)  # type: ignore[assignment]
        known[e] = found
    assert found is not None
    return found
