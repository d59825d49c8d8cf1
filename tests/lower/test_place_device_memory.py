"""Where bytes of the host and of a device are newer, and that every reader meets true ones."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bayplan.ir.build import add, block, int32, lt, mod, true, var
from bayplan.ir.exprs import Expr
from bayplan.ir.memory import ForKind, MemoryType, Partition
from bayplan.ir.stmts import (
    Allocate,
    Block,
    Evaluate,
    For,
    Free,
    IfThenElse,
    LetStmt,
    Stmt,
    Store,
)
from bayplan.ir.types import INT32
from bayplan.ir.walk import iterate
from bayplan.lower.place_device_memory import place_device_memory
from bayplan.storage.lives import find_lives
from tests.lower.build_statements import load, lowering

ELEMENTS = 3
BUFFERS = ("in", "out")


def host(target: str, *sources: str, at: int = 0) -> Stmt:
    value: Expr = int32(1)
    for i, source in enumerate(sources):
        value = add(value * 3, load(source, int32((at + i) % ELEMENTS)))
    return Store(target, mod(value, 10007), int32(at % ELEMENTS))


def launch(*body: Stmt) -> Stmt:
    inner = For("k.thread_id_x", int32(0), int32(1), ForKind.GPUThread, Partition.Auto, block(body))
    return For("k.block_id_x", int32(0), int32(1), ForKind.GPUBlock, Partition.Auto, inner)


def temporary(name: str, body: Stmt) -> Allocate:
    return Allocate(name, INT32, MemoryType.Heap, (int32(ELEMENTS),), true(), 0, body)


def serial(name: str, extent: int | Expr, body: Stmt) -> Stmt:
    count = extent if isinstance(extent, Expr) else int32(extent)
    return For(name, int32(0), count, ForKind.Serial, Partition.Auto, body)


class Machine:
    """Runs statements; with `sides`, kernels have memory of their own, true only as calls say."""

    def __init__(self, sides: bool, values: dict[str, int]) -> None:
        self.sides = sides
        self.values = dict(values)
        self.host = {name: [i + 5 for i in range(ELEMENTS)] for name in BUFFERS}
        self.device: dict[str, list[int]] = {name: [-999] * ELEMENTS for name in BUFFERS}
        self.newer = dict.fromkeys(BUFFERS, "host")
        self.copies = 0
        self.in_kernel = False

    def memory(self, name: str) -> list[int]:
        if self.in_kernel and self.sides:
            return self.device[f"{name}.device" if f"{name}.device" in self.device else name]
        return self.host[name]

    def value(self, e: Any) -> int:
        kind = type(e).__name__
        if kind == "Const":
            return int(e.value)
        if kind == "Variable":
            return self.values[e.name]
        if kind == "Load":
            return self.memory(e.name)[self.value(e.index)]
        a, b = self.value(e.a), self.value(e.b)
        return {"Add": a + b, "Mul": a * b, "Mod": a % b if b else 0, "LT": int(a < b)}[kind]

    def run(self, s: Any) -> None:
        if isinstance(s, Block):
            for part in s.stmts:
                self.run(part)
        elif isinstance(s, Store):
            self.memory(s.name)[self.value(s.index)] = self.value(s.value)
        elif isinstance(s, LetStmt):
            self.values[s.name] = self.value(s.value)
            self.run(s.body)
        elif isinstance(s, IfThenElse):
            if self.value(s.condition):
                self.run(s.then_case)
            elif s.else_case is not None:
                self.run(s.else_case)
        elif isinstance(s, For):
            outer, self.in_kernel = self.in_kernel, self.in_kernel or s.kind.is_gpu
            for i in range(self.value(s.extent)):
                self.values[s.name] = i
                self.run(s.body)
            self.in_kernel = outer
        elif isinstance(s, Allocate):
            self.allocate(s)
        elif isinstance(s, Evaluate):
            self.call(s.value)
        elif not isinstance(s, Free):
            raise AssertionError(type(s))

    def allocate(self, s: Allocate) -> None:
        # What was never stored is 0 on both sides, so that reading it is no difference.
        on_device = s.memory_type is MemoryType.GPUGlobal
        (self.device if on_device else self.host)[s.name] = [0] * ELEMENTS
        if not on_device:
            self.newer[s.name] = ""
        self.run(s.body)
        del (self.device if on_device else self.host)[s.name]

    def call(self, e: Any) -> None:
        name, of = e.name, e.args[0].value
        twin = f"{of}.device" if f"{of}.device" in self.device else of
        if name == "device_written":
            self.newer[of] = "device"
        elif name == "host_written":
            self.newer[of] = "host"
        elif name == "device_copy_in" and self.newer[of] == "host":
            self.device[twin][:] = self.host[of]
            self.newer[of], self.copies = "", self.copies + 1
        elif name == "device_copy_out" and self.newer[of] == "device":
            self.host[of][:] = self.device[twin]
            self.newer[of], self.copies = "", self.copies + 1


def result(stmt: Stmt, sides: bool, **values: int) -> tuple[list[int], int]:
    machine = Machine(sides, values)
    machine.run(stmt)
    if sides:
        machine.run(Evaluate(call("device_copy_out", "out")))
    return machine.host["out"], machine.copies


def call(name: str, of: str) -> Expr:
    from bayplan.ir.exprs import Call, CallKind, StringImm

    return Call(INT32, name, (StringImm(of),), CallKind.INTRINSIC)


def calls(stmt: Stmt) -> list[str]:
    return [
        f"{s.value.name} {s.value.args[0].value}"  # type: ignore[attr-defined]
        for s in iterate(stmt)
        if isinstance(s, Evaluate)
    ]


def test_what_only_kernels_touch_is_device_memory() -> None:
    stmt = temporary("t", block([launch(host("t", "in")), launch(host("out", "t"))]))
    placed = place_device_memory(stmt, lowering())
    assert isinstance(placed, Allocate)
    assert placed.memory_type is MemoryType.GPUGlobal
    assert calls(placed) == ["device_copy_in in", "device_copy_in out", "device_written out"]


def test_what_the_host_touches_too_has_two_homes() -> None:
    stmt = temporary("t", block([host("t", "in"), launch(host("out", "t")), Free("t")]))
    placed = place_device_memory(stmt, lowering())
    made = [(s.name, s.memory_type) for s in iterate(placed) if isinstance(s, Allocate)]
    assert sorted(made, key=str) == [
        ("t", MemoryType.Heap), ("t.device", MemoryType.GPUGlobal)
    ]  # fmt: skip
    assert {s.name for s in iterate(placed) if isinstance(s, Free)} == {"t", "t.device"}
    assert calls(placed)[:2] == ["device_copy_out in", "host_written t"]
    assert "device_copy_in t" in calls(placed)


def test_bytes_are_copied_once_for_two_launches() -> None:
    stmt = temporary(
        "t", block([host("t", "in"), launch(host("out", "t")), launch(host("out", "t", at=1))])
    )
    placed = place_device_memory(stmt, lowering())
    assert calls(placed).count("device_copy_in t") == 1
    # So the host's bytes are free for others once they are copied.
    lives = {life.name: life for life in find_lives(placed).lives}
    assert lives["t"].end < lives["t.device"].end


def test_a_loop_around_a_launch_copies_where_its_iterations_need_it() -> None:
    body = serial("i", 3, block([host("t", "t", "in"), launch(host("out", "t", "out"))]))
    stmt = temporary("t", body)
    placed = place_device_memory(stmt, lowering())
    assert result(placed, True)[0] == result(stmt, False)[0]
    # t in each of three iterations, out there and back.
    assert result(placed, True)[1] == 3 + 2


def test_what_is_not_of_a_kernel_is_left_alone() -> None:
    stmt = temporary("t", block([host("t", "in"), host("out", "t")]))
    assert place_device_memory(stmt, lowering()) is stmt


def random_statement(rng: random.Random, names: list[str], depth: int) -> Stmt:
    """Stores of the host and of kernels in loops, branches and lets that read."""
    kind = rng.choice(["host", "host", "launch", "launch", "block", "loop", "if", "let", "new"])
    if depth == 0 or kind in ("host", "launch"):
        stores = [
            host(rng.choice([n for n in names if n != "in"]),
                 *rng.choices(names, k=rng.randrange(3)), at=rng.randrange(ELEMENTS))
            for _ in range(rng.randrange(1, 3))
        ]  # fmt: skip
        return launch(*stores) if kind == "launch" or rng.random() < 0.3 else block(stores)
    inner = [random_statement(rng, names, depth - 1) for _ in range(rng.randrange(1, 4))]
    if kind == "loop":
        return serial(f"i{rng.randrange(100)}", rng.choice([int32(2), var("n")]), block(inner))
    if kind == "if":
        condition = lt(mod(load(rng.choice(names), int32(0)), 3), 2)
        if rng.random() < 0.5:
            condition = lt(var("n"), 2)
        other = random_statement(rng, names, depth - 1) if rng.random() < 0.5 else None
        return IfThenElse(condition, block(inner), other)
    if kind == "let":
        return LetStmt("v", load(rng.choice(names), int32(1)), block(inner))
    if kind == "new":
        name = f"t{rng.randrange(1000)}"
        inside = [random_statement(rng, [*names, name], depth - 1) for _ in range(3)]
        return temporary(name, block(inside))
    return block(inner)


@pytest.mark.parametrize("seed", range(300))
def test_readers_meet_true_bytes(seed: int) -> None:
    rng = random.Random(seed)
    parts = [random_statement(rng, ["in", "out", "t"], 3) for _ in range(4)]
    stmt = temporary("t", block([*parts, launch(host("out", "t")), host("out", "out", at=1)]))
    placed = place_device_memory(stmt, lowering())
    for n in range(4):
        assert result(placed, True, n=n)[0] == result(stmt, False, n=n)[0], placed
