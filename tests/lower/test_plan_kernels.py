"""Where the temporaries of kernels live, how many bytes they take, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bayplan.analysis.evaluate import evaluate
from bayplan.ir.build import block, int32, true, var
from bayplan.ir.exprs import Expr, Load, Variable
from bayplan.ir.memory import MemoryType
from bayplan.ir.stmts import Allocate, For, Stmt, Store
from bayplan.ir.types import BOOL, INT32, Float, Type, UInt
from bayplan.ir.walk import iterate
from bayplan.lower.context import Lowering
from bayplan.lower.place_kernel_storage import place_kernel_storage
from bayplan.lower.plan_kernels import plan_kernels
from bayplan.storage.plan import KernelPlan, PlannedTemporary
from bayplan.storage.read_plan import measure_floor
from tests.lower.build_statements import lowering
from tests.storage.kernels import X, kernel, load, serial, store, threads

AUTO = MemoryType.Auto
HEAP = MemoryType.Heap
SHARED = MemoryType.GPUShared


def temporary(
    name: str,
    extent: int | Expr | Sequence[Any],
    body: Stmt,
    type: Type = INT32,
    kind: MemoryType = AUTO,
) -> Allocate:
    extents = extent if isinstance(extent, tuple) else (extent,)
    sizes = tuple([e if isinstance(e, Expr) else int32(e) for e in extents])
    return Allocate(name, type, kind, sizes, true(), 0, body)


def stage(target: str, *sources: str, count: int = 64) -> Stmt:
    """A stretch in which each thread stores one element made of one of each source."""
    value = sum([load(s, 63 - X) for s in sources[1:]], load(sources[0], 63 - X))
    return threads(store(target, X, value), count)


def plan(stmt: Stmt, made: Lowering | None = None) -> tuple[Stmt, KernelPlan, Lowering]:
    """The statement with aliases, and the plan of its last kernel."""
    made = made or lowering()
    result = plan_kernels(place_kernel_storage(stmt, made), made)
    return result, made.kernels[-1], made


def allocations(stmt: Stmt) -> dict[str, Allocate]:
    return {s.name: s for s in iterate(stmt) if isinstance(s, Allocate)}


def offsets(plan: KernelPlan) -> dict[str, int]:
    assert plan.shared is not None
    assert plan.shared.offsets is not None
    members = plan.shared.temporaries
    return {m.name: o for m, o in zip(members, plan.shared.offsets, strict=True)}


def test_one_big_dead_and_three_small_alive_share_bytes() -> None:
    # 2,048 bytes that die, then three times 512 that live together.
    small = ["a", "b", "c"]
    body = block(
        [stage("big", "in"), stage("a", "big"), stage("b", "a"), stage("c", "a", "b"),
         stage("out", "a", "b", "c")]
    )  # fmt: skip
    for name in small:
        body = temporary(name, 128, body)
    stmt, found, _ = plan(kernel(temporary("big", 512, body)))
    assert found.shared is not None
    # big lives together with a only.
    assert found.shared.bytes == 2560
    arena = allocations(stmt)["k.shared_alloc"]
    assert arena.memory_type is SHARED
    assert arena.address is None
    assert evaluate(arena.extents[0], {}) == 2560


def test_eight_of_which_three_live_take_three_places() -> None:
    # Each is used by the two stages behind it; t0 outlives t1 and t2, which are younger.
    names = [f"t{i}" for i in range(8)]
    stages = [stage("t0", "in"), stage("t1", "t0"), stage("t2", "t1")]
    stages += [stage("t3", "t0", "t2"), stage("t4", "t3"), stage("t5", "t4", "t3")]
    stages += [stage("t6", "t5"), stage("t7", "t6", "t5"), stage("out", "t7")]
    body = block(stages)
    for name in names:
        body = temporary(name, 128, body)
    _, found, _ = plan(kernel(body))
    assert found.shared is not None
    assert found.shared.bytes == 1536


def test_what_is_made_before_a_serial_loop_lives_for_all_of_it() -> None:
    inside = temporary(
        "first", 64,
        temporary("second", 64, block([stage("first", "made"), stage("second", "first", "made"),
                                       stage("out", "second")])),
    )  # fmt: skip
    body = temporary("made", 64, block([stage("made", "in"), serial("i", 4, inside)]))
    stmt, found, _ = plan(kernel(body))
    places = offsets(found)
    assert found.shared is not None
    assert found.shared.bytes == 3 * 256
    assert len(set(places.values())) == 3
    life = found.members["made"].life
    for name in ("first", "second"):
        assert life[0] < found.members[name].life[0]
        assert life[1] >= found.members[name].life[1]


def test_what_is_made_in_a_serial_loop_shares_with_what_is_made_later_in_it() -> None:
    stages = [stage("a", "in"), stage("b", "a"), stage("c", "b"), stage("out", "c")]
    body = block(stages)
    for name in ("a", "b", "c"):
        body = temporary(name, 64, body)
    stmt, found, _ = plan(kernel(serial("i", 4, body)))
    assert found.shared is not None
    assert found.shared.bytes == 512
    # The memory is the block's, outside of the loop; the views stand where they are needed.
    outside = next(s for s in iterate(stmt) if isinstance(s, Allocate) and s.address is None)
    assert outside.name == "k.shared_alloc"
    assert any(isinstance(s, For) and s.name == "i" for s in iterate(outside.body))


def test_bytes_and_words_share_each_as_it_is_aligned() -> None:
    u8, u32 = UInt(8), UInt(32)
    body = block(
        [
            threads(store("a", X, load("in", X, u8)), 17),
            threads(store("b", X, load("a", 16 - X, u8)), 17),
            threads(store("c", X, load("b", X, u8)), 4),
            threads(store("d", X, load("c", 3 - X, u32)), 4),
            threads(store("out", X, load("d", X, u32)), 4),
        ]
    )
    body = temporary("d", 4, body, u32)
    body = temporary("c", 4, body, u32)
    body = temporary("b", 17, body, u8)
    body = temporary("a", 17, body, u8)
    _, found, _ = plan(kernel(body))
    places = offsets(found)
    assert found.shared is not None
    assert places["c"] % 4 == places["d"] % 4 == 0
    lives = {m.name: (m.life, places[m.name], m.extents[0].value * m.type.bytes())
             for m in found.shared.temporaries}  # type: ignore[attr-defined]  # fmt: skip
    for a, (life, begin, size) in lives.items():
        for b, (other, start, bytes) in lives.items():
            if a < b and life[0] < other[1] and other[0] < life[1]:
                assert begin + size <= start or start + bytes <= begin, (a, b)
    # The floor: a beside b; c is beside b too, aligned to 4.
    assert found.shared.bytes == 34


def test_a_single_one_keeps_its_name() -> None:
    stmt, found, _ = plan(kernel(temporary("f", 64, block([stage("f", "in"), stage("out", "f")]))))
    made = allocations(stmt)
    assert list(made) == ["f"]
    assert made["f"].address is None
    assert made["f"].memory_type is SHARED
    assert found.shared is not None
    assert found.shared.bytes == 256


def test_global_memory_is_cut_into_slices_of_blocks() -> None:
    body = temporary("f", 64, block([stage("f", "in"), stage("out", "f")]), kind=HEAP)
    stmt, found, _ = plan(kernel(body, var("n")))
    made = allocations(stmt)
    backing, view = made["k.global_alloc"], made["f"]
    assert isinstance(stmt, Allocate)
    assert stmt.name == "k.global_alloc"
    assert backing.memory_type is view.memory_type is MemoryType.GPUGlobal
    assert evaluate(backing.extents[0], {"n": 5}) == 5 * 256
    assert view.address is not None
    assert found.shared is None
    assert found.slab is not None


def test_private_temporaries_are_registers_or_striped() -> None:
    def private(extent: int | Expr, kind: MemoryType = AUTO) -> Stmt:
        body = block([store("p", 3, load("in", X)), store("out", X, load("p", 3))])
        return kernel(threads(temporary("p", extent, body, kind=kind), 8))

    stmt, found, _ = plan(private(16))
    assert allocations(stmt)["p"].memory_type is MemoryType.Register
    assert found.shared is found.device is None
    for large in (private(5000), private(var("n")), private(16, HEAP)):
        stmt, found, made = plan(large)
        view = allocations(stmt)["p"]
        assert view.memory_type is MemoryType.GPUGlobal
        assert made.kinds["p"].asked in (AUTO, HEAP)
        assert [e.value for e in view.extents[1:]] == [8]  # type: ignore[attr-defined]
        stores = [s for s in iterate(stmt) if getattr(s, "name", "") == "p" and hasattr(s, "index")]
        assert {evaluate(s.index, {"k.thread_id_x": 5}) for s in stores} == {3 * 8 + 5}  # type: ignore[attr-defined]


def test_copies_in_an_unrolled_loop_have_names_of_their_own() -> None:
    def once() -> Stmt:
        return temporary("f", 64, block([stage("f", "in"), stage("out", "f")]))

    second = block([stage("g", "in"), once(), stage("out", "g")])
    body = block([once(), temporary("g", 32, second)])
    stmt, found, _ = plan(kernel(body))
    assert len(found.members) == 3
    assert found.shared is not None
    assert found.shared.bytes == 256 + 128


def test_a_private_copy_does_not_hide_the_block_s() -> None:
    inner = temporary("f", var("n"), block([store("f", 0, 1), store("out", X, load("f", 0))]))
    body = block([stage("f", "in"), threads(block([inner, store("out", X, load("f", X))]), 64)])
    stmt, found, _ = plan(kernel(temporary("f", 64, body)))
    reads = [n.name for n in iterate(stmt) if type(n).__name__ == "Load" and n.name != "in"]
    assert len(set(reads)) == 2
    assert set(reads) == set(found.members)


def test_sizes_are_the_largest_over_blocks_and_loops() -> None:
    # min(8, n - 8 i) elements in iteration i: never more than min(8, n).
    n, i = var("n"), var("i")
    from bayplan.ir.build import minimum

    extent = minimum(int32(8), n - i * 8)
    body = temporary("f", extent, block([stage("f", "in"), stage("out", "f")]))
    stmt, _, _ = plan(kernel(serial("i", (n + 7) // 8, body)))
    made = allocations(stmt)["f"]
    assert size_of(stmt, made, n=3) == 3
    assert size_of(stmt, made, n=30) == 8


def size_of(stmt: Stmt, node: Allocate, **values: int) -> int:
    """Elements of the first extent, with the lets before the launch."""
    from bayplan.ir.stmts import LetStmt

    known: dict[str, Any] = dict(values)
    for s in iterate(stmt):
        if isinstance(s, LetStmt) and s.name not in known:
            try:
                known[s.name] = evaluate(s.value, known)
            except Exception:
                continue
    return int(evaluate(node.extents[0], known))


def test_n_int32_and_m_float64_begin_at_0_and_24() -> None:
    body = block(
        [
            threads(store("a", X, load("in", X)), 8),
            threads(store("b", X, load("in2", X, Float(64))), 8),
            threads(store("out", X, load("b", X, Float(64))), 8),
            threads(store("out2", X, load("a", X)), 8),
        ]
    )
    body = temporary("b", var("m"), body, Float(64), SHARED)
    stmt, found, _ = plan(kernel(temporary("a", var("n"), body, kind=SHARED)))
    assert found.shared is not None
    placement = found.shared.placement
    assert placement is not None
    # The eight byte ones come first, so that nothing is padded.
    places, total = placement.place([20, 24])
    assert sorted(places) == [0, 24]
    assert places[1] % 8 == 0
    assert total == 44
    assert placement.place([0, 24])[1] == 24
    assert placement.place([0, 24])[0][1] == 0


def test_what_does_not_fit_goes_to_global_memory_with_a_note() -> None:
    body = block([stage("a", "in"), stage("b", "a"), stage("out", "a", "b")])
    body = temporary("b", 30000 // 4, body)
    stmt, found, made = plan(kernel(temporary("a", 30000 // 4, body)))
    assert sorted([m.kind.name for m in found.members.values()]) == ["GPUGlobal", "GPUShared"]
    assert "49152" in made.warnings[0]
    assert "60000" in made.warnings[0]


def test_what_was_asked_for_stays_shared_and_the_launch_checks_it() -> None:
    from bayplan.ir.stmts import AssertStmt

    body = block([stage("tile", "in"), stage("out", "tile")])
    stmt, found, made = plan(kernel(temporary("tile", 16384, body, kind=SHARED)))
    assert found.shared is not None
    assert found.shared.bytes == 65536
    assert not made.warnings
    check = next(s for s in iterate(stmt) if isinstance(s, AssertStmt))
    assert "tile 65536" in check.site.template


def test_nothing_is_asked_for_where_nothing_is_needed() -> None:
    stmt, found, _ = plan(kernel(temporary("f", 64, stage("out", "in"))))
    assert not allocations(stmt)
    assert found.shared is None


@pytest.mark.parametrize("kind", [SHARED, HEAP])
@pytest.mark.parametrize("growing", [True, False])
def test_a_pyramid_takes_its_floor(kind: MemoryType, growing: bool) -> None:
    types = [UInt(8), UInt(16), UInt(32)]
    names = [f"level{i}" for i in range(10)]
    elements = [16 << i for i in range(10)]
    if not growing:
        elements.reverse()
    stages = []
    for i, name in enumerate([*names, "out"]):
        source = names[i - 1] if i else "in"
        stages.append(threads(store(name, X, load(source, X, types[(i - 1) % 3])), 64))
    body = block(stages)
    for i, name in enumerate(names):
        body = temporary(name, elements[i], body, types[i % 3], kind)
    _, found, _ = plan(kernel(body))
    arena = found.shared if kind is SHARED else found.device
    assert arena is not None
    sizes = [n * types[i % 3].bytes() for i, n in enumerate(elements)]
    floor = max([a + b for a, b in zip(sizes, sizes[1:], strict=False)])
    assert arena.bytes == floor


def test_what_is_read_in_vectors_is_aligned_for_them() -> None:
    from bayplan.ir.build import ramp

    u8 = UInt(8)
    wide = store("w", ramp(X * 4, 1, 4), Load(u8.with_lanes(4), "b", ramp(X * 4, 1, 4)))
    body = block(
        [
            threads(store("a", X, load("in", X, u8)), 3),
            threads(store("b", X, load("a", X, u8)), 8),
            threads(wide, 2),
            threads(store("out", X, load("w", X, u8)), 8),
            threads(store("out", X, load("a", X, u8)), 3),
        ]
    )
    for name, count in (("w", 8), ("b", 8), ("a", 3)):
        body = temporary(name, count, body, u8)
    stmt, found, _ = plan(kernel(body))
    places = offsets(found)
    assert places["b"] % 16 == places["w"] % 16 == 0
    assert places["a"] % 16 in (8, 9, 10, 11, 12, 13)
    made = allocations(stmt)
    assert (made["a"].alignment, made["b"].alignment, made["w"].alignment) == (1, 16, 16)


def test_what_is_not_needed_takes_no_bytes() -> None:
    needed = Variable(BOOL, "needed")

    def one(name: str, inner: Stmt) -> Allocate:
        return Allocate(name, INT32, SHARED, (var("n"),), needed, 0, inner)

    stages = block([stage("a", "in"), stage("b", "a"), stage("out", "a", "b")])
    for body in (one("a", one("b", stages)), one("a", block([stage("a", "in"), stage("o", "a")]))):
        stmt, found, _ = plan(kernel(body))
        assert found.shared is not None
        (own,) = [s for s in allocations(stmt).values() if s.address is None]
        if own.name == "a":
            assert evaluate(own.extents[0], {"n": 100, "needed": 1}) == 100
            assert evaluate(own.extents[0], {"n": 100, "needed": 0}) == 0
        for is_needed, bytes in ((1, 400), (0, 0)):
            sizes = [
                bytes_of(m, {"n": 100, "needed": is_needed}) for m in found.shared.temporaries
            ]
            assert sizes == [bytes] * len(sizes)


def bytes_of(member: PlannedTemporary, values: dict[str, int]) -> int:
    from bayplan.storage.read_plan import size_in_call

    return size_in_call(member, values)


def test_camera_pipe_names_every_func_and_takes_its_floor() -> None:
    import bayplan as hl
    from apps import camera_pipe
    from bayplan.ir.node import compilation
    from bayplan.lower.pipeline import lower

    app = camera_pipe.build(hl, gpu=True)
    with compilation():
        program = lower(app.output._final_functions(), hl.Target("host-opencl"), "camera_pipe")
        assert program.plan is not None
        (planned,) = [k for k in program.plan.kernels if k.shared is not None]
        arena = planned.shared
        assert arena is not None
        sizes = [bytes_of(m, {}) for m in arena.temporaries]
        assert len(sizes) == 7
        assert arena.bytes == measure_floor(arena.temporaries, sizes) < sum(sizes)
        named = {n.name for n in iterate(program.readable) if isinstance(n, Load | Store)}
        members = {m.name for m in arena.temporaries}
        assert members <= named
        funcs = {name.partition("$")[0] for name in members}
        assert funcs == {"denoised", "deinterleaved", "g_b", "g_r", "demosaiced", "corrected",
                         "curved"}  # fmt: skip
        assert not any("alloc" in name for name in named)
