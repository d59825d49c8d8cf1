"""An allocation that fails ends the call with one error, whichever it is, and nothing is leaked."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayplan as hl
from bayplan import driver
from bayplan.build.compilers import find_compiler
from bayplan.build.loading import load_program
from bayplan.runtime import read_sources
from bayplan.targets.c_names import sanitise
from bayplan.targets.header import read_header

SIZES = (1000, 2000, 3000, 4000, 5000)


@pytest.fixture(autouse=True)
def checked_allocations() -> Iterator[None]:
    yield
    driver.context().check_allocations(False)
    driver.context().log_events(False)


def fail_each(run: Callable[[], None], names: tuple[str, ...]) -> int:
    """Fails each request of `run` in turn; each time the next call must be right.

    Args:
        run: makes the call and checks its result.
        names: of temporaries; each error names one, or an arena; empty: whichever they are.

    Returns:
        How many requests a call makes.
    """
    context = driver.context()
    context.check_allocations()
    run()
    count, live, bad = context.check_counts()
    assert (live, bad) == (0, 0)
    for k in range(1, count + 1):
        for flush_right in (False, True):
            context.check_allocations(fail_at=k, flush_right=flush_right)
            with pytest.raises(hl.OutOfMemory) as raised:
                run()
            text = str(raised.value)
            assert ".arena" in text or any(name in text for name in names) or not names, text
            (size,) = raised.value.numbers
            assert isinstance(size, int) and size > 0 and f"{size} bytes" in text
            assert context.check_counts()[1:] == (0, 0)
            assert context.counts.live_bytes == 0
            # The allocator is good from here on.
            run()
            assert context.check_counts()[1:] == (0, 0)
    return count


def make_five() -> tuple[hl.Func, Any]:
    """Temporaries of 1000 to 5000 bytes, of which up to three live together; the right output."""
    x = hl.Var("x")
    funcs: list[hl.Func] = []
    arrays: list[Any] = []
    for i, size in enumerate(SIZES):
        f = hl.Func(f"t{i + 1}")
        value: Any = hl.cast(hl.UInt(8), x + i)
        array = (np.arange(size) + i).astype(np.uint8)
        for before in range(max(0, i - 2), i):
            value = value + funcs[before][x % SIZES[before]]
            array = array + arrays[before][np.arange(size) % SIZES[before]]
        f[x] = value
        f.compute_root().store_in(hl.MemoryType.Heap).bound(x, 0, size)
        funcs.append(f)
        arrays.append(array)
    out = hl.Func("out")
    out[x] = funcs[4][x * 3] + funcs[3][x * 2] + funcs[2][x]
    x_values = np.arange(1000)
    return out, arrays[4][x_values * 3] + arrays[3][x_values * 2] + arrays[2][x_values]


NAMES = ("t1", "t2", "t3", "t4", "t5")


@pytest.mark.parametrize("printing", [False, True])
def test_each_request_of_five_temporaries(
    printing: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    out, right = make_five()
    if printing:
        x = hl.Var("x")
        loud = hl.Func("loud")
        loud[x] = hl.print_when(x < 3, out[x], "at", x)
        out = loud
        driver.context().log_events()

    def run() -> None:
        assert (np.asarray(out.realize([1000])) == right).all()

    assert 1 <= fail_each(run, NAMES) <= 5
    if printing:
        assert "at 2" in capsys.readouterr().out


def test_temporaries_whose_size_is_known_at_the_call() -> None:
    x = hl.Var("x")
    n = hl.Param(hl.Int(32), "n")
    first, second, out = hl.Func("first"), hl.Func("second"), hl.Func("out")
    first[x] = hl.cast(hl.Int(32), x)
    second[x] = first[x] + first[x + n]
    out[x] = second[x] + second[x + n] + first[x]
    for f in (first, second):
        f.compute_root().store_in(hl.MemoryType.Heap)
    for size in (1, 37):
        n.set(size)

        def run(size: int = size) -> None:
            k = np.arange(50)
            assert (np.asarray(out.realize([50])) == 5 * k + 4 * size).all()

        assert fail_each(run, ("first", "second")) >= 1


def make_parallel() -> tuple[hl.Func, hl.ImageParam]:
    """Temporaries inside a parallel loop, one of them with a size that depends on the row."""
    x, y = hl.vars("x y")
    sizes = hl.ImageParam(hl.Int(32), 1, "sizes")
    fixed, wide, out = hl.Func("fixed"), hl.Func("wide"), hl.Func("out")
    fixed[x, y] = hl.cast(hl.Int(32), x + y)
    wide[x, y] = fixed[0, y] + x
    out[y] = wide[0, y] + wide[hl.clamp(y * 1000, 0, sizes[y]), y]
    for f in (fixed, wide):
        f.compute_at(out, y).store_in(hl.MemoryType.Heap)
    out.parallel(y)
    return out, sizes


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_arenas_of_workers(threads: int) -> None:
    out, sizes = make_parallel()
    given = (np.arange(24) * 37 % 50).astype(np.int32)
    sizes.set(given)
    before = hl.set_num_threads(threads)

    def run() -> None:
        got = np.asarray(out.realize([24]))
        assert (got == 2 * np.arange(24) + np.minimum(np.arange(24) * 1000, given)).all()

    try:
        assert fail_each(run, ("fixed", "wide")) >= 1
        assert driver.runtime().busy_workers() == 0
    finally:
        hl.set_num_threads(before)


def test_the_message_names_what_is_in_the_arenas_of_workers() -> None:
    out, sizes = make_parallel()
    sizes.set(np.zeros(24, np.int32))
    context = driver.context()
    context.check_allocations(fail_at=1)
    try:
        with pytest.raises(hl.OutOfMemory) as caught:
            out.realize([24])
    finally:
        context.check_allocations(False)
    parts = caught.value.message.split("(of ")[1].rstrip(")").split(", ")
    assert sorted([name.partition("$")[0] for name in parts]) == ["fixed", "wide"]


TASKS = (
    read_header()
    + r"""
static int32_t take(bp_context *ctx, int32_t begin, int32_t end, int32_t slot, void *started) {
    (void)slot;
    for (int32_t i = begin; i < end; i++) {
        __atomic_add_fetch((int32_t *)started, 1, __ATOMIC_RELAXED);
        void *block = ctx->alloc(ctx, 1000, 64, "own");
        if (!block) return BP_OUT_OF_MEMORY;
        for (volatile int32_t k = 0; k < 20000; k++) {
        }
        ctx->release(ctx, block, "own");
    }
    return 0;
}
__attribute__((visibility("default"))) int32_t tasks_argv(bp_context *ctx, void **args) {
    return ctx->parallel_for(ctx, take, 0, 400, 4, args[0]);
}
"""
)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_parallel_workers_stop(threads: int) -> None:
    runtime = driver.runtime()
    before = runtime.set_num_threads(threads)
    context = runtime.new_context()
    entry = load_program(TASKS, "tasks").entry
    try:
        for k in range(1, 30):
            started = ctypes.c_int32(0)
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(started))
            context.check_allocations(fail_at=k)
            assert context.call(entry, arguments) == -2
            # A task that runs when another fails comes to the end of its stretch.
            assert k <= started.value < 200
            assert context.check_counts()[1:] == (0, 0) and context.counts.live_bytes == 0
            assert runtime.busy_workers() == 0
        context.check_allocations()
        assert context.call(entry, arguments) == 0
    finally:
        runtime.set_num_threads(before)


MAIN = """
#include <stdio.h>
int main(void) {{
    bp_rt_context ctx;
    bp_rt_context_init(&ctx);
    static uint8_t first[1000], later[1000];
    bp_dim dim = {{0, 1000, 1, 0}};
    bp_buffer buffer = {{.host = first, .type = {{BP_UINT, 8, 1}}, .dimensions = 1, .dim = &dim}};
    int64_t counts[3], requests = 0;
    for (int64_t k = 0; k == 0 || k <= requests; k++) {{
        bp_check *check = bp_check_new(1, k);
        ctx.check = check;
        for (int again = 0; again < 2; again++) {{
            ctx.base.failed = 0;
            ctx.base.error.site = NULL;
            buffer.host = k || again ? later : first;
            const int32_t status = {name}(&ctx.base, &buffer);
            bp_check_counts(check, counts);
            if (counts[1] || counts[2] || ctx.counts.live_bytes) return 3;
            const int fails = k > 0 && !again;
            char text[1000] = "";
            bp_format_error(&ctx.base, text, sizeof text);
            if (fails ? status != BP_OUT_OF_MEMORY : status != 0) return 4;
            if (fails) puts(text);
            else if (memcmp(first, later, sizeof first) && (k || again)) return 5;
            if (!k && !again) requests = counts[0];
        }}
        bp_check_free(check);
    }}
    for (int i = 0; i < 1000; i++) printf("%d ", first[i]);
    return 0;
}}
"""


def test_the_emitted_source_on_its_own(tmp_path: Path) -> None:
    out, right = make_five()
    compiled = driver.compile_pipeline([out.function()])
    main = MAIN.format(name=sanitise(compiled.program.name))
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(read_sources() + compiled.source + main)
    command = [*find_compiler().command, "-std=c11", "-g", str(source), "-o", str(program)]
    subprocess.run([*command, "-pthread", "-lm", "-w"], check=True, capture_output=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stdout[-500:])
    *errors, numbers = done.stdout.split("\n")
    assert errors and all("no memory for " in e and " bytes" in e for e in errors)
    assert [int(v) for v in numbers.split()] == right.tolist()
