"""The folder of compiled programs: content-addressed, private, never fatal."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path

from bayplan import settings

_MARK = b"bayplan\0"
_TRAILER_BYTES = len(_MARK) + 32


def make_key(*parts: str) -> str:
    """The name of a cache entry made from the texts `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()[:40]


@cache
def processor_identity() -> str:
    """A text that differs between processors whose native code differs."""
    import platform

    lines = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("flags", "Features", "model name", "CPU part")):
                    lines.append(line.strip())
                if not line.strip():
                    break
    except OSError:
        lines.append(platform.processor())
    return "\n".join([platform.machine(), *lines])


_folders: dict[str, Path] = {}


def cache_folder() -> Path:
    """The folder of compiled programs, made if need be.

    `BAYPLAN_CACHE_DIR`, else the user's cache folder. Where it cannot be written, a folder of
    this process's own takes its place, with one warning.
    """
    if settings.value("NO_CACHE"):
        return _own_folder("BAYPLAN_NO_CACHE")
    wanted = settings.value("CACHE_DIR")
    if not wanted:
        import platformdirs

        wanted = str(platformdirs.user_cache_path("bayplan"))
    known = _folders.get(wanted)
    if known is not None and known.is_dir():
        return known
    folder = Path(wanted)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        warnings.warn(
            f"the cache folder {folder} cannot be written ({error.strerror or error}); "
            "programs are compiled anew in each process",
            RuntimeWarning,
            stacklevel=2,
        )
        folder = _own_folder(wanted)
    _folders[wanted] = folder
    return folder


def _own_folder(key: str) -> Path:
    known = _folders.get(key)
    if known is None or not known.is_dir():
        import atexit
        import shutil

        known = _folders[key] = Path(tempfile.mkdtemp(prefix="bayplan-"))
        pid = os.getpid()
        path = str(known)
        # A forked child must not remove its parent's folder.
        def remove() -> None:
            if os.getpid() == pid:
                shutil.rmtree(path, ignore_errors=True)

        atexit.register(remove)
    return known


def find_entry(key: str) -> Path | None:
    """The whole and unspoiled library of `key`, or None; a broken one is removed."""
    path = cache_folder() / f"{key}.so"
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    body, mark, digest = raw[:-_TRAILER_BYTES], raw[-_TRAILER_BYTES:-32], raw[-32:]
    if mark == _MARK and hashlib.sha256(body).digest() == digest:
        return path
    drop_entry(key)
    return None


def drop_entry(key: str) -> None:
    """Removes the library of `key`."""
    try:
        (cache_folder() / f"{key}.so").unlink()
    except OSError:
        pass


def seal(library: Path) -> None:
    """Marks a finished library, so that `find_entry` can tell it from a broken one.

    Loaders ignore what follows the last section of the file.
    """
    digest = hashlib.sha256(library.read_bytes()).digest()
    with open(library, "ab") as file:
        file.write(_MARK + digest)


def store_entry(key: str, library: Path, source: Path) -> Path:
    """Moves a sealed library and its C text into the cache in one step each."""
    folder = cache_folder()
    os.replace(source, folder / f"{key}.c")
    final = folder / f"{key}.so"
    os.replace(library, final)
    return final
