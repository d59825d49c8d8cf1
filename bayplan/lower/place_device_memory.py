"""Gives what kernels touch memory on the device, and says when bytes of either side are newer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.ir import build
from bayplan.ir.exprs import Call, CallKind, Expr, StringImm
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Allocate, Block, Evaluate, For, Free, IfThenElse, LetStmt, Stmt
from bayplan.ir.types import INT32
from bayplan.ir.walk import StmtRewriter
from bayplan.language.target_names import TargetFeature
from bayplan.lower.context import Lowering
from bayplan.lower.sides_of_storage import SidesOfStorage, touched_by
from bayplan.storage.kernels import ON_DEVICE, is_kernel, kernels_in

_DEVICES = (TargetFeature.CUDA, TargetFeature.OpenCL)


def place_device_memory(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which kernels find their memory on the device, with true bytes in it.

    A temporary of the host's statements that only kernels touch is device memory. One that both
    touch has two homes: its own on the host, and directly inside an allocation of the name with
    ".device" behind it. For these, and for buffers of the call, calls around launches and around
    what the host does say which side's bytes are to be true, and which are newer from there on;
    bytes are copied when a call runs, where they are not true. Where they are in any case,
    nothing is said.

    Order: after free_early; before plan_storage.
    """
    if not has_device(lowering) and next(kernels_in(stmt), None) is None:
        return stmt
    return _PlaceDeviceMemory(lowering).walk(stmt)


def has_device(lowering: Lowering) -> bool:
    """Whether the target has a device, so that buffers may be newer there."""
    target = lowering.target
    return target is not None and bool(target.features_any_of(_DEVICES))


class _Scope:
    """What names stand for at a place: the temporaries around it, and whether they have two homes.

    What is no temporary is a buffer of the call.
    """

    def __init__(self, tables: Iterable[str]) -> None:
        self.two_sided: dict[str, list[bool]] = {name: [False] for name in tables}

    def tracked(self, names: Iterable[str]) -> list[str]:
        """Those of the names that have bytes on both sides, in order."""
        return [n for n in sorted(names) if n not in self.two_sided or self.two_sided[n][-1]]

    def enter(self, name: str, two_sided: bool) -> None:
        self.two_sided.setdefault(name, []).append(two_sided)

    def leave(self, name: str) -> None:
        self.two_sided[name].pop()
        if not self.two_sided[name]:
            del self.two_sided[name]


class _True:
    """What has true bytes on each side at a place, on all ways that lead there."""

    __slots__ = ("device", "host")

    def __init__(self, host: Iterable[str] = (), device: Iterable[str] = ()) -> None:
        self.host = set(host)
        self.device = set(device)

    def copy(self) -> _True:
        return _True(self.host, self.device)

    def meet(self, other: _True) -> _True:
        return _True(self.host & other.host, self.device & other.device)


class _PlaceDeviceMemory:
    def __init__(self, lowering: Lowering) -> None:
        self.sides = SidesOfStorage()
        self.scope = _Scope([table.name for table in lowering.tables or []])
        self.true = _True()

    def walk(self, s: Stmt) -> Stmt:
        cls = type(s)
        if cls is Block:
            return self._block(s)  # type: ignore[arg-type]
        if cls is Allocate:
            return self._allocate(s)  # type: ignore[arg-type]
        if cls is LetStmt:
            let: Any = s
            before = self._before([let.value])
            body = self.walk(let.body)
            result = s if body is let.body else LetStmt(let.name, let.value, body)
            return build.block([*before, result])
        if not self.sides.of(s).kernels:
            return self._on_host([s])
        if is_kernel(s):
            return self._launch(s)
        before = self._before([c for c in s.children() if isinstance(c, Expr)])
        children: list[Any] = list(s.children())
        start = self.true.copy()
        if cls is For:
            # Also behind an iteration.
            sides = self.sides.of(s)
            start.device -= sides.host_stores
            start.host -= sides.device_stores
        end = start.copy() if cls is not IfThenElse or len(children) < 3 else None
        for i, child in enumerate(children):
            if isinstance(child, Stmt):
                self.true = start.copy()
                children[i] = self.walk(child)
                end = self.true if end is None else end.meet(self.true)
        if cls not in (For, IfThenElse):
            end = self.true
        assert end is not None
        self.true = end
        return build.block([*before, s.with_children(children)])  # type: ignore[list-item]

    def _block(self, s: Block) -> Stmt:
        """Parts without a launch between them are one thing that the host does."""
        parts: list[Stmt] = []
        host: list[Stmt] = []
        for part in s.stmts:
            if type(part) in (LetStmt, Allocate) or self.sides.of(part).kernels:
                parts += [self._on_host(host), self.walk(part)]
                host = []
            else:
                host.append(part)
        return build.block([*parts, self._on_host(host)])

    def _on_host(self, parts: list[Stmt]) -> Stmt:
        """What the host does: its bytes are true before the first part that touches them."""
        touched = [self.scope.tracked(self.sides.of(s).host) for s in parts]
        stored = [self.scope.tracked(self.sides.of(s).host_stores) for s in parts]
        last = max([i for i, names in enumerate(stored) if names], default=-1)
        # Nobody asks for the bytes of what has come to its end by then.
        freed = {n for s in parts[: last + 1] for n in self.sides.of(s).freed}
        result: list[Stmt] = []
        for i, s in enumerate(parts):
            result += self._copies_out(touched[i])
            self.true.device.difference_update(stored[i])
            result.append(s)
            if i == last:
                names = sorted({n for some in stored for n in some} - freed)
                result += [_call("host_written", n) for n in names]
        return build.block(result)

    def _before(self, values: Iterable[Expr]) -> list[Stmt]:
        """What values need that are computed before a statement with launches in it."""
        names: set[str] = set()
        for value in values:
            names |= touched_by(value)[0]
        return self._copies_out(self.scope.tracked(names))

    def _copies_out(self, names: list[str]) -> list[Stmt]:
        copied = [n for n in names if n not in self.true.host]
        self.true.host.update(copied)
        return [_call("device_copy_out", n) for n in copied]

    def _launch(self, s: Stmt) -> Stmt:
        sides = self.sides.of(s)
        copied = [n for n in self.scope.tracked(sides.device) if n not in self.true.device]
        stored = self.scope.tracked(sides.device_stores)
        self.true.device.update(copied)
        self.true.host.difference_update(stored)
        before = [_call("device_copy_in", n) for n in copied]
        return build.block([*before, s, *[_call("device_written", n) for n in stored]])

    def _allocate(self, s: Allocate) -> Stmt:
        sides = self.sides.of(s.body)
        on_device, on_host = s.name in sides.device, s.name in sides.host
        before = self._before([*s.extents, s.condition])
        outside = self.true.copy()
        self.scope.enter(s.name, on_device and on_host)
        # Where nothing was stored yet, no side has what the other needs.
        self.true.host.add(s.name)
        self.true.device.add(s.name)
        body = self.walk(s.body)
        self.scope.leave(s.name)
        for now, then in ((self.true.host, outside.host), (self.true.device, outside.device)):
            (now.add if s.name in then else now.discard)(s.name)
        if not on_device:
            return build.block([*before, s.with_body(body)])
        name = s.name
        if on_host:
            name += ON_DEVICE
            body = _FreeBoth(s.name)(body)
        device = Allocate(
            name, s.type, MemoryType.GPUGlobal, s.extents, s.condition, s.padding, body,
            s.alignment,
        )
        return build.block([*before, s.with_body(device) if on_host else device])


def _call(name: str, of: str) -> Stmt:
    return Evaluate(Call(INT32, name, (StringImm(of),), CallKind.INTRINSIC))


class _FreeBoth(StmtRewriter):
    """Ends the life of the device's bytes where that of the host's ends."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def rewrite_Free(self, node: Free) -> Stmt:
        if node.name != self.name:
            return node
        return build.block([node, Free(node.name + ON_DEVICE)])
