"""The commands, as a user meets them: in a process of their own, from another folder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bayplan.imageio import imread, imwrite

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    imwrite(path, (np.arange(6 * 9).reshape(6, 9) * 4).astype(np.uint8))
    return path


def expected(photo: np.ndarray, gain: int, offset: int) -> np.ndarray:
    wide = photo.astype(np.int32)
    return np.clip((wide[:, :-1] + wide[:, 1:]) * gain + offset, 0, 255).astype(np.uint8)


def test_run_writes_the_output_and_says_so(command: Command, program: Path, photo: Path) -> None:
    out = photo.parent / "out.png"
    done = command("run", f"{program}:bright", f"image={photo}", "gain=2", f"output={out}")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(imread(out), expected(imread(photo), 2, 1))
    assert done.stdout == f"bright: 8 × 6 -> {out}\n"
    assert "output size chosen: 8 × 6" in done.stderr


def test_run_without_a_name_takes_build(command: Command, program: Path, photo: Path) -> None:
    out = photo.parent / "out.npy"
    words = [f"image={photo}", "gain=1", "offset=-300", f"bright={out}"]
    done = command("run", program, "--quiet", *words)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(out), expected(imread(photo), 1, -300))
    assert done.stderr == ""


def test_run_as_json(command: Command, program: Path, photo: Path) -> None:
    out = photo.parent / "out.png"
    words = [f"image={photo}", "gain=2", f"output={out}", "--track_memory"]
    done = command("run", program, "--output_extents=[5,4]", "--json", *words)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["schema"] == "bayplan.run/1"
    assert data["inputs"] == {
        "image": {"mins": [0, 0], "extents": [9, 6]},
        "gain": 2,
        "offset": 1,
    }
    (output,) = data["outputs"]
    assert output == {
        "name": "bright",
        "type": "uint8",
        "mins": [0, 0],
        "extents": [5, 4],
        "file": str(out),
    }
    assert data["peak_bytes"] >= 5 * 4 * 4  # `near` holds int32
    assert data["compile_seconds"] > 0 and data["benchmark"] is None


def test_benchmarks(command: Command, program: Path) -> None:
    words = ["image=random:1:auto", "gain=3", "--output_extents=[64,48]", "--benchmarks=all"]
    done = command("run", program, *words, "--benchmark_min_time=0.02")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("bright: ") and "Mpixel/s" in done.stdout
    done = command("run", program, *words, "--benchmark_min_time=0.02", "--parsable_output")
    rows = dict(line.split()[1:] for line in done.stdout.splitlines())
    assert float(rows["BEST_TIME_MSEC_PER_ITER"]) > 0
    assert int(rows["SAMPLES"]) >= 1
    done = command("run", program, *words, "--benchmark_min_time=0.02", "--json")
    assert json.loads(done.stdout)["benchmark"]["seconds"] > 0


def test_describe(command: Command, program: Path) -> None:
    done = command("run", program, "--describe")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        'program "bright"',
        '  input "image": buffer of uint8 with 2 dimensions',
        '  input "gain": int32',
        '  input "offset": int32',
        '  output "bright": buffer of uint8 with 2 dimensions',
    ]
    data = json.loads(command("run", program, "--describe", "--json").stdout)
    assert data["schema"] == "bayplan.describe/1"
    assert [argument["name"] for argument in data["arguments"]] == [
        "image",
        "gain",
        "offset",
        "bright",
    ]


def test_storage(command: Command, program: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["storage", program, "gain=1", "--output_extents=[640,480]"]
    picture = tmp_path / "picture.svg"
    done = command(*words, "--html", page, "--svg", picture, "--run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "bright: bright 640 × 480"
    (row,) = [line for line in lines if line.startswith("near ")]
    assert "int32" in row and "640 × 480" in row and "bright.py:" in row
    assert any(line.startswith("peak  ") for line in lines)
    assert lines[-1].endswith(" bytes in 1 allocation, measured: as planned")
    assert "near" in page.read_text("utf-8") and "near" in picture.read_text("utf-8")
    explained = command(*words, "--explain").stdout.splitlines()
    assert any(line.startswith("near ") and "4 * " in line for line in explained)
    data = json.loads(command(*words, "--json").stdout)
    assert data["schema"] == "bayplan.storage/3" and data["program"] == "bright"
    assert data["temporaries"][0]["name"] == "near"
    assert data["peak_bytes"] >= data["floor_bytes"] >= 640 * 480 * 4


def test_compile(command: Command, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.c"
    done = command("compile", program, "-o", out, "--name", "brighten")
    assert done.returncode == 0, done.stderr
    text = out.read_text("utf-8")
    assert "brighten" in text and "near" in text
    assert done.stdout == "" and str(out) in done.stderr
    done = command("compile", program, "--emit", "stmt,loops", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "near" in out.with_suffix(".stmt").read_text("utf-8")
    assert "near" in out.with_suffix(".loops").read_text("utf-8")
    done = command("compile", program, "--json")
    data = json.loads(done.stdout)
    assert data["schema"] == "bayplan.compile/1" and "near" in data["texts"]["c"]


KERNELS = """
import bayplan as hl

x, y, xi, yi = hl.vars("x y xi yi")
near, wide, sharp = hl.Func("near"), hl.Func("wide"), hl.Func("sharp")
wide[x, y] = x * 3 + y
near[x, y] = wide[x, y] + wide[x + 1, y]
sharp[x, y] = near[x, y] + near[x, y + 1]
sharp.gpu_tile(x, y, xi, yi, 16, 4)
near.compute_at(sharp, x).gpu_threads(x, y)
wide.compute_root().gpu_tile(x, y, xi, yi, 16, 4)


def build(hl):
    return sharp
"""


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "sharp.py"
    path.write_text(KERNELS)
    return path


def test_storage_of_a_program_with_kernels(
    command: Command, kernels: Path, tmp_path: Path
) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    words = ["storage", kernels, "--output_extents=[40,10]", "--target", "host-cuda-emulated"]
    done = command(*words, "--html", page, "--svg", picture, "--run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("sharp.s0.kernel ")]
    assert row[1:] == ["1", "3", "×", "3", "16", "×", "5", "320", "320", "1", *row[-3:]]
    assert "    barrier (shared) before step " in done.stdout
    # 41 × 11 elements of 4 bytes, in tiles of 16 × 4.
    (device,) = [line for line in lines if line.startswith("gpu ")]
    taken = device.split()[1]
    assert lines[-1].endswith(f"; {taken} bytes on the device: as planned")
    assert "barrier (shared)" in picture.read_text("utf-8")
    assert "sharp.s0.kernel" in page.read_text("utf-8")
    data = json.loads(command(*words, "--run", "--json").stdout)
    assert [kernel["function"] for kernel in data["kernels"]] == [
        "wide_s0_kernel", "sharp_s0_kernel"
    ]  # fmt: skip
    assert data["measured"]["device_bytes"] == data["device_bytes"] > 0


def test_kernels_are_emitted_in_the_language_of_the_device(
    command: Command, kernels: Path, tmp_path: Path
) -> None:
    out = tmp_path / "sharp.c"
    for target, suffix, word in (
        ("host-opencl", ".cl", "__kernel"), ("host-cuda", ".cu", "__global__")
    ):  # fmt: skip
        done = command("compile", kernels, "--emit", "c,kernels", "-o", out, "--target", target)
        assert done.returncode == 0, done.stderr
        text = out.with_suffix(suffix).read_text("utf-8")
        assert word in text and "near[" in text and "wide[" in text
    shown = command("compile", kernels, "--emit", "kernels", "--target", "host-cuda").stdout
    assert shown == out.with_suffix(".cu").read_text("utf-8")


def test_a_program_without_kernels_emits_none(command: Command, program: Path) -> None:
    done = command("compile", program, "--emit", "kernels", "--target", "host-opencl")
    assert done.returncode == 2 and "--emit kernels: bright has none for" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", "nowhere.py"], 2, "nowhere.py: no such file"),
        (["run", "{program}:other"], 2, "no Func, Pipeline or builder named 'other'"),
        (["run", "{program}", "gain=1"], 2, "no value for image (uint8, 2 dimensions), bright"),
        (["run", "{program}", "tone=1"], 2, "unknown argument tone; bright has image, gain"),
        (["run", "{program}", "gain=x", "image=zero:[9,9]", "output=o.png"], 2, "gain=x: expected"),
        (["run", "{program}", "gain=1", "gain=2"], 2, "gain is given twice"),
        (["run", "{program}", "gain"], 2, "'gain': expected name=value"),
        (
            ["run", "{program}", "gain=1", "image=zero:[9,9]", "output=o.xyz"],
            2,
            "the suffix must be",
        ),
        (["storage", "{program}", "gain=1", "--output_extents=[9]"], 2, "the output has 2"),
        (["compile", "{program}", "--emit", "asm"], 2, "--emit asm: expected a list of c, stmt"),
        (["run", "--nonsense"], 2, "No such option"),
    ],
)
def test_a_wrong_command_is_one_line(
    command: Command, program: Path, words: list[str], code: int, says: str
) -> None:
    done = command(*[word.format(program=program) for word in words])
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_failing_run_names_the_users_line(command: Command, program: Path) -> None:
    words = ["gain=1", "image=zero:[9,9]", "output=o.png", "--output_extents=[9,9]"]
    done = command("run", program, *words)
    assert done.returncode == 1
    assert "BP-B002" in done.stderr and "image" in done.stderr and f"{program}:" in done.stderr
    assert "Traceback" not in done.stderr
    done = command("run", program, *words, BAYPLAN_DEBUG="1")
    assert done.returncode == 1 and "Traceback" in done.stderr


def test_a_fault_in_the_users_file_names_its_line(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "faulty.py"
    path.write_text("import bayplan as hl\n\nx = hl.Var('x')\nundefined_name\n")
    done = command("run", path)
    assert done.returncode == 1
    assert f"NameError: name 'undefined_name' is not defined\n  at {path}:4" in done.stderr
    path.write_text("import bayplan as hl\ndef f(:\n")
    done = command("run", path)
    assert done.returncode == 1 and "SyntaxError" in done.stderr and "line 2" in done.stderr
    path.write_text("import bayplan as hl\ndef build(hl):\n    return 7\n")
    done = command("run", path)
    assert done.returncode == 2 and "build(hl) returned int" in done.stderr
    path.write_text("import bayplan as hl\nf, g = hl.Func('f'), hl.Func('g')\n")
    done = command("run", path)
    assert done.returncode == 2 and "which one is meant?; it has f, g" in done.stderr


def test_help_needs_no_compiler_and_imports_little(command: Command) -> None:
    done = command("--help", CC="/nowhere/cc", PATH="/nowhere")
    assert done.returncode == 0
    for name in ("run", "compile", "storage", "doctor"):
        assert f"\n  {name} " in done.stdout


def test_run_on_a_device(command: Command, kernels: Path, tmp_path: Path) -> None:
    out = tmp_path / "sharp.npy"
    words = ["run", kernels, "--output_extents=[40,10]", "--track_memory", f"output={out}"]
    done = command(*words, "--target", "host-cuda-emulated")
    assert done.returncode == 0, done.stderr
    x, y = np.meshgrid(np.arange(40), np.arange(10))
    assert np.array_equal(np.load(out), 12 * x + 4 * y + 8)
    (peak,) = [line for line in done.stdout.splitlines() if line.startswith("peak of")]
    data = json.loads(command(*words, "--target", "host-cuda-emulated", "--json").stdout)
    # What is kept between the two kernels: 41 × 11 elements of 4 bytes.
    assert data["peak_bytes"] == 0 and data["device_bytes"] >= 41 * 11 * 4
    assert f": 0 bytes and {data['device_bytes']} on the device for" in peak
    refused = command(*words, "--target", "host-nothing")
    assert refused.returncode != 0 and "nothing" in refused.stderr
