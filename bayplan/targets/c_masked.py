"""Loads and stores that leave lanes out, as C functions: under a mask, or of the first lanes only.

gcc makes branches of a loop over lanes. So where the machine has accesses under a mask, the
functions use them through builtins that gcc and clang share; a header with intrinsics would take
longer to compile than most programs. Nothing beyond the named elements is read or written.
"""

from __future__ import annotations

from typing import Final

from bayplan.targets.c_helpers import Helpers, VectorType

# By the width of a lane: what the builtins call its vectors, themselves and their masks.
_AVX512: Final = {
    8: ("char", "dquqi", "b"),
    16: ("short", "dquhi", "w"),
    32: ("float", "ups", "d"),
    64: ("double", "upd", "q"),
}
_AVX: Final = {32: ("float", "ps", "int"), 64: ("double", "pd", "long long")}
_WIDEST_BYTES: Final = 64


def leading(h: Helpers, t: VectorType) -> str:
    """`leading_T(n)`: the mask of the first n lanes; n fits into a lane."""
    h.type(t)
    every = h.all(t)
    steps = ", ".join([str(k) for k in range(t.lanes)])
    return h.function(
        f"leading_{t.name}",
        lambda: (
            f"BP_INLINE {t.name} leading_{t.name}(int32_t n) "
            f"{{ return {every}(({t.element})n) > ({t.name}){{{steps}}}; }}"
        ),
    )


def load_first(h: Helpers, t: VectorType) -> str:
    """`load_first_T(p, n)`: the first n lanes from consecutive elements, 0 in the others."""
    name, result = f"load_first_{t.name}", h.type(t)

    def make() -> str:
        plain = f"    if (n >= {t.lanes}) return {h.load(t)}(p);\n"
        if t.size_bytes <= 32:
            plain += f"    return {_words(h, t)};\n"
        else:
            plain += f"    union {{ {result} v; {t.element} e[{t.lanes}]; }} r = {{{{0}}}};\n"
            plain += f"{_copy_first(t, 'r.e', 'p')}    return r.v;\n"
        head = f"BP_INLINE {result} {name}(const {t.element} *p, int32_t n) {{\n"
        return f"{head}{_choose(h, t, True, '', plain)}}}"

    return h.function(name, make)


def store_first(h: Helpers, t: VectorType) -> str:
    """`store_first_T(p, v, n)`: the first n lanes to consecutive elements."""
    name, value = f"store_first_{t.name}", h.type(t)

    def make() -> str:
        plain = (
            f"    if (n >= {t.lanes}) {{\n        {h.store(t)}(p, v);\n        return;\n    }}\n"
            f"    const union {{ {value} v; {t.element} e[{t.lanes}]; }} r = {{v}};\n"
            f"{_copy_first(t, 'p', 'r.e')}"
        )
        head = f"BP_INLINE void {name}({t.element} *p, {value} v, int32_t n) {{\n"
        return f"{head}{_choose(h, t, True, 'v', plain)}}}"

    return h.function(name, make)


def _words(h: Helpers, t: VectorType) -> str:
    """The vector put together of words of 8 bytes.

    In memory it would wait until its parts are written. But more than 32 bytes are one register
    only where there are accesses under a mask; elsewhere they lie in memory in any case.
    """
    n = "n" if t.width == 8 else f"{t.width // 8} * n"
    if t.size_bytes <= 8:
        return f"({t.name})(uint{8 * t.size_bytes}_t)bp_low_bytes(p, 0, {n})"
    if t.width == 64:
        return f"({t.name}){{{', '.join([f'n > {k} ? p[{k}] : 0' for k in range(t.lanes)])}}}"
    words = VectorType("uint", 64, t.size_bytes // 8)
    parts = [f"bp_low_bytes(p, {8 * k}, {n})" for k in range(words.lanes)]
    return f"({t.name})({h.type(words)}){{\n        {(',' + chr(10) + ' ' * 8).join(parts)}}}"


def _copy_first(t: VectorType, to: str, source: str) -> str:
    """Copies n elements, 0 <= n < lanes: for each power of two a test and a whole move."""
    size = t.lanes // 2
    lines, at = [], ""
    while size > 1:
        step = f" k {'+' if at else ''}= {size};"
        lines.append(
            f"    if (n & {size}) {{ __builtin_memcpy({to}{at}, {source}{at}, "
            f"{size} * sizeof({t.element}));{step} }}\n"
        )
        at = " + k"
        size //= 2
    last = "k" if at else "0"
    if lines:
        lines.insert(0, "    int k = 0;\n")
    return "".join([*lines, f"    if (n & 1) {to}[{last}] = {source}[{last}];\n"])


def masked(h: Helpers, what: str, t: VectorType, index: VectorType | None) -> str:
    """Loads, stores, gathers and scatters that leave out the lanes where the mask is 0."""
    mask, vector = h.type(t.mask()), h.type(t)
    name = f"masked_{what}_{t.name}" + (f"_{index.name}" if index else "")
    where = "i[k]" if index else "k"
    parameter = f", {h.type(index)} i" if index else ""
    loop = f"    for (int k = 0; k < {t.lanes}; k++)\n        if (m[k]) "

    def make() -> str:
        if what in ("load", "gather"):
            head = f"BP_INLINE {vector} {name}(const {t.element} *p{parameter}, {mask} m) {{\n"
            value, body = "", f"    {vector} r = {{0}};\n{loop}r[k] = p[{where}];\n    return r;\n"
        else:
            head = f"BP_INLINE void {name}({t.element} *p{parameter}, {vector} v, {mask} m) {{\n"
            value, body = "v", f"{loop}p[{where}] = v[k];\n"
        return f"{head}{body if index else _choose(h, t, False, value, body)}}}"

    return h.function(name, make)


# With builtins where the machine has accesses under a mask


def _choose(h: Helpers, t: VectorType, first: bool, value: str, plain: str) -> str:
    """The body of a load, or of a store of `value`, in each of its forms."""
    if t.size_bytes > _WIDEST_BYTES:
        return plain
    at = max(16, t.size_bytes)
    verb = "store" if value else "load"
    element, middle, _ = _AVX512[t.width]
    other = f"BP_VECTOR({element}, {at}, {_widen(h, t, value) if value else _zeros(h, t)})"
    builtin = f"__builtin_ia32_{verb}{middle}{8 * at}_mask"
    found = f"{builtin}(BP_ADDRESS(p), {other}, {_bits(h, t, first)})"
    text = f"#if BP_MASKS == 2\n{_statement(h, t, value, found)}"
    if t.width in _AVX:
        text += f"#elif BP_MASKS == 1\n{_with_avx(h, t, first, value)}"
    return f"{text}#else\n{plain}#endif\n"


def _with_avx(h: Helpers, t: VectorType, first: bool, value: str) -> str:
    element, suffix, whole = _AVX[t.width]
    if t.size_bytes > 32:
        return _with_avx_halves(h, t, first, value)
    at = max(16, t.size_bytes)
    mask = f"{_leading(h, t.width, at)}(n)" if first else _widen(h, t, "m")
    verb = f"mask{'store' if value else 'load'}{suffix}{'256' if at == 32 else ''}"
    arguments = ["BP_ADDRESS(p)", f"BP_VECTOR({whole}, {at}, {mask})"]
    if value:
        arguments.append(f"BP_VECTOR({element}, {at}, {_widen(h, t, value)})")
    return _statement(h, t, value, f"__builtin_ia32_{verb}({', '.join(arguments)})")


def _with_avx_halves(h: Helpers, t: VectorType, first: bool, value: str) -> str:
    element, suffix, whole = _AVX[t.width]
    half = t.lanes // 2
    addresses = ["BP_ADDRESS(p)", f"BP_ADDRESS(p + {half})"]
    halves = "__attribute__((vector_size(32))) h[2]"
    if first:
        every = _leading(h, t.width, 32)
        text = ""
        masks = [f"BP_VECTOR({whole}, 32, {every}(n{at}))" for at in ("", f" - {half}")]
    else:
        text = f"    const union {{ {t.mask().name} v; {whole} {halves}; }} u = {{m}};\n"
        masks = ["u.h[0]", "u.h[1]"]
    if value:
        text += f"    const union {{ {t.name} v; {element} {halves}; }} w = {{{value}}};\n"
        parts = [
            f"    __builtin_ia32_maskstore{suffix}256({at}, {mask}, w.h[{k}]);\n"
            for k, (at, mask) in enumerate(zip(addresses, masks, strict=True))
        ]
        return text + "".join(parts)
    parts = [
        f"    r.h[{k}] = __builtin_ia32_maskload{suffix}256({at}, {mask});\n"
        for k, (at, mask) in enumerate(zip(addresses, masks, strict=True))
    ]
    union = f"    union {{ {t.name} v; {element} {halves}; }} r;\n"
    return f"{text}{union}{''.join(parts)}    return r.v;\n"


def _leading(h: Helpers, width: int, size: int) -> str:
    return leading(h, VectorType("int", width, 8 * size // width))


def _statement(h: Helpers, t: VectorType, value: str, access: str) -> str:
    if value:
        return f"    {access};\n"
    if t.size_bytes >= 16:
        return f"    return ({t.name}){access};\n"
    return f"    return ({t.name})(({_scalars(h, t)}){access})[0];\n"


def _bits(h: Helpers, t: VectorType, first: bool) -> str:
    """The mask as an integer, a bit for each lane of a register of at least 16 bytes."""
    at = max(16, t.size_bytes)
    lanes = at * 8 // t.width
    c_type = f"uint{max(8, lanes)}_t"
    if first:
        return f"({c_type})bp_first_bits(n)"
    element, _, letter = _AVX512[t.width]
    element = {"float": "int", "double": "long long"}.get(element, element)
    mask = f"BP_VECTOR({element}, {at}, {_widen(h, t, 'm')})"
    return f"({c_type})__builtin_ia32_cvt{letter}2mask{8 * at}({mask})"


def _widen(h: Helpers, t: VectorType, text: str) -> str:
    """A vector of less than 16 bytes in the low part of one of 16."""
    if t.size_bytes >= 16:
        return text
    scalar = f"int{8 * t.size_bytes}_t"
    return f"({_scalars(h, t)}){{({scalar}){text}}}"


def _scalars(h: Helpers, t: VectorType) -> str:
    """16 bytes as integers, each as long as the whole vector."""
    return h.type(VectorType("int", 8 * t.size_bytes, 16 // t.size_bytes))


def _zeros(h: Helpers, t: VectorType) -> str:
    return f"({h.type(t) if t.size_bytes >= 16 else _scalars(h, t)}){{0}}"
