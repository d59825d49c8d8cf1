"""Pictures of the arenas: address over steps, one rectangle a temporary.

Rectangles one beside the other at the same height share bytes; one above the other, they are alive
together. Everything stands in the file: no script, no font, no network. Who points at a rectangle
or a step reads what it is.
"""

from __future__ import annotations

from html import escape
from typing import Any

from bayplan.view.storage_kernels import format_grid
from bayplan.view.storage_rows import (
    find_shares,
    format_arena,
    format_bytes,
    format_bytes_short,
    format_kind_note,
    format_loop,
    format_names,
    letter_arenas,
)

# One colour a Func; white text can be read on all of them.
_COLOURS = (
    "#3b6fb6", "#a9502f", "#2e7d4f", "#7d52a1", "#8a6a1f",
    "#2b7a86", "#a8415b", "#5f6f2c", "#5a5fa8", "#7a5543",
)  # fmt: skip
_SLAB_COLOUR = "#68727d"

_LEFT, _RIGHT, _PLOT_WIDTH = 84, 150, 700
_TOP, _FOOT = 30, 42
_HEAD = 24  # of it, for the title, which a page writes itself
_WIDTH = _LEFT + _PLOT_WIDTH + _RIGHT
_HEIGHTS = {"call": 300}
_OTHER_HEIGHT = 220
_LETTER = 6.6  # width of a letter of 11 px, about
# More steps than this have no field of their own to point at.
_MOST_STEPS = 240

_FILE_STYLE = (
    "svg{background:#fff;color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg{background:#12161c;color:#e3e8ee}}"
)
STYLE = (
    ".bp-svg text{font:11px system-ui,sans-serif;fill:currentColor}"
    ".bp-svg .t{font-weight:600;font-size:12px}"
    ".bp-svg .in{fill:#fff;pointer-events:none}"
    ".bp-svg .q{opacity:.65}"
    ".bp-svg .b{stroke:#fff;stroke-opacity:.75;stroke-width:.7}"
    ".bp-svg .b:hover{stroke:currentColor;stroke-opacity:1;stroke-width:2}"
    ".bp-svg .h{pointer-events:none}"
    ".bp-svg .w{stroke:currentColor;stroke-opacity:.8;stroke-width:1.5;stroke-dasharray:2 3}"
    ".bp-svg .wt{stroke:currentColor;stroke-opacity:0;stroke-width:9}"
    ".bp-svg .wt:hover{stroke-opacity:.3}"
    ".bp-svg .g{stroke:currentColor;stroke-opacity:.15}"
    ".bp-svg .f{fill:currentColor;fill-opacity:.035}"
    ".bp-svg .s{fill:currentColor;fill-opacity:.1}"
    ".bp-svg .s:nth-child(even){fill-opacity:.22}"
    ".bp-svg .s:hover{fill-opacity:.7}"
    ".bp-svg .peak{stroke:#d1383f;stroke-width:1.5}"
    ".bp-svg .floor{stroke:#2f9e61;stroke-width:1.5;stroke-dasharray:6 4}"
)
"""The style of all pictures of a page, under the class of their elements."""


def render_storage_svg(report: Any) -> str:
    """Draws all arenas of a report one below the other, as the text of an SVG file."""
    panels = draw_arenas(report)
    whole = f"storage of {report.pipeline}"
    if not panels:
        panels = [(f"{whole}: no heap memory", "", 32)]
    height = sum(panel[2] for panel in panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bp-svg" width="{_WIDTH}" '
        f'height="{height}" viewBox="0 0 {_WIDTH} {height}" role="img">'
        f"<title>{escape(whole)}</title><style>{STYLE}{_FILE_STYLE}</style>"
    ]
    top = 0
    for title, drawing, panel_height in panels:
        parts.append(
            f'<g transform="translate(0 {top})">'
            f'<text class="t" x="{_LEFT}" y="18">{escape(title)}</text>{drawing}</g>'
        )
        top += panel_height
    return "".join(parts) + "</svg>\n"


def wrap_panel(drawing: str, height: int, label: str) -> str:
    """Makes an element of a page of one arena's drawing; the page has ``STYLE``."""
    return (
        f'<svg class="bp-svg" viewBox="0 {_HEAD} {_WIDTH} {height - _HEAD}" width="{_WIDTH}" '
        f'role="img" aria-label="{escape(label)}">{drawing}</svg>'
    )


def draw_arenas(report: Any) -> list[tuple[str, str, int]]:
    """Draws each arena that has bytes: its title, the drawing, and how high that is."""
    letters = letter_arenas(report)
    funcs = dict.fromkeys(str(t.func) for t in report.temporaries)
    colours = {func: _COLOURS[i % len(_COLOURS)] for i, func in enumerate(funcs)}
    panels = []
    for arena in report.arenas:
        if arena.scope == "thread" or not arena.bytes:
            continue
        panel = _Panel(report, arena, letters, colours)
        panels.append((panel.title, panel.draw(), panel.height))
    return panels


class _Panel:
    """The drawing of one arena."""

    def __init__(
        self, report: Any, arena: Any, letters: dict[str, str], colours: dict[str, str]
    ) -> None:
        self.report = report
        self.arena = arena
        self.letters = letters
        self.colours = colours
        self.kernel = next((k for k in report.kernels if k.name == arena.kernel), None)
        # Those of a block are drawn over all that its kernel does.
        spans = arena if self.kernel is None else self.kernel
        self.first = spans.life_begin
        self.steps = max(spans.life_end - spans.life_begin, 1)
        plot = _HEIGHTS.get(str(arena.scope), _OTHER_HEIGHT)
        self.base = _TOP + plot
        self.height = self.base + _FOOT
        # A little room above the peak for its label.
        self.scale_y = plot / (arena.bytes * 1.04)
        self.scale_x = _PLOT_WIDTH / self.steps
        self.parts: list[str] = []
        self.labels: list[str] = []
        self.handed_over: list[tuple[Any, int]] = []
        self.title = format_arena(arena, letters)
        if self.kernel is not None:
            grid = f"{format_grid(self.kernel.blocks)} blocks of {format_grid(self.kernel.threads)}"
            self.title += f": {grid} threads"

    def draw(self) -> str:
        """The elements of the panel."""
        plot = self.base - _TOP
        self.parts = [
            f'<rect class="f" x="{_LEFT}" y="{_TOP}" width="{_PLOT_WIDTH}" height="{plot}"/>',
        ]
        self._draw_addresses()
        for inner in self.report.arenas:
            if str(inner.arena) == str(self.arena.name) and inner.bytes:
                self._draw_slab(inner)
        members = [
            t
            for t in self.report.temporaries
            if str(t.arena) == str(self.arena.name) and t.bytes
        ]
        for temporary in members:
            self._draw_temporary(temporary, _find_replaced(temporary, members))
        self._draw_hand_overs()
        self._draw_barriers()
        self.parts += self.labels
        self._draw_limits()
        self._draw_steps()
        return "".join(self.parts)

    def _x(self, step: int) -> float:
        return _LEFT + (step - self.first) * self.scale_x

    def _y(self, address: float) -> float:
        return self.base - address * self.scale_y

    def _draw_temporary(self, temporary: Any, shared: tuple[int, int]) -> None:
        tip = [
            f"{temporary.name}: {format_bytes(temporary.bytes)} bytes of "
            f"{temporary.element_type} [{' × '.join(str(e) for e in temporary.extents)}]",
            f"at {self.letters[str(self.arena.name)]} + {temporary.offset:,}, "
            f"steps [{temporary.life_begin}, {temporary.life_end})",
            self._step_text("from", temporary.life_begin),
            self._step_text("to", temporary.life_end - 1),
        ]
        if temporary.formula:
            tip.append(f"= {temporary.formula}")
        if temporary.in_place_of:
            tip.append(f"in place of {temporary.in_place_of}")
        shares = find_shares([temporary])
        if shares:
            tip.append(f"shares bytes with {format_names(shares, 8)}")
        tip.append(format_kind_note(temporary))
        self._draw_box(
            (temporary.life_begin, temporary.life_end),
            (temporary.offset, temporary.bytes),
            self.colours[str(temporary.func)],
            str(temporary.name),
            temporary.bytes,
            "\n".join(line for line in tip if line),
            shared,
        )
        if shared[1]:
            self.handed_over.append((temporary, temporary.life_end - shared[1]))

    def _draw_slab(self, inner: Any) -> None:
        """The arenas of all workers of a loop, one stripe each."""
        letter = self.letters[str(inner.name)]
        owner, loop = "worker", format_loop(str(inner.scope))
        if inner.kernel:
            owner, loop = "block", str(inner.kernel)
        # Copies of nested workers lie in their own arenas around.
        around = max(self.arena.copies, 1)
        copies = max(inner.copies // around, 1)
        for i in range(min(copies, 64)):
            offset = inner.offset + i * inner.stride_bytes
            tip = (
                f"arena {letter} of {owner} {i} of {loop}: {format_bytes(inner.bytes)} bytes at "
                f"{self.letters[str(self.arena.name)]} + {offset:,}, steps "
                f"[{inner.life_begin}, {inner.life_end})"
            )
            self._draw_box(
                (inner.life_begin, inner.life_end),
                (offset, inner.bytes),
                _SLAB_COLOUR,
                f"{letter}: {owner} {i} of {loop}",
                inner.bytes,
                tip,
            )

    def _draw_box(
        self,
        life: tuple[int, int],
        span: tuple[int, int],
        colour: str,
        name: str,
        size: int,
        tip: str,
        shared: tuple[int, int] = (0, 0),
    ) -> None:
        """A rectangle with its name, where that fits between the middles of what it shares.

        Args:
            shared: steps at its begin and its end in which it replaces, or is replaced, in place.
        """
        left, width = self._x(life[0]), max((life[1] - life[0]) * self.scale_x, 1.0)
        top, height = self._y(span[0] + span[1]), max(span[1] * self.scale_y, 1.0)
        self.parts.append(
            f'<rect class="b" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" fill="{colour}"><title>{escape(tip)}</title></rect>'
        )
        left += shared[0] * self.scale_x / 2
        width -= (shared[0] + shared[1]) * self.scale_x / 2
        label = f"{name} · {format_bytes_short(size)}"
        for text in (label, name):
            needed = len(text) * _LETTER + 6
            x, y = left + width / 2, top + height / 2
            if needed <= width and height >= 13:
                turn = ""
            elif needed <= height and width >= 13:
                turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"'
            else:
                continue
            self.labels.append(
                f'<text class="in" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle"{turn}>'
                f"{escape(text)}</text>"
            )
            return

    def _draw_hand_overs(self) -> None:
        """While one temporary replaces another in place, a slanting line parts the two."""
        for old, begin in self.handed_over:
            left, right = self._x(begin), self._x(old.life_end)
            low, high = self._y(old.offset), self._y(old.offset + old.bytes)
            self.parts.append(
                f'<path class="h" fill="{self.colours[str(old.func)]}" '
                f'd="M{left:.1f} {high:.1f}H{right:.1f}L{left:.1f} {low:.1f}Z"/>'
            )

    def _draw_barriers(self) -> None:
        """Where the threads of a block wait for each other: a line across all addresses."""
        for barrier in () if self.kernel is None else self.kernel.barriers:
            x = self._x(barrier.step)
            tip = f"barrier ({barrier.fence}) before step {barrier.step}"
            if barrier.loops:
                tip += f", in each iteration of {format_loop(str(barrier.loops[-1]))}"
            place = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{self.base + 11}"'
            self.parts.append(
                f'<line class="w" {place}/>'
                f'<line class="wt" {place}><title>{escape(tip)}</title></line>'
            )

    def _draw_addresses(self) -> None:
        step = 1  # powers of two are round in KiB and MiB
        while self.arena.bytes > 6 * step:
            step *= 2
        for address in range(0, self.arena.bytes + 1, step):
            y = self._y(address)
            self.parts.append(
                f'<line class="g" x1="{_LEFT}" x2="{_LEFT + _PLOT_WIDTH}" y1="{y:.1f}" '
                f'y2="{y:.1f}"/><text class="q" x="{_LEFT - 6}" y="{y + 4:.1f}" '
                f'text-anchor="end">{_format_address(address)}</text>'
            )

    def _draw_limits(self) -> None:
        peak, floor = self.arena.bytes, self.arena.floor_bytes
        right = _LEFT + _PLOT_WIDTH
        same = peak == floor
        for kind, size in (("peak", peak), ("floor", floor)):
            y = self._y(size)
            self.parts.append(
                f'<line class="{kind}" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}">'
                f"<title>{kind}: {format_bytes(size)} bytes</title></line>"
            )
        word = "peak = floor" if same else "peak"
        high, low = self._y(peak) + 4, self._y(floor) + 4
        self.parts.append(
            f'<text x="{right + 6}" y="{high:.1f}">{word} {format_bytes_short(peak)}</text>'
        )
        if not same:
            self.parts.append(
                f'<text x="{right + 6}" y="{max(low, high + 13):.1f}">'
                f"floor {format_bytes_short(floor)}</text>"
            )

    def _draw_steps(self) -> None:
        """The axis of steps; each has a field that says what happens in it."""
        base = self.base
        if self.steps <= _MOST_STEPS:
            self.parts.append("<g>")
            for step in range(self.first, self.first + self.steps):
                tip = escape(self._step_text("step", step))
                self.parts.append(
                    f'<rect class="s" x="{self._x(step):.1f}" y="{base + 2}" '
                    f'width="{self.scale_x:.1f}" height="9"><title>{tip}</title></rect>'
                )
            self.parts.append("</g>")
        every = _nice_step(self.steps, 12)
        begin = -(-self.first // every) * every
        for step in range(begin, self.first + self.steps + 1, every):
            self.parts.append(
                f'<text class="q" x="{self._x(step):.1f}" y="{base + 24}" '
                f'text-anchor="middle">{step}</text>'
            )
        self.parts.append(
            f'<text class="q" x="{_LEFT + _PLOT_WIDTH + 18}" y="{base + 24}">step</text>'
        )

    def _step_text(self, word: str, step: int) -> str:
        steps = self.report.steps
        if not 0 <= step < len(steps):
            return ""
        what, inside, loop = str(steps[step]).partition(" in ")
        return f"{word} {step}: {what}{inside}{format_loop(loop)}"


def _find_replaced(temporary: Any, members: list[Any]) -> tuple[int, int]:
    """The steps in which it replaces another in place, and those in which it is replaced."""
    begin, end = temporary.life_begin, temporary.life_end
    before = after = 0
    for other in members:
        if other.name == temporary.in_place_of and other.life_begin < begin < other.life_end < end:
            before = other.life_end - begin
        if other.in_place_of == temporary.name and begin < other.life_begin < end < other.life_end:
            after = end - other.life_begin
    return before, after


def _format_address(address: int) -> str:
    size, unit = float(address), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:g} {unit}"


def _nice_step(whole: int, parts: int) -> int:
    """A round distance, so that there are at most so many marks over the whole."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power * parts >= whole:
                return factor * power
        power *= 10
