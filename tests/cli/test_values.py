"""Values of name=value arguments: scalars, made-up buffers, files, conversions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bayplan.cli.failure import CommandError
from bayplan.cli.values import (
    convert_elements,
    numpy_type,
    parse_buffer,
    parse_extents,
    parse_scalar,
    save_buffer,
)
from bayplan.imageio import imread, imwrite
from bayplan.ir.types import Bool, Float, Int, Type, UInt


def no_shape(word: str) -> tuple[int, ...]:
    raise AssertionError(f"asked for {word}")


def make(text: str, element_type: Type = UInt(8), rank: int = 2) -> np.ndarray:
    array, notes = parse_buffer("a", text, element_type, rank, no_shape)
    assert notes == []
    return array


@pytest.mark.parametrize(
    ("element_type", "dtype"),
    [(UInt(1), "?"), (UInt(8), "u1"), (Int(64), "i8"), (Float(16), "f2"), (Float(64), "f8")],
)
def test_numpy_type(element_type: Type, dtype: str) -> None:
    assert numpy_type(element_type) == np.dtype(dtype)


@pytest.mark.parametrize(
    ("text", "extents"), [("[]", ()), ("[7]", (7,)), ("[640, 480,3]", (640, 480, 3)), ("[0]", (0,))]
)
def test_extents(text: str, extents: tuple[int, ...]) -> None:
    assert parse_extents(text) == extents


@pytest.mark.parametrize("text", ["640,480", "[640", "[a]", "[-1]", "", "[1,,2]"])
def test_wrong_extents(text: str) -> None:
    with pytest.raises(CommandError, match="extents"):
        parse_extents(text)


@pytest.mark.parametrize(
    ("text", "element_type", "value"),
    [
        ("255", UInt(8), 255),
        ("0x10", Int(32), 16),
        ("-128", Int(8), -128),
        ("3.5", Float(32), 3.5),
        ("true", Bool(), True),
        ("0", Bool(), False),
    ],
)
def test_scalars(text: str, element_type: Type, value: object) -> None:
    found = parse_scalar("p", text, element_type)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "element_type", "expected"),
    [
        ("256", UInt(8), "p=256: expected a value of type uint8, from 0 to 255"),
        ("-129", Int(8), "from -128 to 127"),
        ("3.5", Int(32), "p=3.5: expected a value of type int32"),
        ("abc", Float(32), "p=abc: expected a value of type float32"),
        ("2", Bool(), "true or false"),
    ],
)
def test_wrong_scalars(text: str, element_type: Type, expected: str) -> None:
    with pytest.raises(CommandError, match=expected):
        parse_scalar("p", text, element_type)


def test_made_up_buffers_have_reversed_axes() -> None:
    assert np.array_equal(make("zero:[3,2]"), np.zeros((2, 3), np.uint8))
    assert np.array_equal(make("constant:7:[3,2]"), np.full((2, 3), 7, np.uint8))
    assert np.array_equal(make("identity:[3,2]"), np.eye(2, 3, dtype=np.uint8))
    assert np.array_equal(make("identity:[3]", rank=1), [1, 0, 0])
    assert make("identity:[]", rank=0).shape == ()
    planes = make("identity:[2,2,3]", rank=3)
    assert planes.shape == (3, 2, 2) and planes.sum() == 6


def test_random_depends_on_the_seed_and_fills_the_range() -> None:
    first = make("random:1:[64,64]")
    assert np.array_equal(first, make("random:1:[64,64]"))
    assert not np.array_equal(first, make("random:2:[64,64]"))
    assert first.min() < 8 and first.max() > 247
    reals = make("random:1:[64,64]", Float(32))
    assert reals.dtype == np.float32 and reals.min() >= 0 and reals.max() < 1
    signed = make("random:1:[64,64]", Int(16))
    assert signed.min() < -30000 and signed.max() > 30000
    assert set(make("random:1:[8,8]", Bool()).ravel().tolist()) == {False, True}


def test_words_for_shapes_are_asked_for() -> None:
    words = []

    def answer(word: str) -> tuple[int, ...]:
        words.append(word)
        return (5, 4)

    array, _ = parse_buffer("a", "zero:estimate_then_auto", UInt(8), 2, answer)
    assert array.shape == (4, 5) and words == ["estimate_then_auto"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zero", "a=zero: expected zero:"),
        ("constant:[2,2]", "expected constant:VALUE:"),
        ("constant:300:[2,2]", "from 0 to 255"),
        ("random:x:[2,2]", "seed 'x'"),
        ("zero:[2,2,2]", "3 extents given, the input has 2"),
        ("nowhere.png", "a=nowhere.png: no such file"),
        ("zeros:[2,2]", "no such file"),
    ],
)
def test_wrong_buffers(text: str, expected: str) -> None:
    with pytest.raises(CommandError, match=expected):
        make(text)


def test_files_are_loaded_and_fitted(tmp_path: Path) -> None:
    picture = (np.arange(60).reshape(3, 4, 5) * 4).astype(np.uint8)
    imwrite(tmp_path / "p.png", picture)
    array, notes = parse_buffer("a", str(tmp_path / "p.png"), UInt(8), 3, no_shape)
    assert np.array_equal(array, picture) and notes == []
    array, notes = parse_buffer("a", str(tmp_path / "p.png"), Float(32), 2, no_shape)
    assert np.allclose(array, picture[0] / np.float32(255))
    assert "only the innermost 2 are used" in notes[0]
    assert "holds uint8, converted to float32" in notes[1]
    np.save(tmp_path / "p.npy", picture[0])
    array, notes = parse_buffer("a", str(tmp_path / "p.npy"), UInt(8), 3, no_shape)
    assert array.shape == (1, 4, 5) and "one of extent 1 is added" in notes[0]


def test_an_unreadable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_text("no picture")
    with pytest.raises(CommandError, match="cannot be read") as caught:
        parse_buffer("a", str(tmp_path / "p.png"), UInt(8), 2, no_shape)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([0, 1, 255], "u1", "u2", [0, 257, 65535]),
        ([0, 128, 257, 65535], "u2", "u1", [0, 0, 1, 255]),
        ([0, 255], "u1", "f4", [0.0, 1.0]),
        ([-1.0, 0.5, 2.0, float("nan")], "f4", "u1", [0, 128, 255, 0]),
        ([300, -300], "i2", "i1", [127, -128]),
        ([300, -300], "i4", "u1", [255, 0]),
        ([0, 7], "u1", "?", [False, True]),
        ([False, True], "?", "u1", [0, 255]),
        ([1.5], "f8", "f4", [1.5]),
    ],
)
def test_conversions(values: list, source: str, target: str, expected: list) -> None:
    found = convert_elements(np.array(values, source), np.dtype(target))
    assert found.dtype == np.dtype(target)
    assert found.tolist() == expected


def test_outputs_are_saved_as_their_suffix_says(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 60, dtype=np.float32).reshape(3, 4, 5)
    assert save_buffer("o", tmp_path / "deep" / "o.npy", values) == []
    assert np.array_equal(np.load(tmp_path / "deep" / "o.npy"), values)
    (note,) = save_buffer("o", tmp_path / "o.png", values)
    assert note == "output o: float32 is saved as uint8"
    assert np.array_equal(imread(tmp_path / "o.png"), np.rint(values * 255).astype(np.uint8))
    grey = (np.arange(20).reshape(4, 5) * 3000).astype(np.uint16)
    assert save_buffer("o", tmp_path / "grey.png", grey) == []
    assert np.array_equal(imread(tmp_path / "grey.png"), grey)
    notes = save_buffer("o", tmp_path / "many.png", np.zeros((7, 4, 5), np.uint8))
    assert notes == ["output o: 7 channels, the first is saved"]


def test_a_format_nobody_knows_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"suffix must be \.npy"):
        save_buffer("o", tmp_path / "o.unknown", np.zeros((4, 5), np.uint8))
