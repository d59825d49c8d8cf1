"""The kept plan of an arena as constant tables of a C program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayplan.storage.placement import Placement

# As in prelude_place.c.
_ANSWERS = 4


def read_place_prelude() -> str:
    """The C text of `bp_place`; it needs <stdint.h> and <stdbool.h> before it."""
    return (Path(__file__).parent / "prelude_place.c").read_text()


def write_placement(placement: Placement, name: str) -> str:
    """The tables that `bp_place(&NAME, &NAME_placed, sizes, offsets)` reads, for a C program.

    Args:
        placement: the kept plan.
        name: a C identifier that is free, as are those that begin with it and an underscore.
    """
    order: list[int] = []
    below: list[int] = []
    below_end: list[int] = []
    for relation in placement.relations:
        for i in relation.order:
            order.append(i)
            below += relation.below[i]
            below_end.append(len(below))
    clique: list[int] = []
    clique_end: list[int] = []
    for members in placement.cliques:
        clique += members
        clique_end.append(len(clique))
    tables: list[tuple[str, str, Sequence[int]]] = [
        ("int32_t", "begin", [begin for begin, _ in placement.lives]),
        ("int32_t", "end", [end for _, end in placement.lives]),
        ("int64_t", "alignment", placement.alignments),
        ("int32_t", "order", order),
        ("int32_t", "below_end", below_end),
        ("int32_t", "below", below),
        ("int32_t", "clique_end", clique_end),
        ("int32_t", "clique", clique),
    ]
    lines = [_write_table(kind, f"{name}_{what}", values) for kind, what, values in tables]
    counts = [placement.count, len(placement.relations), len(placement.cliques), placement.grain]
    fields = [str(n) for n in counts] + [f"{name}_{what}" for _, what, _ in tables]
    answers = _ANSWERS * (1 + 2 * placement.count)
    lines += [
        f"static const bp_placement {name} = {{",
        *_wrap(fields),
        "};",
        f"static int64_t {name}_answers[{answers}];",
        f"static bp_placed {name}_placed = {{0, 0, 0, {name}_answers}};",
        "",
    ]
    return "\n".join(lines)


def _write_table(kind: str, name: str, values: Sequence[int]) -> str:
    # C has no arrays of no elements.
    texts = [str(v) for v in values] or ["0"]
    body = "\n".join(_wrap(texts))
    return f"static const {kind} {name}[{len(texts)}] = {{\n{body}\n}};"


def _wrap(texts: Sequence[str]) -> list[str]:
    lines: list[str] = []
    line = "   "
    for text in texts:
        if len(line) + len(text) > 96:
            lines.append(line)
            line = "   "
        line += f" {text},"
    lines.append(line)
    return lines
