"""Constant tables in device languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayplan.targets.c_names import memory_type
from bayplan.targets.c_static_tables import element_texts, fill_lines
from bayplan.targets.c_text import comment

if TYPE_CHECKING:
    from bayplan.lower.table import Table
    from bayplan.targets.device_language import DeviceLanguage


def write_device_table(language: DeviceLanguage, table: Table, c_name: str) -> str:
    """The text of the table's definition."""
    t = table.type
    texts = [_plain(text) for text in element_texts(t, table.elements())]
    shape = " x ".join([str(e) for e in table.extents()]) or "1"
    where = f", {table.where}" if table.where is not None else ""
    # An empty array is no C; nothing reads its element.
    head = language.table(memory_type(t), c_name, max(1, len(texts)))
    lines = [
        f"/* {comment(f'{table.name}: constant, {shape} {t}{where}')} */",
        f"{head} = {{",
        *fill_lines(texts or ["0"]),
        "};",
        "",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """An element without the builtins of the host's compiler."""
    sign, rest = ("-", text[1:]) if text.startswith("-") else ("", text)
    if rest.startswith("__builtin_inf"):
        return f"{sign}BP_INFINITY"
    if rest.startswith("__builtin_nan"):
        # Its bits are lost: no device language has a constant for them.
        return f"{sign}BP_NAN"
    return text
