"""Maths functions of vectors: by lanes where the machine has them, else by polynomials or libm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bayplan.ir import exprs as E
from bayplan.targets.c_helpers import VectorType
from bayplan.targets.c_text import ATOM, MUL, Text, binary, call

if TYPE_CHECKING:
    from bayplan.targets.c_writer import Writer

_LANES: Final = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "rint", "trunc": "trunc",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "atan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh",
    "acosh": "acosh", "atanh": "atanh", "pow": "pow", "exp": "exp", "log": "log",
    "hypot": "hypot", "erf": "erf", "fast_exp": "exp", "fast_log": "log", "fast_pow": "pow",
    "fast_sin": "sin", "fast_cos": "cos", "fast_atan": "atan", "fast_atan2": "atan2",
    "fast_tanh": "tanh",
}  # fmt: skip

# exp: x = n ln 2 + r, a polynomial of r (relative error 2e-7), then 2**n by the exponent's bits.
# n is split in two, so that results near the ends of the range come out right.
_EXP: Final = """BP_INLINE {v} exp_{v}({v} x) {{
    {v} n = x * 1.44269504f;
    for (int k = 0; k < {lanes}; k++) n[k] = __builtin_rintf(n[k]);
    n = {min}({max}(n, {all}(-151.0f)), {all}(129.0f));
    const {v} r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    {v} p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const {i} m = __builtin_convertvector(n, {i}), half = m >> 1;
    p = p * ({v})((half + 127) << 23) * ({v})((m - half + 127) << 23);
    p = {select}(x > 104.0f, {all}(__builtin_inff()), p);
    return {select}(x < -104.0f, {all}(0.0f), {select}(x == x, p, x));
}}"""

# log: x = 2**e m with m in [sqrt(1/2), sqrt(2)), a polynomial of m - 1.
_LOG: Final = """BP_INLINE {v} log_{v}({v} x) {{
    const {i} tiny = x < 1.17549435e-38f;
    const {i} bits = ({i}){select}(tiny, x * 8388608.0f, x);
    const {i} top = ({i})(({u})bits - 0x3f3504f3u) >> 23;
    const {v} m = ({v})(({u})bits - (({u})top << 23)) - 1.0f;
    const {v} e = __builtin_convertvector(top - (tiny & 23), {v});
    const {v} z = m * m;
    {v} p = m * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z - e * 2.12194440e-4f - z * 0.5f;
    p = m + p + e * 0.693359375f;
    p = {select}(x == __builtin_inff(), x, p);
    p = {select}(x == 0.0f, {all}(-__builtin_inff()), p);
    return {select}(x >= 0.0f, p, {all}(__builtin_nanf("")));
}}"""


def _polynomial(w: Writer, name: str, v: VectorType) -> str:
    from bayplan.targets.c_vectors import extreme_helper

    names = {
        "v": w.helpers.type(v),
        "i": w.helpers.type(v.mask()),
        "u": w.helpers.type(v.with_kind("uint")),
        "lanes": v.lanes,
        "min": extreme_helper(w, v, "min"),
        "max": extreme_helper(w, v, "max"),
        "all": w.helpers.all(v),
        "select": w.helpers.select(v),
    }
    text = _EXP if name == "exp" else _LOG
    return w.helpers.function(f"{name}_{v.name}", lambda: text.format(**names))


def vector_maths(w: Writer, e: E.Call, first: int, lanes: int) -> Text:
    """A piece of a maths function of vectors."""
    name = e.name
    v = w.vector_type(e.type, lanes)
    args = [w.vector(a, first, lanes) for a in e.args]
    f = "" if v.width == 64 else "f"
    half = e.type.width == 16
    if name in ("exp", "fast_exp", "log", "fast_log") and v.width == 32:
        text = call(_polynomial(w, name.removeprefix("fast_"), v), *args)
    elif name in ("fast_inverse", "fast_inverse_sqrt"):
        value = args[0]
        if name == "fast_inverse_sqrt":
            helper = f"sqrt_{v.name}"
            w.helpers.per_lane(helper, v, v, 1, f"__builtin_sqrt{f}(a[k])")
            value = call(helper, value)
        text = binary("/", MUL, (f"1.0{f}", ATOM), value)
    else:
        function = _LANES[name]
        letters = ", ".join([f"{x}[k]" for x in "abc"[: len(args)]])
        helper = f"{name}_{v.name}"
        w.helpers.per_lane(helper, v, v, len(args), f"__builtin_{function}{f}({letters})")
        text = call(helper, *args)
    if half:
        from bayplan.targets.c_vectors import round_half

        text = round_half(w, text, lanes)
    return text
