"""Loops as functions of their own, whose pointers are known to share no bytes.

What is alive together never overlaps: the storage plan sees to it and the checker proves it. C has
one way of saying so that compilers believe, `restrict` on the parameters of a function (spelled
`__restrict`, which C++ compilers know too). So each
outermost loop nest in which no storage begins or ends becomes a function of the memory it touches.
Two names for the same bytes, one of which takes them over in place, get no `restrict`; nor do an
output, the temporaries that may live in it, and the inputs that its user lets share its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.memory import ForKind, MemoryType
from bayplan.ir.node import Node
from bayplan.ir.walk import iterate
from bayplan.targets.c_names import sanitise
from bayplan.targets.c_storage import function_body
from bayplan.targets.c_text import break_list, comment
from bayplan.targets.c_writer import Writer

if TYPE_CHECKING:
    from bayplan.targets.c import Emission
    from bayplan.targets.c_stmts import StatementWriter

_ON_STACK: Final = (MemoryType.Stack, MemoryType.Register)


def is_stretch(s: S.For) -> bool:
    """Whether the loop may become a function, and gains by it: it reads and writes memory."""
    if s.kind is not ForKind.Serial:
        return False
    loads: set[str] = set()
    stores: set[str] = set()
    for node in iterate(s):
        cls = type(node)
        if cls is E.Load:
            loads.add(node.name)  # type: ignore[attr-defined]
        elif cls is S.Store:
            stores.add(node.name)  # type: ignore[attr-defined]
        elif _splits(node):
            return False
    return bool(stores) and len(loads | stores) > 1


def _splits(node: Any) -> bool:
    """Whether a function of its own cannot contain it: storage, threads, locks, unknown code."""
    cls = type(node)
    if cls is S.For:
        return node.kind is not ForKind.Serial
    if cls is S.Allocate:
        return node.memory_type not in _ON_STACK
    return cls is S.Atomic or (cls is E.Call and not _is_plain(node))


def _is_plain(call: Any) -> bool:
    """Whether a call touches no memory but through its arguments' values."""
    return bool(call.is_pure()) or call.name in ("print", "print_when", "require", "prefetch")


def write_outlined(sw: StatementWriter, s: S.For) -> None:
    """Writes the loop as a function, and the call of it."""
    w, unit = sw.w, sw.w.unit
    name = unit.global_name(f"{unit.name}_{sanitise(s.name.replace('$', '_'))}_loop")
    inner = Writer(unit, w)
    body = type(sw)(sw.emission, inner)
    body.loops, body.outlined = sw.loops, True
    body.loop(s)
    restricted = _restricted(sw.emission, inner, s)
    declared, passed = ["bp_context *ctx"], ["ctx"]
    if inner.uses_slot:
        w.uses_slot = True
        declared.append("int32_t slot")
        passed.append("slot")
    for c_name, (c_type, text) in inner.captures.items():
        if c_type.endswith("*"):
            mark = "__restrict " if c_name in restricted else "const "
            declared.append(f"{c_type}{mark}{c_name}")
        else:
            declared.append(f"const {c_type} {c_name}")
        passed.append(text)
    fails = inner.fails
    lines: list[Any] = [
        f"/* The loop over {comment(s.name)}. */",
        *break_list(f"static {'int32_t' if fails else 'void'} {name}(", declared, ") {", ""),
    ]
    lines += ["    (void)ctx;", *function_body(inner, in_block=True, gives=fails)]
    unit.functions.append([*lines, "}", ""])
    head = f"status = {name}(" if fails else f"{name}("
    w.lines += break_list(head, passed, ");", "    " * w.depth)
    if fails:
        w.leave_if_failed()


def _restricted(emission: Emission, inner: Writer, s: S.For) -> set[str]:
    """C names of the pointers whose bytes no other pointer of the loop touches."""
    touched = {n.name for n in iterate(s) if isinstance(n, E.Load | S.Store)}
    shared = find_sharing(emission, touched, s)
    found = set()
    for name in touched - shared:
        binding = inner.lookup(name)
        if binding is not None and binding.text in inner.captures:
            found.add(binding.text)
    return found


def find_sharing(emission: Emission, touched: set[str], s: Node) -> set[str]:
    """Names that may stand for bytes which another of the touched names stands for too."""
    shared: set[str] = set()
    plan = emission.program.plan
    for arena in plan.arenas if plan is not None else ():
        for group in arena.groups:
            names = {t.name for t in group} & touched
            if len(names) > 1:
                shared |= names
    for argument in emission.program.arguments:
        names = {argument.name}
        for other in emission.program.arguments:
            if other.source in getattr(argument.source, "aliases", ()):
                names.add(other.name)
        for arena in plan.arenas if plan is not None else ():
            names |= {t.name for t in arena.temporaries if t.output == argument.name}
        if len(names & touched) > 1:
            shared |= names
    return shared
