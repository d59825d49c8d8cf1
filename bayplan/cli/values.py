"""Reads the values of ``name=value`` arguments as Halide's RunGen writes them.

A scalar is a number, ``true`` or ``false``. A buffer is a file (png, jpg, any format of the imageio
package, or npy) or one of ``zero:SHAPE``, ``constant:VALUE:SHAPE``, ``identity:SHAPE``,
``random:SEED:SHAPE``, where SHAPE is ``[NUM,NUM,...]``, ``auto``, ``estimate`` or
``estimate_then_auto``. Extents are written with dimension 0 first; numpy's axes are reversed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayplan.cli.failure import CommandError

Shape = tuple[int, ...]
# From the word for a shape ("auto", "estimate", ...) to the shape.
ShapeSource = Callable[[str], Shape]

SHAPE_WORDS = frozenset({"auto", "estimate", "estimate_then_auto"})
MADE_UP = frozenset({"zero", "constant", "identity", "random"})
PICTURES = (".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".bmp", ".tif", ".tiff")


def numpy_type(element_type: Any) -> Any:
    """Gives the numpy dtype of a ``Type``."""
    import numpy as np

    if element_type.is_bool():
        return np.dtype(np.bool_)
    letter = "f" if element_type.is_float() else "u" if element_type.is_uint() else "i"
    return np.dtype(f"{letter}{element_type.bits() // 8}")


def parse_extents(text: str) -> Shape:
    """Reads ``[NUM,NUM,...]``; ``[]`` is a scalar's shape."""
    inner = text.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        raise CommandError(f"extents {text!r}: expected [NUM,NUM,...]")
    inner = inner[1:-1].strip()
    try:
        extents = tuple(int(part, 0) for part in inner.split(",")) if inner else ()
    except ValueError:
        raise CommandError(f"extents {text!r}: expected whole numbers") from None
    if any(extent < 0 for extent in extents):
        raise CommandError(f"extents {text!r}: an extent cannot be negative")
    return extents


def parse_scalar(name: str, text: str, element_type: Any) -> bool | int | float:
    """Reads a scalar of the given type and checks its range.

    Raises:
        CommandError: Not a number, or one that the type cannot hold.
    """
    import numpy as np

    dtype = numpy_type(element_type)
    wrong = f"{name}={text}: expected a value of type {element_type}"
    if dtype.kind == "b":
        words = {"true": True, "false": False, "1": True, "0": False}
        if text not in words:
            raise CommandError(wrong + " (true or false)")
        return words[text]
    if dtype.kind == "f":
        try:
            return float(text)
        except ValueError:
            raise CommandError(wrong) from None
    try:
        number = int(text, 0)
    except ValueError:
        raise CommandError(wrong) from None
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise CommandError(f"{wrong}, from {limits.min} to {limits.max}")
    return number


def parse_buffer(name: str, text: str, element_type: Any, rank: int, shape_of: ShapeSource) -> Any:
    """Makes or loads the array of one buffer input.

    Args:
        name: The argument's name, for messages.
        text: What stands behind ``name=``.
        element_type: The ``Type`` that the pipeline wants.
        rank: The number of dimensions that the pipeline wants.
        shape_of: Answers ``auto``, ``estimate`` and ``estimate_then_auto``.

    Returns:
        A pair: the array (axes reversed, element type as wanted), and a list of notes to the
        user about conversions.
    """
    kind, *rest = text.split(":")
    if kind not in MADE_UP:
        return _load(name, text, numpy_type(element_type), rank)
    wanted = 2 if kind in {"constant", "random"} else 1
    if len(rest) != wanted:
        form = f"{kind}:{'VALUE:' if kind == 'constant' else 'SEED:' if kind == 'random' else ''}"
        raise CommandError(f"{name}={text}: expected {form}[NUM,NUM,...]")
    shape = shape_of(rest[-1]) if rest[-1] in SHAPE_WORDS else parse_extents(rest[-1])
    if len(shape) != rank:
        raise CommandError(f"{name}={text}: {len(shape)} extents given, the input has {rank}")
    return _make(name, kind, rest[0], element_type, tuple(reversed(shape))), []


def _make(name: str, kind: str, word: str, element_type: Any, shape: Shape) -> Any:
    """Makes the array of one of the made-up inputs; ``shape`` is in numpy's order."""
    import numpy as np

    dtype = numpy_type(element_type)
    if kind == "zero":
        return np.zeros(shape, dtype)
    if kind == "constant":
        return np.full(shape, parse_scalar(name, word, element_type), dtype)
    if kind == "identity":
        array = np.zeros(shape, dtype)
        if not shape:
            return np.ones(shape, dtype)
        index = np.indices(shape)
        inner = index[-1] == (index[-2] if len(shape) >= 2 else 0)
        array[inner] = 1
        return array
    try:
        seed = int(word, 0)
    except ValueError:
        raise CommandError(f"{name}: the seed {word!r} is not a whole number") from None
    rng = np.random.default_rng(abs(seed))
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def _load(name: str, text: str, dtype: Any, rank: int) -> tuple[Any, list[str]]:
    import numpy as np

    path = Path(text)
    if not path.is_file():
        hint = f" (or one of {', '.join(sorted(MADE_UP))}: ...)" if ":" in text else ""
        raise CommandError(f"{name}={text}: no such file{hint}", 1)
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        else:
            from bayplan.imageio import imread

            array = imread(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"{name}={text}: cannot be read: {error}", 1) from error
    notes: list[str] = []
    array = fit_rank(array, rank, f"input {name}", notes)
    if array.dtype != dtype:
        notes.append(f"input {name}: the file holds {array.dtype}, converted to {dtype}")
        array = convert_elements(array, dtype)
    return np.ascontiguousarray(array), notes


def fit_rank(array: Any, rank: int, title: str, notes: list[str]) -> Any:
    """Drops or adds outermost dimensions, as RunGen does, and notes when data is lost."""
    if array.ndim > rank:
        lost = [extent for extent in array.shape[: array.ndim - rank] if extent > 1]
        if lost:
            notes.append(
                f"{title}: {array.ndim} dimensions, only the innermost {rank} are used; "
                "what lies beyond index 0 of the others is dropped"
            )
        while array.ndim > rank:
            array = array[0]
    while array.ndim < rank:
        notes.append(f"{title}: {array.ndim} dimensions, one of extent 1 is added")
        array = array[None]
    return array


def convert_elements(array: Any, dtype: Any) -> Any:
    """Converts pixels between types so that the full range of one becomes that of the other.

    Unsigned integers scale by the ratio of their largest values, rounded to nearest; between
    integers and floats the largest value is 1.0. Signed integers only saturate.
    """
    import numpy as np

    source, dtype = array.dtype, np.dtype(dtype)
    if source == dtype:
        return array
    if source.kind == "b":
        return array.astype(dtype) * (1 if dtype.kind != "u" else np.iinfo(dtype).max)
    if dtype.kind == "b":
        return array != 0
    if source.kind == "f" and dtype.kind == "f":
        return array.astype(dtype)
    if source.kind == "f":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        scaled = np.nan_to_num(array.astype(np.float64)) * high
        return np.clip(np.rint(scaled), low, high).astype(dtype)
    if dtype.kind == "f":
        return (array.astype(np.float64) / np.iinfo(source).max).astype(dtype)
    limits = np.iinfo(dtype)
    if source.kind == "u" and dtype.kind == "u" and max(source.itemsize, dtype.itemsize) <= 4:
        a, b = np.uint64(np.iinfo(source).max), np.uint64(limits.max)
        return ((array.astype(np.uint64) * b + a // np.uint64(2)) // a).astype(dtype)
    return np.clip(array, limits.min, limits.max).astype(dtype)


def save_buffer(name: str, path: Path, array: Any) -> list[str]:
    """Writes an output to a file whose suffix says the format; returns notes on conversions.

    ``.npy`` keeps everything. Pictures have two dimensions, or three with 1 to 4 channels, of
    uint8 (in png without channels also uint16).
    """
    import numpy as np

    notes: list[str] = []
    if path.suffix != ".npy" and path.suffix.lower() not in PICTURES:
        raise CommandError(f"{name}={path}: the suffix must be .npy or {', '.join(PICTURES)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npy":
            np.save(path, array)
            return notes
        if array.ndim < 2 or array.ndim > 3:
            array = fit_rank(array, 2 if array.ndim < 2 else 3, f"output {name}", notes)
        if array.ndim == 3 and array.shape[0] > 4:
            notes.append(f"output {name}: {array.shape[0]} channels, the first is saved")
            array = array[0]
        if array.ndim == 3 and array.shape[0] == 1:
            array = array[0]
        wide = path.suffix == ".png" and array.ndim == 2 and array.dtype.itemsize > 1
        dtype = np.dtype(np.uint16 if wide and array.dtype.kind != "b" else np.uint8)
        if array.dtype != dtype:
            notes.append(f"output {name}: {array.dtype} is saved as {dtype}")
            array = convert_elements(array, dtype)
        from bayplan.imageio import imwrite

        imwrite(path, np.ascontiguousarray(array))
    except (OSError, ValueError) as error:
        raise CommandError(f"{name}={path}: cannot be written: {error}", 1) from error
    return notes
