"""Finding a pipeline in a file, giving it inputs, choosing sizes; in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bayplan.cli.failure import CommandError
from bayplan.cli.inputs import Box, Options, Prepared, prepare, query_inputs, split_arguments
from bayplan.cli.program import Program, load_program, split_spec

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import bayplan as hl

x, y = hl.vars("x y")
image = hl.ImageParam(hl.Float(32), 2, "image")
scale = hl.Param(hl.Float(32), "scale")
scale.set_estimate(2.0)
for d, extent in enumerate((12, 8)):
    image.dim(d).set_estimate(0, extent)

both = hl.Func("both")
both[x, y] = (image[x, y] * scale, hl.i32(image[x, y] + image[x + 1, y + 1]))
both.set_estimate(x, 0, 10).set_estimate(y, 0, 7)

channels = hl.Func("channels")
c = hl.Var("c")
channels[x, y, c] = image[x, y] + c
channels.bound(c, 0, 2).unroll(c)

left, right = hl.Func("left"), hl.Func("right")
left[x] = x
right[x] = 2 * x
pair = hl.Pipeline([left, right])
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "several.py"
    path.write_text(PROGRAM)
    return path


def load(path: Path, name: str) -> Program:
    return load_program(f"{path}:{name}")


def ready(program: Program, *words: str, options: Options | None = None) -> Prepared:
    prepared = prepare(program, split_arguments(program, words), options or Options())
    prepared.run()
    return prepared


def test_specs(tmp_path: Path) -> None:
    assert split_spec("a/b.py:f") == (Path("a/b.py"), "f")
    assert split_spec("a/b.py") == (Path("a/b.py"), None)
    with pytest.raises(CommandError, match="is not a name"):
        split_spec("b.py:f.g")


def test_a_tuple_has_one_output_a_value(path: Path, tmp_path: Path) -> None:
    program = load(path, "both")
    assert [slot.name for slot in program.outputs] == ["both.0", "both.1"]
    prepared = ready(program, "image=constant:1.5:[6,5]", "scale=3")
    assert [str(box) for box in prepared.boxes] == ["5 × 4", "5 × 4"]
    assert prepared.arrays[0].dtype == np.float32 and (prepared.arrays[0] == 4.5).all()
    assert prepared.arrays[1].dtype == np.int32 and (prepared.arrays[1] == 3).all()


def test_a_promised_range_gives_the_size_that_no_input_tells(path: Path) -> None:
    prepared = ready(load(path, "channels"), "image=zero:[6,5]")
    assert str(prepared.boxes[0]) == "6 × 5 × 2"


def test_several_outputs(path: Path) -> None:
    prepared = ready(load(path, "pair"), options=Options("[4]"))
    assert [array.tolist() for array in prepared.arrays] == [[0, 1, 2, 3], [0, 2, 4, 6]]


def test_estimates_give_sizes_and_scalars(path: Path) -> None:
    options = Options("estimate", "random:0:estimate_then_auto", "estimate")
    prepared = ready(load(path, "both"), options=options)
    assert prepared.inputs["scale"] == 2.0
    assert str(prepared.inputs["image"]) == "12 × 8"
    assert str(prepared.boxes[0]) == "10 × 7"


def test_auto_inputs_have_the_size_that_is_read(path: Path) -> None:
    program = load(path, "both")
    prepared = ready(program, "image=zero:auto", "scale=1", options=Options("[5,4]"))
    assert str(prepared.inputs["image"]) == "6 × 5"
    assert str(query_inputs(program, Box((2, 3), (5, 4)))["image"]) == "6 × 5 at (2, 3)"


def test_an_input_too_small_for_any_output(path: Path) -> None:
    with pytest.raises(CommandError, match="too small for any output"):
        ready(load(path, "both"), "image=zero:[1,1]", "scale=1")


@pytest.mark.parametrize(
    ("words", "extents", "chosen"),
    [
        (("input=random:0:[200,120]",), None, "198 × 118"),
        (("input=random:0:[200,120]",), "[64,64]", "64 × 64"),
    ],
)
def test_applications_run_by_name(words: tuple[str, ...], extents: str | None, chosen: str) -> None:
    program = load_program(str(ROOT / "apps" / "blur.py"))
    prepared = ready(program, *words, options=Options(extents))
    assert program.name == "blur"
    assert str(prepared.boxes[0]) == chosen
    assert (len(prepared.notes) == 0) == (extents is not None)


def test_an_application_with_an_origin_and_multiples() -> None:
    harris = load_program(str(ROOT / "apps" / "harris.py"))
    prepared = ready(harris, "input=random:0:[100,90,3]")
    assert str(prepared.boxes[0]) == "96 × 86 at (2, 2)"
    camera = load_program(str(ROOT / "apps" / "camera_pipe.py"))
    assert camera.multiples is not None
    width, height, _ = camera.multiples
    extents = f"[{2 * width + 40},{2 * height + 40}]"
    prepared = ready(camera, f"input=random:0:{extents}")
    assert prepared.boxes[0].extents == (2 * width, 2 * height, 3)
    assert prepared.inputs["color_temp"] == 3700.0
