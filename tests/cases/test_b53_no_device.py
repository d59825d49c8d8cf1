"""B53, the CPU's part: without any device the import and the CPU work, a device is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import bayplan as hl
x = hl.Var("x")
f = hl.Func("f")
f[x] = x + 1
assert f.realize([4])[3] == 4
print("cpu works")
g = hl.Func("g")
g[x] = x + 1
target = hl.get_host_target().with_feature(hl.TargetFeature.OpenCL)
try:
    xi = hl.Var("xi")
    g.gpu_tile(x, xi, 4)
    g.realize([4], target)
except hl.BayplanError as error:
    print("refused:", error)
"""


def test_b53_the_cpu_works_without_devices(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OCL_ICD_VENDORS": str(tmp_path),
        "OPENCL_VENDOR_PATH": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cpu works" in done.stdout
    assert "refused:" in done.stdout
    assert "Traceback" not in done.stderr
