"""Outlines, personas, skills and evaluations are recorded, replayed, sealed and imported."""

from pathlib import Path

import pandas as pd
from support.recorded_scenes import WAIT_S, open_scene, step_of
from support.replies import call, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project

SHARED = "---\nname: formal\ndescription: For the board.\n---\n\nNo jokes.\n"


def script(request: ModelRequest) -> str:
    """The model adds a persona, a skill and a shared skill, and outlines, writes and judges blocks."""
    agent, step = requesting_agent(request), step_of(request)
    if agent == "composer":
        ann = {"name": "Ann", "description": "A nurse."}
        brief = {"name": "brief", "description": "Short.", "instructions": "One thing in a sentence."}
        turns = [
            call("manage_persona", action="create", persona_data=ann)
            + call("manage_skill", action="create", skill_data=brief)
            + call("manage_skill", action="use", skill_data={"name": "formal"}),
            call("generate_outline", style="short"),
            call("generate_field_content", field_name="Text", style_hint="@skill:brief @skill:formal"),
            call("run_evaluation", target_fields=["Text"], eval_dimensions=["clarity", "evidence"], persona="Ann"),
            call("manage_persona", action="remove", persona_data={"name": "Ann"}),
            "All is done.",
        ]
        return turns[min(step, len(turns) - 1)]
    if agent == "outliner":
        return [call("propose_outline", blocks=[{"name": "Part"}, {"name": "Text", "parent": "Part"}]), "Two."][
            min(step, 1)
        ]
    if agent == "grader":
        wrong, right = (call("grade", score=7, evidence=[quote], advice="More.") for quote in ("Y", "X is a letter."))
        return [wrong, right, "Good."][min(step, 2)]
    assert "No jokes." in request.messages[1].content
    return "X is a letter."


def make_project(wb: af.Workbench) -> Project:
    folder = Path(wb.data_dir) / "skills"
    folder.mkdir()
    (folder / "formal.md").write_text(SHARED, encoding="utf-8")
    return wb.projects.start("Essay", template="paper")


def test_sealed_run_with_persona_skill_and_grades_is_verified_and_imported(tmp_path: Path) -> None:
    """The verification needs no shared skills."""
    with open_scene(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl", approvals="approve") as wb:
        project = make_project(wb)
        run = project.ask("Do it, @skill:formal.").wait(WAIT_S)
        assert (run.status, run.response) == ("completed", "All is done.")
        expected = wb.projects.evaluations_df(project)
        assert expected["score"].tolist() == [7, 7]
        assert set(expected["persona"]) == {"Ann"}
        run.seal(tmp_path / "run.afrun")
    sealed = af.open_run(tmp_path / "run.afrun")
    assert sealed.verify().differences == ()
    pd.testing.assert_frame_equal(sealed.projects.evaluations_df(), expected)
    with open_scene(tmp_path / "other", model=ScriptedModel([]), data_dir=tmp_path / "other") as wb:
        wb.store.import_run(tmp_path / "run.afrun")
        project = wb.projects.start("Essay")
        assert [block.path for block in project.blocks] == ["Part", "Part / Text"]
        assert [skill.name for skill in project.skills] == ["brief"]
        assert list(project.personas) == []
        pd.testing.assert_frame_equal(wb.projects.evaluations_df(project), expected)


def test_evaluation_started_by_code_is_replayed(tmp_path: Path) -> None:
    """The judged blocks belong to the identity of the run; no model is called."""

    def evaluate(wb: af.Workbench) -> tuple[str, list[int]]:
        project = wb.projects.start("Essay", template="paper")
        project.add("Text", "X is a letter.")
        run = project.evaluate(["Text"], ["clarity"]).wait(WAIT_S)
        return str(run.response), wb.projects.evaluations_df(project)["score"].tolist()

    with open_scene(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl") as wb:
        first = evaluate(wb)
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl") as wb:
        assert evaluate(wb) == first
    assert first == ("- Text, clarity: 7 of 10. More.", [7])
