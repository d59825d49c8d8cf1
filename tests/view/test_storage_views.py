"""The report's text, tables, pages, pictures and JSON say the same numbers under the same names."""

from __future__ import annotations

import html.parser
import json
import re
import xml.etree.ElementTree as xml
from types import SimpleNamespace as Record

import pytest

from bayplan.view.storage_html import render_storage_html, render_storage_page
from bayplan.view.storage_json import SCHEMA, describe_storage
from bayplan.view.storage_rows import format_bytes_short, format_loop
from bayplan.view.storage_svg import render_storage_svg
from bayplan.view.storage_text import explain_storage, render_storage_rich, render_storage_text


def temporary(name: str, **changed: object) -> Record:
    fields: dict[str, object] = {
        "name": name,
        "func": name,
        "kind": "heap",
        "asked": "auto",
        "why": "",
        "element_type": "uint16",
        "extents": (2560, 4),
        "bytes": 20480,
        "formula": "2 * blur_y.extent[0] * 4",
        "life_begin": 1,
        "life_end": 4,
        "loops": ("blur_y.s0.y",),
        "source": "/home/someone/blur.py:12",
        "arena": "blur_y.s0.y.arena",
        "offset": 64,
        "shares": (),
        "in_place_of": "",
        "kernel": "",
        "per_worker": True,
        "copies": 2,
    }
    return Record(**{**fields, **changed})


def arena(name: str, **changed: object) -> Record:
    fields: dict[str, object] = {
        "name": name,
        "bytes": 20544,
        "floor_bytes": 20480,
        "scope": "call",
        "kind": "heap",
        "kernel": "",
        "copies": 1,
        "arena": "",
        "offset": 0,
        "life_begin": 0,
        "life_end": 4,
        "stride_bytes": 20544,
    }
    return Record(**{**fields, **changed})


@pytest.fixture
def report() -> Record:
    return Record(
        temporaries=[
            temporary("blur_x", shares=("edge",)),
            temporary(
                "<b>&k",
                kind="stack",
                extents=(),
                bytes=4,
                formula="4",
                life_begin=2,
                life_end=3,
                loops=(),
                source=None,
                arena="stack",
                offset=None,
                per_worker=False,
                copies=1,
            ),
            temporary("edge", asked="stack", why="no upper bound for n", life_begin=0, life_end=1),
        ],
        arenas=[
            arena("blur_y.arena", bytes=41088, floor_bytes=40960),
            arena("blur_y.s0.y.arena", scope="blur_y.s0.y", copies=2, arena="blur_y.arena"),
            arena("stack", scope="thread", bytes=4, floor_bytes=4),
        ],
        allocations=1,
        peak_bytes=41088,
        floor_bytes=40960,
        sum_bytes=81920,
        stack_bytes=4,
        device_bytes=0,
        device_floor_bytes=0,
        kernels=[],
        formula="min(workers, rows) * (blur_x + edge)",
        floor_formula="min(workers, rows) * (blur_x + edge)",
        terms=(("rows", "blur_y.extent[1] + 2"),),
        exact=True,
        pipeline="blur_y",
        workers=2,
        steps=[
            "write edge",
            "write blur_x in blur_y.s0.y",
            "evaluate",
            "write blur_y in blur_y.s0.y",
        ],
    )


@pytest.fixture
def empty() -> Record:
    return Record(
        temporaries=[],
        arenas=[],
        allocations=0,
        peak_bytes=0,
        floor_bytes=0,
        sum_bytes=0,
        stack_bytes=0,
        device_bytes=0,
        device_floor_bytes=0,
        formula="",
        floor_formula="",
        terms=(),
        exact=True,
        pipeline="f",
        workers=1,
        kernels=[],
        steps=[],
    )


def test_text_has_a_line_for_each_temporary_and_the_totals(report: Record) -> None:
    lines = render_storage_text(report).splitlines()
    assert lines[0] == "3 temporaries in 2 arenas, 2 workers"
    (number,) = [i for i, line in enumerate(lines) if line.startswith("blur_x")]
    for part in ("heap ×2", "uint16", "2560 × 4", "20,480", "[1, 4)", "blur_y.y", "blur.py:12"):
        assert part in lines[number]
    assert "B + 64" in lines[number]
    assert lines[number + 1 : number + 3] == [
        "    = 2 * blur_y.extent[0] * 4",
        "    shares bytes with edge",
    ]
    assert "    asked Stack, got Heap: no upper bound for n" in lines
    (row,) = [line for line in lines if line.startswith("<b>&k")]
    assert "scalar" in row and "stack " in row
    assert "    rows = blur_y.extent[1] + 2" in lines
    assert "arena A: 41,088 bytes (floor 40,960), the call's" in lines
    assert (
        "arena B: 20,544 bytes (floor 20,480), of a worker of blur_y.y, ×2, in A + 0" in lines
    )
    peak = "peak  41,088 bytes (40.1 KiB): heap bytes that a call needs, known before it"
    assert lines[lines.index(peak) + 1] == "      = min(workers, rows) * (blur_x + edge)"
    assert "floor 40,960 bytes (40.0 KiB): the least that any plan could take" in lines
    assert "sum   81,920 bytes (80.0 KiB): all heap temporaries side by side" in lines
    assert "stack 4 bytes: in one thread" in lines


def test_one_name_in_several_places_is_one_line(report: Record) -> None:
    report.temporaries.append(temporary("blur_x", life_begin=3, life_end=4))
    lines = render_storage_text(report).splitlines()
    (row,) = [line for line in lines if line.startswith("blur_x")]
    assert "[1, 4) +1" in row and lines[0].startswith("3 temporaries")
    assert any(line.startswith("+n: allocated in n more places") for line in lines)


def test_the_explanation_is_one_line_a_temporary(report: Record) -> None:
    lines = explain_storage(report).splitlines()
    for name, part in (
        ("blur_x", "heap ×2 20,480 [1, 4) blur_y.y edge 2 * blur_y.extent[0] * 4"),
        ("edge", "heap ×2 20,480 [0, 1) 2 * blur_y.extent[0] * 4"),
    ):
        (row,) = [line for line in lines if line.startswith(name)]
        assert part in " ".join(row.split())
    assert len(lines) == 3 + 12


def test_what_is_computed_in_place_says_of_what(report: Record) -> None:
    report.temporaries[0].in_place_of = "edge"
    assert "    in place of edge" in render_storage_text(report).splitlines()
    report.temporaries[2].life_end = 2
    picture = render_storage_svg(report)
    # A slanting line where both are alive.
    assert "in place of edge" in picture and picture.count('<path class="h"') == 1
    assert "edge (in place)" in explain_storage(report)
    assert describe_storage(report)["temporaries"][0]["in_place_of"] == "edge"


def test_bounds_are_called_bounds(report: Record) -> None:
    report.exact = False
    assert "peak  at most 41,088 bytes" in render_storage_text(report)


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
    for part in ("blur_x", "20,480", "<b>&k", "peak  41,088", "3 temporaries in 2 arenas"):
        assert part in shown
    assert "edge = 2 * blur_y.extent[0] * 4; asked Stack, got Heap: no upper bound" in shown


class Tags(html.parser.HTMLParser):
    """Checks that tags close in order and gathers what a reader sees."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []
        self.opened: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        if tag != "meta":
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


@pytest.mark.parametrize("render", [render_storage_html, render_storage_page])
def test_page_is_well_formed_escaped_and_loads_nothing(report: Record, render) -> None:
    page = render(report).replace("<br>", "<br/>")
    tags = Tags()
    tags.feed(page)
    assert tags.open == [] and tags.links == [] and "script" not in tags.opened
    assert "http" not in page and "<b>&k" not in page and "url(" not in page
    for part in ("blur_x", "20,480", "<b>&k", "[1, 4)", "= 2 * blur_y.extent[0] * 4"):
        assert part in tags.seen
    # One picture an arena; the call and the loop can be closed.
    assert tags.opened.count("svg") == 2 and tags.opened.count("details") == 4


def test_picture_has_a_rectangle_for_each_temporary_at_its_address(report: Record) -> None:
    root = xml.fromstring(render_storage_svg(report))
    space = "{http://www.w3.org/2000/svg}"
    boxes = {}
    for box in root.iter(f"{space}rect"):
        title = box.find(f"{space}title")
        if box.get("class") == "b" and title is not None and title.text:
            boxes[title.text.split(":")[0]] = box
    assert set(boxes) == {
        "blur_x", "edge", "arena B of worker 0 of blur_y.y", "arena B of worker 1 of blur_y.y"
    }  # fmt: skip
    x, edge = boxes["blur_x"], boxes["edge"]
    # The same address at other steps: same height, one beside the other.
    assert x.get("y") == edge.get("y") and x.get("height") == edge.get("height")
    end = float(edge.get("x", 0)) + float(edge.get("width", 0))
    assert end == pytest.approx(float(x.get("x", 0)), abs=0.2)
    tip = x[0].text or ""
    assert "at B + 64, steps [1, 4)" in tip and "from 1: write blur_x in blur_y.y" in tip
    assert "shares bytes with edge" in tip
    assert {line.get("class") for line in root.iter(f"{space}line")} == {"g", "peak", "floor"}
    assert "<script" not in render_storage_svg(report)


def test_json_survives_the_round_trip(report: Record) -> None:
    data = json.loads(json.dumps(describe_storage(report)))
    assert data["schema"] == SCHEMA == "bayplan.storage/3"
    assert data["peak_bytes"] == 41088 and data["stack_bytes"] == 4 and data["allocations"] == 1
    assert data["pipeline"] == "blur_y" and data["exact"] is True
    assert data["terms"] == {"rows": "blur_y.extent[1] + 2"}
    assert data["temporaries"][0]["copies"] == 2
    assert data["temporaries"][0]["life"] == {"begin": 1, "end": 4}
    assert data["temporaries"][0]["formula"] == "2 * blur_y.extent[0] * 4"
    assert data["temporaries"][1]["extents"] == [] and data["temporaries"][1]["offset"] is None
    assert data["temporaries"][2]["asked"] == "stack"
    assert data["arenas"][1] == {
        "name": "blur_y.s0.y.arena",
        "bytes": 20544,
        "floor_bytes": 20480,
        "copies": 2,
        "scope": "blur_y.s0.y",
        "kind": "heap",
        "kernel": "",
        "arena": "blur_y.arena",
        "offset": 0,
        "life": {"begin": 0, "end": 4},
    }


def add_kernel(report: Record) -> None:
    """A kernel with a shared arena, of which `blur_x` and `edge` are temporaries."""
    title = "blur_y.s0.kernel"
    shared = f"{title}.shared_alloc"
    barriers = [
        Record(step=1, fence="shared", loops=()),
        Record(step=2, fence="shared and global", loops=("blur_y.s0.r",)),
    ]
    report.kernels.append(
        Record(
            name=title, function="blur_y_s0_kernel", func="blur_y", source="/there/blur.py:9",
            launches=3, exact=True, blocks=(46, 160, 1), threads=(32, 1, 1),
            blocks_formula=("(blur_y.extent[0] + 31) / 32", "", "1"),
            threads_formula=("32", "1", "1"), register_bytes=24, shared=shared, shared_bytes=41024,
            shared_floor_bytes=40960, device="", slice_bytes=0, slice_floor_bytes=0,
            temporaries=("edge", "blur_x"), barriers=barriers, life_begin=0, life_end=4,
            notes=("edge: asked Stack, got GPUShared: the threads of a block share it",),
        )
    )  # fmt: skip
    report.arenas[1] = arena(
        shared, scope="block", kind="gpu_shared", kernel=title, life_begin=1, life_end=3
    )
    for one in report.temporaries:
        one.kernel = title
        one.arena = shared if one.arena != "stack" else "thread"


def test_kernels_are_told_in_text_json_and_page(report: Record) -> None:
    assert "kernel" not in render_storage_text(report)
    add_kernel(report)
    lines = render_storage_text(report).splitlines()
    (row,) = [" ".join(line.split()) for line in lines if line.startswith("blur_y.s0.kernel")]
    assert row == "blur_y.s0.kernel 3 46 × 160 32 24 41,024 40,960 2 [0, 4) blur.py:9"
    for note in (
        "blocks = ((blur_y.extent[0] + 31) / 32) × ?",
        "shared memory of a block: arena B",
        "barrier (shared) before step 1",
        "barrier (shared and global) before step 2 in each blur_y.r",
        "edge: asked Stack, got GPUShared: the threads of a block share it",
    ):
        assert f"    {note}" in lines
    assert (
        "blur_y.s0.kernel: 3 launches of 46 × 160 blocks of 32 threads, 41,024 bytes shared, "
        "24 bytes of arrays a thread, 2 barriers"
    ) in explain_storage(report)
    (kernel,) = json.loads(json.dumps(describe_storage(report)))["kernels"]
    assert kernel["blocks"] == [46, 160, 1] and kernel["launches"] == 3
    assert kernel["barriers"][1] == {
        "step": 2, "fence": "shared and global", "loops": ["blur_y.s0.r"]
    }  # fmt: skip
    tags = Tags()
    tags.feed(render_storage_page(report).replace("<br>", "<br/>"))
    assert tags.open == []
    for part in ("1 kernel", "46 × 160", "barrier (shared) before step 1"):
        assert part in tags.seen


def test_the_picture_of_a_block_has_its_barriers(report: Record) -> None:
    add_kernel(report)
    root = xml.fromstring(render_storage_svg(report))
    space = "{http://www.w3.org/2000/svg}"
    lines = [line for line in root.iter(f"{space}line") if line.get("class") == "wt"]
    tips = [line[0].text for line in lines]
    assert tips == [
        "barrier (shared) before step 1",
        "barrier (shared and global) before step 2, in each iteration of blur_y.r",
    ]
    boxes = {
        (box[0].text or "").split(":")[0]: box
        for box in root.iter(f"{space}rect")
        if box.get("class") == "b" and len(box)
    }
    # The first barrier stands where one life ends and the next begins.
    assert lines[0].get("x1") == boxes["blur_x"].get("x")
    edge = boxes["edge"]
    end = float(edge.get("x", 0)) + float(edge.get("width", 0))
    assert end == pytest.approx(float(lines[0].get("x1", 0)), abs=0.2)
    titles = [t.text or "" for t in root.iter(f"{space}text") if t.get("class") == "t"]
    assert any("46 × 160 blocks of 32 threads" in text for text in titles)


def test_a_program_without_temporaries(empty: Record) -> None:
    text = render_storage_text(empty)
    assert text.startswith("no temporaries: nothing is allocated\n")
    assert "peak  0 bytes: heap bytes that a call needs" in text
    assert "<svg" not in render_storage_html(empty)
    assert "no heap memory" in render_storage_svg(empty)
    assert explain_storage(empty).startswith("no temporaries")
    assert describe_storage(empty)["temporaries"] == []


def test_pictures_of_many_steps_stay_small(report: Record) -> None:
    report.arenas[0].life_end = report.arenas[1].life_end = 100_000
    assert len(re.findall("<rect", render_storage_svg(report))) < 20


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
