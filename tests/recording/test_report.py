"""The report says which runs are recorded, played, live or changed, and gives advice."""

from pathlib import Path
from typing import Any

from support.recorded_scenes import WAIT_S, open_scene, step_of, with_confirmed_look
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.report import ReproducibilityReport, manifest_changes


def asks_once(request: ModelRequest) -> Any:
    return call("look", word="x") if step_of(request) == 0 else "Done."


def report(wb: af.Workbench) -> ReproducibilityReport:
    return wb.repro()


def test_report_has_the_state_of_each_run(tmp_path: Path) -> None:
    model = ScriptedModel(asks_once)
    with open_scene(tmp_path, model=model, setup=with_confirmed_look, data_dir=tmp_path / "live") as wb:
        wb.ask("What?").wait(WAIT_S).approve().wait(WAIT_S)
        assert [run.state for run in report(wb).runs] == ["live"]
        assert "af.Workbench(record=" in report(wb).advice
    with open_scene(tmp_path, model=model, setup=with_confirmed_look, record=tmp_path / "c.jsonl") as wb:
        wb.ask("What?").wait(WAIT_S).approve().wait(WAIT_S)
        assert [run.state for run in report(wb).runs] == ["recorded"]
    with open_scene(tmp_path, setup=with_confirmed_look, replay=tmp_path / "c.jsonl") as wb:
        wb.ask("What?").wait(WAIT_S).approve().wait(WAIT_S)
        assert [run.state for run in report(wb).runs] == ["replayed"]
        assert report(wb).advice.endswith("No model or service was called.")
    with open_scene(tmp_path, model=model, setup=with_confirmed_look, replay=tmp_path / "c.jsonl", mode="auto") as wb:
        wb.ask("What?").wait(WAIT_S).deny().wait(WAIT_S)
        wb.ask("Else?").wait(WAIT_S)
        assert [run.state for run in report(wb).runs] == ["changed", "recorded"]


def test_changed_release_prompts_and_tools_are_listed() -> None:
    agent = {"prompt": "lead", "tool_protocol": "xml", "tools": ["look"]}
    before = {
        "versions": {"artifactflow-nb": "0.1.0"},
        "agents": {"lead": agent, "other": {**agent, "prompt": "other"}},
        "prompts": {"lead": {"sha256": "a"}, "other": {"sha256": "a"}, "tools": {"sha256": "a"}},
        "tools": {"look": {"sha256": "a"}},
    }
    now = {
        "versions": {"artifactflow-nb": "0.2.0"},
        "prompts": {"lead": {"sha256": "b"}, "other": {"sha256": "b"}, "tools": {"sha256": "a"}},
        "tools": {},
    }
    assert manifest_changes(before, now, {"lead"}) == ["artifactflow-nb 0.1.0 → 0.2.0", "prompt lead.md", "tool look"]
    assert manifest_changes({}, now, {"lead"}) == []
