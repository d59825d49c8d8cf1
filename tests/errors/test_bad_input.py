"""Bad input gives one clear error: its class and code, names, numbers, and the user's line.

Each case is a user's file. The line that the error must name ends in ``#!``; the words that its
message must contain are listed beside the case.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bayplan as hl

HEAD = """
import numpy as np
import bayplan as hl
x, y, z, xi, yi = hl.vars("x y z xi yi")
f, g = hl.Func("f"), hl.Func("g")
"""


class Case:
    """A faulty program and what must be said about it."""

    def __init__(self, error: type[hl.BayplanError], code: str, says: list[str], text: str) -> None:
        self.error = error
        self.code = code
        self.says = says
        self.text = HEAD + text


def case(error: str, code: str, says: list[str], text: str) -> Case:
    return Case(getattr(hl, error), code, says, text)


CASES = {
    "loops of a GPU for a target without one": case(
        "ScheduleError",
        "BP-S001",
        ["loop over xi of f", "gpu_thread", "has no GPU"],
        """
f[x] = x
f.gpu_tile(x, xi, 8)  #!
f.realize([16])
""",
    ),
    "threads that are in no block": case(
        "ScheduleError",
        "BP-S001",
        ["loop over threads x of f", "in no loop over blocks"],
        """
f[x] = x
f.gpu_threads(x)  #!
f.realize([16], hl.Target("cuda-emulated"))
""",
    ),
    "more threads than devices run": case(
        "ScheduleError",
        "BP-S001",
        ["64 * 32 = 2048 threads", "1024"],
        """
f[x, y] = x
f.gpu_tile(x, y, xi, yi, 64, 32)  #!
f.realize([64, 64], hl.Target("cuda-emulated"))
""",
    ),
    "wrong element type of an input": case(
        "BufferError",
        "BP-B001",
        ["image", "uint16", "uint8"],
        """
image = hl.ImageParam(hl.UInt(16), 1, "image")  #!
f[x] = image[x]
image.set(hl.Buffer(np.zeros(8, np.uint8)))
""",
    ),
    "wrong element type of the output": case(
        "BufferError",
        "BP-B001",
        ["f", "int32", "uint8"],
        """
f[x] = x  #!
f.realize(hl.Buffer(np.zeros(8, np.uint8)))
""",
    ),
    "wrong number of dimensions of an input": case(
        "BufferError",
        "BP-B001",
        ["image", "2", "3"],
        """
image = hl.ImageParam(hl.UInt(8), 2, "image")  #!
f[x, y] = image[x, y]
image.set(hl.Buffer(np.zeros((3, 4, 5), np.uint8)))
""",
    ),
    "input too small": case(
        "BoundsError",
        "BP-B002",
        ["image", "3", "9", "6"],
        """
image = hl.ImageParam(hl.UInt(8), 1, "image")  #!
f[x] = image[x + 2]
image.set(hl.Buffer(np.zeros(7, np.uint8)))
f.realize([8])
""",
    ),
    "input begins too late": case(
        "BoundsError",
        "BP-B002",
        ["image", "1", "-1"],
        """
image = hl.ImageParam(hl.UInt(8), 1, "image")  #!
f[x] = image[x - 1]
image.set(hl.Buffer(np.zeros(20, np.uint8)))
f.realize([8])
""",
    ),
    "bound violated": case(
        "BoundsError",
        "BP-B002",
        ["f", "x", "7", "9"],
        """
f[x] = x
f.bound(x, 0, 8)  #!
f.realize([10])
""",
    ),
    "unknown Var in a directive": case(
        "ScheduleError",
        "BP-S001",
        ["f", "z", "x", "y"],
        """
f[x, y] = x + y
f.vectorize(z, 4)  #!
""",
    ),
    "compute_at a loop that does not exist": case(
        "ScheduleError",
        "BP-S001",
        ["g", "f", "z"],
        """
g[x] = x
f[x] = g[x]
g.compute_at(f, z)  #!
f.realize([8])
""",
    ),
    "split by zero": case(
        "ScheduleError",
        "BP-S001",
        ["f", "x", "0"],
        """
f[x] = x
f.split(x, x, xi, 0)  #!
""",
    ),
    "a Var twice in reorder": case(
        "ScheduleError",
        "BP-S001",
        ["f", "x"],
        """
f[x, y] = x + y
f.reorder(x, x)  #!
""",
    ),
    "a Func without a definition": case(
        "DefinitionError",
        "BP-A001",
        ["g"],
        """
f[x] = g[x]  #!
""",
    ),
    "a constant that its type cannot hold": case(
        "TypeMismatchError",
        "BP-A002",
        ["300", "uint8"],
        """
f[x] = hl.u8(x) + 300  #!
""",
    ),
    "update before the definition": case(
        "DefinitionError",
        "BP-A001",
        ["f"],
        """
f[3] = 5  #!
""",
    ),
    "RDom in a pure definition": case(
        "DefinitionError",
        "BP-A001",
        ["f", "r"],
        """
r = hl.RDom([(0, 4)], "r")
f[x] = x + r.x  #!
""",
    ),
    "wrong number of coordinates": case(
        "DefinitionError",
        "BP-A001",
        ["g", "2", "1"],
        """
g[x, y] = x + y
f[x] = g[x]  #!
""",
    ),
    "parameter never set": case(
        "MissingArgument",
        "BP-B005",
        ["gain"],
        """
gain = hl.Param(hl.Int(32), "gain")  #!
f[x] = x * gain
f.realize([4])
""",
    ),
    "input never set": case(
        "MissingArgument",
        "BP-B005",
        ["image"],
        """
image = hl.ImageParam(hl.UInt(8), 1, "image")  #!
f[x] = image[x]
f.realize([4])
""",
    ),
    "parameter out of its range": case(
        "ConstraintError",
        "BP-B003",
        ["gain", "11", "10"],
        """
gain = hl.Param(hl.Int(32), "gain")  #!
gain.set_range(0, 10)
f[x] = x * gain
gain.set(11)
f.realize([4])
""",
    ),
    "negative size": case(
        "BufferError",
        "BP-B001",
        ["f", "-3"],
        """
f[x, y] = x + y
f.realize([4, -3])  #!
""",
    ),
    "temporary too large": case(
        "AllocationTooLarge",
        "BP-M001",
        ["g", "2147483647"],
        """
image = hl.Buffer(np.zeros(1, np.uint8))
g[x, y] = hl.u16(x + y)  #!
f[x] = g[x, x] + g[65534, 65534] + g[0, 0]
g.compute_root()
f.realize([4])
""",
    ),
    "requirement of the program": case(
        "RequirementFailed",
        "BP-R001",
        ["gain must be odd", "4"],
        """
gain = hl.Param(hl.Int(32), "gain", 4)
f[x] = hl.require(gain % 2 == 1, x * gain, "gain must be odd, not", gain)  #!
f.realize([4])
""",
    ),
    "vectorize a loop without a constant extent": case(
        "ScheduleError",
        "BP-S001",
        ["f", "x"],
        """
f[x, y] = x + y
f.vectorize(x)  #!
f.realize([8, 8])
""",
    ),
    "wrong number of output buffers": case(
        "BufferError",
        "BP-B001",
        ["f", "2", "1"],
        """
f[x] = (x, x + 1)  #!
f.realize([hl.Buffer(np.zeros(4, np.int32))])
""",
    ),
    "output that is the input": case(
        "AliasError",
        "BP-B004",
        ["f", "image"],
        """
image = hl.ImageParam(hl.Int(32), 1, "image")
f[x] = image[x] + 1  #!
array = np.arange(10, dtype=np.int32)
image.set(hl.Buffer(array))
f.realize(hl.Buffer(array))
""",
    ),
    "defined twice": case(
        "DefinitionError",
        "BP-A001",
        ["f"],
        """
f[x] = x
f[y] = y + 1  #!
""",
    ),
    "fold too small": case(
        "FoldError",
        "BP-S002",
        ["g", "y", "2", "3"],
        """
g[x, y] = x + y
f[x, y] = g[x, y] + g[x, y + 1] + g[x, y + 2]
g.store_root().compute_at(f, y).fold_storage(y, 2)  #!
f.realize([8, 8])
""",
    ),
    "a path that was declared impossible": case(
        "RequirementFailed",
        "BP-R001",
        ["only small ones"],
        """
gain = hl.Param(hl.Int(32), "gain", 99)
f[x] = x * gain
f.specialize(gain < 10)
f.specialize_fail("only small ones")  #!
f.realize([4])
""",
    ),
    "condition that is no bool": case(
        "TypeMismatchError",
        "BP-A002",
        ["bool", "int32"],
        """
f[x] = hl.select(x, 1, 2)  #!
""",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_clear_error(name: str, tmp_path: Path) -> None:
    bad = CASES[name]
    path = tmp_path / "user.py"
    path.write_text(bad.text)
    (line,) = [n for n, text in enumerate(bad.text.splitlines(), 1) if text.endswith("#!")]
    with pytest.raises(hl.BayplanError) as caught:
        exec(compile(bad.text, str(path), "exec"), {"__name__": "user"})
    error = caught.value
    assert type(error) is bad.error, error
    assert error.code == bad.code
    for word in bad.says:
        assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", error.message), (word, error.message)
    assert error.where is not None, error
    assert (error.where.file, error.where.line) == (str(path), line), error
    assert f"{path}:{line}" in str(error)
    assert str(error).startswith(bad.code)
    assert len(error.message.splitlines()) <= 12


def test_there_are_twenty_kinds() -> None:
    assert len(CASES) >= 20


def test_no_compiler_is_told_with_the_names_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    monkeypatch.setenv("BAYPLAN_NO_CACHE", "1")
    x, f = hl.Var("x"), hl.Func("f")
    f[x] = x + 12321
    with pytest.raises(hl.NoCompiler, match="/nowhere/cc") as caught:
        f.realize([4])
    assert caught.value.code == "BP-C001"
    assert "CC" in caught.value.message and "unset" in caught.value.hint


def test_a_compiler_that_fails_is_told_with_its_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CC", str(fake))
    monkeypatch.setenv("BAYPLAN_NO_CACHE", "1")
    x, f = hl.Var("x"), hl.Func("f")
    f[x] = x + 12322
    with pytest.raises(hl.CompileError, match="out of luck") as caught:
        f.realize([4])
    assert caught.value.code == "BP-C002"
    assert str(fake) in caught.value.message


def test_an_unwritable_cache_warns_and_the_program_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("BAYPLAN_CACHE_DIR", str(blocked / "cache"))
    x, f = hl.Var("x"), hl.Func("f")
    f[x] = x + 12323
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        result = f.realize([4])
    assert [result[i] for i in range(4)] == [12323, 12324, 12325, 12326]
