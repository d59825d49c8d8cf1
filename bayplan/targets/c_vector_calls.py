"""How intrinsics of vectors are written in C; maths functions are in `c_maths`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.intrinsics import MATHS
from bayplan.targets.c_calls import BITWISE, strict_operands, write_branch
from bayplan.targets.c_helpers import VectorType
from bayplan.targets.c_maths import vector_maths
from bayplan.targets.c_text import ATOM, BIT, SHIFT, UNARY, Text, binary, call, cast, wrap
from bayplan.targets.c_vectors import assemble, convert, extreme_helper, operand, uniform

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer


def call_vector(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    """A piece of a vector call."""
    if e.kind in (E.CallKind.EXTERN, E.CallKind.PURE_EXTERN):
        if e.name in MATHS:
            return vector_maths(w, e, first, lanes)
        return assemble(w, e, first, lanes)
    rule = _VECTOR.get(e.name)
    if rule is None:
        return assemble(w, e, first, lanes)
    return rule(w, e, first, lanes)


def _args(w: Writer, e: E.Call, first: int, lanes: int) -> list[Text]:
    return [w.vector(a, first, lanes) for a in e.args]


def _vector_bitwise(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    a = w.vector(e.args[0], first, lanes)
    b = operand(w, e.args[1], first, lanes)
    return binary(BITWISE[e.name], BIT, a, b)


def _vector_not(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    return f"~{wrap(w.vector(e.args[0], first, lanes), UNARY)}", UNARY


def _vector_shift(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    left = e.name == "shift_left"
    t = e.type
    a = w.vector(e.args[0], first, lanes)
    v = w.vector_type(t, lanes)
    amount = uniform(e.args[1])
    value = None if amount is None else build.constant_value(amount)
    if value is not None:
        shift = int(value)
        if shift < 0:
            left, shift = not left, -shift
        b: Text = (str(min(shift, t.width - 1)), ATOM)
        return binary("<<" if left else ">>", SHIFT, a, b)
    b = w.vector(e.args[1], first, lanes)
    source = w.vector_type(e.args[1].type, lanes)
    b = convert(w, b, source, v) if source.name != v.name else b
    if e.args[1].type.kind == "uint":
        return binary("<<" if left else ">>", SHIFT, a, b)
    name = f"{'shl' if left else 'shr'}_{v.name}"
    signed = f"({v.element.removeprefix('u')})b[k]"
    up, down = ("<<", ">>") if left else (">>", "<<")
    unsigned = v.element if v.kind == "uint" else "u" + v.element
    shifts = {"<<": f"({v.element})(({unsigned})a[k] << ", ">>": f"({v.element})(a[k] >> "}
    expr = f"{signed} < 0 ? {shifts[down]}-{signed}) : {shifts[up]}{signed})"
    w.helpers.per_lane(name, v, v, 2, expr)
    return call(name, a, b)


def _vector_count(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    return assemble(w, e, first, lanes)


def _vector_reinterpret(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    source = e.args[0].type
    if source.lane_count != e.type.lane_count or source.width != e.type.width:
        return assemble(w, e, first, lanes)
    if 1 in (source.width, e.type.width) or 16 in (
        source.width * (source.kind == "float"),
        e.type.width * (e.type.kind == "float"),
    ):
        return assemble(w, e, first, lanes)
    v = w.vector_type(e.type, lanes)
    return cast(w.helpers.type(v), w.vector(e.args[0], first, lanes))


def _vector_fma(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    v = w.vector_type(e.type, lanes)
    f = "" if v.width == 64 else "f"
    name = f"fma_{v.name}"
    w.helpers.per_lane(name, v, v, 3, f"__builtin_fma{f}(a[k], b[k], c[k])")
    return call(name, *_args(w, e, first, lanes))


def _vector_absd(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    source = w.vector_type(e.args[0].type, lanes)
    low, high = extreme_helper(w, source, "min"), extreme_helper(w, source, "max")
    unsigned = source.with_kind("uint")
    a, b = _args(w, e, first, lanes)
    name = f"absd_{source.name}"
    u = w.helpers.type(unsigned)
    w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE {u} {name}({source.name} a, {source.name} b) "
            f"{{ return ({u}){high}(a, b) - ({u}){low}(a, b); }}"
        ),
    )
    return call(name, a, b)


def _wide_name(w: Writer, v: VectorType) -> str:
    return w.helpers.type(VectorType(v.kind, 2 * v.width, v.lanes))


def _averages(name: str, expr: str, whole: str) -> Callable[[Writer, E.Call, int, int], Text]:
    def rule(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
        v = w.vector_type(e.type, lanes)
        wide = _wide_name(w, v)
        body = whole.replace("A", f"__builtin_convertvector(a, {wide})")
        body = body.replace("B", f"__builtin_convertvector(b, {wide})")
        function = f"{name}_{v.name}"
        w.helpers.per_lane(
            function, v, v, 2, expr, f"__builtin_convertvector({body}, {v.name})"
        )
        return call(function, *_args(w, e, first, lanes))

    return rule


def _halving(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    """(a + b) / 2 without a wider type."""
    a, b = _args(w, e, first, lanes)
    v = w.vector_type(e.type, lanes)
    name = f"halving_add_{v.name}"
    w.helpers.type(v)
    w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE {v.name} {name}({v.name} a, {v.name} b) "
            "{ return (a & b) + ((a ^ b) >> 1); }"
        ),
    )
    return call(name, a, b)


def _saturating(add: bool) -> Callable[[Writer, E.Call, int, int], Text]:
    def rule(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
        v = w.vector_type(e.type, lanes)
        name = f"saturating_{'add' if add else 'sub'}_{v.name}"
        w.helpers.type(v)
        a, b = _args(w, e, first, lanes)
        if v.kind == "uint" and not add:
            high = extreme_helper(w, v, "max")
            body = f"    return {high}(a, b) - b;\n"
        elif v.kind == "uint":
            low = extreme_helper(w, v, "min")
            body = f"    return a + {low}(~a, b);\n"
        else:
            sign = "+" if add else "-"
            wrong = "(a ^ r) & (b ^ r)" if add else "(a ^ b) & (a ^ r)"
            select = w.helpers.select(v)
            top = (1 << (v.width - 1)) - 1
            # Unsigned lanes wrap; signed ones must not overflow.
            lane = w.helpers.type(VectorType("uint", v.width, v.lanes))
            body = (
                f"    const {v.name} r = ({v.name})(({lane})a {sign} ({lane})b);\n"
                f"    return {select}(({wrong}) < 0, (a >> {v.width - 1}) ^ {top}, r);\n"
            )
        w.helpers.function(
            name,
            lambda: f"BP_INLINE {v.name} {name}({v.name} a, {v.name} b) {{\n{body}}}",
        )
        return call(name, a, b)

    return rule


def _vector_strict(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    v = w.vector_type(e.type, lanes)
    name = f"strict_{v.name}"
    w.helpers.type(v)
    w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE {v.name} {name}({v.name} a) {{\n"
            '    __asm__("" : "+m"(a));\n    return a;\n}'
        ),
    )
    return call(name, w.vector(strict_operands(e.args[0]), first, lanes))


def _vector_if(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    condition = uniform(e.args[0]) if e.args[0].type.lane_count > 1 else e.args[0]
    if condition is None:
        return assemble(w, e, first, lanes)
    v = w.vector_type(e.type, lanes)
    name = w.temp()
    text = w.stable_scalar(condition)
    w.line(f"{w.helpers.type(v)} {name} = {{0}};")
    w.line(f"if ({text[0]}) {{")
    write_branch(w, name, lambda: w.vector(e.args[1], first, lanes))
    if len(e.args) > 2:
        w.line("} else {")
        write_branch(w, name, lambda: w.vector(e.args[2], first, lanes))
    w.line("}")
    return name, ATOM


def _high_product(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    v = w.vector_type(e.type, lanes)
    c = "uint32_t" if v.kind == "uint" else "int32_t"
    wide = _wide_name(w, v)
    whole = (
        f"__builtin_convertvector((__builtin_convertvector(a, {wide}) * "
        f"__builtin_convertvector(b, {wide})) >> 16, {v.name})"
    )
    name = f"mul_high_{v.name}"
    w.helpers.per_lane(name, v, v, 2, f"(({c})a[k] * b[k]) >> 16", whole)
    a, b = w.vector(e.args[0], first, lanes), w.vector(e.args[1], first, lanes)
    return call(name, a, b)


_VECTOR: Final[dict[str, Callable[[Writer, Any, int, int], Text]]] = {
    "bitwise_and": _vector_bitwise,
    "bitwise_or": _vector_bitwise,
    "bitwise_xor": _vector_bitwise,
    "bitwise_not": _vector_not,
    "shift_left": _vector_shift,
    "shift_right": _vector_shift,
    "popcount": _vector_count,
    "reinterpret": _vector_reinterpret,
    "fma": _vector_fma,
    "absd": _vector_absd,
    "rounding_halving_add": _averages(
        "average", "(a[k] + b[k] + 1) >> 1", "(A + B + 1) >> 1"
    ),
    "halving_add": _halving,
    "saturating_add": _saturating(True),
    "saturating_sub": _saturating(False),
    "mul_shift_right": _high_product,
    "strict_float": _vector_strict,
    "if_then_else": _vector_if,
}

