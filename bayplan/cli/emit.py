"""``bayplan compile``: sources, headers, libraries, and the stages before them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayplan.cli.failure import CommandError
from bayplan.cli.program import Program, load_program
from bayplan.cli.talk import progress, say, show_json

SCHEMA = "bayplan.compile/1"
SUFFIXES = {
    "c": ".c",
    "stmt": ".stmt",
    "loops": ".loops",
    "h": ".h",
    "o": ".o",
    "a": ".a",
    "s": ".s",
    "runtime": ".runtime.c",
    "kernels": "",  # that of the device's language
}
_DEVICE_SUFFIXES = {"opencl": ".cl", "cuda": ".cu"}
_OUTPUTS = {
    "c": "c_source",
    "stmt": "stmt",
    "h": "c_header",
    "o": "object",
    "a": "static_library",
    "s": "assembly",
}
_TEXTS = ("c", "stmt", "loops", "h", "runtime", "kernels")


def emit_program(spec: str, output: Path | None, emit: str, flags: dict[str, Any]) -> None:
    """Carries out ``bayplan compile``.

    Args:
        spec: ``FILE.py`` or ``FILE.py:name``.
        output: the file to write; None for stdout.
        emit: the kinds, with commas between them.
        flags: function_name, target, order, depfile, as_json.
    """
    kinds = [kind.strip() for kind in emit.split(",") if kind.strip()]
    unknown = [kind for kind in kinds if kind not in SUFFIXES]
    if unknown or not kinds:
        raise CommandError(f"--emit {emit}: expected a list of {', '.join(SUFFIXES)}")
    binary = [kind for kind in kinds if kind not in _TEXTS]
    if output is None and binary:
        raise CommandError(f"--emit {emit}: {binary[0]} needs a file to go to; give -o")
    if output is None and flags["depfile"]:
        raise CommandError("--depfile speaks of files that are written; give -o")
    before = set(sys.modules)
    program = load_program(spec)
    name = flags["function_name"] or re.sub(r"\W", "_", program.name)
    with progress(f"compiling {program.name}"):
        ahead = _lower(program, name, flags)
        if "kernels" in kinds and not ahead.emission.device_source:
            raise CommandError(f"--emit kernels: {program.name} has none for {ahead.target}")
        paths = _paths(kinds, output, ahead)
        if output is None:
            texts = {kind: _make_text(program, ahead, kind) for kind in kinds}
        else:
            texts = {}
            _write_files(program, ahead, paths)
    for kind, path in paths.items():
        say(f"{kind} written to {path}")
    if flags["depfile"]:
        write_depfile(flags["depfile"], paths.values(), before)
    if flags["as_json"]:
        show_json(_describe(program, ahead, name, paths, texts))
    elif output is None:
        print("\n".join(texts.values()), end="")


def _paths(kinds: list[str], output: Path | None, ahead: Any) -> dict[str, Path]:
    """The file of each kind; several kinds put their suffixes in place of that of `output`."""
    suffixes = dict(SUFFIXES)
    if "kernels" in kinds:
        from bayplan.targets.device_language import find_language

        suffixes["kernels"] = _DEVICE_SUFFIXES[find_language(ahead.target).name]
    if output is None:
        return {}
    if len(kinds) == 1:
        return {kinds[0]: output}
    return {kind: output.with_suffix(suffixes[kind]) for kind in kinds}


def _lower(program: Program, name: str, flags: dict[str, Any]) -> Any:
    from bayplan.driver.ahead import AheadProgram

    functions = program.pipeline._final_functions()
    target = program.hl.Target(flags["target"]) if flags["target"] else None
    return AheadProgram(functions, _arguments(program, flags["order"]), name, target)


def _arguments(program: Program, order: str | None) -> list[Any] | None:
    """The inputs as `--arguments` orders them; None: in order of name."""
    if order is None:
        return None
    known = {**program.inputs, **program.params}
    found = []
    for word in [w.strip() for w in order.split(",") if w.strip()]:
        if word not in known:
            raise CommandError(
                f"--arguments {order}: {program.name} has no input {word}; "
                f"it has {', '.join(known) or 'none'}"
            )
        found.append(known[word])
    return found


def _make_text(program: Program, ahead: Any, kind: str) -> str:
    from bayplan.build.ahead_of_time import weak_runtime_source
    from bayplan.ir.printer import print_node
    from bayplan.targets.c_device import uses_device

    if kind == "runtime":
        text = weak_runtime_source("all" if uses_device(ahead.emission) else "host")
    elif kind == "kernels":
        text = ahead.emission.device_source
    elif kind == "c":
        text = ahead.emission.source
    elif kind == "h":
        text = ahead.header()
    elif kind == "stmt":
        text = print_node(ahead.program.readable)
    else:
        text = program.pipeline.loop_nest_text()
    return str(text).rstrip("\n") + "\n"


def _write_files(program: Program, ahead: Any, paths: dict[str, Path]) -> None:
    from bayplan.language.output_files import OutputFileType

    for path in paths.values():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"{path}: cannot be written: {error.strerror}", 1) from error
    ahead.write({OutputFileType[_OUTPUTS[k]]: p for k, p in paths.items() if k in _OUTPUTS})
    for kind in ("loops", "runtime", "kernels"):
        if kind in paths:
            paths[kind].write_text(_make_text(program, ahead, kind), "utf-8")


def _describe(
    program: Program, ahead: Any, name: str, paths: dict[str, Path], texts: dict[str, str]
) -> dict[str, Any]:
    from bayplan.targets.c_header import workspace_bytes

    return {
        "schema": SCHEMA,
        "program": program.name,
        "function": name,
        "target": str(ahead.target),
        "arguments": [a.name for a in ahead.program.arguments],
        "workspace_bytes": workspace_bytes(ahead.program),
        "stack_bytes": ahead.stack_bytes(),
        "files": {kind: str(path) for kind, path in paths.items()},
        "texts": texts,
    }


def write_depfile(depfile: Path, made: Iterable[Path], before: set[str]) -> None:
    """Writes the files that the program was made from, as a rule of make.

    These are the Python files that were imported since, and Bayplan's own; what Python and
    installed packages bring changes only with an installation.
    """
    import sysconfig

    import bayplan

    own = Path(bayplan.__file__).resolve().parent
    installed = [Path(p).resolve() for p in sysconfig.get_paths().values()]
    files = {path.resolve() for path in own.rglob("*") if path.suffix in (".py", ".c", ".h")}
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if not file:
            continue
        path = Path(file).resolve()
        if not any(path.is_relative_to(folder) for folder in installed):
            files.add(path)
    rule = " ".join([_escape(path) for path in made])
    lines = " \\\n  ".join([_escape(path) for path in sorted(files)])
    try:
        depfile.write_text(f"{rule}: \\\n  {lines}\n", "utf-8")
    except OSError as error:
        raise CommandError(f"{depfile}: cannot be written: {error.strerror}", 1) from error


def _escape(path: Path) -> str:
    return str(path).replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")
