"""How scalar expressions are written in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.types import Type
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_text import (
    ADD,
    ATOM,
    BIT,
    CHOICE,
    EQUAL,
    LOGIC,
    MUL,
    ORDER,
    SHIFT,
    UNARY,
    Text,
    binary,
    call,
    cast,
    literal,
    wrap,
)

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer


def wraps(t: Type) -> bool:
    """Whether C computes the type in int, so that results must be cut back."""
    return t.kind in ("int", "uint") and t.width in (8, 16)


def narrow(t: Type, text: Text) -> Text:
    """A result of arithmetic cut back to its type."""
    if wraps(t):
        return cast(scalar_type(t), text)
    if t.kind == "float" and t.width == 16:
        return f"bp_round_half({text[0]})", ATOM
    return text


def suffix(t: Type) -> str:
    """The type's mark in names of helpers: `u16`."""
    return {"int": "i", "uint": "u", "float": "f"}[t.kind] + str(max(t.width, 8))


def _const(w: Writer, e: E.Const) -> Text:
    if e.type.kind == "float" and e.type.width == 16:
        return literal(Type("float", 32), e.value)
    return literal(e.type, e.value)


def _variable(w: Writer, e: E.Variable) -> Text:
    return w.variable(e).text, ATOM


def _string(w: Writer, e: E.StringImm) -> Text:
    from bayplan.targets.c_text import string_literal

    return string_literal(e.value), ATOM


def _arithmetic(op: str, precedence: int) -> Callable[[Writer, E.Binary], Text]:
    def rule(w: Writer, e: E.Binary) -> Text:
        t = e.type
        a, b = w.scalar(e.a), w.scalar(e.b)
        if op == "*" and t.kind == "uint" and t.width == 16:
            # The promoted product would overflow int.
            return cast("uint16_t", binary(op, precedence, cast("uint32_t", a), b))
        return narrow(t, binary(op, precedence, a, b))

    return rule


def _positive(e: E.Expr) -> int:
    """The value of a constant over zero, else 0."""
    value = build.constant_value(e)
    return int(value) if value is not None and value > 0 else 0


def _div(w: Writer, e: E.Div) -> Text:
    t = e.type
    a = w.scalar(e.a)
    if t.kind == "float":
        return narrow(t, binary("/", MUL, a, w.scalar(e.b)))
    b = _positive(e.b)
    if b and t.kind == "uint":
        return binary("/", MUL, a, w.scalar(e.b))
    if b and b & (b - 1) == 0:
        return narrow(t, binary(">>", SHIFT, a, (str(b.bit_length() - 1), ATOM)))
    return call(division_helper(w, t, "div"), a, w.scalar(e.b))


def _mod(w: Writer, e: E.Mod) -> Text:
    t = e.type
    a = w.scalar(e.a)
    b = _positive(e.b)
    if t.kind == "float":
        floor = "__builtin_floor" if t.width == 64 else "__builtin_floorf"
        second = w.scalar(e.b)
        quotient = call(floor, binary("/", MUL, a, second))
        return narrow(t, binary("-", ADD, a, binary("*", MUL, quotient, second)))
    if b and t.kind == "uint":
        return binary("%", MUL, a, w.scalar(e.b))
    if b and b & (b - 1) == 0:
        return binary("&", BIT, a, literal(t, b - 1))
    return call(division_helper(w, t, "mod"), a, w.scalar(e.b))


def division_helper(w: Writer, t: Type, which: str) -> str:
    """The function for division or remainder as the language has them."""
    c, name = scalar_type(t), f"{which}_{suffix(t)}"

    def make() -> str:
        head = f"BP_INLINE {c} {name}({c} a, {c} b) {{\n"
        if t.kind == "uint":
            op = "/" if which == "div" else "%"
            return f"{head}    return b ? ({c})(a {op} b) : 0;\n}}"
        wide = "int64_t" if t.width == 64 else "int32_t"
        unsigned = "u" + wide
        if which == "div":
            return (
                f"{head}    if (b == 0) return 0;\n"
                f"    if (b == -1) return ({c})(0 - ({unsigned})a);\n"
                f"    const {wide} q = a / b, r = a % b;\n"
                f"    return ({c})(r < 0 ? (b > 0 ? q - 1 : q + 1) : q);\n}}"
            )
        return (
            f"{head}    if (b == 0 || b == -1) return 0;\n"
            f"    const {wide} r = a % b;\n"
            f"    return ({c})(r < 0 ? (b > 0 ? r + b : r - b) : r);\n}}"
        )

    return w.helpers.function(name, make)


def _extreme(which: str, op: str) -> Callable[[Writer, E.Binary], Text]:
    def rule(w: Writer, e: E.Binary) -> Text:
        t = e.type
        a, b = w.scalar(e.a), w.scalar(e.b)
        if t.width == 1:
            return binary("&&" if which == "min" else "||", LOGIC, a, b)
        c, name = scalar_type(t), f"{which}_{suffix(t)}"
        w.helpers.function(
            name,
            lambda: f"BP_INLINE {c} {name}({c} a, {c} b) {{ return a {op} b ? a : b; }}",
        )
        return call(name, a, b)

    return rule


def _compare(op: str, precedence: int) -> Callable[[Writer, E.Compare], Text]:
    def rule(w: Writer, e: E.Compare) -> Text:
        return binary(op, precedence, w.scalar(e.a), w.scalar(e.b))

    return rule


def _logic(op: str) -> Callable[[Writer, E.Binary], Text]:
    def rule(w: Writer, e: E.Binary) -> Text:
        return binary(op, LOGIC, w.scalar(e.a), w.scalar(e.b))

    return rule


def _not(w: Writer, e: E.Not) -> Text:
    return f"!{wrap(w.scalar(e.value), UNARY)}", UNARY


def _select(w: Writer, e: E.Select) -> Text:
    c = w.scalar(e.condition)
    a, b = w.scalar(e.true_value), w.scalar(e.false_value)
    text = f"{wrap(c, ADD)} ? {wrap(a, LOGIC)} : {wrap(b, LOGIC)}"
    return text, CHOICE


def _cast(w: Writer, e: E.Cast) -> Text:
    value = w.scalar(e.value)
    return cast_scalar(value, e.value.type, e.type)


def cast_scalar(value: Text, source: Type, t: Type) -> Text:
    """The value converted from one element type to another."""
    if source is t:
        return value
    if t.width == 1:
        return binary("!=", EQUAL, value, ("0", ATOM))
    if t.kind == "handle":
        return cast("void *", cast("uintptr_t", value))
    if source.kind == "handle":
        return cast(scalar_type(t), cast("uintptr_t", value))
    if t.kind == "float" and t.width == 16:
        return call("bp_round_half", cast("float", value))
    if source.kind == "float" and t.kind in ("int", "uint") and t.width < 64:
        # Through a type that holds what the lesser one cuts off.
        wide = "int64_t" if t.kind == "uint" and t.width == 32 else "int32_t"
        inner = cast(wide, value)
        return inner if t.kind == "int" and t.width == 32 else cast(scalar_type(t), inner)
    return cast(scalar_type(t), value)


def _load(w: Writer, e: E.Load) -> Text:
    from bayplan.targets.c_access import load_scalar

    return load_scalar(w, e)


def _shuffle(w: Writer, e: E.Shuffle) -> Text:
    """One lane of a vector."""
    at = e.indices[0]
    for v in e.vectors:
        if at < v.type.lane_count:
            break
        at -= v.type.lane_count
    source = w.measure.resolve(v)
    if type(source) is not E.Variable:
        return w.scalar(w.measure.lane(source, at))
    pieces = w.variable(source).pieces
    assert pieces is not None
    if pieces.leading:
        return f"{at} < {pieces.leading}", ORDER
    for first, lanes, text in pieces.parts:
        if first <= at < first + lanes:
            if lanes == 1:
                return text, ATOM
            if pieces.type.width == 1:
                return f"{text}[{at - first}] != 0", EQUAL
            return f"{text}[{at - first}]", ATOM
    raise AssertionError("a lane outside of its vector")


def _reduce(w: Writer, e: E.VectorReduce) -> Text:
    from bayplan.targets.c_reduce import reduce_to_scalar

    return reduce_to_scalar(w, e)


def _call(w: Writer, e: E.Call) -> Text:
    from bayplan.targets.c_calls import call_scalar

    return call_scalar(w, e)


SCALAR_RULES: Final[dict[type, Callable[[Writer, Any], Text]]] = {
    E.Const: _const,
    E.Variable: _variable,
    E.StringImm: _string,
    E.Add: _arithmetic("+", ADD),
    E.Sub: _arithmetic("-", ADD),
    E.Mul: _arithmetic("*", MUL),
    E.Div: _div,
    E.Mod: _mod,
    E.Min: _extreme("min", "<"),
    E.Max: _extreme("max", ">"),
    E.EQ: _compare("==", EQUAL),
    E.NE: _compare("!=", EQUAL),
    E.LT: _compare("<", ORDER),
    E.LE: _compare("<=", ORDER),
    E.GT: _compare(">", ORDER),
    E.GE: _compare(">=", ORDER),
    E.And: _logic("&&"),
    E.Or: _logic("||"),
    E.Not: _not,
    E.Select: _select,
    E.Cast: _cast,
    E.Load: _load,
    E.Shuffle: _shuffle,
    E.VectorReduce: _reduce,
    E.Call: _call,
}
