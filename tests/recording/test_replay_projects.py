"""Manual edits of a project before the first question are replayed and sealed with their recorded times."""

import re
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import WAIT_S, Stage, play_both
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel


def build(wb: af.Workbench) -> Any:
    """A project with every kind of manual change."""
    project = wb.projects.start("报告", template="paper")
    project.add("Method", "By counting.", need_review=True)
    time.sleep(0.01)
    part = project.add("Part", is_group=True)
    analysis = project.add("Analysis", "Seven.", parent=part, depends_on=["Method"])
    project.add("Gone", "Not for long.").delete()
    project["Method"].write("By weighing.").approve()
    analysis.rename("Figures").move(parent="").keep()
    project.advance_to_phase()
    project.set_profile("Counts sheep.")
    return project


def times(wb: af.Workbench) -> list[Any]:
    frame = wb.artifacts_df()
    return list(zip(frame["artifact_id"], frame["version"], frame["update_type"], frame["created_at"], strict=True))


def ask_options(project: Any, **options: Any) -> dict[str, Any]:
    return {"conversation_id": project.conversation_id, **options}


def test_edits_before_the_first_run_have_their_recorded_times(tmp_path: Path) -> None:
    """Blocks, settings, phases and the profile were written before any message."""

    def scene(stage: Stage) -> Any:
        project = build(stage.wb)
        stage.ask("And?", **ask_options(project)).wait(WAIT_S)
        time.sleep(0.01)
        project["Figures"].write("Eight.")
        project.deleted[0].restore()
        stage.ask("And now?", **ask_options(project)).wait(WAIT_S)
        return times(stage.wb), [(block.path, block.status, block.stale_because) for block in project.blocks]

    recorded_times, blocks = play_both(tmp_path, scene, lambda _request: "Yes.")
    assert len(recorded_times) > 12
    assert ("Figures", "draft", ()) in blocks


def test_edit_beyond_the_recording_has_the_present_time(tmp_path: Path) -> None:
    with af.Workbench(model=ScriptedModel(["Yes."]), data_dir=tmp_path / "a", record=tmp_path / "c.jsonl") as wb:
        project = build(wb)
        wb.ask("And?", **ask_options(project)).wait(WAIT_S)
        recorded = dict.fromkeys(times(wb))
    with af.Workbench(replay=tmp_path / "c.jsonl") as wb:
        build(wb)["Figures"].write("Nine.")
        new = [entry for entry in times(wb) if entry not in recorded]
        assert [entry[:2] for entry in new] == [("analysis", 5)]
        assert new[0][3] > max(entry[3] for entry in recorded)


def test_sealed_run_of_an_edited_project_is_verified_and_imported(tmp_path: Path) -> None:
    """The imported project has all blocks in the state that the run saw."""

    def script(request: ModelRequest) -> Any:
        steps = sum(message.role == "assistant" for message in request.messages)
        return call("rewrite_artifact", id="method", content="By guessing.") if not steps else "Done."

    with af.Workbench(model=ScriptedModel(script), data_dir=tmp_path / "a", approvals="approve") as wb:
        project = build(wb)
        run = wb.ask("Write.", **ask_options(project)).wait(WAIT_S)
        project["Figures"].write("After.")
        path = run.seal(tmp_path / "run.zip")
        expected = [
            (block.path, block.status, block.stale_because, block.content, block.version) for block in project.blocks
        ]
    opened = af.open_run(path)
    assert opened.verify().is_same, opened.replay().differences
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "b") as wb:
        wb.store.import_run(path)
        there = wb.projects.start("报告")
        assert [
            (block.path, block.status, block.stale_because, block.content, block.version) for block in there.blocks
        ] == expected
        assert [entry.name for entry in wb.projects] == ["报告"]
        assert {block.name for block in there.deleted} == {"Gone"}


def test_masking_a_text_makes_no_block_stale(tmp_path: Path) -> None:
    """The hashes by which blocks name their dependencies are those of the masked texts."""
    with af.Workbench(model=ScriptedModel(["Yes."]), data_dir=tmp_path / "a") as wb:
        project, key = wb.projects.start("p"), "sk-proj-Zx9Lk2mQ7vT4bN8wR5yH1cJ6dF3gS0aP"
        project.add("A", f"It is {key}.")
        project.add("B", "So.", depends_on=["A"])
        path = wb.ask("And?", **ask_options(project)).wait(WAIT_S).seal(tmp_path / "run.zip")
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "b") as wb:
        wb.store.import_run(path)
        assert key not in wb.projects.start("p")["A"].content
        assert not wb.projects.start("p").stale


def test_secret_in_the_name_of_a_block_is_not_in_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are made of names in lower case, where a mask would not find the secret."""
    known, long, cassette = "Zx9Lk2-mQ7vT4bN8wR5.yH1", f"sk-proj-{'aB3dE5gH7jK9mN1p' * 6}", tmp_path / "c.jsonl"
    monkeypatch.setenv("SERVICE_API_KEY", known)
    monkeypatch.setenv("DB_PASSWORD", "Research!")  # an ordinary word is not masked for being in a password
    turns = [call("update_field", field_name=f"About {known}", content="It is."), "Done."]
    with af.Workbench(model=ScriptedModel(turns), data_dir=tmp_path / "a", record=cassette) as wb:
        project = wb.projects.start("p")
        for secret in (known, long):
            project.add(f"About {secret}")
        project.personas.add(f"Owner of {known}", "Knows it.")
        run = wb.ask("Write it.", **ask_options(project, flow="compose")).wait(WAIT_S)
        assert [block.block_id for block in project.blocks] == ["about_secret", "about_secret_2"]
        sealed = run.seal(tmp_path / "run.zip")
    written = cassette.read_text(encoding="utf-8")
    with zipfile.ZipFile(sealed) as parts:
        written += "".join(parts.read(part).decode() for part in parts.namelist())
    assert "About [secret]" in written
    assert not re.search("zx9lk2|mq7vt4bn|ab3de5gh", written, re.IGNORECASE)
    assert "run_research" in written
