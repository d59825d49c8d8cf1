"""How statements are written in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from bayplan.ir import build
from bayplan.ir import exprs as E
from bayplan.ir import stmts as S
from bayplan.ir.errors import InternalError
from bayplan.ir.memory import ForKind
from bayplan.ir.types import Type
from bayplan.ir.walk import iterate
from bayplan.targets.c_access import (
    memory_value,
    memory_vector,
    store_scalar,
    store_vector,
)
from bayplan.targets.c_effects import fail
from bayplan.targets.c_masks import mask_width
from bayplan.targets.c_names import scalar_type
from bayplan.targets.c_outline import is_stretch, write_outlined
from bayplan.targets.c_ramps import count_first, holds_first
from bayplan.targets.c_storage import allocate, function_body, release
from bayplan.targets.c_text import ATOM, comment
from bayplan.targets.c_writer import Binding, Pieces, Writer

if TYPE_CHECKING:
    from bayplan.targets.c import Emission


class StatementWriter:
    """Writes statements into a function; one for each function of a program."""

    def __init__(self, emission: Emission, w: Writer) -> None:
        self.emission = emission
        self.w = w
        self.loops = 0  # loops around, within this function
        self.outlined = False  # the function is a loop's own (see c_outline)
        # Heap allocations that are not yet released: IR name -> C name.
        self.heap: dict[str, str] = {}
        # Aliases whose lives are marked and have not ended: IR name -> arguments of the mark.
        self.marks: dict[str, str] = {}

    def write(self, s: S.Stmt) -> None:
        """Adds the statement to the function."""
        _RULES[type(s)](self, s)

    # Plain statements

    def block(self, s: S.Block) -> None:
        for part in s.stmts:
            self.write(part)

    def evaluate(self, s: S.Evaluate) -> None:
        w = self.w
        if build.is_nothing(s):
            return
        w.begin_statement(s.value)
        t = s.value.type
        if t.lane_count > 1:
            for k in range(t.lane_count):
                w.scalar(w.measure.lane(s.value, k))
            return
        text = w.scalar(s.value)
        if text[1] != ATOM or "(" in text[0]:
            w.line(f"(void)({text[0]});")

    def let(self, s: S.LetStmt) -> None:
        if s.name not in self.emission.live:
            self.write(s.body)
            return
        w = self.w
        value = s.value
        w.begin_statement(value)
        t = value.type
        if t.lane_count > 1:
            self._let_vector(s)
        else:
            text = w.scalar(value)[0]
            c_type = scalar_type(t)
            name = w.declare(s.name, c_type, short=False)
            space = "" if c_type.endswith("*") else " "
            w.line(f"{'' if c_type.endswith('*') else 'const '}{c_type}{space}{name} = {text};")
        self.write(s.body)

    def _let_vector(self, s: S.LetStmt) -> None:
        w = self.w
        value = s.value
        t = value.type
        if t.width == 1 and holds_first(w, value):
            count = count_first(w, value, 0, (str(t.lane_count), ATOM))
            name = w.fresh(f"{s.name}_lanes")
            w.line(f"const int32_t {name} = {count[0]};")
            w.scope[s.name] = Binding("", "", Pieces(t, [], 0, name))
            return
        width = mask_width(w, value) if t.width == 1 else 0
        if width:
            w.measure.widest_bytes = max(w.measure.widest_bytes, width // 8)
        parts = []
        for first, lanes in w.chunks(t.lane_count):
            if lanes == 1:
                text = w.vector(value, first, 1)
                c_type = scalar_type(t.element_of())
            elif width:
                text = w.mask(value, first, lanes, width)
                c_type = w.helpers.type(memory_vector(Type("int", width), lanes))
            else:
                text = w.vector(value, first, lanes)
                c_type = w.helpers.type(w.vector_type(t, lanes))
            parts.append((first, lanes, c_type, text))
        pieces = []
        for first, lanes, c_type, text in parts:
            name = w.fresh(s.name)
            w.line(f"const {c_type} {name} = {text[0]};")
            pieces.append((first, lanes, name))
        w.scope[s.name] = Binding("", "", Pieces(t, pieces, width))

    def check(self, s: S.AssertStmt) -> None:
        w = self.w
        w.begin_statement(s.condition)
        condition = w.scalar(E.Not(s.condition))[0]
        w.line(f"if ({condition}) {{")
        w.depth += 1
        w.measure.add(*s.args)
        fail(w, s.site, s.args)
        w.depth -= 1
        w.line("}")

    def produce(self, s: S.ProducerConsumer) -> None:
        if s.is_producer:
            origin = self.emission.program.origins.get(s.name)
            where = f" ({origin.where})" if origin is not None and origin.where else ""
            self.w.line(f"/* {comment(s.name + where)} */")
        self.write(s.body)

    def branch(self, s: S.IfThenElse) -> None:
        w = self.w
        w.begin_statement(s.condition)
        w.line(f"if ({w.scalar(s.condition)[0]}) {{")
        self._nested(s.then_case)
        if s.else_case is not None:
            w.line("} else {")
            self._nested(s.else_case)
        w.line("}")

    def _nested(self, s: S.Stmt) -> None:
        w = self.w
        scope = dict(w.scope)
        w.depth += 1
        self.write(s)
        w.depth -= 1
        w.scope = scope

    # Stores

    def store(self, s: S.Store) -> None:
        w = self.w
        if isinstance(s.value, E.Call) and s.value.is_intrinsic("undef"):
            return
        roots = [s.value, s.index] + ([s.predicate] if s.predicate is not None else [])
        w.begin_statement(*roots)
        # Offsets of dense stores are no vectors that are computed.
        t = s.value.type
        if t.lane_count == 1:
            self._store_scalar(s)
            return
        w.measure.widest_bytes = max(w.measure.widest_bytes, memory_vector(t, 2).width // 8)
        chunks = w.chunks(t.lane_count)
        reads_itself = any(
            type(e) is E.Load and e.name == s.name for e in iterate(s.value)
        )
        if w.lane_by_lane and reads_itself:
            # Lanes that meet at one element must see each other.
            for k in range(t.lane_count):
                w.begin_statement(*roots)
                self._store_lane(s, k)
            return
        if reads_itself and len(chunks) > 1:
            values = []
            for first, lanes in chunks:
                if lanes == 1:
                    lane = w.measure.lane(s.value, first)
                    text = w.scalar(lane)
                    values.append(w.local(scalar_type(lane.type), text[0]))
                else:
                    v = w.helpers.type(memory_vector(t, lanes))
                    values.append(w.local(v, memory_value(w, s.value, first, lanes)[0]))
            for (first, lanes), value in zip(chunks, values, strict=True):
                self._store_piece(s, first, lanes, value)
            return
        for first, lanes in chunks:
            if lanes == 1:
                self._store_lane(s, first)
            else:
                value = memory_value(w, s.value, first, lanes)
                self._store_piece(s, first, lanes, value)

    def _store_scalar(self, s: S.Store) -> None:
        w = self.w
        if s.predicate is None:
            store_scalar(w, s.name, s.index, s.value)
            return
        condition = w.scalar(s.predicate)
        w.line(f"if ({condition[0]}) {{")
        saved = dict(w.memo)
        w.depth += 1
        store_scalar(w, s.name, s.index, s.value)
        w.depth -= 1
        w.memo = saved
        w.line("}")

    def _store_lane(self, s: S.Store, k: int) -> None:
        w = self.w
        lane = w.measure.lane
        predicate = None if s.predicate is None else lane(s.predicate, k)
        self._store_scalar(S.Store(s.name, lane(s.value, k), lane(s.index, k), predicate))

    def _store_piece(self, s: S.Store, first: int, lanes: int, value: tuple[str, int]) -> None:
        w = self.w
        t = s.value.type
        if lanes == 1:
            index = w.scalar(w.measure.lane(s.index, first))
            pointer = w.lookup(s.name)
            assert pointer is not None
            text = f"{pointer.text}[{index[0]}] = {value[0]};"
            if s.predicate is not None:
                text = f"if ({w.scalar(w.measure.lane(s.predicate, first))[0]}) {text}"
            w.line(text)
        else:
            store_vector(w, s.name, t, s.index, s.predicate, value, first, lanes)

    # Loops

    def loop(self, s: S.For) -> None:
        if s.kind is ForKind.Parallel:
            self._parallel(s)
            return
        if s.kind is ForKind.GPUBlock:
            from bayplan.targets.c_launch import launch

            launch(self, s)
            return
        if s.kind is not ForKind.Serial:
            raise InternalError(f"the C target met the {s.kind.value} loop {s.name}")
        if not self.outlined and is_stretch(s):
            write_outlined(self, s)
            return
        w = self.w
        extent = build.constant_value(s.extent)
        w.begin_statement(s.min, s.extent)
        scope = dict(w.scope)
        low = w.scalar(s.min)[0]
        if extent == 1:
            w.line("{")
            w.depth += 1
            name = w.declare(s.name, "int32_t")
            w.line(f"const int32_t {name} = {low};")
            w.line(f"(void){name};")
            self.write(s.body)
            w.depth -= 1
            w.line("}")
            w.scope = scope
            return
        end = w.scalar(build.add(s.min, s.extent))
        end_text = end[0] if len(end[0]) < 24 else w.local("int32_t", end[0])[0]
        name = w.declare(s.name, "int32_t")
        w.line(f"for (int32_t {name} = {low}; {name} < {end_text}; {name}++) {{")
        self._loop_body(s)
        w.line("}")
        w.scope = scope

    def _loop_body(self, s: S.For) -> None:
        w = self.w
        w.depth += 1
        if self.loops < 2 and _has_loop(s.body):
            w.leave_if("bp_cancelled(ctx)", "BP_CANCELLED")
        self.loops += 1
        self.write(s.body)
        self.loops -= 1
        w.depth -= 1

    def _parallel(self, s: S.For) -> None:
        """The body becomes a function of its own, called for stretches of the loop."""
        w = self.w
        w.begin_statement(s.min, s.extent)
        low, extent = w.scalar(s.min)[0], w.scalar(s.extent)[0]
        unit = w.unit
        stem = unit.global_name(f"{unit.name}_{_loop_stem(s.name)}")
        inner = Writer(unit, w)
        body = StatementWriter(self.emission, inner)
        name = inner.declare(s.name, "int32_t")
        body._loop_body(s)
        self._finish_task(s, stem, name, inner)
        if inner.captures:
            fields = ", ".join([f".{c} = {text}" for c, (_, text) in inner.captures.items()])
            closure = w.fresh(f"{stem}_closure")
            w.line(f"struct {stem} {closure} = {{{fields}}};")
            pointer = f"&{closure}"
        else:
            pointer = "NULL"
        slots = f"bp_slots(ctx, {extent})"
        w.line(
            f"status = ctx->parallel_for(ctx, {stem}_task, {low}, {extent}, {slots}, {pointer});"
        )
        w.leave_if_failed()

    def _finish_task(self, s: S.For, stem: str, name: str, inner: Writer) -> None:
        lines: list[Any] = []
        captures = inner.captures
        if captures:
            lines.append(f"struct {stem} {{")
            for c, (c_type, _) in captures.items():
                lines.append(f"    {_declaration(c_type, c)};")
            lines += ["};", ""]
        lines.append(f"/* The iterations of the parallel loop over {comment(s.name)}. */")
        lines.append(
            f"static int32_t {stem}_task(bp_context *ctx, int32_t begin, int32_t end, "
            "int32_t slot, void *closure) {"
        )
        if not inner.uses_slot:
            lines.append("    (void)slot;")
        if captures:
            lines.append(f"    const struct {stem} *const given = (const struct {stem} *)closure;")
            for c, (c_type, _) in captures.items():
                lines.append(f"    {_declaration(c_type, c, const=True)} = given->{c};")
        else:
            lines.append("    (void)closure;")
        lines.append("    (void)ctx;")
        head = f"    for (int32_t {name} = begin; {name} < end; {name}++) {{"
        inner.lines = [head, inner.lines, "    }"]
        lines += [*function_body(inner, in_block=True), "}", ""]
        inner.unit.functions.append(lines)

    # Storage

    def allocate(self, s: S.Allocate) -> None:
        allocate(self, s)

    def free(self, s: S.Free) -> None:
        release(self, s.name)

    # Others

    def atomic(self, s: S.Atomic) -> None:
        """The body under a lock of the Func's own, lane by lane."""
        w = self.w
        lock = w.unit.globals.get(s.name)
        if lock is None:
            lock = w.unit.global_name(f"{w.unit.name}_lock_{len(w.unit.globals)}")
            w.unit.globals[s.name] = lock
        w.line(f"bp_lock(&{lock});")
        saved = w.lane_by_lane
        w.lane_by_lane = True
        self._nested(s.body)
        w.lane_by_lane = saved
        w.line(f"bp_unlock(&{lock});")

    def transparent(self, s: Any) -> None:
        self.write(s.body)


def _has_loop(s: S.Stmt) -> bool:
    return any(type(n) is S.For for n in iterate(s))


def _loop_stem(name: str) -> str:
    from bayplan.targets.c_names import sanitise

    return sanitise(name.replace("$", "_"))


def _declaration(c_type: str, name: str, *, const: bool = False) -> str:
    if c_type.endswith("*"):
        return f"{c_type}{'const ' if const else ''}{name}"
    return f"{'const ' if const else ''}{c_type} {name}"


_RULES: Final[dict[type, Callable[[StatementWriter, Any], None]]] = {
    S.Block: StatementWriter.block,
    S.Evaluate: StatementWriter.evaluate,
    S.LetStmt: StatementWriter.let,
    S.AssertStmt: StatementWriter.check,
    S.ProducerConsumer: StatementWriter.produce,
    S.IfThenElse: StatementWriter.branch,
    S.Store: StatementWriter.store,
    S.For: StatementWriter.loop,
    S.Allocate: StatementWriter.allocate,
    S.Free: StatementWriter.free,
    S.Atomic: StatementWriter.atomic,
    S.Prefetch: StatementWriter.transparent,
    S.HoistedStorage: StatementWriter.transparent,
}

