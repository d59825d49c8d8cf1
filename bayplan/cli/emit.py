"""``bayplan compile``: the source and the stages before it, as text."""

from __future__ import annotations

import re
from pathlib import Path

from bayplan.cli.failure import CommandError
from bayplan.cli.program import Program, load_program
from bayplan.cli.talk import progress, say, show_json

SCHEMA = "bayplan.compile/1"
SUFFIXES = {"c": ".c", "stmt": ".stmt", "loops": ".loops"}


def emit_program(
    spec: str, output: Path | None, emit: str, function_name: str | None, as_json: bool
) -> None:
    """Carries out ``bayplan compile``."""
    kinds = [kind.strip() for kind in emit.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in SUFFIXES]
    if unknown or not kinds:
        raise CommandError(f"--emit {emit}: expected a list of {', '.join(SUFFIXES)}")
    program = load_program(spec)
    name = function_name or re.sub(r"\W", "_", program.name)
    with progress(f"lowering {program.name}"):
        texts = {kind: _make_text(program, kind, name) for kind in kinds}
    written: dict[str, str] = {}
    if output is not None:
        for kind, text in texts.items():
            path = output if len(kinds) == 1 else output.with_suffix(SUFFIXES[kind])
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
            except OSError as error:
                raise CommandError(f"{path}: cannot be written: {error.strerror}", 1) from error
            written[kind] = str(path)
            say(f"{kind} written to {path}")
    if as_json:
        show_json(
            {
                "schema": SCHEMA,
                "program": program.name,
                "function": name,
                "files": written,
                "texts": {} if written else texts,
            }
        )
    elif output is None:
        print("\n".join(texts.values()), end="")


def _make_text(program: Program, kind: str, name: str) -> str:
    if kind == "c":
        text = program.pipeline.c_source(name)
    elif kind == "stmt":
        text = program.pipeline.lowered_text()
    else:
        text = program.pipeline.loop_nest_text()
    return str(text).rstrip("\n") + "\n"
