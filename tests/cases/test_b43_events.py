"""B43, the counting: each allocation is one event, with its name, bytes, thread and call."""

from __future__ import annotations

from collections import Counter

import bayplan as hl
from bayplan import driver


def test_b43_allocations_and_releases_are_counted() -> None:
    x = hl.Var("x")
    t1, t2, out = hl.Func("t1"), hl.Func("t2"), hl.Func("out")
    t1[x] = x * 3
    t2[x] = hl.cast(hl.Int(64), t1[x]) + t1[1023 - x]
    out[x] = t2[1023 - x] + t1[x]
    for f in (t1, t2):
        f.compute_root().store_in(hl.MemoryType.Heap).bound(x, 0, 1024)
    context = driver.context()
    early = hl.Buffer(hl.UInt(8), [1000])
    context.log_events()
    try:
        for _ in range(3):
            out.realize([1024])
        del early
        events = context.events()
    finally:
        context.log_events(False)
    # Both live together in one arena, which is what is allocated.
    (arena,) = {e.name for e in events}
    kinds = Counter((e.kind, e.size_bytes) for e in events)
    assert kinds == {("alloc", 4096 + 8192): 3, ("free", 4096 + 8192): 3}
    assert arena.endswith(".arena")
    assert len({e.call for e in events}) == 3
    running = 0
    for e in events:
        running += e.size_bytes if e.kind == "alloc" else -e.size_bytes
        assert running >= 0
    assert running == 0
    assert context.counts.peak_bytes == 4096 + 8192
    assert context.counts.allocations == context.counts.releases == 1
