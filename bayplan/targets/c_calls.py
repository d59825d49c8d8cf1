"""How intrinsics, maths functions and the user's own C functions are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.intrinsics import MATHS
from bayplan.ir.types import Type
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_scalars import cast_scalar, division_helper, narrow, suffix
from bayplan.targets.c_text import (
    ATOM,
    BIT,
    MUL,
    SHIFT,
    UNARY,
    Text,
    binary,
    call,
    cast,
    wrap,
)

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer

BITWISE: Final = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}

# Names of the functions of math.h, without the f of the float32 forms.
_LIBM: Final = {
    "round": "rint", "fast_exp": "exp", "fast_log": "log", "fast_pow": "pow", "fast_sin": "sin",
    "fast_cos": "cos", "fast_atan": "atan", "fast_atan2": "atan2", "fast_tanh": "tanh",
}  # fmt: skip


def call_scalar(w: Writer, e: E.Call) -> Text:
    """A scalar call."""
    name = e.name
    if e.kind in (E.CallKind.EXTERN, E.CallKind.PURE_EXTERN):
        if name in MATHS:
            return _maths(w, e)
        return _extern(w, e)
    rule = SCALAR_CALLS.get(name)
    if rule is None:
        from bayplan.targets.c_effects import effect

        return effect(w, e)
    return rule(w, e)


def _maths(w: Writer, e: E.Call) -> Text:
    t = e.args[0].type
    args = [w.scalar(a) for a in e.args]
    name = e.name
    f = "" if t.width == 64 else "f"
    if name == "is_nan":
        return f"(__builtin_isnan({args[0][0]}) != 0)", ATOM
    if name == "is_inf":
        return f"(__builtin_isinf({args[0][0]}) != 0)", ATOM
    if name == "is_finite":
        return f"(__builtin_isfinite({args[0][0]}) != 0)", ATOM
    if name == "fast_inverse":
        return narrow(t, binary("/", MUL, (f"1.0{f}", ATOM), args[0]))
    if name == "fast_inverse_sqrt":
        root = call(f"__builtin_sqrt{f}", args[0])
        return narrow(t, binary("/", MUL, (f"1.0{f}", ATOM), root))
    return narrow(t, call(f"__builtin_{_LIBM.get(name, name)}{f}", *args))


def _extern(w: Writer, e: E.Call) -> Text:
    """A C function of the user's; declared by the types of the call."""
    parameters = ", ".join([scalar_type(a.type) for a in e.args]) or "void"
    w.unit.externs[e.name] = f"extern {scalar_type(e.type)} {e.name}({parameters});"
    text = call(e.name, *[w.scalar(a) for a in e.args])
    if e.kind is E.CallKind.EXTERN:
        text = w.local(scalar_type(e.type), text[0])
    return text


def _bitwise(w: Writer, e: E.Call) -> Text:
    a, b = w.scalar(e.args[0]), w.scalar(e.args[1])
    if e.type.kind == "float":
        return _float_bits(e, a, b)
    return binary(BITWISE[e.name], BIT, a, b)


def _float_bits(e: E.Call, a: Text, b: Text) -> Text:
    from bayplan.ir.errors import InternalError

    raise InternalError(f"{e.name} of floats was not turned into integers: {a[0]}, {b[0]}")


def _bitwise_not(w: Writer, e: E.Call) -> Text:
    a = w.scalar(e.args[0])
    if e.type.width == 1:
        return f"!{wrap(a, UNARY)}", UNARY
    return narrow(e.type, (f"~{wrap(a, UNARY)}", UNARY))


def _shift(w: Writer, e: E.Call) -> Text:
    left = e.name == "shift_left"
    t = e.type
    value = build.constant_value(e.args[1])
    a = w.scalar(e.args[0])
    if value is not None:
        amount = int(value)
        if amount < 0:
            left, amount = not left, -amount
        amount = min(amount, t.width - 1)
        b: Text = (str(amount), ATOM)
        if not left:
            return binary(">>", SHIFT, a, b)
        return _shift_up(t, a, b)
    b = w.scalar(e.args[1])
    if e.args[1].type.kind == "uint":
        return _shift_up(t, a, b) if left else binary(">>", SHIFT, a, b)
    return call(_shift_helper(w, t, e.args[1].type, left), a, b)


def _shift_up(t: Type, a: Text, b: Text) -> Text:
    """a << b without overflow of a signed type."""
    if t.kind == "int" or t.width < 32:
        unsigned = "uint64_t" if t.width == 64 else "uint32_t"
        return cast(scalar_type(t), binary("<<", SHIFT, cast(unsigned, a), b))
    return binary("<<", SHIFT, a, b)


def _shift_helper(w: Writer, t: Type, amount: Type, left: bool) -> str:
    """The shift by a signed amount, which shifts the other way when negative."""
    c, b = scalar_type(t), scalar_type(amount)
    name = f"{'shl' if left else 'shr'}_{suffix(t)}_{suffix(amount)}"
    up = _shift_up(t, ("a", ATOM), ("b", ATOM))[0]
    up_minus = _shift_up(t, ("a", ATOM), ("-b", UNARY))[0]
    body = f"b < 0 ? ({c})(a >> -b) : {up}" if left else f"b < 0 ? {up_minus} : ({c})(a >> b)"
    return w.helpers.function(
        name, lambda: f"BP_INLINE {c} {name}({c} a, {b} b) {{ return {body}; }}"
    )


def _count_bits(w: Writer, e: E.Call) -> Text:
    t = e.type
    width = t.width
    unsigned = t.with_code("uint")
    a = cast_scalar(w.scalar(e.args[0]), t, unsigned)
    c, name = scalar_type(unsigned), f"{e.name}_{suffix(unsigned)}"
    ll = "ll" if width == 64 else ""
    body = {
        "popcount": f"return ({c})__builtin_popcount{ll}(a);",
        "count_leading_zeros": f"return ({c})(a ? __builtin_clz{ll}(a) - "
        f"{(64 if ll else 32) - width} : {width});",
        "count_trailing_zeros": f"return ({c})(a ? __builtin_ctz{ll}(a) : {width});",
    }[e.name]
    w.helpers.function(name, lambda: f"BP_INLINE {c} {name}({c} a) {{ {body} }}")
    return cast_scalar(call(name, a), unsigned, t)


def _reinterpret(w: Writer, e: E.Call) -> Text:
    source, t = e.args[0].type, e.type
    if source.lane_count > 1:
        v = w.vector_type(source, source.lane_count)
        return f"bp_unsupported_reinterpret_{v.name}", ATOM
    a = w.scalar(e.args[0])
    if source is t:
        return a
    if source.kind != "float" and t.kind != "float":
        return cast(scalar_type(t), a)
    x, y = scalar_type(source), scalar_type(t)
    name = f"bits_{suffix(source)}_{suffix(t)}"
    if source.kind == "float" and source.width == 16:
        return cast_scalar(call("bp_float_to_half", a), Type("uint", 16), t)
    if t.kind == "float" and t.width == 16:
        return call("bp_half_to_float", a)
    w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE {y} {name}({x} a) {{ union {{ {x} a; {y} b; }} u = {{a}}; "
            "return u.b; }"
        ),
    )
    return call(name, a)


def _fma(w: Writer, e: E.Call) -> Text:
    f = "" if e.type.width == 64 else "f"
    return narrow(e.type, call(f"__builtin_fma{f}", *[w.scalar(a) for a in e.args]))


def _strict(w: Writer, e: E.Call) -> Text:
    """A value that the compiler may not fuse or reorder with its surroundings."""
    c = scalar_type(e.type)
    name = f"strict_{suffix(e.type)}"
    w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE {c} {name}({c} a) {{\n"
            "#if defined(__x86_64__)\n"
            f'    __asm__("" : "+x"(a));\n'
            "#elif defined(__aarch64__)\n"
            f'    __asm__("" : "+w"(a));\n'
            "#endif\n    return a;\n}"
        ),
    )
    return call(name, w.scalar(strict_operands(e.args[0])))


def strict_operands(e: E.Expr) -> E.Expr:
    """The operation with strict operands, so that no product in it is fused into a sum."""
    if isinstance(e, (E.Add, E.Sub)) and e.type.kind == "float":
        children = [
            build.intrinsic(c.type, "strict_float", c) if isinstance(c, E.Mul) else c
            for c in (e.a, e.b)
        ]
        return e.with_children(children)
    return e


def _div_to_zero(w: Writer, e: E.Call) -> Text:
    return call(division_helper(w, e.type, "div"), *[w.scalar(a) for a in e.args])


def _if_then_else(w: Writer, e: E.Call) -> Text:
    """Only the side that is taken is evaluated."""
    c_type = scalar_type(e.type)
    name = w.temp()
    condition = w.scalar(e.args[0])
    w.line(f"{c_type} {name};")
    w.line(f"if ({condition[0]}) {{")
    write_branch(w, name, lambda: w.scalar(e.args[1]))
    w.line("} else {")
    if len(e.args) > 2:
        write_branch(w, name, lambda: w.scalar(e.args[2]))
    else:
        w.line(f"    {name} = 0;")
    w.line("}")
    return name, ATOM


def write_branch(w: Writer, name: str, value: Callable[[], Text]) -> None:
    """Assigns a value, and what it needs, inside the block of an if."""
    saved = dict(w.memo)
    w.depth += 1
    text = value()
    w.line(f"{name} = {text[0]};")
    w.depth -= 1
    w.memo = saved


def _return_second(w: Writer, e: E.Call) -> Text:
    first = w.scalar(e.args[0])
    if first[1] != ATOM:
        w.line(f"(void)({first[0]});")
    return w.scalar(e.args[1])


SCALAR_CALLS: Final[dict[str, Callable[[Writer, E.Call], Text]]] = {
    "bitwise_and": _bitwise,
    "bitwise_or": _bitwise,
    "bitwise_xor": _bitwise,
    "bitwise_not": _bitwise_not,
    "shift_left": _shift,
    "shift_right": _shift,
    "popcount": _count_bits,
    "count_leading_zeros": _count_bits,
    "count_trailing_zeros": _count_bits,
    "reinterpret": _reinterpret,
    "fma": _fma,
    "strict_float": _strict,
    "if_then_else": _if_then_else,
    "return_second": _return_second,
}
