"""Builds with guards: the same values, and one clear error where bytes are shared or overrun."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.build.compilers import find_compiler
from bayplan.ir.build import const
from bayplan.ir.exprs import Expr
from bayplan.ir.stmts import Allocate, Stmt, Store
from bayplan.ir.types import INT64
from bayplan.ir.walk import Rewriter
from bayplan.lower import plan_storage as planner

GUARDS = 2 * 64


def guarded() -> hl.Target:
    return hl.get_jit_target_from_environment().with_feature(hl.TargetFeature.ASAN)


def make_chain() -> hl.Func:
    """out from c from b from a, each of 100 float32 and from the one before reversed."""
    x = hl.Var("x")
    a, b, c, out = [hl.Func(f"chain_{name}") for name in ("a", "b", "c", "out")]
    a[x] = hl.cast(hl.Float(32), x)
    b[x] = a[99 - x] + 1.0
    c[x] = b[99 - x] + 1.0
    out[x] = c[99 - x] + 1.0
    for f in (a, b, c):
        f.compute_root().store_in(hl.MemoryType.Heap).bound(x, 0, 100)
    return out


def expected() -> Any:
    return np.arange(100, dtype=np.float32)[::-1] + 3


def letter(name: str) -> str:
    """Which of the chain a temporary is: its name has a number where it is not the first."""
    return name.removeprefix("chain_").partition("$")[0]


class Moved(Rewriter):
    """Puts aliases at other constant offsets."""

    def __init__(self, offsets: dict[str, int]) -> None:
        super().__init__()
        self.offsets = offsets

    def __call__(self, node: Any) -> Any:
        return node if isinstance(node, Expr) else super().__call__(node)

    def rewrite_Allocate(self, node: Allocate) -> Stmt:
        rebuilt: Allocate = self.rebuild(node)
        name = letter(node.name)
        if rebuilt.address is None or name not in self.offsets:
            return rebuilt
        children = list(rebuilt.children())
        base = rebuilt.address.args[0]
        offset = const(INT64, self.offsets[name])
        children[-2] = rebuilt.address.with_children([base, offset])
        moved: Stmt = rebuilt.with_children(children)
        return moved


class Shifted(Rewriter):
    """Stores to a temporary so many elements further on."""

    def __init__(self, name: str, elements: int) -> None:
        super().__init__()
        self.name = name
        self.elements = elements

    def rewrite_Store(self, node: Store) -> Stmt:
        if letter(node.name) != self.name:
            return node
        return Store(node.name, node.value, node.index + self.elements)


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Rewriter], None]:
    """Lets a rewriter spoil what the planner makes; the checker does not look."""
    monkeypatch.setenv("BAYPLAN_VERIFY", "0")
    right = planner.plan_storage

    def use(rewriter: Rewriter) -> None:
        monkeypatch.setattr(
            planner, "plan_storage", lambda stmt, lowering: rewriter(right(stmt, lowering))
        )

    return use


def test_values_are_the_same() -> None:
    out = make_chain()
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(out.realize([100], guarded())), expected())


def test_sizes_include_the_guards() -> None:
    plain = make_chain().compile_to_callable([])
    with_guards = make_chain().compile_to_callable([], target=guarded())
    result = np.zeros(100, np.float32)
    # Two at a time, on multiples of the alignment.
    unit = plain.workspace_alignment
    assert plain.workspace_bytes(result) == -(-400 // unit) * unit + 400
    size = 400 + GUARDS
    assert with_guards.workspace_bytes(result) == -(-size // unit) * unit + size
    with_guards(result)
    np.testing.assert_array_equal(result, expected())


@pytest.mark.parametrize(
    ("offsets", "first", "second"),
    [
        ({"b": 0}, "b", "a"),
        ({"b": 400}, "b", "a"),
        ({"a": 576, "b": 576 - 64}, "b", "a"),
        ({"c": 576}, "c", "b"),
    ],
)
def test_a_wrong_offset_is_found_when_the_second_begins(
    mutate: Callable[[Rewriter], None], offsets: dict[str, int], first: str, second: str
) -> None:
    mutate(Moved(offsets))
    with pytest.raises(hl.BayplanError) as raised:
        make_chain().realize([100], guarded())
    assert raised.value.code == "BP-M005"
    assert re.search(rf"chain_{first}\S* is given bytes of chain_{second}", str(raised.value))
    assert "test_sanitize.py" in str(raised.value)


@pytest.mark.parametrize(("elements", "where"), [(16, "behind"), (-1, "before")])
def test_a_store_beyond_the_end_is_found(
    mutate: Callable[[Rewriter], None], elements: int, where: str
) -> None:
    mutate(Shifted("a", elements))
    with pytest.raises(hl.BayplanError, match=rf"bytes {where} those of chain_a\S* were written"):
        make_chain().realize([100], guarded())


def test_an_error_leaves_no_life_behind(mutate: Callable[[Rewriter], None]) -> None:
    mutate(Moved({"c": 576}))
    out = make_chain()
    for _ in range(3):
        with pytest.raises(hl.BayplanError, match=r"chain_c\S* is given bytes of chain_b"):
            out.realize([100], guarded())


def test_workers_and_loops() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x, y] = x + 10 * y
    second[x, y] = first[x - 1, y] + first[x + 1, y]
    out[x, y] = second[x, y] + second[x + 2, y]
    out.parallel(y).vectorize(x, 8)
    for f in (first, second):
        f.compute_at(out, y).store_in(hl.MemoryType.Heap)
    ys, xs = np.mgrid[:40, :64]
    np.testing.assert_array_equal(
        np.asarray(out.realize([64, 40], guarded())), 4 * (xs + 10 * ys + 1)
    )


def test_branches_begin_and_end_lives() -> None:
    x = hl.Var("x")
    flag = hl.Param(hl.Bool(), "flag")
    a, b, out = hl.Func("a"), hl.Func("b"), hl.Func("out")
    a[x] = hl.select(flag, x, x * 2)
    a.specialize(flag)
    b[x] = a[99 - x]
    out[x] = hl.select(flag, b[99 - x], a[x])
    for f in (a, b):
        f.compute_root().store_in(hl.MemoryType.Heap).bound(x, 0, 100)
    for value in (True, False):
        flag.set(value)
        want = np.arange(100) * (1 if value else 2)
        np.testing.assert_array_equal(np.asarray(out.realize([100], guarded())), want)


def test_the_address_sanitizer_takes_the_guards(tmp_path: Path) -> None:
    compiler = find_compiler()
    if compiler.kind == "zig":
        pytest.skip("zig has no address sanitizer")
    source = driver.compile_pipeline([make_chain()._function], guarded()).source
    (tmp_path / "chain.c").write_text(source)
    command = [*compiler.command, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
    command += ["-fsanitize=address", "-c", "chain.c", "-o", "chain.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    symbols = (tmp_path / "chain.o").read_bytes()
    assert b"__asan_poison_memory_region" in symbols
