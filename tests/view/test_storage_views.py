"""The report's text, table, page and JSON say the same numbers under the same names."""

from __future__ import annotations

import html.parser
import json
from types import SimpleNamespace as Record

import pytest

from bayplan.view.storage_html import render_storage_html
from bayplan.view.storage_json import SCHEMA, describe_storage
from bayplan.view.storage_rows import format_bytes_short, format_loop
from bayplan.view.storage_text import render_storage_rich, render_storage_text


def temporary(name: str, **changed: object) -> Record:
    fields: dict[str, object] = {
        "name": name,
        "func": name,
        "kind": "heap",
        "element_type": "uint16",
        "extents": (2560, 4),
        "bytes": 20480,
        "life_begin": 1,
        "life_end": 4,
        "loops": ("blur_y.y",),
        "source": "/home/someone/blur.py:12",
        "arena": "heap",
        "per_worker": True,
        "copies": 2,
        "allocations": 60,
    }
    return Record(**{**fields, **changed})


@pytest.fixture
def report() -> Record:
    return Record(
        temporaries=[
            temporary("blur_x"),
            temporary(
                "<b>&k",
                kind="stack",
                extents=(),
                bytes=4,
                life_begin=2,
                life_end=3,
                loops=(),
                source=None,
                arena=None,
                per_worker=False,
                copies=1,
            ),
        ],
        arenas=[Record(name="heap", bytes=20480, scope="one a worker")],
        peak_bytes=40960,
        floor_bytes=40960,
        sum_bytes=40960,
        stack_bytes=4,
        exact=True,
        pipeline="blur_y",
        workers=2,
        steps=["produce blur_x", "consume blur_x"],
    )


@pytest.fixture
def empty() -> Record:
    return Record(
        temporaries=[],
        arenas=[],
        peak_bytes=0,
        floor_bytes=0,
        sum_bytes=0,
        stack_bytes=0,
        exact=True,
        pipeline="f",
        workers=1,
        steps=[],
    )


def test_text_has_a_line_for_each_temporary_and_the_totals(report: Record) -> None:
    lines = render_storage_text(report).splitlines()
    assert lines[0] == "2 temporaries in 1 arena, 2 workers"
    (row,) = [line for line in lines if line.startswith("blur_x")]
    assert row.split("  ")[0] == "blur_x"
    for part in ("heap ×2", "uint16", "2560 × 4", "20,480", "[1, 4)", "blur_y.y", "blur.py:12"):
        assert part in row
    (row,) = [line for line in lines if line.startswith("<b>&k")]
    assert "scalar" in row and "stack " in row
    assert "peak  40,960 bytes (40.0 KiB): heap bytes that a call takes" in lines
    assert "floor 40,960 bytes (40.0 KiB): the least that any plan could take" in lines
    assert "sum   40,960 bytes (40.0 KiB): all heap temporaries side by side" in lines
    assert "stack 4 bytes: in one thread" in lines


def test_bounds_are_called_bounds(report: Record) -> None:
    report.exact = False
    assert "peak  at most 40,960 bytes" in render_storage_text(report)


def test_text_columns_stand_under_their_names(report: Record) -> None:
    lines = render_storage_text(report).splitlines()
    heading = next(line for line in lines if line.startswith("temporary"))
    row = next(line for line in lines if line.startswith("blur_x"))
    for name, cell in (("kind", "heap"), ("type", "uint16"), ("life", "[1"), ("line", "blur.py")):
        assert heading.index(name) == row.index(cell)
    assert heading.index("bytes") + len("bytes") == row.index("20,480") + len("20,480")


def test_rich_table_holds_the_same_numbers(report: Record) -> None:
    from rich.console import Console

    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_storage_rich(report))
    shown = console.export_text()
    for part in ("blur_x", "20,480", "<b>&k", "peak  40,960", "2 temporaries in 1 arena"):
        assert part in shown


class Tags(html.parser.HTMLParser):
    """Checks that tags close in order and gathers what a reader sees."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


def test_page_is_well_formed_escaped_and_loads_nothing(report: Record) -> None:
    page = render_storage_html(report)
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and tags.links == []
    assert "http" not in page and "<b>&k" not in page
    for part in ("blur_x", "20,480", "<b>&k", "[1, 4)"):
        assert part in tags.seen
    assert page.count("<rect") == 2


def test_json_survives_the_round_trip(report: Record) -> None:
    data = json.loads(json.dumps(describe_storage(report)))
    assert data["schema"] == SCHEMA == "bayplan.storage/1"
    assert data["peak_bytes"] == 40960 and data["stack_bytes"] == 4
    assert data["pipeline"] == "blur_y" and data["exact"] is True
    assert data["temporaries"][0]["copies"] == 2
    assert data["temporaries"][0]["life"] == {"begin": 1, "end": 4}
    assert data["temporaries"][1]["extents"] == []
    assert data["temporaries"][1]["arena"] is None
    assert data["arenas"] == [{"name": "heap", "bytes": 20480, "scope": "one a worker"}]


def test_a_program_without_temporaries(empty: Record) -> None:
    text = render_storage_text(empty)
    assert text.startswith("no temporaries: nothing is allocated\n")
    assert "peak  0 bytes: heap bytes that a call takes" in text
    assert "<svg" not in render_storage_html(empty)
    assert describe_storage(empty)["temporaries"] == []


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (235072, "229.6 KiB"), (1 << 40, "1.0 TiB")],
)
def test_short_byte_counts(count: int, text: str) -> None:
    assert format_bytes_short(count) == text
    assert format_bytes_short(None) == "unknown"


@pytest.mark.parametrize(
    ("loop", "text"),
    [
        ("blur_y.s0.y.yi.yo", "blur_y.yo"),
        ("hist.s1.r$x", "hist.update(0).r$x"),
        ("f$3.s12.x", "f$3.update(11).x"),
        ("blur_y.y", "blur_y.y"),
        ("", ""),
    ],
)
def test_loops_are_named_as_the_user_wrote_them(loop: str, text: str) -> None:
    assert format_loop(loop) == text
