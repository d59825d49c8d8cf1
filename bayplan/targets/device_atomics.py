"""Updates that no other thread may come between.

What the device does in one step is one call; everything else is tried again and again: the new
value is computed from the one found, and written where that one is still there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import ScheduleError
from bayplan.ir.types import Type
from bayplan.ir.walk import Rewriter, iterate, substitute
from bayplan.targets.c_names import memory_type, scalar_type
from bayplan.targets.c_text import ATOM, Text, call, cast
from bayplan.targets.c_writer import Binding
from bayplan.targets.device_language import GLOBAL, PRIVATE

if TYPE_CHECKING:
    from bayplan.targets.kernel_statements import KernelWriter
    from bayplan.targets.kernels import DeviceWriter

_OPERATIONS: Final[dict[type, str]] = {E.Add: "add", E.Sub: "sub", E.Min: "min", E.Max: "max"}
_BITWISE: Final = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_COMMUTES: Final = frozenset(["add", "min", "max", "and", "or", "xor"])


def write_atomic(kw: KernelWriter, s: S.Atomic) -> None:
    """Writes an atomic update: of one element, by a value that depends on no other of its Func."""
    body = s.body
    store = _only_store(body)
    if store is not None and isinstance(body, S.LetStmt) and not _loads(body.value, store.name):
        kw.write(S.LetStmt(body.name, body.value, S.Atomic(s.name, body.body)))
        return
    if store is not None and isinstance(body, S.IfThenElse):
        if not _loads(body.condition, store.name):
            kw.write(S.IfThenElse(body.condition, S.Atomic(s.name, body.then_case)))
            return
    if store is None or _reads_others(s.body, store):
        origin = kw.emission.program.origins.get(s.name)
        raise ScheduleError(
            f"the atomic update of {s.name} changes or reads several elements at once, for which "
            "the threads of a kernel would need a lock",
            None if origin is None else origin.where,
            hint="update each element from its own old value only, or run the update on the host",
        )
    w = kw.w
    w.lookup(store.name)
    if w.spaces.get(store.name) == PRIVATE:
        kw.write(s.body)  # nobody else sees it
        return
    if type(s.body) is S.Store and _write_call(w, store):
        return
    _write_loop(kw, s.body, store)


def _only_store(body: S.Stmt) -> S.Store | None:
    """The one store of scalars, under lets and conditions."""
    while isinstance(body, S.LetStmt | S.IfThenElse):
        if isinstance(body, S.IfThenElse):
            if body.else_case is not None:
                return None
            body = body.then_case
        else:
            body = body.body
    if isinstance(body, S.Store) and body.value.type.lane_count == 1:
        return body
    return None


def _reads_others(body: S.Stmt, store: S.Store) -> bool:
    """Whether another element of what is stored is read, or the index depends on it."""
    lets = _lets(body)
    index = _written_out(store.index, lets)
    for node in iterate(body):
        if isinstance(node, E.Load) and node.name == store.name:
            if node.predicate is not None or _written_out(node.index, lets) is not index:
                return True
    return _loads(index, store.name)


def _lets(body: S.Stmt) -> list[tuple[str, E.Expr]]:
    """The lets around the store, outermost first."""
    found = []
    while isinstance(body, S.LetStmt | S.IfThenElse):
        if isinstance(body, S.LetStmt):
            found.append((body.name, body.value))
            body = body.body
        else:
            body = body.then_case
    return found


def _written_out(e: E.Expr, lets: list[tuple[str, E.Expr]]) -> E.Expr:
    for name, value in reversed(lets):
        e = substitute({name: value}, e)
    return e


def _loads(e: E.Expr, name: str) -> bool:
    return any(type(n) is E.Load and n.name == name for n in iterate(e))


# In one step


def _write_call(w: DeviceWriter, store: S.Store) -> bool:
    """Writes the update as one call of the device's, if it has one for it."""
    w.begin_statement(store.value, store.index)
    t, value = store.value.type, w.measure.resolve(store.value)
    operation, operands = _operation(value)
    if operation is None or len(operands) != 2:
        return False
    function = w.language.atomics.get((operation, t.kind, t.width))
    if function is None:
        return False
    found = [type(x) is E.Load and x.name == store.name for x in operands]
    other = operands[1] if found[0] else operands[0]
    if found[0] == found[1] or _loads(other, store.name):
        return False
    if found[1] and operation not in _COMMUTES:
        return False
    place = _place(w, store, store.index)
    w.line(f"{function}({place}, {_of_type(t, w.scalar(other))});")
    return True


def _operation(value: E.Expr) -> tuple[str | None, tuple[E.Expr, ...]]:
    if isinstance(value, E.Binary):
        return _OPERATIONS.get(type(value)), (value.a, value.b)
    if isinstance(value, E.Call) and value.name in _BITWISE:
        return _BITWISE[value.name], value.args
    return None, ()


def _of_type(t: Type, text: Text) -> str:
    """An operand in the very type of the elements, which overloads of functions go by."""
    return text[0] if text[1] == ATOM or t.kind != "uint" else cast(scalar_type(t), text)[0]


def _place(w: DeviceWriter, store: S.Store, index: E.Expr) -> str:
    pointer = w.lookup(store.name)
    assert pointer is not None
    return f"&{pointer.text}[{w.scalar(index)[0]}]"


# Again and again


class _Found(Rewriter):
    """Puts the value that was found in the place of the loads of the element."""

    def __init__(self, store: S.Store, found: E.Expr) -> None:
        super().__init__()
        self._store = store
        self._found = found

    def rewrite_Load(self, node: E.Load) -> E.Expr:
        return self._found if node.name == self._store.name else self.rebuild(node)


def _write_loop(kw: KernelWriter, body: S.Stmt, store: S.Store) -> None:
    """The value is computed until it is written before another thread has changed the element."""
    w = kw.w
    t = store.value.type
    bits = Type("uint", t.bytes() * 8)
    word = scalar_type(bits)
    space = w.spaces.get(store.name, GLOBAL)
    swap = w.language.compare_and_swap(w.device, bits.width, space)
    pointer = f"{w.language.spaces[space]}{word} *"
    scope = dict(w.scope)
    w.line("{")
    w.depth += 1
    index = _written_out(store.index, _lets(body))
    w.begin_statement(index)
    place, seen, before = w.fresh("place"), w.fresh("seen"), w.fresh("before")
    w.line(f"{pointer}const {place} = ({pointer.strip()}){_place(w, store, index)};")
    first = w.language.read_shared(swap, f"{pointer.strip()}", place)
    w.line(f"{word} {seen} = {first}, {before};")
    w.line("do {")
    w.depth += 1
    w.line(f"{before} = {seen};")
    found = E.Variable(t, f"{store.name}.found")
    w.scope[found.name] = _declare(w, "found", t, _from_bits(w, t, bits, (before, ATOM)))
    kw.trying = (store, lambda value: f"{seen} = {swap}({place}, {before}, {value});", bits)
    kw.write(_Found(store, found)(_needed(body)))
    kw.trying = None
    w.depth -= 1
    w.line(f"}} while ({seen} != {before});")
    w.depth -= 1
    w.line("}")
    w.scope = scope


def _needed(body: S.Stmt) -> S.Stmt:
    """The body without the index of its store, and without lets that only the index needed."""
    if isinstance(body, S.LetStmt):
        inner = _needed(body.body)
        used = any(type(n) is E.Variable and n.name == body.name for n in iterate(inner))
        return S.LetStmt(body.name, body.value, inner) if used else inner
    if isinstance(body, S.IfThenElse):
        return S.IfThenElse(body.condition, _needed(body.then_case))
    assert isinstance(body, S.Store)
    return S.Store(body.name, body.value, build.int32(0))


def write_try(kw: KernelWriter, value: E.Expr) -> None:
    """Writes one try to put the value in its place."""
    assert kw.trying is not None
    w = kw.w
    _, finish, bits = kw.trying
    w.begin_statement(value)
    text = w.local(scalar_type(value.type), w.scalar(value)[0])
    w.line(finish(_to_bits(w, value.type, bits, text)[0]))


def _declare(w: DeviceWriter, wanted: str, t: Type, text: Text) -> Binding:
    name = w.fresh(wanted)
    w.line(f"const {scalar_type(t)} {name} = {text[0]};")
    return Binding(name, scalar_type(t))


def _from_bits(w: DeviceWriter, t: Type, bits: Type, text: Text) -> Text:
    """The value that the bits of an element are."""
    if t.width == 1:
        return f"{text[0]} != 0", 6
    if memory_type(t) == scalar_type(bits):
        return call("bp_half_to_float", text) if t.kind == "float" else text
    if t.kind != "float":
        return cast(scalar_type(t), text)
    function = w.language.reinterpret(t)
    return call(function or _helper(w, scalar_type(bits), scalar_type(t)), text)


def _to_bits(w: DeviceWriter, t: Type, bits: Type, text: Text) -> Text:
    """The bits of an element that holds the value."""
    if t.width == 1:
        return cast("uint8_t", text)
    if memory_type(t) == scalar_type(bits):
        return call("bp_float_to_half", text) if t.kind == "float" else text
    if t.kind != "float":
        return cast(scalar_type(bits), text)
    function = w.language.reinterpret(bits)
    return call(function or _helper(w, scalar_type(t), scalar_type(bits)), text)


def _helper(w: DeviceWriter, source: str, result: str) -> str:
    name = f"bits_{source.removesuffix('_t')}_{result.removesuffix('_t')}"
    return w.helpers.function(
        name,
        lambda: (
            f"BP_INLINE {result} {name}({source} a) {{ union {{ {source} a; {result} b; }} u = "
            "{a}; return u.b; }"
        ),
    )
