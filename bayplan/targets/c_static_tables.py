"""Constant tables in C: each Buffer that the algorithm names, once in the file, exactly.

Decimal texts are the shortest that give the same bits again; what has no decimal text (infinities,
NaNs with their bits) is written with the compiler's builtins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir.types import Type
from bayplan.targets.c_names import memory_type, sanitise
from bayplan.targets.c_text import comment
from bayplan.targets.c_writer import Binding, Unit

if TYPE_CHECKING:
    from bayplan.lower.table import Table

_LINE: Final = 96
_QUIET: Final = {32: 1 << 22, 64: 1 << 51}


def add_tables(unit: Unit, tables: Sequence[Table]) -> None:
    """Defines the tables at file level, where every function of the program sees them."""
    for table in tables:
        if table.name in unit.constants:
            continue  # a pipeline that this one calls has it already
        c_name = unit.global_name(f"{unit.name}_{sanitise(table.name)}")
        unit.constants[table.name] = Binding(c_name, f"const {memory_type(table.type)} *")
        unit.externs[c_name] = "\n".join(write_table(table, c_name))


def write_table(table: Table, c_name: str) -> list[str]:
    """The lines of the table's definition."""
    t = table.type
    texts = element_texts(t, table.elements())
    shape = " x ".join([str(e) for e in table.extents()]) or "1"
    where = f", {table.where}" if table.where is not None else ""
    # An empty array is no C; nothing reads its element.
    lines = [
        f"/* {comment(f'{table.name}: constant, {shape} {t}{where}')} */",
        f"static const {memory_type(t)} {c_name}[{max(1, len(texts))}] = {{",
    ]
    return [*lines, *fill_lines(texts or ["0"]), "};", ""]


def element_texts(t: Type, array: Any) -> list[str]:
    """Each element of a flat numpy array as a C initialiser of its type in memory."""
    import numpy as np

    if t.kind == "float" and t.width == 16:
        return [f"0x{bits:04x}" for bits in array.view(np.uint16).tolist()]
    if t.kind == "float":
        return _float_texts(t.width, array)
    if t.width == 1:
        return [str(int(value)) for value in array.tolist()]
    if t.width == 64:
        if t.kind == "uint":
            return [f"{value}u" for value in array.tolist()]
        return [str(v) if v != -(1 << 63) else "INT64_MIN" for v in array.tolist()]
    if t.width == 32:
        if t.kind == "uint":
            return [f"{value}u" for value in array.tolist()]
        return [str(v) if v != -(1 << 31) else "INT32_MIN" for v in array.tolist()]
    return [str(value) for value in array.tolist()]


def _float_texts(width: int, array: Any) -> list[str]:
    import numpy as np

    if width == 64:
        texts = [repr(value) for value in array.tolist()]
    else:
        # numpy's own texts of float32 are the shortest ones of that type.
        texts = [f"{value}f" if "." in value or "e" in value else f"{value}.0f"
                 for value in [str(element) for element in array]]
    for i in np.flatnonzero(~np.isfinite(array)).tolist():
        texts[i] = _odd_text(width, int(array.view(f"u{width // 8}")[i]))
    return texts


def _odd_text(width: int, bits: int) -> str:
    """An infinity or a NaN by its bits."""
    suffix = "" if width == 64 else "f"
    sign = "-" if bits >> (width - 1) else ""
    mantissa = bits & ((1 << (52 if width == 64 else 23)) - 1)
    if not mantissa:
        return f"{sign}__builtin_inf{suffix}()"
    quiet = _QUIET[width]
    kind = "nan" if mantissa & quiet else "nans"
    return f'{sign}__builtin_{kind}{suffix}("{mantissa & ~quiet:#x}")'


def fill_lines(texts: list[str]) -> list[str]:
    """Lines of many elements each."""
    lines: list[str] = []
    line: list[str] = []
    room = _LINE
    for text in texts:
        if room < len(text) + 2 and line:
            lines.append(f"    {', '.join(line)},")
            line, room = [], _LINE
        line.append(text)
        room -= len(text) + 2
    lines.append(f"    {', '.join(line)},")
    return lines
