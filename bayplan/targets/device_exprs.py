"""How expressions of kernels are written: as in C, but for what C has from its compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir.errors import InternalError, ScheduleError
from bayplan.ir.intrinsics import MATHS
from bayplan.ir.types import Type
from bayplan.targets import c_calls
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_scalars import SCALAR_RULES, cast_scalar, narrow, suffix
from bayplan.targets.c_text import ADD, ATOM, MUL, UNARY, Text, binary, call, literal

if TYPE_CHECKING:
    from bayplan.targets.kernels import DeviceWriter

_REFUSED: Final = {
    "print": "prints",
    "print_when": "prints",
    "require": "has a requirement",
}


def _const(w: DeviceWriter, e: E.Const) -> Text:
    t = e.type
    if t.kind != "float":
        return literal(t, e.value)
    value = float(e.value)
    before = "(double)" if t.width == 64 else ""
    if value != value:
        return f"{before}BP_NAN", UNARY
    if value in (float("inf"), float("-inf")):
        return f"{before}{'-' if value < 0 else ''}BP_INFINITY", UNARY
    return literal(Type("float", max(t.width, 32)), value)


def _mod(w: DeviceWriter, e: E.Mod) -> Text:
    t = e.type
    if t.kind != "float":
        return SCALAR_RULES[E.Mod](w, e)
    a, b = w.scalar(e.a), w.scalar(e.b)
    quotient = call(w.language.maths("floor", t.width), binary("/", MUL, a, b))
    return narrow(t, binary("-", ADD, a, binary("*", MUL, quotient, b)))


def _call(w: DeviceWriter, e: E.Call) -> Text:
    name = e.name
    if e.kind in (E.CallKind.EXTERN, E.CallKind.PURE_EXTERN):
        if name in MATHS:
            return _maths(w, e)
        raise ScheduleError(
            f"{w.title} calls the C function {name!r}, which a kernel cannot do",
            w.where,
            hint="compute what calls it on the host",
        )
    rule: Any = _CALLS.get(name) or c_calls.SCALAR_CALLS.get(name)
    if rule is not None:
        return rule(w, e)  # type: ignore[no-any-return]
    what = _REFUSED.get(name)
    if what is None:
        raise InternalError(f"kernels have no form for the intrinsic {name!r}")
    raise ScheduleError(
        f"{w.title} {what}, which a kernel cannot do",
        getattr(e.target, "where", None) or w.where,
        hint="schedule the Func that does it on the host",
    )


def _maths(w: DeviceWriter, e: E.Call) -> Text:
    t = e.args[0].type
    language = w.language
    args = [w.scalar(a) for a in e.args]
    name = e.name
    one: Text = ("1.0" if t.width == 64 else "1.0f", ATOM)
    if name in ("is_nan", "is_inf", "is_finite"):
        test = name.replace("_", "")
        return f"({language.maths(test, t.width)}({args[0][0]}) != 0)", ATOM
    if name == "fast_inverse":
        return narrow(t, binary("/", MUL, one, args[0]))
    if name == "fast_inverse_sqrt":
        return narrow(t, binary("/", MUL, one, call(language.maths("sqrt", t.width), args[0])))
    return narrow(t, call(language.maths(name, t.width), *args))


def _count_bits(w: DeviceWriter, e: E.Call) -> Text:
    t = e.type
    unsigned = t.with_code("uint")
    a = cast_scalar(w.scalar(e.args[0]), t, unsigned)
    width = max(t.width, 32)
    wide, c = f"uint{width}_t", scalar_type(unsigned)
    name = f"{e.name}_{suffix(unsigned)}"
    count = w.language.count_bits(e.name, width)
    if e.name == "count_leading_zeros" and width > t.width:
        count = f"{count} - {width - t.width}"
    if e.name != "popcount":
        count = f"x ? {count} : {t.width}"
    body = f"const {wide} a = x; return ({c})({count});"
    w.helpers.function(name, lambda: f"BP_INLINE {c} {name}({c} x) {{ {body} }}")
    return cast_scalar(call(name, a), unsigned, t)


def _reinterpret(w: DeviceWriter, e: E.Call) -> Text:
    source, t = e.args[0].type, e.type
    halves = "float" in (source.kind, t.kind) and 16 in (source.width, t.width)
    if source is not t and "float" in (source.kind, t.kind) and not halves:
        function = w.language.reinterpret(t)
        if function is not None:
            return call(function, w.scalar(e.args[0]))
    return c_calls.SCALAR_CALLS["reinterpret"](w, e)


def _fma(w: DeviceWriter, e: E.Call) -> Text:
    function = w.language.maths("fma", e.type.width)
    return narrow(e.type, call(function, *[w.scalar(a) for a in e.args]))


def _strict(w: DeviceWriter, e: E.Call) -> Text:
    """A value no product of which is fused into a sum."""
    w.device.strict = True
    value = w.measure.resolve(e.args[0])
    t = e.type
    if isinstance(value, E.Mul) and t.kind == "float":
        function = w.language.strict_product(t)
        if function is not None:
            return narrow(t, call(function, w.scalar(value.a), w.scalar(value.b)))
    return w.scalar(c_calls.strict_operands(value))


def _nothing(w: DeviceWriter, e: E.Call) -> Text:
    return "0", ATOM


def _shuffle(w: DeviceWriter, e: E.Call) -> Text:
    """Narrow values go as 32 bits; float16, which is computed as float32, goes as that."""
    t = e.type
    value = w.scalar(e.args[0])
    shown = t.element_of()
    if t.kind != "float":
        shown = Type("uint", max(t.width, 32))
        value = cast_scalar(value, t, shown)
    w.exchanges = True
    lanes = int(build.constant_value(e.args[2]) or 0)
    text = w.language.shuffle(e.name, value[0], w.scalar(e.args[1])[0], lanes)
    if text is None:
        raise InternalError(f"{w.language.name} has no exchange between lanes")
    return cast_scalar((text, ATOM), shown, t)


_CALLS: Final[dict[str, Callable[[Any, Any], Text]]] = {
    "popcount": _count_bits,
    "count_leading_zeros": _count_bits,
    "count_trailing_zeros": _count_bits,
    "reinterpret": _reinterpret,
    "fma": _fma,
    "strict_float": _strict,
    "warp_shuffle": _shuffle,
    "warp_shuffle_up": _shuffle,
    "warp_shuffle_down": _shuffle,
    "warp_shuffle_xor": _shuffle,
    "prefetch": _nothing,
    "undef": _nothing,
}

DEVICE_RULES: Final[dict[type, Callable[[Any, Any], Text]]] = {
    **SCALAR_RULES,
    E.Const: _const,
    E.Mod: _mod,
    E.Call: _call,
}
