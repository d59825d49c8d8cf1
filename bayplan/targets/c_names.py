"""C identifiers that a reader recognises, and the C spelling of types."""

from __future__ import annotations

import re
from typing import Final

from bayplan.ir.types import Type

_RESERVED: Final = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic
    _Imaginary _Noreturn _Static_assert _Thread_local bool true false ctx status done closure slot
    begin end main errno asm typeof linux unix
    NULL EOF NAN INFINITY offsetof assert stdin stdout stderr isnan isinf signbit I complex
    size_t ptrdiff_t wchar_t
    alignas alignof and and_eq bitand bitor catch class compl concept consteval constexpr
    constinit const_cast co_await co_return co_yield decltype delete dynamic_cast explicit export
    friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public reinterpret_cast requires static_assert static_cast template this thread_local throw
    try typeid typename using virtual char8_t char16_t char32_t xor xor_eq
    abs labs exp exp2 expm1 log log2 log10 pow sqrt cbrt sin cos tan asin acos atan atan2 sinh
    cosh tanh floor ceil round rint trunc fabs fmod fma hypot erf gamma y0 y1 yn j0 j1 jn
    div remainder index signal time read write printf free malloc memcpy memset""".split()
)

# The runtime's headers, and the functions and types that the emitter itself defines on demand.
_TAKEN: Final = re.compile(
    r"""u?int(_least|_fast)?(8|16|32|64|ptr|max)_t
    |U?INT(_LEAST|_FAST)?(8|16|32|64|PTR|MAX)?(_C|_MIN|_MAX)|SIZE_MAX
    |[iuf](8|16|32|64)x\d+(_mem)?
    |(load|store|gather|scatter|pair|stride_\w+|masked_\w+|all|select|reverse|join|even|odd
      |interleave|pick\d*|part\d+\w*|min|max|div|mod|shl|shr|bits|strict|fma|abs|absd|sqrt|exp|log
      |load_first|store_first|leading|swap
      |halving_\w+|saturating_\w+|mul_high|popcount|count_\w+|half_to_float|float_to_half|floor
      |ceil|round|rint|trunc|pow|sin|cos|tan|hypot|erf)_[iuf](8|16|32|64)\w*""",
    re.VERBOSE,
)


def sanitise(name: str) -> str:
    """The name with every character that C does not allow turned into an underscore."""
    text = "".join([c if (c.isalnum() and c.isascii()) or c == "_" else "_" for c in name])
    if not text or text[0].isdigit():
        text = "_" + text
    # Names that begin like the runtime's, and the reserved ones of C.
    if text in _RESERVED or text.startswith(("bp_", "BP_", "__")) or _TAKEN.fullmatch(text):
        text += "_"
    return text


def short_name(name: str) -> str:
    """The part of a loop variable's or temporary's name that the user wrote: `yi` of `f.s0.yi`."""
    tail = name.rsplit(".", 1)[-1]
    return tail if tail and not tail.isdigit() else name


def scalar_type(t: Type) -> str:
    """The C type of one element held in a local: `int32_t`, `float`, `bool`."""
    kind, width = t.kind, t.width
    if kind == "float":
        # float16 values are held as float, rounded after each operation.
        return "double" if width == 64 else "float"
    if kind == "handle":
        return "void *"
    if width == 1:
        return "bool"
    return f"{kind}{width}_t"


def memory_type(t: Type) -> str:
    """The C type of one element in memory."""
    if t.width == 1:
        return "uint8_t"
    if t.kind == "float" and t.width == 16:
        return "uint16_t"
    return scalar_type(t)


_PREFIX: Final = {"int": "i", "uint": "u", "float": "f"}


def vector_type(kind: str, width: int, lanes: int) -> str:
    """The name of a vector type: `u16x32`."""
    return f"{_PREFIX[kind]}{width}x{lanes}"
