"""Whether an update joins values by an associative operation, and which one.

Known by their form: sums, products, minima, maxima, conjunctions, saturating sums, the choice of
an element by the least or greatest value (argmin, argmax) and the product of complex numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bayplan.ir.build import add, const, constant_value, mul, sub
from bayplan.ir.exprs import (
    GE,
    GT,
    LE,
    LT,
    Add,
    And,
    Binary,
    Call,
    CallKind,
    Cast,
    Expr,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Sub,
    Variable,
)
from bayplan.ir.node import deep_recursion
from bayplan.ir.types import Type
from bayplan.ir.walk import Rewriter, free_variables, iterate, reintern
from bayplan.language.parameter import ReductionDomain


class Associative:
    """The proof that an update is associative: what it does with the old value and a new one.

    Attributes:
        xs: names that stand for the old values in `ops`.
        ys: (name, what is joined) per value; None where a value only keeps the old one.
        ops: the operation on each value, in terms of those names.
        identities: the values that change nothing.
        commutative: whether the order of the operands does not matter either.
    """

    __slots__ = ("xs", "ys", "ops", "identities", "commutative")

    def __init__(self, size: int) -> None:
        self.xs = [_x(i) for i in range(size)]
        self.ys: list[tuple[str, Expr] | None] = [None] * size
        self.ops: list[Expr] = []
        self.identities: list[Expr] = []
        self.commutative = True


def _x(i: int) -> str:
    return f"$x{i}"


def _y(i: int) -> str:
    return f"$y{i}"


class _Join:
    """What one value is: `op` of x and `y`, with the identity."""

    __slots__ = ("op", "y", "identity")

    def __init__(self, op: Expr, y: Expr | None, identity: Expr) -> None:
        self.op = op
        self.y = y
        self.identity = identity


class _ReplaceSelf(Rewriter):
    """Puts a variable in the place of each reference to the same element of the Func."""

    def __init__(self, func: str, args: Sequence[Expr]) -> None:
        super().__init__()
        self.func = func
        self.args = args
        self.elsewhere = False

    def rewrite_Call(self, node: Call) -> Expr:
        if node.kind is not CallKind.FUNC or node.name != self.func:
            rebuilt: Expr = self.rebuild(node)
            return rebuilt
        for own, arg in zip(self.args, node.args, strict=True):
            if own is not arg:
                self.elsewhere = True
        return Variable(node.type, _x(node.value_index))


def is_constant_assignment(func: str, args: Sequence[Expr], values: Sequence[Expr]) -> bool:
    """Whether an update stores values that depend neither on the Func nor on an RVar."""
    for n in iterate(*args, *values):
        if type(n) is Call and n.kind is CallKind.FUNC and n.name == func:
            return False
    for n in iterate(*values):
        if type(n) is Variable and isinstance(n.source, ReductionDomain):
            return False
    return True


def prove_associativity(
    func: str, args: Sequence[Expr], values: Sequence[Expr]
) -> Associative | None:
    """The operation of the update `func[args] = values`, or None where it has no known form."""
    with deep_recursion():
        return _prove(func, args, values)


def _prove(func: str, args: Sequence[Expr], values: Sequence[Expr]) -> Associative | None:
    own_args = [reintern(arg) for arg in args]
    replace = _ReplaceSelf(func, own_args)
    replaced = [replace(reintern(value)) for value in values]
    if replace.elsewhere:
        return None
    joins = _join_values(replaced)
    if joins is None:
        return None
    proof = Associative(len(values))
    for i, join in enumerate(joins):
        proof.ops.append(join.op)
        proof.identities.append(join.identity)
        if join.y is not None:
            proof.ys[i] = (_y(i), join.y)
    return proof


def _uses(e: Expr, size: int) -> list[int]:
    free = free_variables(e)
    return [i for i in range(size) if _x(i) in free]


def _join_values(values: list[Expr]) -> list[_Join] | None:
    size = len(values)
    joins: list[_Join | None] = [None] * size
    dependent = []
    for i, value in enumerate(values):
        if _uses(value, size) == [i]:
            joins[i] = _join_single(value, i)
        else:
            dependent.append(i)
    if dependent:
        if size == 2 and len(dependent) == 2:
            found = _join_complex(values)
            if found is not None:
                return found
        for i in dependent:
            joins[i] = _join_chosen(values, joins, i)
    result = []
    for join in joins:
        if join is None:
            return None
        result.append(join)
    return result


def _least(t: Type) -> Expr:
    return const(t, t.min_value())


def _greatest(t: Type) -> Expr:
    return const(t, t.max_value())


_OPERATORS: Final = {
    Mul: lambda t: const(t, 1),
    Min: _greatest,
    Max: _least,
    And: lambda t: const(t, 1),
    Or: lambda t: const(t, 0),
}


def _join_single(e: Expr, i: int) -> _Join | None:
    t = e.type
    x = Variable(t, _x(i))
    y = Variable(t, _y(i))
    if e is x:
        return _Join(x, None, const(t, 0))
    if type(e) in (Add, Sub):
        rest = _rest_of_sum(e, x)
        return None if rest is None else _Join(add(x, y), rest, const(t, 0))
    if isinstance(e, Binary) and type(e) in _OPERATORS:
        cls = type(e)
        rest = _rest_of(e, cls, x)
        return None if rest is None else _Join(cls(x, y), rest, _OPERATORS[cls](t))
    if type(e) is Select:
        return _join_select(e, x, y)
    return _join_saturating(e, x, i)


def _free_of(e: Expr, x: Variable) -> bool:
    return x.name not in free_variables(e)


def _rest_of(e: Binary, cls: type[Binary], x: Variable) -> Expr | None:
    """What is joined with x in a tree of one commutative operation, or None."""
    operands: list[Expr] = []
    stack: list[Expr] = [e]
    while stack:
        n = stack.pop()
        if type(n) is cls and not _free_of(n, x):
            stack += [n.b, n.a]  # type: ignore[attr-defined]
        else:
            operands.append(n)
    rest: Expr | None = None
    found = 0
    for operand in operands:
        if operand is x:
            found += 1
        elif _free_of(operand, x):
            rest = operand if rest is None else cls(rest, operand)
        else:
            return None
    return rest if found == 1 else None


def _rest_of_sum(e: Expr, x: Variable) -> Expr | None:
    """What is added to x in a tree of sums and differences, or None."""
    terms: list[tuple[Expr, bool]] = []
    stack = [(e, True)]
    while stack:
        n, positive = stack.pop()
        if type(n) in (Add, Sub) and not _free_of(n, x):
            a, b = n.a, n.b  # type: ignore[attr-defined]
            stack += [(b, positive == (type(n) is Add)), (a, positive)]
        else:
            terms.append((n, positive))
    rest: Expr | None = None
    found = 0
    for term, positive in terms:
        if term is x:
            if not positive:
                return None
            found += 1
        elif not _free_of(term, x):
            return None
        elif rest is None:
            rest = term if positive else mul(term, const(term.type, -1))
        else:
            rest = add(rest, term) if positive else sub(rest, term)
    return rest if found == 1 else None


_GREATER: Final = frozenset([GT, GE])
_LESS: Final = frozenset([LT, LE])


def _order(condition: Expr, x: Variable) -> tuple[str, Expr] | None:
    """("<" or ">", other) where the condition compares x with another value, x on the left."""
    cls = type(condition)
    if cls not in _GREATER and cls not in _LESS:
        return None
    a, b = condition.a, condition.b  # type: ignore[attr-defined]
    less = cls in _LESS
    if a is x and _free_of(b, x):
        return ("<" if less else ">", b)
    if b is x and _free_of(a, x):
        return (">" if less else "<", a)
    return None


def _join_select(e: Select, x: Variable, y: Variable) -> _Join | None:
    """select(x < y, x, y) and the like: the lesser or the greater value."""
    order = _order(e.condition, x)
    if order is None:
        return None
    sign, other = order
    if e.true_value is x and e.false_value is other:
        least = sign == "<"
    elif e.true_value is other and e.false_value is x:
        least = sign == ">"
    else:
        return None
    if least:
        return _Join(Min(x, y), other, _greatest(e.type))
    return _Join(Max(x, y), other, _least(e.type))


def _join_saturating(e: Expr, x: Variable, i: int) -> _Join | None:
    t = e.type
    if t.kind != "uint" or t.width == 1:
        return None
    zero = const(t, 0)
    if type(e) is Call and e.is_intrinsic("saturating_add"):
        return _saturating_sum(e, x, i)
    if type(e) is Call and e.is_intrinsic("saturating_cast"):
        inner = e.args[0]
        if type(inner) is Call and inner.is_intrinsic("widening_add"):
            return _saturating_sum(inner, x, i, e)
        return None
    # u8(min(u16(x) + y, 255)) and the like.
    if type(e) is Cast and type(e.value) is Min:
        limit = e.value.b
        total = e.value.a
        if constant_value(limit) is None or type(total) is not Add:
            return None
        for wide, other in ((total.a, total.b), (total.b, total.a)):
            if type(wide) is Cast and wide.value is x and _free_of(other, x):
                y = Variable(other.type, _y(i))
                return _Join(Cast(t, Min(Add(wide, y), limit)), other, zero)
    return None


def _saturating_sum(e: Call, x: Variable, i: int, outer: Call | None = None) -> _Join | None:
    for own, other in ((e.args[0], e.args[1]), (e.args[1], e.args[0])):
        if own is x and _free_of(other, x) and other.type is x.type:
            op: Expr = e.with_children([x, Variable(other.type, _y(i))])
            if outer is not None:
                op = outer.with_children([op])
            return _Join(op, other, const(x.type, 0))
    return None


def _join_chosen(values: list[Expr], joins: list[_Join | None], i: int) -> _Join | None:
    """A value that is chosen by the comparison that makes another one the least or greatest."""
    e = values[i]
    uses = [j for j in _uses(e, len(values)) if j != i]
    if type(e) is not Select or len(uses) != 1:
        return None
    key = uses[0]
    by = joins[key]
    if by is None or by.y is None or type(by.op) not in (Min, Max):
        return None
    x_key = Variable(values[key].type, _x(key))
    order = _order(e.condition, x_key)
    if order is None or order[1] is not by.y:
        return None
    keeps_old = (order[0] == "<") == (type(by.op) is Min)
    x = Variable(e.type, _x(i))
    old, new = (e.true_value, e.false_value) if keeps_old else (e.false_value, e.true_value)
    if old is not x or not _free_of(new, x) or not _free_of(new, x_key):
        return None
    y = Variable(e.type, _y(i))
    condition = e.condition
    y_key = Variable(x_key.type, _y(key))
    assert isinstance(condition, Binary)
    swapped = condition.b is x_key
    condition = type(condition)(y_key, x_key) if swapped else type(condition)(x_key, y_key)
    op = Select(condition, x, y) if keeps_old else Select(condition, y, x)
    return _Join(op, new, const(e.type, 0))


def _coefficients(e: Expr, xs: Sequence[Variable]) -> dict[int, Expr] | None:
    """e as a sum of x_i times a factor free of x; None where it is not."""
    if type(e) in (Add, Sub):
        a = _coefficients(e.a, xs)  # type: ignore[attr-defined]
        b = _coefficients(e.b, xs)  # type: ignore[attr-defined]
        if a is None or b is None or set(a) & set(b):
            return None
        if type(e) is Sub:
            b = {i: mul(c, const(c.type, -1)) for i, c in b.items()}
        return a | b
    if type(e) is Mul:
        for x, factor in ((e.a, e.b), (e.b, e.a)):
            if x in xs and all(_free_of(factor, other) for other in xs):
                return {xs.index(x): factor}  # type: ignore[arg-type]
    return None


def _join_complex(values: list[Expr]) -> list[_Join] | None:
    """x0 y0 - x1 y1 and x1 y0 + x0 y1: the product of two complex numbers."""
    t = values[0].type
    if values[1].type is not t:
        return None
    xs = [Variable(t, _x(0)), Variable(t, _x(1))]
    ys = [Variable(t, _y(0)), Variable(t, _y(1))]
    real = _coefficients(values[0], xs)
    imaginary = _coefficients(values[1], xs)
    if real is None or imaginary is None or len(real) != 2 or len(imaginary) != 2:
        return None
    a, b = real[0], imaginary[0]
    if imaginary[1] is not a or real[1] is not mul(b, const(t, -1)):
        return None
    return [
        _Join(sub(mul(xs[0], ys[0]), mul(xs[1], ys[1])), a, const(t, 1)),
        _Join(add(mul(xs[1], ys[0]), mul(xs[0], ys[1])), b, const(t, 0)),
    ]
