"""What the names of loops and of storage say about the Funcs they belong to."""

from __future__ import annotations

from bayplan.ir.source import SourceLine
from bayplan.language.schedule import Dim
from bayplan.lower.context import Lowering


def func_of_storage(name: str, lowering: Lowering) -> str:
    """The Func whose storage `name` is: "f" for "f" and for the parts "f.0", "f.1" of a Tuple.

    Also for "f.workspace", the storage of the temporaries of the pipeline that computes f, for
    "f.device", what f has on a device besides, and for "f$1", a further one of f in a kernel.
    """
    if name in lowering.env:
        return name
    stem, dot, tail = name.rpartition(".")
    if dot and tail == "device":
        return func_of_storage(stem, lowering)
    if dot and (tail.isdigit() or tail == "workspace"):
        return stem
    stem, mark, tail = name.rpartition("$")
    if mark and tail.isdigit() and name not in lowering.env:
        found = func_of_storage(stem, lowering)
        return found if found in lowering.env else name
    return name


def value_index_of_storage(name: str, lowering: Lowering) -> int:
    """Which value of its Func the storage `name` holds."""
    if name in lowering.env:
        return 0
    _, dot, tail = name.rpartition(".")
    return int(tail) if dot and tail.isdigit() else 0


def term_name(lowering: Lowering) -> str:
    """A new name for a value that a pass computes ahead: "t.v1", "t.v2", ...

    With a dot inside and no number behind it, it is neither a parameter's nor a storage's name.
    """
    _, _, number = lowering.unique_name("t.v").partition("$")
    return f"t.v{number or 0}"


def func_of_loop(loop: str, lowering: Lowering) -> str:
    """The Func that the loop `loop` ("f.s0.x.xi") belongs to, "" where there is none."""
    at = loop.find(".s")
    while at >= 0:
        end = at + 2
        while end < len(loop) and loop[end].isdigit():
            end += 1
        if end > at + 2 and loop[end : end + 1] == "." and loop[:at] in lowering.env:
            return loop[:at]
        at = loop.find(".s", at + 1)
    return ""


def stage_of_loop(loop: str, lowering: Lowering) -> int:
    """The stage of its Func that a loop belongs to: 1 for "f.s1.x"; 0 where there is none."""
    func = func_of_loop(loop, lowering)
    if not func:
        return 0
    digits = ""
    for c in loop[len(func) + 2 :]:
        if not c.isdigit():
            break
        digits += c
    return int(digits or "0")


def loop_variable(loop: str, lowering: Lowering) -> str:
    """The variable of a loop as the user wrote it: "xi" for "f.s0.x.xi"."""
    return loop.rpartition(".")[2]


def dim_of_loop(loop: str, lowering: Lowering) -> Dim | None:
    """The record of the schedule that a loop was made by."""
    func = func_of_loop(loop, lowering)
    if not func:
        return None
    function = lowering.env[func]
    stage = stage_of_loop(loop, lowering)
    if stage <= len(function.updates):
        prefix = f"{func}.s{stage}."
        for dim in function.definition(stage).schedule.dims:
            # Loops that stages share are named after those of one of them.
            stem, _, name = f"{prefix}{dim.var}".rpartition(".")
            if loop in (f"{stem}.{name}", f"{stem}.fused.{name}"):
                return dim
    return None


def line_of_loop(loop: str, lowering: Lowering) -> SourceLine | None:
    """The user's line that made a loop what it is, else the line of its Func."""
    dim = dim_of_loop(loop, lowering)
    if dim is not None and dim.where is not None:
        return dim.where
    return lowering.where(func_of_loop(loop, lowering))
