"""C expressions as text with the precedence of their outermost operator."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from bayplan.ir.types import Type

Text = tuple[str, int]
"""The text and its precedence: 0 binds tightest."""

ATOM: Final = 0
UNARY: Final = 1
MUL: Final = 2
ADD: Final = 3
SHIFT: Final = 4
ORDER: Final = 5
EQUAL: Final = 6
BIT: Final = 7
LOGIC: Final = 10
CHOICE: Final = 12

_WIDTH: Final = 100


def wrap(text: Text, limit: int) -> str:
    """The text, in parentheses where its operator binds less than `limit` asks for."""
    return text[0] if text[1] <= limit else f"({text[0]})"


def binary(op: str, precedence: int, a: Text, b: Text) -> Text:
    """a op b; parentheses wherever -Wparentheses or a reader would want them."""
    left, right = precedence, precedence - 1
    if precedence >= SHIFT:
        left = right = UNARY if precedence != LOGIC else EQUAL
        if precedence in (ORDER, EQUAL):
            left = right = ADD
    # -1 - -2 must not become a decrement.
    second = wrap(b, right)
    if second.startswith("-"):
        second = f"({second})"
    return f"{wrap(a, left)} {op} {second}", precedence


def cast(c_type: str, a: Text) -> Text:
    """(c_type)a."""
    inner = wrap(a, UNARY)
    if inner.startswith("-"):
        inner = f"({inner})"
    return f"({c_type}){inner}", UNARY


def call(name: str, *args: Text) -> Text:
    """name(args...)."""
    return f"{name}({', '.join([a[0] for a in args])})", ATOM


_MINIMA: Final = {
    ("int", 32): "INT32_MIN",
    ("int", 64): "INT64_MIN",
}


def literal(t: Type, value: int | float) -> Text:
    """A constant of the element type `t`."""
    if t.kind == "float":
        return _float_literal(float(value), t.width)
    whole = int(value)
    if t.width == 1:
        return ("true" if whole else "false"), ATOM
    if t.kind == "handle":
        return (f"(void *)(uintptr_t)UINT64_C({whole})" if whole else "NULL"), UNARY
    if t.width == 64:
        if whole == t.min_value() and t.kind == "int":
            return "INT64_MIN", ATOM
        prefix = "UINT64_C" if t.kind == "uint" else "INT64_C"
        return f"{prefix}({whole})", ATOM
    if t.kind == "uint" and t.width == 32:
        return f"{whole}u", ATOM
    if whole == t.min_value() and (t.kind, t.width) in _MINIMA:
        return _MINIMA[t.kind, t.width], ATOM
    return str(whole), (ATOM if whole >= 0 else UNARY)


def _float_literal(value: float, width: int) -> Text:
    suffix = "" if width == 64 else "f"
    if value != value:
        return f'__builtin_nan{suffix}("")', ATOM
    if value in (float("inf"), float("-inf")):
        sign = "-" if value < 0 else ""
        return f"{sign}__builtin_inf{suffix}()", (UNARY if sign else ATOM)
    text = repr(value)
    if width != 64:
        for digits in range(1, 10):
            text = f"{value:.{digits}g}"
            if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
                break
    if "." not in text and "e" not in text:
        text += ".0"
    return text + suffix, (UNARY if text.startswith("-") else ATOM)


def string_literal(text: str) -> str:
    """A C string literal."""
    out = []
    for byte in text.encode():
        c = chr(byte)
        if c in '"\\':
            out.append("\\" + c)
        elif c == "\n":
            out.append("\\n")
        elif c == "?":
            out.append("\\?")  # no trigraphs
        elif 32 <= byte < 127:
            out.append(c)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def comment(text: str) -> str:
    """A text that cannot end the comment it stands in."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")


def break_list(head: str, items: Sequence[str], tail: str, indent: str) -> list[str]:
    """Lines of head, the items with commas between them, and tail; long ones are broken."""
    whole = f"{indent}{head}{', '.join(items)}{tail}"
    if len(whole) <= _WIDTH:
        return [whole]
    lines, line = [], indent + head
    for i, item in enumerate(items):
        text = item + (tail if i == len(items) - 1 else ",")
        if len(line) + 1 + len(text) > _WIDTH and line.strip():
            lines.append(line)
            line = f"{indent}    {text}"
        else:
            line += text if line.endswith(("(", "{")) else f" {text}"
    return [*lines, line]
