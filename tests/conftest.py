"""Options of the whole suite."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

from bayplan.language import naming

# On the servers the drawn examples are the same for the same commit, so that a red run can be
# repeated; at home every run draws new ones.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
if os.environ.get("CI"):
    hypothesis.settings.load_profile("ci")

# The form of the program is checked between any two passes, also in child processes.
os.environ.setdefault("BAYPLAN_VERIFY", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--refresh-golden` writes the expected texts anew instead of comparing with them."""
    parser.addoption("--refresh-golden", action="store_true", help="write golden files anew")


@pytest.fixture(autouse=True)
def _names_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that a test gives to its Funcs are free again behind it.

    So that no text that a test expects depends on the tests before it.
    """
    monkeypatch.setattr(naming, "_counts", dict(naming._counts))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a file in the folder `golden` beside the test.

    Called as golden("name.txt", text). Run with `--refresh-golden` to write the file.
    """
    folder = Path(str(request.path)).parent / "golden"
    refresh = bool(request.config.getoption("--refresh-golden"))

    def check(name: str, text: str) -> None:
        path = folder / name
        if not text.endswith("\n"):
            text += "\n"
        if refresh:
            folder.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} does not exist; run with --refresh-golden"
        assert text == path.read_text()

    return check
