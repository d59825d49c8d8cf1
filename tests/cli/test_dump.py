"""BAYPLAN_DUMP_DIR shows the program after each pass."""

from __future__ import annotations

from pathlib import Path

import pytest

import bayplan as hl


def test_every_stage_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BAYPLAN_DUMP_DIR", str(tmp_path / "dump"))
    x, f, g = hl.Var("x"), hl.Func("early"), hl.Func("late")
    f[x] = x * 3
    g[x] = f[x] + f[x + 1]
    f.compute_root()
    g.lowered_text()
    stages = sorted((tmp_path / "dump").iterdir())
    assert stages[0].name == "00_schedule_functions.stmt"
    assert any(stage.name.endswith("_flatten_storage.stmt") for stage in stages)
    for stage in stages:
        assert "early" in stage.read_text("utf-8")
