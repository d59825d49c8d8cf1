"""The published inputs in tests/data/minimalloc."""

from __future__ import annotations

import csv
from pathlib import Path

from bayplan.storage.requests import Request

FOLDER = Path(__file__).resolve().parents[1] / "data" / "minimalloc"
LETTERS = "ABCDEFGHIJK"
CAPACITY = 1_048_576


def read_input(letter: str) -> list[Request]:
    """One of the eleven inputs that fit into CAPACITY bytes."""
    with open(FOLDER / f"{letter}.{CAPACITY}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [Request(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"])) for r in rows]
