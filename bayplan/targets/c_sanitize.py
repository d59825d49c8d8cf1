"""Builds with guards: lives of temporaries that check themselves while the program runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import ErrorSite, InternalError, StorageDamaged
from bayplan.lower.guard_temporaries import GUARD_BYTES, has_guards, is_sanitized
from bayplan.targets.c_text import ATOM, Text, string_literal

if TYPE_CHECKING:
    from bayplan.targets.c_stmts import StatementWriter
    from bayplan.targets.c_writer import Writer


def prelude(target: object) -> str:
    """The C functions that such a build needs; nothing for others."""
    if not is_sanitized(target):
        return ""
    return (Path(__file__).parent / "prelude_sanitize.c").read_text()


def guarded_place(sw: StatementWriter, s: S.Allocate, place: str) -> str:
    """The address of an alias whose place begins with a guard; `place` in other builds.

    Also declares the record of its life.
    """
    program = sw.emission.program
    if not is_sanitized(program.target) or not has_guards(s):
        return place
    w = sw.w
    life = w.fresh(f"life_of_{s.name}")
    w.lives[s.name] = life
    w.all_lives.append(life)
    # It has to be ended, however the function ends.
    w.open += 1
    w.sites_of_lives[s.name] = program.origins[s.name].where if s.name in program.origins else None
    return f"{place} + {GUARD_BYTES}"


def life_declarations(w: Writer) -> list[str]:
    """The records of lives, which have not begun."""
    return [f"    bp_life {life} = {{NULL, NULL, NULL, 0, 0}};" for life in w.all_lives]


def end_lives(w: Writer) -> list[str]:
    """The end of a function: lives that an error left open are over."""
    return [f"    (void)bp_end_life(&{life});" for life in w.all_lives]


def begin_life(w: Writer, e: E.Call) -> Text:
    """The first use of an alias comes next."""
    name = _name(e)
    pointer, size = w.lookup(name), w.scalar(e.args[1])[0]
    if pointer is None:
        raise InternalError(f"the life of {name} begins where it has no storage")
    site = ErrorSite(
        StorageDamaged,
        f"{name} is given bytes of {{0}}, which are still needed",
        w.sites_of_lives.get(name),
    )
    begun = f"bp_begin_life(&{w.lives[name]}, {pointer.text}, {size}, {string_literal(name)})"
    _fail(w, begun, site)
    return "0", ATOM


def end_life(w: Writer, e: E.Call) -> Text:
    """The last use of an alias was before."""
    name = _name(e)
    site = ErrorSite(
        StorageDamaged,
        f"bytes {{0}} those of {name} were written while it was in use",
        w.sites_of_lives.get(name),
    )
    _fail(w, f"bp_end_life(&{w.lives[name]})", site)
    return "0", ATOM


def _name(e: E.Call) -> str:
    name = e.args[0]
    assert isinstance(name, E.StringImm)
    return name.value


def _fail(w: Writer, call: str, site: ErrorSite) -> None:
    """Ends the call where a text comes back, which is the argument of the message."""
    found = w.temp()
    w.line(f"const char *const {found} = {call};")
    w.line(f"if ({found} != NULL) {{")
    w.depth += 1
    w.fail(site, [f"bp_string({found})"])
    w.depth -= 1
    w.line("}")
