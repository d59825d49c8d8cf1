"""Every Python example of the README and the documentation runs, and the tables are complete.

The examples of one page share a namespace and run in the order they are written.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bayplan import settings
from bayplan.ir import errors

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def find_examples(page: Path) -> list[tuple[int, str]]:
    """The examples of a page with the line on which each begins."""
    text = page.read_text("utf-8")
    return [(text.count("\n", 0, m.start(1)) + 1, m[1]) for m in BLOCK.finditer(text)]


WITH_EXAMPLES = [page for page in PAGES if find_examples(page)]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    for line, example in find_examples(page):
        # Blank lines in front keep the line numbers of tracebacks those of the page.
        exec(compile("\n" * (line - 1) + example, str(page), "exec"), namespace)


def test_the_guides_have_examples() -> None:
    names = {page.name for page in WITH_EXAMPLES}
    assert {"README.md", "index.md", "language.md", "scheduling.md", "storage.md"} <= names


def error_classes() -> list[type[errors.BayplanError]]:
    found = [errors.BayplanError]
    for thing in found:
        found += [c for c in thing.__subclasses__() if c not in found]
    return [c for c in found if c is not errors.BayplanError and c.__module__.startswith("bayplan")]


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [c.code for c in error_classes()]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"BP-[A-Z]\d{3}", code) for code in codes)


def test_the_table_of_errors_lists_exactly_the_codes_that_exist() -> None:
    text = (ROOT / "docs" / "errors.md").read_text("utf-8")
    rows = re.findall(r"^\| `(BP-[A-Z]\d{3})` \| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted((c.code, c.__name__) for c in error_classes())


def test_the_table_of_settings_lists_exactly_the_variables_that_exist() -> None:
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(BAYPLAN_\w+)` \| .* \| (.*) \|$", text, re.MULTILINE))
    assert rows == {s.variable: s.meaning for s in settings.SETTINGS.values()}


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_nothing_in_the_package_reads_a_setting_that_is_not_in_the_table() -> None:
    for path in (ROOT / "bayplan").rglob("*.py"):
        text = path.read_text("utf-8")
        for name in re.findall(r"settings\.value\(\s*\"(\w+)\"", text):
            assert name in settings.SETTINGS, f"{path.name} reads {name}"
        if path.name != "settings.py":
            assert not re.search(r"environ[^\n]*BAYPLAN_", text), path.name
