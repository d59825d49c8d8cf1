"""Puts barriers between the stretches of kernels, from hazards between bytes of the final plan."""

from __future__ import annotations

from bayplan.analysis.purity import reads_memory
from bayplan.ir.exprs import Expr, Variable
from bayplan.ir.memory import ForKind
from bayplan.ir.stmts import Allocate, For, LetStmt, Stmt
from bayplan.ir.walk import StmtRewriter
from bayplan.lower.context import Lowering
from bayplan.storage.barriers import insert_into
from bayplan.storage.kernel_names import Names
from bayplan.storage.kernel_steps import KernelSteps
from bayplan.storage.memory_places import Memories


def insert_barriers(stmt: Stmt, lowering: Lowering) -> Stmt:
    """The statement in which threads of a block wait wherever one needs what another does.

    Order: after plan_kernels, as hazards are those of bytes that temporaries share.
    """
    return _InsertBarriers(_buffers_that_may_be_one(lowering))(stmt)


def _buffers_that_may_be_one(lowering: Lowering) -> dict[str, str]:
    """By name of a buffer another one whose memory it may share."""
    same: dict[str, str] = {}
    for function in lowering.env.values():
        for output in function.output_buffers:
            for parameter in output.aliases:
                same[parameter.name] = same[output.name] = output.name
    return same


class _InsertBarriers(StmtRewriter):
    memoise = False

    def __init__(self, same: dict[str, str]) -> None:
        super().__init__()
        self.names = Names()
        self.memories = Memories(same)

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:
        saved = self.names.scope()
        self.names.let(node.name, node.value, 0)
        body = self(node.body)
        self.names.leave(saved)
        return node if body is node.body else LetStmt(node.name, node.value, body)

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        hidden = self.memories.enter(node, self.names, False)
        body = self(node.body)
        self.memories.leave(node, hidden)
        return node.with_body(body)

    def rewrite_For(self, node: For) -> Stmt:
        saved = self.names.scope()
        self.names.loop(node.name, node.min, node.extent, 0)
        if node.kind is ForKind.GPUBlock:
            body = self._block(node.body)
        else:
            body = self(node.body)
        self.names.leave(saved)
        if body is node.body:
            return node
        return For(node.name, node.min, node.extent, node.kind, node.partition, body)

    def _block(self, body: Stmt) -> Stmt:
        """What a loop over blocks holds: another such loop, or the body of the kernel."""
        if _holds_blocks(body):
            return self(body)  # type: ignore[no-any-return]
        body = _NameBounds()(body)
        return insert_into(KernelSteps(body, self.names, self.memories))


class _NameBounds(StmtRewriter):
    """Bounds of a kernel's loops that are read from memory are read once, before the loop.

    So that a barrier can stand before all that is read, which emitted code would else read again
    in each iteration.
    """

    memoise = False

    def rewrite_For(self, node: For) -> Stmt:
        if node.kind.is_gpu:
            return node
        body = self(node.body)
        low, extent = node.min, node.extent
        lets: list[tuple[str, Expr]] = []
        if reads_memory(low):
            lets.append((f"{node.name}.min", low))
            low = Variable(low.type, f"{node.name}.min")
        if reads_memory(extent):
            lets.append((f"{node.name}.extent", extent))
            extent = Variable(extent.type, f"{node.name}.extent")
        if body is node.body and not lets:
            return node
        stmt: Stmt = For(node.name, low, extent, node.kind, node.partition, body)
        for name, value in reversed(lets):
            stmt = LetStmt(name, value, stmt)
        return stmt


def _holds_blocks(s: Stmt) -> bool:
    while isinstance(s, LetStmt | Allocate):
        s = s.body
    return isinstance(s, For) and s.kind is ForKind.GPUBlock
