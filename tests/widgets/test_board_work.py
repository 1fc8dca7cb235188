"""Work on the board of a project: edits of blocks, deletion, runs and decisions."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import OpenWorkbench
from support.hostile_texts import HOSTILE
from support.pages import ShownView
from support.replies import call
from support.safe_html import VIEW, harms
from widgets.test_board import Shown, WaitingModel, board, names, show, state

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.widgets.artifacts.view import ArtifactPanel
from artifactflow_nb.widgets.run import polled_view

__all__ = ["board"]


@pytest.fixture
def no_polling(short_intervals: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Views do not poll the store: changes reach them only through the run."""
    del short_intervals
    monkeypatch.setattr(polled_view, "POLL_INTERVAL_S", 3600.0)
    return


NEW = {"name": "Sources", "where": "Literature", "kind": "a text", "text": "", "prompt": "", "depends_on": []}
SWITCHED = {"auto_generate": False, "need_review": False}


def add(page: ShownView, **values: object) -> dict[str, object]:
    page.press("Add a block to Literature")
    return dict(page.submit("add", **{**NEW, **SWITCHED, **values}))


# --- new blocks, names and settings ------------------------------------------------------------------------------


def test_dependencies_are_chosen_from_the_blocks(board: Shown) -> None:
    """A new block can depend on every text; an existing block neither on itself nor on its dependents."""
    _project, page = board
    page.press("Add a block to Literature")
    choices = {field["name"]: field.get("choices") for field in page.data["form-add"]["fields"]}["depends_on"]
    assert choices == ["Aim", "Scope", "Report / Method", "Report / Rates"]
    page.do("open", {"block": "method"})
    page.press("Name and settings of Method")
    choices = {field["name"]: field.get("choices") for field in page.data["form-set"]["fields"]}["depends_on"]
    assert choices == ["Aim", "Scope"]


def test_block_is_added_by_form(board: Shown) -> None:
    """The form has all settings; the block is in the phase whose button was pressed, and gets the focus."""
    project, page = board
    add(page, prompt="Which?", depends_on=["Aim", " report / rates ", ""], auto_generate=True, text="Two.")
    assert page.announced == "Sources is 1 of 1 in Literature."
    sources = project["Sources"]
    assert sources.auto_generate
    assert (sources.phase, sources.content, sources.prompt) == ("literature", "Two.", "Which?")
    assert (sources.dependency_names, sources.artifact.created_by) == (("Aim", "Rates"), "user")
    assert "form-add" not in page.kinds
    assert page.effects[-1]["key"] == f"card-{sources.block_id}"


def test_group_is_added_with_a_block(board: Shown) -> None:
    """The form offers every phase and every group."""
    project, page = board
    add(page, name="Part", kind="a group, which contains other blocks", where="in Report")
    add(page, name="Inside", where="in Report / Part")
    assert names(project)[-2:] == ["writing: Report / Part", "writing: Report / Part / Inside"]
    assert project["Part"].is_group


@pytest.mark.parametrize(
    ("values", "field", "sentence"),
    [
        ({"name": " "}, "name", "a name has 1 to"),
        ({"name": "a/b"}, "name", "a name has 1 to"),
        ({"depends_on": ["Dreams"]}, "depends_on", "There is no block 'Dreams'"),
        ({"where": "in Dreams"}, "where", "no longer exists"),
        ({"kind": "a group, which contains other blocks", "prompt": "x"}, "prompt", "Leave this empty"),
        ({"kind": "a group, which contains other blocks", "text": "x"}, "text", "Leave this empty"),
    ],
)
def test_invalid_input_is_reported_at_its_field(
    board: Shown, values: dict[str, object], field: str, sentence: str
) -> None:
    """No block is added, and the form keeps its input."""
    project, page = board
    result = add(page, **values)
    assert result["failed"]
    assert sentence in result["errors"][field]  # type: ignore[index]
    assert len(project.blocks) == 5
    assert "form-add" in page.kinds


def test_duplicate_name_is_reported_in_the_form(board: Shown) -> None:
    """The store refuses the name when the block is written."""
    project, page = board
    result = add(page, name="aim", where="Question")
    assert result["failed"]
    assert "There is already a block 'aim' at the top level." in str(result["message"])
    assert len(project.blocks) == 5


def test_form_is_cancelled(board: Shown) -> None:
    """No block is added; opening a block closes the form, too."""
    _, page = board
    page.press("Add a block to Literature")
    page.do("leave", {})
    assert "form-add" not in page.kinds
    page.press("Add a block to Literature")
    page.do("open", {"block": "aim"})
    assert "form-add" not in page.kinds


def test_name_and_settings_are_saved_as_one_version(board: Shown) -> None:
    """Untouched fields keep the values that somebody else set meanwhile."""
    project, page = board
    page.do("open", {"block": "rates"})
    page.press("Name and settings of Rates")
    [name, prompt, needs, *_] = page.data["form-set"]["fields"]
    assert (name["value"], prompt["value"], needs["value"]) == ("Rates", "", ["Report / Method"])
    project["Rates"].set(prompt="Theirs.")
    page.submit("set", name="Pace", prompt="", depends_on=["Aim"], auto_generate=False, need_review=True)
    assert page.announced == "Pace: saved."
    pace = project["Pace"]
    assert (pace.block_id, pace.prompt, pace.dependency_names, pace.need_review) == ("rates", "Theirs.", ("Aim",), True)
    assert len(pace.versions) == 3
    page.press("Name and settings of Pace")
    same = {field["name"]: field["value"] for field in page.data["form-set"]["fields"]}
    page.submit("set", **same)
    page.until(lambda: page.announced == "Nothing was changed.")
    assert len(project["Pace"].versions) == 3


def test_invalid_settings_change_nothing(board: Shown) -> None:
    """A block cannot depend on itself; the error leaves the name unchanged, too."""
    project, page = board
    page.do("open", {"block": "method"})
    page.press("Name and settings of Method")
    values = {"name": "Ways", "prompt": "", "depends_on": ["Rates"], **SWITCHED}
    result = page.submit("set", **values)
    assert result["failed"]
    assert project["Method"].dependency_names == ()
    page.submit("set", **{**values, "depends_on": []})
    page.until(lambda: page.announced == "Ways: saved.")


def test_group_is_renamed(board: Shown) -> None:
    """The form of a group has only a name."""
    project, page = board
    page.do("open", {"block": "report"})
    page.press("Name and settings of Report")
    assert [field["name"] for field in page.data["form-set"]["fields"]] == ["name"]
    page.submit("set", name="Text")
    assert project["Text"].is_group
    assert state(page, "report").startswith("Text")


# --- blocks that go ----------------------------------------------------------------------------------------------


def test_dependents_are_listed_before_deletion(board: Shown) -> None:
    """After the deletion the dependents are stale, and the block can be restored."""
    project, page = board
    page.do("open", {"block": "method"})
    page.press("Delete Method")
    assert "Dependent blocks, which become stale if they have a text:" in page.html["open-deleting"]
    assert "Report / Rates" in page.html["open-deleting"]
    page.press("Keep the block")
    assert "open-deleting" not in page.html
    page.press("Delete Method")
    result = page.press("Delete the block: Method")
    assert result["message"] == "Method is deleted. It can be brought back below."
    assert "Method" not in [block.name for block in project.blocks]
    assert project["Rates"].is_stale
    assert "open" not in page.kinds
    assert page.press("Bring back Method")["message"] == "Method is back, 1 of 2 in Report."
    assert not project["Rates"].is_stale
    assert "deleted" not in page.kinds


def test_group_is_deleted_with_its_blocks(board: Shown) -> None:
    """A confirmation lists the blocks, and the blocks are restored with the group."""
    project, page = board
    page.do("open", {"block": "report"})
    page.press("Delete Report")
    assert "Blocks that are deleted as well:" in page.html["open-deleting"]
    assert "Report / Method" in page.html["open-deleting"]
    assert "What depends on it" not in page.html["open-deleting"]
    page.press("Delete the block: Report")
    assert len(project.blocks) == 2
    assert "Deleted: 1 block, to be brought back" in page.text
    page.press("Bring back Report")
    assert len(project.blocks) == 5


def test_deletion_is_refused_for_new_dependents(board: Shown) -> None:
    """A block that becomes a dependent while the confirmation is shown stops the deletion."""
    project, page = board
    page.do("open", {"block": "aim"})
    page.press("Delete Aim")
    seen = [[], []]
    project["Scope"].set(depends_on=["Aim"])
    result = page.do("delete", {"block": "aim", "seen": seen})
    assert result["failed"]
    assert "were changed meanwhile. Look at the blocks again." in result["message"]
    assert project["Aim"].content
    assert "Scope" in page.html["open-deleting"]
    assert not page.press("Delete the block: Aim")["failed"]


# --- runs --------------------------------------------------------------------------------------------------------


def open_request(page: ShownView) -> str:
    """The request of the displayed card, or an empty string."""
    return next((key.removeprefix("approval-") for key in page.kinds if key.startswith("approval-")), "")


def written(workbench: OpenWorkbench, *texts: str) -> tuple[Project, ShownView]:
    wb = workbench(agent_models={"writer": ScriptedModel(list(texts))}, interactive=False)
    project = wb.projects.start("Essay", template="paper")
    project.add("A", auto_generate=True, need_review=True)
    project.add("B", auto_generate=True, depends_on=["A"])
    return project, show(project)


def test_blocks_are_written_from_the_board(workbench: OpenWorkbench) -> None:
    """The heading shows the progress; a review is decided on the board, and the run continues."""
    project, page = written(workbench, "Of A.", "Of B.")
    assert not page.press("Write 2 blocks: A, B")["failed"]
    page.until(lambda: open_request(page))
    assert "Write 2 blocks: A, B" not in page.buttons
    page.until(lambda: "The run waits for you. 1 of 2 blocks done." in page.text)
    assert "Of A." in page.text
    assert page.announced.startswith("A decision is needed: ")
    request = open_request(page)
    assert page.do("decide", {"request": request, "choice": "approve", "params": None})["message"] == ""
    page.until(lambda: state(page, "b") == "B ✓ completed")
    page.until(lambda: "Stop this run" not in page.buttons)
    assert (project["A"].content, project["B"].content) == ("Of A.", "Of B.")
    assert project["A"].status == "completed"
    assert page.do("decide", {"request": request, "choice": "approve"})["failed"]


def test_draft_is_denied_with_a_comment(workbench: OpenWorkbench) -> None:
    """The draft is written again; an invalid decision is reported on the card."""
    _, page = written(workbench, "Of A.", "Shorter.")
    page.press("Write 2 blocks: A, B")
    page.until(lambda: open_request(page))
    request = open_request(page)
    assert page.do("decide", {"request": request, "choice": "perhaps"})["failed"]
    page.do("decide", {"request": request, "choice": "deny", "note": "Shorter."})
    page.until(lambda: "Shorter." in page.html.get(f"approval-{open_request(page)}", ""))
    assert page.press("Stop this run")["message"] == ""
    page.until(lambda: "The run waits" not in page.text)
    assert not open_request(page)


def test_stale_blocks_are_listed_before_rewriting(workbench: OpenWorkbench) -> None:
    """Each block is written after its dependencies; without a confirmation no run starts."""
    wb = workbench(agent_models={"writer": ScriptedModel(["New B.", "New C."])}, interactive=False)
    project = wb.projects.start("Essay", template="paper")
    project.add("A", "Of A.")
    project.add("B", "Of B.", depends_on=["A"])
    project.add("C", "Of C.", depends_on=["B"])
    project["A"].write("Otherwise.")
    page = show(project)
    page.press("Write 2 stale blocks again …")
    assert "2 blocks would be written again, each after its dependencies" in page.html["writing"]
    page.press("Keep the texts")
    page.press("Write 2 stale blocks again …")
    page.press("Write the blocks again")
    page.until(lambda: open_request(page))
    page.do("decide", {"request": open_request(page), "choice": "approve", "scope": "run"})
    page.until(lambda: state(page, "c") == "C ✓ completed")
    assert (project["B"].content, project["C"].content) == ("New B.", "New C.")
    page.until(lambda: "0 stale" in page.text)


def test_second_run_is_refused(workbench: OpenWorkbench) -> None:
    """The button reports an unfinished run of a cell, even before the board shows the run."""
    model = WaitingModel()
    project = workbench(agent_models={"writer": model}, interactive=False).projects.start("Essay", template="paper")
    project.add("A", auto_generate=True)
    page = show(project)
    run = project.generate()
    result = page.do("write", {})
    assert result["failed"]
    assert "A run is in progress in this project." in result["message"]
    project._thread.call_soon(model.may.set)
    run.wait(20)
    page.until(lambda: state(page, "a") == "A ✓ completed")
    assert page.do("write", {})["message"].startswith("There is nothing to write in 'Essay'")
    assert "has ended" in page.do("stop", {})["message"]


KILLED = """
import sys, time
import artifactflow_nb as af

def write(_request):
    print("writing", flush=True)
    time.sleep(60)

models = {"writer": af.ScriptedModel(write)}
with af.Workbench(data_dir=sys.argv[1], agent_models=models, interactive=False) as wb:
    project = wb.projects.start("Essay", template="paper")
    project.add("A", auto_generate=True)
    project.generate().wait()
"""


def test_abandoned_run_is_resumed_on_the_board(tmp_path: Path) -> None:
    """The board says that the run was abandoned, offers Resume and shows the results."""
    killed = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "data")], stdout=subprocess.PIPE)
    with killed:
        assert killed.stdout
        killed.stdout.readline()
        killed.kill()
    models = {"writer": ScriptedModel(["Written at last."])}
    with af.Workbench(data_dir=tmp_path / "data", agent_models=models, interactive=False) as wb:
        page = show(wb.projects.start("Essay"))
        assert "The process of the run has ended. 0 of 1 block done." in page.text
        assert state(page, "a") == "A ○ empty ● was being written: its process has ended"
        page.press("Resume: continue the abandoned run")
        page.until(lambda: state(page, "a") == "A ✓ completed")
        page.until(lambda: "Stop this run" not in page.buttons)
        assert wb.projects.start("Essay")["A"].content == "Written at last."


@pytest.mark.usefixtures("no_polling")
def test_results_appear_when_the_tool_call_ends(workbench: OpenWorkbench) -> None:
    """The board and the artifact panel listen to the run, without polling the store."""
    model = WaitingModel()
    project = workbench(agent_models={"writer": model}, interactive=False).projects.start("Essay", template="paper")
    project.add("A", auto_generate=True)
    page = show(project)
    page.press("Write 1 block: A")
    page.until(lambda: state(page, "a") == "A ○ empty ● being written")
    panel = ShownView(project._thread, ArtifactPanel(project._thread, project.conversation_id))
    project._thread.call_soon(model.may.set)
    page.until(lambda: state(page, "a") == "A ✓ completed")
    page.until(lambda: "A run is in progress." not in page.text)
    panel.until(lambda: "Written at last." in panel.text)


@pytest.mark.usefixtures("no_polling")
def test_proposed_edits_are_decided_on_the_board(workbench: OpenWorkbench) -> None:
    """The card shows the difference of the edits; after the decision the run of the chat continues."""
    edits = call("propose_edits", edits=[{"anchor": "One", "replacement": "Two"}])
    wb: af.Workbench = workbench(
        [call("modify_field", field_name="A", modification_instruction="Two."), "Well."],
        agent_models={"editor": ScriptedModel([edits, "Done."])},
    )
    project = wb.projects.start("Essay", template="paper")
    project.add("A", "One.")
    run = project.ask("Change it.").wait(20)
    page = show(project)
    assert "<ins>+<mark>Two</mark>." in page.html[f"approval-{open_request(page)}"]
    output = project.board().saved_output()
    assert "A decision is needed: wb.pending() shows the buttons" in output["text/plain"]
    assert "+<mark>Two</mark>." in output["text/html"]
    assert "data-act" not in output["text/html"]
    page.do("decide", {"request": open_request(page), "choice": "approve", "params": None})
    run.wait(20)
    page.until(lambda: "Two." in project["A"].content)
    page.until(lambda: state(page, "a") == "A ◐ draft")
    assert not open_request(page)


def test_hostile_names_stay_text_in_forms_and_lists(workbench: OpenWorkbench) -> None:
    """Names are in the heading, the confirmations before deletion and the list of deleted blocks."""
    project = workbench().projects.start("Essay", template="paper")
    clean = [text.encode("utf-8", "replace").decode().replace("/", "|") for text in HOSTILE[::17]]
    blocks = [project.add(f"{n} {text}"[:110], "x", auto_generate=True) for n, text in enumerate(clean)]
    for before, after in pairwise(blocks):
        after.set(depends_on=[before])
    blocks[-1].delete(anyway=True)
    page = show(project)
    page.do("open", {"block": blocks[0].block_id})
    page.do("delete_ask", {"block": blocks[0].block_id})
    blocks[0].write("y")
    page.do("refresh_ask", {})
    harmed = [harm for html in page.html.values() for harm in harms(html, VIEW) if " data-a" not in harm]
    assert [harm for harm in harmed if "draggable" not in harm] == []
