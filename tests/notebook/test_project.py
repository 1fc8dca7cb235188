"""The handle of a project in a notebook: its blocks, phases and display."""

from pathlib import Path
from typing import Any

import pytest
from package.test_reprs import check
from support.hostile_texts import HOSTILE
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project


@pytest.fixture
def wb(workbench: Any) -> af.Workbench:
    opened: af.Workbench = workbench(["One.", "Two.", "Three."], approvals="approve")
    return opened


@pytest.fixture
def paper(wb: af.Workbench) -> Project:
    """A method, an analysis that depends on the method, and a summary of both."""
    project = wb.projects.start("Sheep", template="paper")
    project.add("Method", "By counting.", phase="method")
    project.add("Analysis", "Seven.", depends_on=["Method"], need_review=True)
    project.add("Summary", phase="writing", depends_on=["Method", "Analysis"], auto_generate=True, prompt="Be short.")
    return project


# --- what it says ----------------------------------------------------------------------------------------------------


def test_project_is_created_once_and_opened_by_name(wb: af.Workbench, paper: Project) -> None:
    """Another workbench on the same store opens the project; a template does not change an existing project."""
    assert wb.projects.start(" Sheep ", template="default").phases == paper.phases
    with af.Workbench(model=ScriptedModel([]), data_dir=wb.data_dir) as other:
        assert [project.name for project in other.projects] == ["Sheep"]
        assert [block.name for block in other.projects.start("Sheep").blocks] == [block.name for block in paper.blocks]
    with pytest.raises(af.errors.UsageError, match="no template 'papr'"):
        wb.projects.start("Other", template="papr")
    assert len(wb.projects) == 1


def test_block_is_read_by_name(paper: Project) -> None:
    """The handle has the fields of the block, its dependencies and its path."""
    block = paper["analysis"]
    assert (block.name, block.phase, block.path, block.dependency_names) == (
        "Analysis",
        "question",
        "Analysis",
        ("Method",),
    )
    assert (block.content, block.status, block.version, block.is_stale) == ("Seven.", "draft", 1, False)
    assert [entry.name for entry in paper["Method"].dependents] == ["Analysis", "Summary"]
    assert paper.block(block.block_id).name == "Analysis"
    with pytest.raises(af.errors.NotFound, match="no block 'nothing' in the project 'Sheep'"):
        paper.block("nothing")
    with pytest.raises(af.errors.UsageError, match="no block 'Methode'. There are: Method"):
        _ = paper["Methode"]


def test_project_reads_the_current_store(wb: af.Workbench, paper: Project) -> None:
    """A handle sees the edits of another handle, of a panel and of an agent."""
    wb.projects.start("Sheep")["Method"].write("By weighing.")
    assert [block.name for block in paper.stale] == ["Analysis"]
    assert paper.stale[0].stale_because == ("Method",)
    paper["Method"].artifact.restore(1)
    assert not paper.stale


# --- what a person does ----------------------------------------------------------------------------------------------


def test_block_with_a_text_is_one_version(paper: Project) -> None:
    """The block is a draft that is current with its dependencies."""
    assert [version.update_type for version in paper["Method"].versions.values()] == ["create"]
    assert paper["Analysis"].basis == {"method": paper["Method"].sha256}
    with pytest.raises(af.errors.UsageError, match="text of 'X' is of type int"):
        paper.add("X", 7)  # type: ignore[arg-type]
    with pytest.raises(af.errors.UsageError, match="The group 'X' has no text of its own: leave text out"):
        paper.add("X", "Text.", is_group=True)
    assert "X" not in [block.name for block in paper.blocks]


def test_write_of_an_outdated_handle_is_a_conflict(paper: Project) -> None:
    """The text may have changed in any way; a new handle can write."""
    method = paper["Method"]
    method.artifact.edit("By weighing.")
    with pytest.raises(af.errors.Conflict, match=r"text of 'Method' was changed meanwhile \(now version 2, by user\)"):
        method.write("By guessing.")
    assert paper["Method"].write("By guessing.", reason="It is quicker.").version == 3
    assert paper["Method"].artifact.reason == "It is quicker."


def test_blocks_are_arranged_by_names_and_handles(paper: Project) -> None:
    """Blocks are grouped, moved, renamed and copied; each edit returns a handle of the new state."""
    part = paper.add("Part", is_group=True, phase="method")
    method = paper["Method"].move(parent=part)
    assert (method.path, method.phase) == ("Part / Method", "method")
    assert paper["Analysis"].move(parent="Part", before=method).path == "Part / Analysis"
    assert [block.name for block in paper.blocks] == ["Part", "Analysis", "Method", "Summary"]
    copy = part.copy("第二部分")
    assert [block.path for block in paper.blocks if block.parent == copy.block_id] == [
        "第二部分 / Analysis",
        "第二部分 / Method",
    ]
    assert paper["第二部分 / Analysis"].dependency_names == ("Method",)
    assert method.rename("How").dependents[0].dependency_names == ("How",)
    assert paper["How"].move(phase="analysis").path == "How"
    assert not paper.stale


def test_dependencies_are_names_or_handles(paper: Project) -> None:
    """A handle is unambiguous, even if the id of its block is the name of another block."""
    first = paper["Method"].rename("First")
    paper.add("method", "Another.")
    assert paper["Summary"].set(depends_on=[first, "method"]).depends_on == ("method", "method_2")
    with pytest.raises(af.errors.UsageError, match="depend on themselves: "):
        first.set(depends_on=["Summary"])


def test_draft_needs_review_until_it_is_approved(paper: Project) -> None:
    """A new text needs a review again."""
    assert paper["Analysis"].marks == "to be reviewed"
    approved = paper["Analysis"].approve("Good.")
    assert (approved.status, approved.marks, approved.artifact.reason) == ("completed", "", "Good.")
    assert approved.write("Eight.").status == "draft"


def test_stale_text_can_be_marked_as_current(paper: Project) -> None:
    """The mark is a version with the current basis."""
    paper["Method"].write("By weighing.")
    assert paper["Analysis"].marks == "stale, to be reviewed"
    current = paper["Analysis"].keep("It holds.")
    assert (current.is_stale, current.content, current.version) == (False, "Seven.", 2)


def test_block_is_deleted_and_restored(paper: Project) -> None:
    """The error lists its dependents; a deleted block is in no list of artifacts."""
    with pytest.raises(af.errors.UsageError, match="'Analysis', 'Summary' depend on 'Method'"):
        paper["Method"].delete()
    paper["Method"].delete(anyway=True)
    gone = paper.deleted[0]
    assert (gone.name, paper["Analysis"].stale_because) == ("Method", ("Method",))
    assert [block.name for block in paper.blocks] == ["Analysis", "Summary"]
    assert gone.restore("It was needed.").name == "Method"
    assert not paper.stale
    assert not paper.deleted


def test_phase_change_lists_unfinished_blocks(paper: Project) -> None:
    """The status of unfinished blocks does not change; after the last phase there is no other phase."""
    paper["Method"].write("By weighing.").approve()
    step = paper.advance_to_phase("writing", reason="Time is up.")
    assert (step.before, step.after, paper.phase) == ("question", "writing", "writing")
    assert dict(step.open) == {"Analysis": "draft, stale"}
    assert paper["Summary"].status == "empty"
    assert paper.advance_to_phase().after == "review"
    with pytest.raises(
        af.errors.UsageError, match="'review' is the last phase of 'Sheep'. Name the phase to go back to"
    ):
        paper.advance_to_phase()
    with pytest.raises(af.errors.UsageError, match="no phase 'later'. There are: question, literature"):
        paper.advance_to_phase("later")
    assert paper.advance_to_phase("question").open == {}


def test_overwritten_project_hides_no_other(wb: af.Workbench, paper: Project) -> None:
    """The error for the project says how to restore it."""
    wb.projects.start("Other")
    head = wb.ask("One?", conversation_id=paper.conversation_id).wait().artifacts["project"]
    head.edit("Nothing.")
    assert [project.name for project in wb.projects] == ["Other"]
    with pytest.raises(af.errors.UsageError, match="is no longer a project .* Restore one of its earlier versions"):
        wb.projects.start("Sheep")
    head.newest.restore(1)
    assert wb.projects.start("Sheep").phase == "question"


def test_profile_is_a_version(wb: af.Workbench, paper: Project) -> None:
    """The description of the creator is stored as a version of the project."""
    paper.set_profile("  牧羊人  ")
    assert wb.projects.start("Sheep").profile == "牧羊人"


# --- in conversation -------------------------------------------------------------------------------------------------


def test_blocks_belong_to_their_branch(wb: af.Workbench, paper: Project) -> None:
    """A text on one branch is not on another branch, and appears again when its branch is active."""
    first = wb.ask("One?", conversation_id=paper.conversation_id).wait()
    paper["Method"].write("After one.")
    paper["Summary"].delete()
    second = wb.conversation(first).regenerate().wait()
    assert (paper["Method"].content, len(paper.blocks), paper.stale) == ("By counting.", 3, [])
    paper["Method"].rename("Otherwise")
    assert [block.name for block in paper.blocks][:1] != ["Method"]
    assert second.artifacts["method"].title == "Otherwise"
    assert first.artifacts["method"].content == "After one."
    assert "summary" not in first.artifacts


def test_agent_does_not_see_deleted_blocks(workbench: Any) -> None:
    """The inventory in the prompt has the existing blocks with their current names."""
    requests: list[ModelRequest] = []

    def script(request: ModelRequest) -> str:
        requests.append(request)
        return call("read_artifact", id="gone") if len(requests) == 1 else "Done."

    wb = workbench(script)
    project = wb.projects.start("p")
    project.add("Gone", "Text.").delete()
    project.add("Kept", "Text.").rename("留下")
    run = wb.ask("Look.", conversation_id=project.conversation_id).wait()
    prompt = "\n".join(message.content for message in requests[0].messages)
    assert "留下" in prompt
    assert "gone" not in prompt.casefold().replace("forgone", "")
    assert "There is no artifact 'gone'" in requests[1].messages[-1].content
    assert list(run.artifacts) == ["kept", "project"]


# --- how it looks ----------------------------------------------------------------------------------------------------


def test_display_has_phase_progress_and_a_hint(wb: af.Workbench, paper: Project) -> None:
    """An empty project shows how to add a block."""
    paper["Method"].write("By weighing.").approve()
    text = paper._card().plain()
    for words in ("Sheep", "question (1 of 6)", "3 texts, 1 completed, 1 stale", "paper", "stale, to be reviewed"):
        assert words in text
    assert "changed since it was written: Method" in paper["Analysis"]._card().plain()
    assert "Add a block with wb.projects['New'].add(\"...\")." in wb.projects.start("New")._card().plain()
    assert repr(paper) == "Project('Sheep', phase='question', blocks=3)"
    assert repr(paper["Analysis"]) == "Block('Analysis', draft, stale, to be reviewed, version=1)"
    assert repr(paper.deleted) == "No block was deleted."
    assert "phase" in wb.projects._card().plain()


@pytest.mark.parametrize("begin", range(0, len(HOSTILE), 40))
def test_hostile_names_and_texts_are_displayed_as_text(tmp_path: Path, begin: int) -> None:
    """Markup in names, prompts, profiles and texts is escaped."""
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data") as wb:
        texts = HOSTILE[begin : begin + 40]
        project = wb.projects.start(texts[0][:60] or "p")
        project.set_profile(texts[0])
        for n, text in enumerate(texts):
            name = f"{n} {text.replace('/', '|')}"[:110]
            needs = [project.blocks[-1]] if n else []
            project.add(name, f"{text}\n", depends_on=needs, prompt=text, need_review=True, reason=text)
        project.blocks[0].write("Other.")
        project.blocks[-1].delete()
        check(project)
        check(project.blocks)
        check(project.stale)
        check(project.deleted)
        check(wb.projects)
        check(project.advance_to_phase())
        for block in project.blocks[:40:8]:
            check(block)


@pytest.mark.parametrize("label", ["research", "Research", "RESEARCH", "消费者调研"])
def test_phase_is_found_by_name_and_display_name(workbench: Any, label: str) -> None:
    """Both names work in cells, for new and moved blocks, for first blocks of a template, and in tools of agents."""
    wb = workbench([call("advance_to_phase", target_phase=label), "Done."])
    project = wb.projects.start("Sheep")
    assert project.add("Readers", phase=label).phase == "research"
    assert project.add("Aim", phase="意图分析").move(phase=label).phase == "research"
    assert project.advance_to_phase(label).after == project.phase == "research"
    project.advance_to_phase("Intent")
    project.ask("Go on.").wait(10)
    assert project.phase == "research"
    template = {"name": "t", "phases": [{"name": "goals", "zh": "目标"}], "blocks": [{"name": "A", "phase": "目标"}]}
    assert wb.projects.start("Other", template=template)["A"].phase == "goals"
    with pytest.raises(af.errors.UsageError, match="There is no phase 'Rsearch'"):
        project.advance_to_phase("Rsearch")
