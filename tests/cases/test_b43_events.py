"""B43, the counting: each temporary is two events, with its name, bytes, thread and call."""

from __future__ import annotations

import re
from collections import Counter

import bayplan as hl
from bayplan import driver
from bayplan.runtime.binding import Event


def make_program(t2_extent: int = 1024) -> hl.Func:
    x = hl.Var("x")
    t1, t2, out = hl.Func("t1"), hl.Func("t2"), hl.Func("out")
    t1[x] = x * 3
    t2[x] = hl.cast(hl.Int(64), t1[x]) + t1[1023 - x]
    out[x] = t2[1023 - x] + t1[x]
    for f in (t1, t2):
        f.compute_root().store_in(hl.MemoryType.Heap).bound(x, 0, 1024)
    return out


def log_of_three_calls(target: str) -> list[Event]:
    out = make_program()
    context = driver.context()
    early = hl.Buffer(hl.UInt(8), [1000])
    context.log_events()
    try:
        for _ in range(3):
            out.realize([1024], hl.Target(target))
        del early
        return context.events()
    finally:
        context.log_events(False)


def plain(name: str) -> str:
    """A name without the number that keeps it apart from those of other tests."""
    return re.sub(r"\$\d+", "", name)


def running_sums(events: list[Event], begin: str, end: str) -> list[int]:
    sums = [0]
    for e in events:
        sums.append(sums[-1] + e.size_bytes * ((e.kind == begin) - (e.kind == end)))
    return sums


def test_b43_temporaries_are_counted_inside_their_arena() -> None:
    events = log_of_three_calls("host-profile")
    kinds = Counter((e.kind, plain(e.name), e.size_bytes) for e in events)
    (arena,) = {e.size_bytes for e in events if e.kind == "take_arena"}
    assert kinds == {
        ("alloc", "t1", 4096): 3,
        ("free", "t1", 4096): 3,
        ("alloc", "t2", 8192): 3,
        ("free", "t2", 8192): 3,
        ("take_arena", "out.arena", arena): 3,
        ("give_arena", "out.arena", arena): 3,
    }
    assert len({e.call for e in events}) == 3
    for sums in (
        running_sums(events, "alloc", "free"),
        running_sums(events, "take_arena", "give_arena"),
    ):
        assert min(sums) == 0 and sums[-1] == 0
    # What is alive at once is what the call takes.
    assert max(running_sums(events, "alloc", "free")) == arena == 4096 + 8192
    counts = driver.context().counts
    assert counts.peak_bytes == arena and counts.allocations == counts.releases == 1
    # Both lie in the arena, apart.
    places = {plain(e.name): e.block for e in events[:6] if e.kind != "give_arena"}
    offsets = {places["t1"] - places["out.arena"], places["t2"] - places["out.arena"]}
    assert offsets in ({0, 4096}, {0, 8192})


def test_b43_without_the_feature_only_memory_is_counted() -> None:
    events = log_of_three_calls("host")
    assert [e.kind for e in events] == ["alloc", "free"] * 3
    assert not any(e.marked for e in events)


def test_b43_workers_mark_their_own_lives() -> None:
    """Each task of a parallel loop has a life of its own, on the thread that runs it."""
    x, y = hl.vars("x y")
    near, far, out = hl.Func("near"), hl.Func("far"), hl.Func("rows")
    near[x, y] = x + y
    far[x, y] = near[x, y] + near[x + 1, y]
    out[x, y] = far[x, y] + far[x + 1, y]
    for f in (near, far):
        f.compute_at(out, y).store_in(hl.MemoryType.Heap)
    out.parallel(y)
    context = driver.context()
    context.log_events()
    try:
        out.realize([64, 8], hl.Target("host-profile"))
        events = context.events()
    finally:
        context.log_events(False)
    kinds = Counter((e.kind, plain(e.name), e.size_bytes) for e in events if e.marked)
    assert kinds == {
        ("alloc", "near", 66 * 4): 8,
        ("free", "near", 66 * 4): 8,
        ("alloc", "far", 65 * 4): 8,
        ("free", "far", 65 * 4): 8,
    }
    assert running_sums(events, "alloc", "free")[-1] == 0
    assert [e.kind for e in events if not e.marked] == ["take_arena", "give_arena"]


def test_b43_a_temporary_that_is_not_needed_has_no_life() -> None:
    x = hl.Var("x")
    wanted = hl.Param(hl.Int(32), "wanted")
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x] = x * 3
    second[x] = first[x] + first[1023 - x]
    out[x] = hl.select(wanted > 0, second[x] + first[1023 - x], x)
    for f in (first, second):
        f.compute_root().store_in(hl.MemoryType.Heap)
    context = driver.context()
    names = []
    for value in (0, 1):
        wanted.set(value)
        context.log_events()
        try:
            out.realize([1024], hl.Target("host-profile"))
            names.append({plain(e.name) for e in context.events() if e.marked})
        finally:
            context.log_events(False)
    assert names == [set(), {"first", "second"}]
