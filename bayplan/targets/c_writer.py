"""The state of the C function being written: lines, names in scope, and values already computed.

Each expression node is written once a statement. A node with several users, or whose text grows
long, becomes a named local, so the text is linear in the size of the DAG.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.types import Type
from bayplan.targets.c_helpers import Helpers, VectorType
from bayplan.targets.c_names import sanitise, scalar_type, short_name
from bayplan.targets.c_text import ATOM, Text, break_list
from bayplan.targets.measure_statement import Measure

if TYPE_CHECKING:
    from bayplan.ir.errors import ErrorSite

_LONG = 88
_SHORT = 14

# What entry points and tasks declare themselves.
_OWN_LOCALS = dict.fromkeys(
    ("args", "bytes", "given", "none", "query", "slot", "workspace", "workspace_bytes"), 1
)

Lines = list[Any]
"""Lines of text, or lists of them in turn."""


class Pieces:
    """A vector value held in several C variables: (first lane, lanes, text).

    A mask that is set in its first lanes only is one variable instead, their number: `leading`.
    """

    __slots__ = ("leading", "mask_width", "parts", "type")

    def __init__(self, t: Type, parts: list[tuple[int, int, str]], mask_width: int = 0,
                 leading: str = "") -> None:
        self.type = t
        self.parts = parts
        self.mask_width = mask_width
        self.leading = leading


class Binding:
    """What an IR name stands for in C.

    Attributes:
        text: the C name (of a scalar or a pointer).
        c_type: its C type, for closures.
        pieces: set for vectors instead.
    """

    __slots__ = ("c_type", "pieces", "text")

    def __init__(self, text: str, c_type: str, pieces: Pieces | None = None) -> None:
        self.text = text
        self.c_type = c_type
        self.pieces = pieces


class Unit:
    """What all functions of one emitted program share.

    Attributes:
        name: of the program; C names of functions begin with it.
        register_bytes: of a native vector register.
        sites: the error sites in the order of their table.
        functions: finished functions, in the order of definition.
    """

    def __init__(self, name: str, register_bytes: int) -> None:
        self.name = name
        self.register_bytes = register_bytes
        self.helpers = Helpers()
        self.sites: list[ErrorSite] = []
        self._site_index: dict[int, int] = {}
        self.functions: list[Lines] = []
        self.externs: dict[str, str] = {}
        # Functions of external stages, by symbol; see c_extern.
        self.extern_functions: dict[str, Any] = {}
        # C names of the pipelines that are called, by the id of the Callee.
        self.callee_names: dict[int, str] = {}
        self.globals: dict[str, str] = {}
        self.constants: dict[str, Binding] = {}
        self.used_names: set[str] = {name}
        self.requirements: dict[Any, ErrorSite] = {}
        self.need_overlap = False
        self.may_have_device = False  # the target has one
        self.need_device = False  # buffers may be newer on a device
        # The kernels' own text (targets.kernels), where the program has kernels.
        self.device: Unit | None = None
        # Kept placements: the name of each one's table by id, and the tables' text.
        self.placements: dict[int, str] = {}
        self.tables: list[str] = []

    def site(self, site: ErrorSite) -> int:
        """The index of an error site in the program's table."""
        found = self._site_index.get(id(site))
        if found is None:
            found = self._site_index[id(site)] = len(self.sites)
            self.sites.append(site)
        return found

    def global_name(self, wanted: str) -> str:
        """A name at file level that is not yet taken."""
        name, number = wanted, 1
        while name in self.used_names:
            number += 1
            name = f"{wanted}_{number}"
        self.used_names.add(name)
        return name


class Writer:
    """Writes one C function."""

    def __init__(self, unit: Unit, parent: Writer | None = None) -> None:
        self.unit = unit
        self.helpers = unit.helpers
        self.parent = parent
        self.lines: Lines = []
        self.depth = 1
        self.scope: dict[str, Binding] = {}
        # Captured from the parent: C name -> (C type, the parent's text).
        self.captures: dict[str, tuple[str, str]] = {}
        self._taken: dict[str, int] = dict(parent._taken if parent else _OWN_LOCALS)
        self._temps = 0
        self.measure = Measure()
        self.memo: dict[Any, Text] = {}
        # How the function may end before its end; see `leave`.
        self.fails = False
        self.uses_status = False
        self.uses_done = False
        self.open = 0  # allocations that are to be given back, at this point of the text
        # The lines at which the first one begins and is taken; 0 where that is in some block.
        self.first_open = (0, 0)
        self.uses_slot = False
        # Of heap allocations: C name, element type, name for the hooks, when to release it.
        self.heap: list[tuple[str, str, str, str]] = []
        self.offsets: dict[int, str] = {}  # array that a Placement's offsets are in, by its id
        # Records of lives in builds with guards (see c_sanitize), by alias.
        self.lives: dict[str, str] = {}
        self.all_lives: list[str] = []
        self.sites_of_lives: dict[str, Any] = {}
        self.loop_depth = 0
        self.many_chunks = False
        self.lane_by_lane = False

    # Lines

    def line(self, text: str) -> None:
        """Adds one line at the current depth."""
        self.lines.append("    " * self.depth + text)

    # Ends of the function. Where nothing is to be given back it returns; else it goes to its end,
    # out of the block that all declarations are in: C++ has no jumps into their scope.

    def leave(self, result: str) -> None:
        """Leaves the function with a result, inside the block of an if."""
        self.fails = True
        if not self.open:
            self.line(f"return {result};")
            return
        self.uses_done = True
        self.line(f"status = {result};")
        self.line("goto done;")

    def leave_if(self, condition: str, result: str) -> None:
        """Leaves the function with a result when the condition holds."""
        self.fails = True
        if not self.open:
            self.line(f"if ({condition}) return {result};")
            return
        self.uses_done = True
        self.line(f"if ({condition}) {{ status = {result}; goto done; }}")

    def leave_if_failed(self) -> None:
        """Leaves the function when the status that it was just given is an error."""
        self.fails = self.uses_status = True
        if self.open:
            self.uses_done = True
        self.line(f"if (status < 0) {'goto done' if self.open else 'return status'};")

    def fail(self, site: ErrorSite, args: Sequence[str] = ()) -> None:
        """Notes an error and leaves the function, inside the block of an if.

        Args:
            site: where and what.
            args: the values of its message, each a `bp_arg`.
        """
        self.leave(f"bp_fail(ctx, bp_sites, {self.unit.site(site)}, {self.arguments(args)})")

    def arguments(self, args: Sequence[str]) -> str:
        """Values as an array of `bp_arg`, which is declared, and its length."""
        if not args:
            return "NULL, 0"
        self.lines += break_list("const bp_arg args[] = {", args, "};", "    " * self.depth)
        return f"args, {len(args)}"

    # Names

    def fresh(self, wanted: str) -> str:
        """A C name like `wanted` that nothing in this function has."""
        name = sanitise(wanted)
        number = self._taken.get(name)
        if number is None:
            self._taken[name] = 1
            return name
        while True:
            number += 1
            candidate = f"{name}_{number}"
            if candidate not in self._taken:
                self._taken[name] = number
                self._taken[candidate] = 1
                return candidate

    def temp(self) -> str:
        """A name for a value that has none."""
        while True:
            self._temps += 1
            name = f"t{self._temps}"
            if name not in self._taken:
                self._taken[name] = 1
                return name

    def declare(self, ir_name: str, c_type: str, *, short: bool = True) -> str:
        """Binds an IR name to a fresh C name and gives the C name."""
        c_name = self.fresh(short_name(ir_name) if short else ir_name)
        self.scope[ir_name] = Binding(c_name, c_type)
        return c_name

    def lookup(self, ir_name: str) -> Binding | None:
        """What the name stands for, taken over from the enclosing function if need be."""
        found = self.scope.get(ir_name) or self.unit.constants.get(ir_name)
        if found is not None:
            return found
        if self.parent is None:
            return None
        outer = self.parent.lookup(ir_name)
        if outer is None:
            return None
        if outer.pieces is not None:
            t = outer.pieces
            if t.leading:
                self.captures[t.leading] = ("int32_t", t.leading)
            for first, lanes, text in t.parts:
                self.captures[text] = (self._piece_type(t, lanes), text)
                del first
        else:
            self.captures[outer.text] = (outer.c_type, outer.text)
        self.scope[ir_name] = outer
        return outer

    def _piece_type(self, pieces: Pieces, lanes: int) -> str:
        t = pieces.type
        if lanes == 1:
            return scalar_type(t.element_of())
        if t.width == 1:
            return self.helpers.type(VectorType("int", pieces.mask_width, lanes))
        return self.helpers.type(self.vector_type(t, lanes))

    def vector_type(self, t: Type, lanes: int) -> VectorType:
        """The C vector that holds `lanes` lanes of the IR type (not of bools)."""
        if t.kind == "handle":
            return VectorType("uint", 64, lanes)
        if t.kind == "float" and t.width == 16:
            return VectorType("float", 32, lanes)
        return VectorType(t.kind, t.width, lanes)

    # Statements' values

    def begin_statement(self, *roots: Expr) -> None:
        """Forgets the values of the statement before and measures this one."""
        self.memo = {}
        self.measure = Measure()
        self.measure.add(*roots)
        self.many_chunks = False

    def cap(self) -> int:
        """The most lanes of a piece of this statement's vectors."""
        if self.lane_by_lane:
            return 1
        return max(2, self.unit.register_bytes // self.measure.widest_bytes)

    def chunks(self, lanes: int, cap: int | None = None) -> list[tuple[int, int]]:
        """The pieces (first lane, lanes) a vector is computed in: powers of two."""
        result = []
        first = 0
        if cap is None:
            cap = self.cap()
        while first < lanes:
            size = min(cap, 1 << ((lanes - first).bit_length() - 1))
            result.append((first, size))
            first += size
        if len(result) > 1:
            self.many_chunks = True
        return result

    def local(self, c_type: str, text: str) -> Text:
        """A new constant local with the value of the text."""
        name = self.temp()
        self.line(f"const {c_type} {name} = {text};")
        return name, ATOM

    def scalar(self, e: Expr) -> Text:
        """The text of a scalar expression."""
        memo = self.memo
        found = memo.get(e)
        if found is not None:
            return found
        resolved = self.measure.resolve(e)
        if resolved is not e:
            text = self.scalar(resolved)
        else:
            text = self.scalar_rule(type(e))(self, e)
            size = len(text[0])
            if size > _LONG or (size > _SHORT and self.measure.uses.get(e, 1) > 1):
                if e.type.kind != "handle":
                    text = self.local(scalar_type(e.type), text[0])
        memo[e] = text
        return text

    def scalar_rule(self, cls: type) -> Any:
        """The function that writes scalar expressions of the class."""
        return _scalar_rule(cls)

    def stable_scalar(self, e: Expr) -> Text:
        """As `scalar`, in a local when several pieces of a vector will repeat it."""
        text = self.scalar(e)
        if self.many_chunks and len(text[0]) > _SHORT and e.type.kind != "handle":
            text = self.memo[e] = self.local(scalar_type(e.type), text[0])
        return text

    def vector(self, e: Expr, first: int, lanes: int) -> Text:
        """The text of lanes first ... first + lanes - 1 of a vector that is not of bools."""
        if lanes == 1:
            return self.scalar(self.measure.lane(e, first))
        key = (e, first, lanes)
        memo = self.memo
        found = memo.get(key)
        if found is not None:
            return found
        resolved = self.measure.resolve(e)
        if resolved is not e:
            text = self.vector(resolved, first, lanes)
        else:
            text = _vector_rule(type(e))(self, e, first, lanes)
            size = len(text[0])
            if size > _LONG or (size > _SHORT and self.measure.uses.get(e, 1) > 1):
                t = self.vector_type(e.type, lanes)
                text = self.local(self.helpers.type(t), text[0])
        memo[key] = text
        return text

    def mask(self, e: Expr, first: int, lanes: int, width: int) -> Text:
        """Lanes of a vector of bools as a mask of `width`-bit integers, 0 or -1."""
        assert lanes > 1
        key = (e, first, lanes, width)
        memo = self.memo
        found = memo.get(key)
        if found is not None:
            return found
        resolved = self.measure.resolve(e)
        if resolved is not e:
            text = self.mask(resolved, first, lanes, width)
        else:
            text = _mask_rule(type(e))(self, e, first, lanes, width)
            size = len(text[0])
            if size > _LONG or (size > _SHORT and self.measure.uses.get(e, 1) > 1):
                t = VectorType("int", width, lanes)
                text = self.local(self.helpers.type(t), text[0])
        memo[key] = text
        return text

    def variable(self, e: Variable) -> Binding:
        """The binding of a variable that the program uses."""
        found = self.lookup(e.name)
        if found is None:
            from bayplan.ir.errors import InternalError

            raise InternalError(f"the lowered program uses {e.name!r}, which nothing defines")
        return found


def _scalar_rule(cls: type) -> Any:
    from bayplan.targets.c_scalars import SCALAR_RULES

    global _scalar_rule
    _scalar_rule = SCALAR_RULES.__getitem__  # type: ignore[assignment]
    return SCALAR_RULES[cls]


def _vector_rule(cls: type) -> Any:
    from bayplan.targets.c_vectors import VECTOR_RULES

    global _vector_rule
    _vector_rule = VECTOR_RULES.__getitem__  # type: ignore[assignment]
    return VECTOR_RULES[cls]


def _mask_rule(cls: type) -> Any:
    from bayplan.targets.c_masks import MASK_RULES

    global _mask_rule
    _mask_rule = MASK_RULES.__getitem__  # type: ignore[assignment]
    return MASK_RULES[cls]
