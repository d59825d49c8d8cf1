"""What a program built ahead of time takes, as data: laid out as Halide's halide_filter_metadata_t.

Callers that choose a program at run time read names, types, ranges and estimates from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.targets.c_text import literal, string_literal

if TYPE_CHECKING:
    from bayplan.lower.program import Argument
    from bayplan.targets.c import Emission

_TYPES: Final = """/* What the program takes: the layout of halide_filter_metadata_t. */
typedef struct bp_scalar {
    union {
        bool b;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32;
        double f64;
        void *handle;
    } u;
} bp_scalar;

typedef struct bp_argument {
    const char *name;
    int32_t kind; /* 0 scalar, 1 input buffer, 2 output buffer */
    int32_t dimensions;
    bp_type type;
    const bp_scalar *usual, *min, *max, *estimate;
    const int64_t *const *estimates; /* min and extent of each dimension */
} bp_argument;

typedef struct bp_metadata {
    int32_t version, count;
    const bp_argument *arguments;
    const char *target, *name;
} bp_metadata;
"""
_KINDS: Final = {"scalar": 0, "input_buffer": 1, "output_buffer": 2}
_CODES: Final = {"int": 0, "uint": 1, "float": 2, "handle": 3}


def write_metadata(emission: Emission) -> list[str]:
    """The lines of the tables and of the function that gives them."""
    values: list[str] = []
    rows = [_row(emission, argument, values) for argument in emission.program.arguments]
    name = emission.name
    return [
        _TYPES,
        *values,
        f"static const bp_argument {name}_arguments[] = {{",
        *rows,
        "};",
        "",
        f"BP_EXPORT const bp_metadata *{name}_metadata(void) {{",
        "    static const bp_metadata found = {",
        f"        1, {len(rows)}, {name}_arguments,",
        f"        {string_literal(str(emission.program.target))},",
        f"        {string_literal(name)}",
        "    };",
        "    return &found;",
        "}",
        "",
    ]


def _row(emission: Emission, argument: Argument, values: list[str]) -> str:
    """One line of the table; the values that it points to are added to `values`."""
    t, source = argument.type, argument.source
    shown = argument.name.partition("$")[0]
    pointers = []
    for field in ("value", "min_value", "max_value", "estimate"):
        found = None if argument.is_buffer() else _number(getattr(source, field, None))
        if found is None or (t.kind == "float" and t.width == 16):
            pointers.append("NULL")
            continue
        c_name = f"{emission.name}_value_{len(values)}"
        member = "b" if t.width == 1 else f"{'u' if t.kind == 'uint' else t.kind[0]}{t.width}"
        member = "handle" if t.kind == "handle" else member
        text = literal(t, found)[0]
        values.append(f"static const bp_scalar {c_name} = {{{{.{member} = {text}}}}};")
        pointers.append(f"&{c_name}")
    return (
        f"    {{{string_literal(shown)}, {_KINDS[argument.kind]}, {argument.dimensions}, "
        f"{{{_CODES[t.kind]}, {t.width}, 1}},\n     {', '.join(pointers)}, "
        f"{_estimates(emission, argument, values)}}},"
    )


def _estimates(emission: Emission, argument: Argument, values: list[str]) -> str:
    """The name of the table of a buffer's usual coordinates, NULL where there are none."""
    pointers = []
    for constraint in getattr(argument.source, "constraints", ()):
        for field in ("min_estimate", "extent_estimate"):
            found = _number(getattr(constraint, field))
            if found is None:
                pointers.append("NULL")
                continue
            c_name = f"{emission.name}_value_{len(values)}"
            values.append(f"static const int64_t {c_name} = {int(found)};")
            pointers.append(f"&{c_name}")
    if all(p == "NULL" for p in pointers):
        return "NULL"
    c_name = f"{emission.name}_value_{len(values)}"
    values.append(f"static const int64_t *const {c_name}[] = {{{', '.join(pointers)}}};")
    return c_name


def _number(value: Any) -> int | float | None:
    """A constant as a number; None for nothing and for what only the call knows."""
    if value is None or isinstance(value, int | float):
        return value
    found: int | float | None = build.constant_value(value)
    return found
