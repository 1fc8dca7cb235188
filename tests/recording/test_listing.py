"""The listing of a cassette: a row for each model turn and each tool call of the turn."""

from pathlib import Path
from typing import Any

from support.recorded_scenes import WAIT_S, jobs, open_scene, step_of, with_look
from support.replies import call, requesting_agent

from artifactflow_nb.analysis.frames.cassette import list_cassette
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel


def test_each_turn_is_followed_by_its_calls(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return [jobs("a"), "Done."][min(step_of(request), 1)]
        return [call("look", word="a"), "Found."][min(step_of(request), 1)]

    def setup(wb: Any) -> None:
        with_look(wb, permission="confirm")

    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=ScriptedModel(script), setup=setup) as wb:
        wb.ask("What?").wait(WAIT_S).approve().wait(WAIT_S)
    found = list(list_cassette(tmp_path / "c.jsonl"))
    named = sorted((row["path"], row["step"], row.get("position") or 0, row["name"]) for row in found)
    assert named == [
        ("main", 1, 0, "scripted"),
        ("main", 1, 1, "call_subagent"),
        ("main", 2, 0, "scripted"),
        ("main/1.1", 1, 0, "scripted"),
        ("main/1.1", 1, 1, "look"),
        ("main/1.1", 2, 0, "scripted"),
    ]
    assert [row["decision"] for row in found if row["name"] == "look"] == ["approved"]
