"""B59: Ctrl-C ends a kernel and a compilation promptly, once, and leaves everything usable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """
import os, signal, sys, threading, time
import numpy as np
import bayplan as hl
from bayplan import driver

x, y, k = hl.vars("x y k")
a, b, c, out = hl.Func("a"), hl.Func("b"), hl.Func("c"), hl.Func("out")
r = hl.RDom([(0, 20000)])
a[x, y] = hl.sin(hl.f32(x + y))
b[x, y] = hl.sum(hl.sin(a[x, y] + hl.f32(r)))
c[x, y] = b[x, y] + 1
out[x, y] = c[x, y] + a[x, y]
for f in (a, b, c):
    f.compute_at(out, y).store_in(hl.MemoryType.Heap)
if PARALLEL:
    out.parallel(y)
    hl.set_num_threads(4)
out.compile_jit()
call = lambda: out.realize([64, 20000])
if WORKSPACE:
    run, result = out.compile_to_callable([]), np.zeros((20000, 64), np.float32)
    memory = bytearray(run.required_bytes(result))
    call = lambda: run(result, workspace=memory)
seen = []
old = signal.getsignal(signal.SIGINT)
timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
began = time.monotonic()
try:
    call()
except KeyboardInterrupt:
    seen.append(time.monotonic() - began)
assert len(seen) == 1, "no interrupt"
assert seen[0] < 3.0, seen
assert signal.getsignal(signal.SIGINT) is old
assert driver.context().counts.live_bytes == 0
assert driver.runtime().busy_workers() == 0
if WORKSPACE:
    assert driver.context().counts.allocations == 0
    memory.append(0)
small = np.asarray(out.realize([4, 2]))
assert np.isfinite(small).all()
print("fine")
"""


# A test run started in the background may have been told to ignore SIGINT.
HEED = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def _run(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HEED + source],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("workspace", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
def test_b59_a_running_kernel_is_interrupted(parallel: bool, workspace: bool) -> None:
    done = _run(f"PARALLEL = {parallel}\nWORKSPACE = {workspace}\n" + KERNEL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("fine")


COMPILE = """
import os, signal, threading, time
import bayplan as hl
x = hl.Var("x")
f = hl.Func("f")
f[x] = x * 3
sent = []
def send():
    while not os.path.exists(os.environ["PID_FILE"]):
        time.sleep(0.02)
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=send, daemon=True).start()
try:
    f.realize([4])
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - sent[0])
cache = os.environ["BAYPLAN_CACHE_DIR"]
left = [n for _, _, names in os.walk(cache) for n in names]
print("left", left)
del os.environ["CC"]
print("value", f.realize([4])[3])
"""


def test_b59_a_compilation_is_interrupted(tmp_path: Path) -> None:
    fake = tmp_path / "slow-cc"
    fake.write_text('#!/bin/sh\necho $$ > "$PID_FILE.new"\nmv "$PID_FILE.new" "$PID_FILE"\n')
    with fake.open("a") as script:
        script.write("exec sleep 60\n")
    fake.chmod(0o755)
    cache = tmp_path / "cache"
    done = _run(COMPILE, CC=str(fake), BAYPLAN_CACHE_DIR=str(cache), PID_FILE=str(tmp_path / "pid"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("interrupted")
    assert float(lines[0].split()[1]) < 2.0
    assert lines[1] == "left []"
    assert lines[2] == "value 9"
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


RANDOM = """
import os, random, signal, threading, time
import bayplan as hl
x, y = hl.vars("x y")
f = hl.Func("f")
r = hl.RDom([(0, 400)])
f[x, y] = hl.sum(hl.sin(hl.f32(x + r)))
f.parallel(y)
# Imports that happen at a first call would not survive being interrupted.
f.realize([64, 64])
rng = random.Random(1)
interrupts = finished = 0
for _ in range(50):
    timer = threading.Timer(rng.random() * 0.02, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        f.realize([64, 64])
        timer.join()
        time.sleep(0.001)
        finished += 1
    except KeyboardInterrupt:
        interrupts += 1
        timer.join()
assert interrupts + finished == 50
print("only interrupts", interrupts)
"""


def test_b59_fifty_interrupts_are_only_keyboard_interrupts() -> None:
    done = _run(RANDOM)
    assert done.returncode == 0, done.stderr
    assert "only interrupts" in done.stdout
