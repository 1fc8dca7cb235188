"""Compose runs are recorded, replayed and sealed with their project."""

from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import WAIT_S, Stage, open_scene, play_both, step_of
from support.replies import call, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project

EDIT = call("propose_edits", edits=[{"anchor": "is a letter", "replacement": "was a letter"}])


def script(request: ModelRequest) -> str:
    """Two blocks are written at the same time, then a block, the structure and the phase change."""
    agent, step = requesting_agent(request), step_of(request)
    if agent == "composer":
        both = "".join(call("generate_field_content", field_name=name) for name in ("Text", "More"))
        change = call("modify_field", field_name="Text", modification_instruction="In the past.")
        add = call("manage_architecture", action="add", block_name="End", phase="review", depends_on=["Text"])
        return [f"I write. {both}", change, add, call("advance_to_phase"), "All is written."][min(step, 4)]
    if agent == "editor":
        return [EDIT, "It was."][min(step, 1)]
    name = request.messages[1].content.split('"')[1]
    return [call("query_field", field_name="Goal"), f"{name}: X is a letter."][min(step, 1)]


def make_project(wb: af.Workbench) -> Project:
    project = wb.projects.start("Essay", template="paper")
    if not project.blocks:
        project.add("Goal", "Say what X is.")
        project.add("Text", depends_on=["Goal"], prompt="All about X.", phase="writing")
        project.add("More", depends_on=["Goal"], phase="writing")
    return project


@pytest.mark.parametrize("decider", ["click", "code"])
def test_composed_project_is_replayed_byte_for_byte(tmp_path: Path, decider: str) -> None:
    """Blocks, versions, events and outputs are equal in two replays, and no model is called."""

    def scene(stage: Stage) -> Any:
        project = make_project(stage.wb)
        at = {"conversation_id": project.conversation_id, "flow": "compose"}
        run = stage.ask("Write it.", **at).wait(WAIT_S)
        getattr(stage, decider)(run)
        run.wait(WAIT_S)
        project["Goal"].write("Say what Y is.")
        again = stage.ask("And @Goal?", **at).wait(WAIT_S)
        blocks = [(b.path, b.status, b.content, b.is_stale, b.version) for b in project.blocks]
        return run.status, again.status, project.phase, blocks

    first, second, phase, blocks = play_both(tmp_path, scene, script, times=2)
    assert (first, second, phase) == ("completed", "waiting", "literature")
    assert [block[:4] for block in blocks] == [
        ("Goal", "draft", "Say what Y is.", False),
        ("Text", "completed", "Text: X is a letter.", False),  # written again; its change waits for approval again
        ("More", "completed", "More: X is a letter.", False),
        ("End", "empty", "", False),
    ]


def test_sealed_run_of_a_project_is_opened_verified_and_imported(tmp_path: Path) -> None:
    """The file contains the blocks on which the run depends."""
    with open_scene(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl", approvals="approve") as wb:
        run = make_project(wb).ask("Write it.").wait(WAIT_S)
        run.seal(tmp_path / "run.afrun")
    sealed = af.open_run(tmp_path / "run.afrun")
    assert sealed.verify().differences == ()
    with open_scene(tmp_path / "other", model=ScriptedModel([]), data_dir=tmp_path / "other") as wb:
        wb.store.import_run(tmp_path / "run.afrun")
        project = wb.projects.start("Essay")
        assert [block.path for block in project.blocks] == ["Goal", "Text", "More", "End"]
        assert project["Text"].content == "Text: X was a letter."
