"""Settings are typed, named in one table, and a misspelt one is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bayplan import settings


@pytest.mark.parametrize(
    ("text", "expected"), [("1", True), ("true", True), ("ON", True), ("0", False), ("", False)]
)
def test_switches(monkeypatch: pytest.MonkeyPatch, text: str, expected: bool) -> None:
    monkeypatch.setenv("BAYPLAN_DEBUG", text)
    assert settings.value("DEBUG") is expected


def test_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BAYPLAN_NUM_THREADS", raising=False)
    assert settings.value("NUM_THREADS") is None
    monkeypatch.setenv("BAYPLAN_NUM_THREADS", "0x10")
    assert settings.value("NUM_THREADS") == 16


@pytest.mark.parametrize(("name", "text"), [("NUM_THREADS", "many"), ("DEBUG", "perhaps")])
def test_a_wrong_text_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv("BAYPLAN_" + name, text)
    with pytest.raises(settings.SettingError, match=f"BAYPLAN_{name}='{text}'"):
        settings.value(name)


def test_unknown_names_are_found() -> None:
    assert settings.find_unknown({"BAYPLAN_DEBUG": "1", "HOME": "/"}) == []
    assert settings.find_unknown({"BAYPLAN_DEBUGG": "1"}) == ["BAYPLAN_DEBUGG"]


def test_an_unknown_one_warns_once_and_offers_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import warnings\n"
        "warnings.simplefilter('always')\n"
        "from bayplan import settings\n"
        "settings.value('DEBUG'); settings.value('DEBUG')\n"
    )
    monkeypatch.setenv("BAYPLAN_CACHE_DIRR", "/nowhere")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("unknown setting BAYPLAN_CACHE_DIRR; did you mean") == 1
    assert "BAYPLAN_CACHE_DIR?" in done.stderr


def test_every_setting_says_what_it_is_for() -> None:
    for setting in settings.SETTINGS.values():
        assert setting.variable == "BAYPLAN_" + setting.name
        assert setting.kind in {"bool", "int", "str", "path"}
        assert setting.meaning.endswith((".", ")."))
