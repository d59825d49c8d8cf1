"""Pictures to and from files, in the planar layout that pipelines index as ``f[x, y, c]``.

The functions and their meaning are those of ``halide.imageio``. A colour picture lies in a file
interleaved, as ``(row, column, channel)``; a ``Buffer`` reverses numpy's axes, so the array handed
to it must be ``(channel, row, column)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

# More than four samples a pixel are no colours: such an array is a stack of planes.
_MOST_CHANNELS = 4


def _view(image: Any) -> memoryview:
    """A memoryview of an array or Buffer; before Python 3.12 a Buffer needs numpy for it."""
    try:
        return memoryview(image)
    except TypeError:
        import numpy as np

        return np.asarray(image).data


def is_interleaved(image: Any) -> bool:
    """Tells whether an array or buffer has its channels innermost, as picture files do.

    Args:
        image: Anything with the buffer protocol.

    Returns:
        True for three dimensions, at most four channels, and channels next to each other.
        (``halide.imageio`` compares the distance with one byte, so it takes no 16-bit picture for
        interleaved.)
    """
    view = _view(image)
    return (
        view.ndim == 3
        and view.strides is not None
        and view.shape is not None
        and view.strides[2] == view.itemsize
        and 1 <= view.shape[2] <= _MOST_CHANNELS
    )


def copy_to_interleaved(image: Any) -> Any:
    """Moves the channels innermost, for code that wants a picture as a file has it.

    Args:
        image: An array or buffer in the order (channel, row, column).

    Returns:
        A new C-contiguous array (row, column, channel); the argument itself when it has not three
        dimensions or is interleaved already.
    """
    import numpy as np

    view = _view(image)
    if view.ndim != 3 or is_interleaved(image):
        return image
    return np.copy(np.moveaxis(np.asarray(image), 0, 2), order="C")


def copy_to_planar(image: Any) -> Any:
    """Moves the channels outermost, for arrays that go into a ``Buffer``.

    Args:
        image: An array or buffer in the order (row, column, channel).

    Returns:
        A new C-contiguous array (channel, row, column); the argument itself when it is not
        interleaved.
    """
    import numpy as np

    if not is_interleaved(image):
        return image
    return np.copy(np.moveaxis(np.asarray(image), 2, 0), order="C")


def imread(uri: Any, format: str | None = None, **kwargs: Any) -> Any:
    """Reads a picture for a pipeline.

    Args:
        uri: A path, a file object, bytes: all that ``imageio.imread`` takes.
        format: The file format, where the name does not tell it.
        **kwargs: Handed to ``imageio.imread``.

    Returns:
        An array (row, column) or (channel, row, column).

    >>> import bayplan.imageio, pathlib, tempfile, numpy as np
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "red.png"
    >>> bayplan.imageio.imwrite(path, np.zeros((3, 4, 5), np.uint8))
    >>> bayplan.imageio.imread(path).shape
    (3, 4, 5)
    """
    import imageio.v2
    import numpy as np

    return copy_to_planar(np.asarray(imageio.v2.imread(_plain(uri), format, **kwargs)))


def imwrite(uri: Any, im: Any, format: str | None = None, **kwargs: Any) -> None:
    """Writes a picture that a pipeline has made.

    Args:
        uri: A path or file object: all that ``imageio.imwrite`` takes.
        im: An array or Buffer, (row, column) or (channel, row, column).
        format: The file format, where the name does not tell it.
        **kwargs: Handed to ``imageio.imwrite``.
    """
    import imageio.v2
    import numpy as np

    imageio.v2.imwrite(_plain(uri), np.asarray(copy_to_interleaved(im)), format, **kwargs)


def _plain(uri: Any) -> Any:
    return str(uri) if isinstance(uri, Path) else uri
