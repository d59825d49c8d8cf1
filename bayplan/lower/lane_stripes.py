"""Which lane of a warp holds an element of a temporary, and in which of its registers.

Element `s * (width * m + lane) + c`, with c below the stride s, is in register `s * m + c` of that
lane. A lane stores into its own registers only, so that stride and width follow from the stores.
Of a temporary whose rows are no whole number of turns around the warp, rows may be made longer.
"""

from __future__ import annotations

from typing import Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.linear import ZERO, Linear, build_linear, linear_of
from bayplan.analysis.ranges import range_of, range_of_linear
from bayplan.analysis.simplify import simplify
from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, Load, Variable
from bayplan.ir.types import INT32, Type
from bayplan.ir.walk import free_variables

LANE: Final = "<lane>"
"""The variable that stands for the number of the lane in indices."""


class NotOwn(Exception):
    """An access that the stripe does not allow, with the reason in words."""


class Element:
    """The index of an access in terms of the lane and of what is known where it stands.

    Attributes:
        form: the index; `LANE` and loop variables that begin at 0.
        varying: names whose values lanes may have different ones of.
        back: what the names made for the form stand for.
    """

    __slots__ = ("back", "facts", "form", "varying")

    def __init__(
        self, form: Linear, facts: Facts, varying: frozenset[str], back: dict[str, Expr]
    ) -> None:
        self.form = form
        self.facts = facts
        self.varying = varying
        self.back = back

    def is_varying(self, e: Expr) -> bool:
        """Whether lanes may differ in the value."""
        return not free_variables(e).isdisjoint(self.varying)


class Stripe:
    """How a temporary is spread over the lanes.

    Attributes:
        lanes: how many take part in an exchange.
        width: how many hold elements.
        stride: neighbouring elements in one lane.
        row: (elements of a row, elements that it is made to have); None: there are no rows.
        registers: of each lane.
        most: shuffles for one load.
        uses_shuffles: whether some load asked for another lane's element.
    """

    def __init__(
        self, lanes: int, width: int, stride: int, size: int, row: tuple[int, int] | None,
        most: int,
    ) -> None:  # fmt: skip
        self.lanes = lanes
        self.width = width
        self.stride = stride
        self.turn = width * stride
        self.row = row
        self.size = size if row is None else -(-size // row[0]) * row[1]
        self.registers = -(-self.size // self.turn) * stride
        self.most = most
        self.uses_shuffles = False

    def store(self, at: Element) -> Expr:
        """The register that a lane stores into.

        Raises:
            NotOwn: the element is or may be another lane's.
        """
        form = self._with_rows(at)
        lane = Variable(INT32, LANE)
        low, high = range_of_linear(Linear({lane: 1}, 0), at.facts)
        if low is None or high is None or high >= self.width:
            raise NotOwn("is stored by a lane that holds none of it")
        own = self.stride
        if low == high:
            factor = form.terms.get(lane, 0)
            form = Linear({a: c for a, c in form.terms.items() if a is not lane},
                          form.constant + factor * low - own * low)  # fmt: skip
        else:
            form = form.plus(Linear({lane: own}, 0), -1)
        turns, rest = _split(form, self.turn)
        low, high = range_of_linear(rest, at.facts)
        if low is None or high is None or low // self.turn != high // self.turn:
            raise NotOwn("is or may be another lane's")
        if low % self.turn > high % self.turn or high % self.turn >= own:
            raise NotOwn("is or may be another lane's")
        skipped = low // self.turn
        within = rest.plus_constant(-skipped * self.turn)
        result = turns.plus_constant(skipped).times(own).plus(within)
        return build_linear(result, INT32)

    def load(self, at: Element, t: Type, name: str) -> Expr:
        """The element's value, from wherever it is; in terms of the names of `at`.

        Raises:
            NotOwn: too many registers could hold it.
        """
        form = self._with_rows(at)
        turns, rest = _split(form, self.turn)
        low, high = range_of_linear(rest, at.facts)
        if low is None or high is None or any(at.is_varying(atom) for atom in turns.terms):
            # All that is known is that the temporary has the element.
            turns, rest = ZERO, form
            low, high = range_of_linear(form, at.facts)
        if not turns.terms:
            low = 0 if low is None else max(low, 0)
            high = self.size - 1 if high is None else min(high, self.size - 1)
        assert low is not None and high is not None
        result: Expr | None = None
        count = 0
        for j in range(low // self.turn, max(high, low) // self.turn + 1):
            values = self._in_turn(at, rest.plus_constant(-j * self.turn), turns.plus_constant(j),
                                   t, name)  # fmt: skip
            count += len(values)
            if count > self.most:
                raise NotOwn("may be in any of many registers")
            value = values[0][1]
            for condition, other in values[1:]:
                value = build.select(condition, other, value)
            first = build.int32(j * self.turn)
            here = build.ge(build_linear(rest, INT32), first)
            result = value if result is None else build.select(here, value, result)
        assert result is not None
        return result

    def _in_turn(
        self, at: Element, rest: Linear, turns: Linear, t: Type, name: str
    ) -> list[tuple[Expr, Expr]]:
        """Values for each place within a lane's neighbouring elements, and when it is that one.

        Args:
            rest: the element within one turn around the warp.
            turns: which turn.
        """
        steps, within = _split(rest, self.stride)
        low, high = range_of_linear(within, at.facts)
        owner: Expr
        if low is not None and high is not None and low // self.stride == high // self.stride:
            step = low // self.stride
            owner = build_linear(steps.plus_constant(step), INT32)
            within = within.plus_constant(-step * self.stride)
            place, low, high = build_linear(within, INT32), low % self.stride, high % self.stride
        else:
            whole, by = build_linear(rest, INT32), build.int32(self.stride)
            owner, place = build.div(whole, by), build.mod(whole, by)
            low, high = 0, self.stride - 1
        base = build_linear(turns.times(self.stride), INT32)
        if not at.is_varying(place):
            register = build.add(base, place)
            return [(build.true(), self._from(owner, register, at, t, name))]
        found = []
        for c in range(low, high + 1):
            register = build.add(base, build.int32(c))
            value = self._from(owner, register, at, t, name)
            found.append((build.eq(place, build.int32(c)), value))
        return found

    def _from(self, owner: Expr, register: Expr, at: Element, t: Type, name: str) -> Expr:
        """What a register of a lane holds."""
        register = simplify(register, at.facts)
        low, high = range_of(register, at.facts)
        if low is None or low < 0 or high is None or high >= self.registers:
            # Lanes and iterations that throw the value away may ask for any.
            register = build.clamp(register, 0, self.registers - 1)
        value = Load(t, name, register)
        lane = Variable(INT32, LANE)
        owner = simplify(owner, at.facts)
        distance = linear_of(owner).plus(Linear({lane: 1}, 0), -1)
        if not distance.terms and not distance.constant:
            return value
        self.uses_shuffles = True
        lanes = build.int32(self.lanes)
        low, high = range_of_linear(distance, at.facts)
        is_uniform = not any(at.is_varying(atom) for atom in distance.terms)
        if is_uniform and low is not None and low >= 0:
            by = build_linear(distance, INT32)
            return Call(t, "warp_shuffle_down", (value, by, lanes), CallKind.INTRINSIC)
        if is_uniform and high is not None and high <= 0:
            by = build_linear(distance.times(-1), INT32)
            return Call(t, "warp_shuffle_up", (value, by, lanes), CallKind.INTRINSIC)
        if type(owner) is Call and owner.name == "bitwise_xor" and owner.args[0] is lane:
            if not at.is_varying(owner.args[1]):
                args = (value, owner.args[1], lanes)
                return Call(t, "warp_shuffle_xor", args, CallKind.INTRINSIC)
        return Call(t, "warp_shuffle", (value, owner, lanes), CallKind.INTRINSIC)

    def _with_rows(self, at: Element) -> Linear:
        """The index once rows are longer."""
        form = at.form
        if self.row is None:
            return form
        old, new = self.row
        rows, rest = _split(form, old)
        low, high = range_of_linear(rest, at.facts)
        if low is None or high is None or low // old != high // old:
            raise NotOwn(f"is not known to be in one row of {old}")
        row = low // old
        return rows.plus_constant(row).times(new).plus(rest).plus_constant(-row * old)


def _split(form: Linear, by: int) -> tuple[Linear, Linear]:
    """(q, r) with form == q * by + r; whole multiples are in q, the constant is in r."""
    whole: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for atom, c in form.terms.items():
        if c % by == 0:
            whole[atom] = c // by
        else:
            rest[atom] = c
    return Linear(whole, 0), Linear(rest, form.constant)
