"""Pictures come back as they were written, planar for the pipeline and interleaved in the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bayplan import imageio as bp_imageio


def planar(dtype: type, channels: int = 3) -> np.ndarray:
    return (np.arange(channels * 6 * 8).reshape(channels, 6, 8) * 3 % 251).astype(dtype)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_copies_are_inverse_and_change_only_the_layout(channels: int) -> None:
    image = planar(np.uint8, channels)
    inner = bp_imageio.copy_to_interleaved(image)
    assert inner.shape == (6, 8, channels)
    assert bp_imageio.is_interleaved(inner)
    assert not bp_imageio.is_interleaved(image)
    assert np.array_equal(bp_imageio.copy_to_planar(inner), image)
    assert bp_imageio.copy_to_planar(inner).flags.c_contiguous


def test_sixteen_bit_pictures_are_interleaved_too() -> None:
    inner = bp_imageio.copy_to_interleaved(planar(np.uint16))
    assert bp_imageio.is_interleaved(inner)
    assert bp_imageio.copy_to_planar(inner).shape == (3, 6, 8)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 9), (2, 3, 4, 5)])
def test_what_is_no_colour_picture_is_returned_as_it_is(shape: tuple[int, ...]) -> None:
    image = np.zeros(shape, np.uint8)
    assert not bp_imageio.is_interleaved(image)
    assert bp_imageio.copy_to_planar(image) is image


def test_grey_is_not_copied() -> None:
    grey = np.zeros((5, 7), np.uint8)
    assert bp_imageio.copy_to_interleaved(grey) is grey


@pytest.mark.parametrize("image", [planar(np.uint8), planar(np.uint8, 4), planar(np.uint8)[0]])
def test_png_gives_back_what_was_written(image: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    bp_imageio.imwrite(path, image)
    assert np.array_equal(bp_imageio.imread(path), image)
    assert np.array_equal(bp_imageio.imread(str(path)), image)


def test_the_file_is_what_other_programs_expect(tmp_path: Path) -> None:
    import imageio.v2

    image = planar(np.uint8)
    bp_imageio.imwrite(tmp_path / "picture.png", image)
    stored = imageio.v2.imread(tmp_path / "picture.png")
    assert np.array_equal(stored, np.moveaxis(image, 0, 2))


def test_same_answers_as_the_module_of_halide(tmp_path: Path) -> None:
    theirs = pytest.importorskip("halide.imageio")
    path = tmp_path / "picture.png"
    theirs.imwrite(str(path), planar(np.uint8))
    assert np.array_equal(bp_imageio.imread(path), theirs.imread(str(path)))
    inner = bp_imageio.copy_to_interleaved(planar(np.uint8))
    for image in (planar(np.uint8), inner, inner[:, :, 0]):
        assert bp_imageio.is_interleaved(image) == theirs.is_interleaved(image)
        assert np.array_equal(bp_imageio.copy_to_planar(image), theirs.copy_to_planar(image))
        assert np.array_equal(
            bp_imageio.copy_to_interleaved(image), theirs.copy_to_interleaved(image)
        )


def test_a_buffer_is_written_like_an_array(tmp_path: Path) -> None:
    import bayplan as hl

    image = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
    bp_imageio.imwrite(tmp_path / "buffer.png", hl.Buffer(image))
    assert np.array_equal(bp_imageio.imread(tmp_path / "buffer.png"), image)
