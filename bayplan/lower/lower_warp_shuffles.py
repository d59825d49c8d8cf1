"""Spreads temporaries above loops over lanes over the registers of a warp.

Such a temporary belongs to one warp: the loops over threads inside of its allocation are over
lanes. Each lane holds some of its elements (see `lane_stripes`) and asks other lanes for theirs
(`warp_shuffle`). The allocation becomes one of kind Register, outside of the loops over threads:
each thread has its own. Where that cannot be it stays as it is, and becomes shared memory.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.analysis.facts import Facts
from bayplan.analysis.ranges import range_of
from bayplan.ir import build
from bayplan.ir.errors import ScheduleError
from bayplan.ir.exprs import Expr, Load, Variable
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import Allocate, Block, For, IfThenElse, LetStmt, Stmt, Store
from bayplan.ir.types import INT32
from bayplan.ir.walk import iterate, substitute
from bayplan.language.target_names import TargetFeature
from bayplan.lower.context import Lowering
from bayplan.lower.hoist_shuffles import HoistShuffles
from bayplan.lower.kernel_grid import MOST_LANES, is_over_threads
from bayplan.lower.lane_accesses import LaneWalk, OneByOne, Varying, Where, touches
from bayplan.lower.lane_stripes import LANE, NotOwn, Stripe
from bayplan.lower.names import func_of_storage
from bayplan.lower.rewrite_kernels import rewrite_kernels
from bayplan.storage.plan import KindChoice

_SPREAD: Final = (MemoryType.Auto, MemoryType.Register, MemoryType.Stack)
_OF_THREAD: Final = (MemoryType.Register, MemoryType.Stack)

# Of a lane, where nothing is asked for; and where Register is.
_AUTO_BYTES: Final = 256
_ASKED_BYTES: Final = 4096
_AUTO_SHUFFLES: Final = 8
_ASKED_SHUFFLES: Final = 64


def lower_warp_shuffles(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which what lanes of a warp share is in their registers where it can be.

    Order: on loops over lanes as scheduled, whose iterations are the lanes; vectors are made and
    loops unrolled, so that registers have constant numbers; before normalize_kernels, which makes
    room for all warps where a temporary is not spread.

    Raises:
        ScheduleError: Register is asked for, and a lane stores what another one holds.
    """

    def spread(node: For) -> Stmt:
        kernel = node
        if any(type(n) is For and n.kind is ForKind.GPULane for n in iterate(node)):
            kernel = _constant_extents(node, _outside())
        return _InKernel(lowering, _count_lanes(kernel)).run(kernel)

    return rewrite_kernels(stmt, spread)


def _outside() -> Where:
    return Where(Facts.none().child(), Varying(frozenset(), frozenset()))


def _constant_extents(s: Any, at: Where) -> Any:
    """Loops over lanes run as often as they can do at most, with a guard."""
    if type(s) is For and s.kind is ForKind.GPULane:
        _, most = range_of(at.written_out(s.extent), at.facts)
        if build.constant_value(s.extent) is not None or most is None or most > MOST_LANES:
            return s
        guard = build.lt(Variable(s.min.type, s.name), build.add(s.min, s.extent))
        return s.with_children([s.min, build.int32(max(most, 1)), IfThenElse(guard, s.body)])
    if isinstance(s, Expr) or not any(is_over_threads(n) for n in iterate(s)):
        return s
    if isinstance(s, For | LetStmt):
        inner = at.loop(s, 0) if isinstance(s, For) else at.let(s.name, s.value)
        return s.with_children([*s.children()[:-1], _constant_extents(s.body, inner)])
    if type(s) is Allocate:
        return s.with_body(_constant_extents(s.body, at))
    return s.with_children([_constant_extents(c, at) for c in s.children()])


def _count_lanes(s: Stmt) -> int:
    """Iterations of the longest loop over lanes; 0: there is none that is understood."""
    most = 0
    for node in iterate(s):
        if type(node) is For and node.kind is ForKind.GPULane:
            extent = build.constant_value(node.extent)
            if extent is None or extent > MOST_LANES:
                return 0
            most = max(most, int(extent))
    return most


class _InKernel:
    def __init__(self, lowering: Lowering, lanes: int) -> None:
        self.lowering = lowering
        self.lanes = lanes
        self.own: set[str] = set()
        target = lowering.target
        self.can_shuffle = target is not None and any(
            target.has_feature(f) for f in (TargetFeature.CUDA, TargetFeature.CLSubgroupShuffle)
        )

    def run(self, kernel: For) -> Stmt:
        """The loops over blocks and what is in them."""
        result = self._walk(kernel, _outside())
        hoist = HoistShuffles(self.lanes, frozenset(self.own), self.lowering.unique_name)
        return hoist.run(result)

    def _walk(self, s: Any, at: Where) -> Stmt:
        cls = type(s)
        if cls is For and s.kind is ForKind.GPULane:
            return s  # type: ignore[no-any-return]
        if cls is Allocate:
            return self._allocate(s, at)
        if cls is For:
            children = [s.min, s.extent, self._walk(s.body, at.loop(s, self.lanes))]
            return s.with_children(children)  # type: ignore[no-any-return]
        if cls is LetStmt:
            return LetStmt(s.name, s.value, self._walk(s.body, at.let(s.name, s.value)))
        children = [self._walk(c, at) if isinstance(c, Stmt) else c for c in s.children()]
        return s.with_children(children)  # type: ignore[no-any-return]

    def _allocate(self, s: Allocate, at: Where) -> Stmt:
        if s.memory_type in _SPREAD:
            # Its elements come from other lanes, if it is spread.
            at = at.child()
            at.varying = at.varying.owning(s.name)
        s = s.with_body(self._walk(s.body, at))
        threads = [n for n in iterate(s.body) if is_over_threads(n)]
        if not threads or s.memory_type not in _SPREAD:
            return s
        why = "the threads of a block share it"
        if self.lanes and all(n.kind is ForKind.GPULane for n in threads):  # type: ignore[attr-defined]
            found = self._spread(s, at)
            if isinstance(found, Stmt):
                return found
            why = found
            if s.memory_type is MemoryType.Auto and touches(s.body, s.name):
                self.lowering.kinds[s.name] = KindChoice(s.memory_type, why)
        if s.memory_type not in _OF_THREAD:
            return s
        self.lowering.kinds[s.name] = KindChoice(s.memory_type, why)
        note = f"{s.name}: asked {s.memory_type.name}, got GPUShared: {why}"
        if note not in self.lowering.warnings:
            self.lowering.warnings.append(note)
        return Allocate(
            s.name, s.type, MemoryType.GPUShared, s.extents, s.condition, s.padding, s.body,
            s.alignment,
        )  # fmt: skip

    def _spread(self, s: Allocate, at: Where) -> Stmt | str:
        """The temporary in registers, or why it is not."""
        size = _constant_size(s)
        if size is None:
            return "its size is not constant"
        body = OneByOne(s.name, self.lowering.unique_name)(s.body)
        body = self._in_lanes(body, s.name)
        asked = s.memory_type is MemoryType.Register
        most_bytes = _ASKED_BYTES if asked else _AUTO_BYTES
        seen = _Seen(s.name, self.lanes)
        seen.run(body, at)
        first: _Refused | None = None
        needs_shuffles = False
        for stripe in seen.stripes(s, size, _ASKED_SHUFFLES if asked else _AUTO_SHUFFLES):
            if stripe.registers * s.type.bytes() > most_bytes:
                continue
            try:
                result = _rewritten(body, s.name, stripe, at)
            except _Refused as refused:
                first = first or refused
                continue
            if stripe.uses_shuffles and not self.can_shuffle:
                needs_shuffles = True
                continue
            return self._result(s, stripe, result)
        if needs_shuffles:
            return "the target does not let lanes ask each other for elements"
        if first is None:
            return "it is too large for the registers of a warp"
        if asked:
            self._refuse(s, first)
        return f"{first.index} {first.why}"

    def _result(self, s: Allocate, stripe: Stripe, body: Stmt) -> Stmt:
        self.own.add(s.name)
        self.lowering.kinds.setdefault(s.name, KindChoice(s.memory_type))
        extents = (build.int32(stripe.registers),)
        return Allocate(
            s.name, s.type, MemoryType.Register, extents, build.true(), 0, body, s.alignment
        )

    def _refuse(self, s: Allocate, refused: _Refused) -> None:
        func = func_of_storage(s.name, self.lowering)
        raise ScheduleError(
            f"{func} is to be in the registers of a warp's lanes, and {refused.index} of it "
            f"{refused.why}",
            self.lowering.where(func),
            hint="lanes store elements i, i + stride, ... each of its own; leave out "
            "store_in(Register), or take store_in(GPUShared)",
        )

    def _in_lanes(self, s: Any, name: str) -> Stmt:
        """What uses the temporary outside of loops over lanes is done by the first lane."""
        if not touches(s, name) or (type(s) is For and s.kind is ForKind.GPULane):
            return s  # type: ignore[no-any-return]
        if not any(is_over_threads(n) for n in iterate(s)):
            lane = Variable(INT32, self.lowering.unique_name(f"{name}.lane"))
            return For(
                lane.name, build.int32(0), build.int32(self.lanes), ForKind.GPULane,
                Partition.Never, IfThenElse(build.eq(lane, build.int32(0)), s),
            )  # fmt: skip
        children: list[Any] = []
        run: list[Stmt] = []
        for c in s.children():
            if isinstance(c, Expr):
                children.append(c)
            elif type(s) is Block and not any(is_over_threads(n) for n in iterate(c)):
                run.append(c)
            else:
                children += [self._in_lanes(build.block(run), name)] if run else []
                children.append(self._in_lanes(c, name))
                run = []
        children += [self._in_lanes(build.block(run), name)] if run else []
        if type(s) is Block:
            return build.block(children)
        return s.with_children(children)  # type: ignore[no-any-return]


class _Refused(Exception):
    """A stripe does not fit an access."""

    def __init__(self, index: str, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


class _Seen(LaneWalk):
    """What lanes do with a temporary, to choose a stripe by."""

    def __init__(self, name: str, lanes: int) -> None:
        super().__init__(name, lanes, self._load, self._store_index)
        self.widths: list[int] = []
        self.store_strides: list[int] = []
        self.load_strides: list[int] = []

    def _note(self, index: Expr, at: Where, strides: list[int]) -> None:
        stride = at.element(index).form.terms.get(Variable(INT32, LANE), 0)
        if stride > 0 and stride not in strides:
            strides.append(stride)
        if at.lanes and at.lanes not in self.widths:
            self.widths.append(at.lanes)

    def _load(self, node: Load, at: Where) -> Expr:
        if node.type.lane_count == 1:
            self._note(node.index, at, self.load_strides)
        return node

    def _store_index(self, node: Store, at: Where) -> Expr:
        self._note(node.index, at, self.store_strides)
        return node.index

    def stripes(self, s: Allocate, size: int, most: int) -> list[Stripe]:
        """Those that may fit, the best ones first."""
        strides = self.store_strides or self.load_strides or [1]
        widths = [self.lanes, *sorted([w for w in self.widths if w != self.lanes], reverse=True)]
        found: list[Stripe] = []
        for with_rows in (False, True):
            for width in widths:
                for stride in strides:
                    row = None
                    if with_rows:
                        old = int(build.constant_value(s.extents[0]) or 0)
                        new = -(-old // (width * stride)) * width * stride
                        if len(s.extents) < 2 or new in (0, old):
                            continue
                        row = old, new
                    found.append(Stripe(self.lanes, width, stride, size, row, most))
        return found


def _rewritten(body: Stmt, name: str, stripe: Stripe, at: Where) -> Stmt:
    """The body with the temporary's accesses to registers.

    Raises:
        _Refused: the stripe does not fit.
    """

    def load(node: Load, at: Where) -> Expr:
        if not at.lanes:
            raise _Refused(f"element {node.index}", "is read outside of loops over lanes")
        if node.predicate is not None and not build.is_const(node.predicate, 1):
            raise _Refused(f"element {node.index}", "is read under a condition")
        before = stripe.uses_shuffles
        stripe.uses_shuffles = False
        try:
            value = stripe.load(at.element(node.index), node.type, name)
        except NotOwn as error:
            raise _Refused(f"element {node.index}", str(error)) from None
        if stripe.uses_shuffles and at.stuck:
            why = f"is another lane's, which cannot be asked for it here: {at.stuck}"
            raise _Refused(f"element {node.index}", why)
        stripe.uses_shuffles = stripe.uses_shuffles or before
        return substitute(at.back, value)

    def store(node: Store, at: Where) -> Expr:
        try:
            return substitute(at.back, stripe.store(at.element(node.index)))
        except NotOwn as error:
            raise _Refused(f"element {node.index}", str(error)) from None

    return LaneWalk(name, stripe.lanes, load, store).run(body, at)


def _constant_size(s: Allocate) -> int | None:
    size = 1
    for extent in s.extents:
        value = build.constant_value(extent)
        if value is None:
            return None
        size *= max(int(value), 1)
    return size + s.padding
