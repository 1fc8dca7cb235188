"""The board of a project, pressed as a page presses it, over a real engine."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import OpenWorkbench
from support.hostile_texts import HOSTILE
from support.pages import ShownView
from support.replies import by_agent, call, delegate, report
from support.safe_html import VIEW, harms

from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.board import BoardView
from artifactflow_nb.plugins.projects.handle import Project

Shown = tuple[Project, ShownView]


def show(project: Project, *, dated: bool = True) -> ShownView:
    thread = project._thread
    return ShownView(thread, BoardView(thread, project.conversation_id, with_dates=dated))


@pytest.fixture
def board(workbench: OpenWorkbench) -> Shown:
    """A project in two phases, with a group, and its board."""
    project = workbench().projects.start("Sea levels", template="paper")
    project.add("Aim", "How fast?", phase="question", need_review=True)
    project.add("Scope", phase="question")
    project.add("Report", phase="writing", is_group=True)
    project.add("Method", "Gauges.", parent="Report")
    project.add("Rates", "3 mm a year.", parent="Report", depends_on=["Method"])
    return project, show(project)


def names(project: Project) -> list[str]:
    return [f"{block.phase}: {block.path}" for block in project.blocks]


def state(page: ShownView, block_id: str) -> str:
    """The text of a card."""
    return " ".join(re.sub("<[^>]*>", " ", page.html[f"card-{block_id}-label"]).split())


def test_phases_are_columns_and_blocks_are_cards(board: Shown) -> None:
    """Each card shows its status, and whether it is stale or waits for a review; the current phase is marked."""
    project, page = board
    assert [key for key in page.kinds if key.startswith("column-")] == [f"column-{phase}" for phase in project.phases]
    assert "now" in page.html["column-question"]
    assert "now" not in page.html["column-writing"]
    assert state(page, "aim") == "Aim ◐ draft ? to be reviewed"
    assert state(page, "scope") == "Scope ○ empty"
    assert state(page, "report") == "Report ◐ group, draft"
    project["Method"].write("Satellites.")
    page.until(lambda: state(page, "rates") == "Rates ◐ draft ! stale")
    assert "5 blocks" not in page.text
    assert "4 blocks · 0 completed · 1 stale" in page.text


def test_block_is_opened_edited_and_compared(board: Shown) -> None:
    """Text and versions are below the columns; an edit is a version by the person, and versions can be compared."""
    project, page = board
    page.do("open", {"block": "method"})
    assert "Gauges." in page.html["panel-text-rendered"]
    assert "Report / Method" in page.html["open-head"]
    page.press("Edit")
    assert page.submit("edit", text="Gauges and satellites.")["message"] == "Written as version 2."
    assert (project["Method"].content, project["Method"].writer) == ("Gauges and satellites.", "user")
    assert "! stale" in state(page, "rates")
    page.press("Compare version 1 with version 2")
    assert "satellites" in page.html["panel-text-changes"]
    page.press("Close Method")
    assert "open-head" not in page.html
    assert page.effects[-1]["key"] == "card-method"


def test_late_edit_is_refused(board: Shown) -> None:
    """A text that somebody else changed meanwhile is not overwritten, and the form keeps its input."""
    project, page = board
    page.do("open", {"block": "aim"})
    page.press("Edit")
    project["Aim"].write("Theirs.")
    result = page.submit("edit", text="Mine.")
    assert result["failed"]
    assert project["Aim"].content == "Theirs."
    assert "form" in page.kinds.values()


def test_approval_is_refused_for_a_changed_text(board: Shown) -> None:
    """Approving completes a block, unless its text changed since the reader saw it."""
    project, page = board
    page.do("open", {"block": "aim"})
    old = project["Aim"].sha256
    assert page.press("Approve Aim")["message"] == "Aim is approved."
    assert project["Aim"].status == "completed"
    assert "Approve Aim" not in page.buttons
    project["Aim"].write("How fast, and where?")
    result = page.do("approve", {"block": "aim", "sha256": old})
    assert result["failed"]
    assert "was changed meanwhile (now version 3, by user). Read the text" in result["message"]
    assert project["Aim"].status == "draft"


def test_stale_block_is_marked_up_to_date(board: Shown) -> None:
    """`Keep the text` makes a stale block current without a change of its text."""
    project, page = board
    project["Method"].write("Satellites.")
    page.do("open", {"block": "rates"})
    page.until(lambda: "Keep the text: Rates" in page.buttons)
    assert "Changed since it was written: Method." in page.text
    page.press("Keep the text: Rates")
    assert list(project.stale) == []


def test_phases_have_the_language_of_the_workbench(workbench: OpenWorkbench) -> None:
    """Phases have display names in the language of the board, even if block names have another language."""
    project = workbench(language="en").projects.start("海平面", template="paper")
    project.add("目的", "有多快？", phase="question")
    assert "Literature" in show(project).html["column-literature"]
    project = workbench(language="zh").projects.start("Sea levels", template="paper")
    assert "文献" in show(project).html["column-literature"]
    assert "Literature" not in show(project).html["column-literature"]


def test_cards_are_moved_by_keyboard(board: Shown) -> None:
    """Cards move up and down among siblings, and to the end of the phase at the side; they keep the focus."""
    project, page = board
    assert page.do("step", {"card": "card-scope", "to": "up"})["message"] == "Scope is now 1 of 2 in Question."
    assert page.effects[-1] | {"page": ""} == {"type": "effect", "page": "", "name": "focus", "key": "card-scope"}
    page.do("step", {"card": "card-rates", "to": "up"})
    page.do("step", {"card": "card-rates", "to": "left"})
    page.do("step", {"card": "card-aim", "to": "right"})
    assert names(project) == [
        *("question: Scope", "literature: Aim", "analysis: Rates", "writing: Report", "writing: Report / Method"),
    ]
    for card, to, sentence in (
        ("card-scope", "up", "'Scope' is at the top of its list already."),
        ("card-scope", "left", "'Scope' is in the first phase already."),
        ("card-gone", "up", "no longer exists"),
    ):
        result = page.do("step", {"card": card, "to": to})
        assert result["failed"]
        assert sentence in result["message"]


def test_open_block_has_move_buttons(board: Shown) -> None:
    """The buttons are next to the position of the block."""
    project, page = board
    page.do("open", {"block": "rates"})
    assert "2 of 2 in Report" in page.text
    page.press("Move up")
    assert "1 of 2 in Report" in page.text
    page.press("Move to the phase before")
    assert project["Rates"].phase == "analysis"


def test_block_is_moved_into_a_group_by_form(board: Shown) -> None:
    """The form offers the top level and all groups outside of the block; a group deleted meanwhile is an error."""
    project, page = board
    project.add("Part", parent="Report", is_group=True)
    page.until(lambda: "card-part-label" in page.html)
    page.do("open", {"block": "report"})
    assert "open-group" not in page.kinds
    page.do("open", {"block": "aim"})
    [field] = page.data["open-group"]["fields"]
    assert field["choices"] == ["no group: the top level of the phase", "Report", "Report / Part"]
    assert page.submit("group", group="Report / Part")["message"] == "Aim is now 1 of 1 in Part."
    assert project["Aim"].path == "Report / Part / Aim"
    page.submit("group", group=field["choices"][0])
    assert (project["Aim"].path, project["Aim"].phase) == ("Aim", "writing")
    assert page.submit("group", group="Dreams")["failed"]


def test_cards_are_dropped_into_lists(board: Shown) -> None:
    """A card can be dropped before a card, at the end of a phase or into a group; not into itself."""
    project, page = board
    page.do("move", {"card": "card-scope", "into": "group-report", "before": "card-rates"})
    page.do("move", {"card": "card-rates", "into": "phase-literature", "before": ""})
    assert names(project) == [
        *("question: Aim", "literature: Rates", "writing: Report", "writing: Report / Method"),
        "writing: Report / Scope",
    ]
    assert page.do("move", {"card": "card-report", "into": "group-report", "before": ""})["failed"]
    assert page.do("move", {"card": "card-aim", "into": "phase-literature", "before": "card-gone"})["failed"]
    assert page.do("move", {"card": "card-aim", "into": "phase-dreams", "before": ""})["failed"]
    assert names(project)[0] == "question: Aim"


def test_next_phase_lists_unfinished_blocks_first(board: Shown) -> None:
    """Advancing changes only the phase; without unfinished blocks there is no confirmation."""
    project, page = board
    assert "To go on to Literature, first approve: Aim." in page.text
    assert "Go on to Literature" not in page.buttons
    project["Aim"].set(need_review=False)
    page.until(lambda: "Go on to Literature" in page.buttons)
    assert page.press("Go on to Literature")["message"] == ""
    assert "2 blocks would be left open" in page.text
    assert "Scope: empty" in page.text
    page.press("Stay in this phase")
    assert "Scope: empty" not in page.text
    page.press("Go on to Literature")
    page.press("Go on to Literature")
    assert project.phase == "literature"
    assert project["Scope"].status == "empty"
    project["Scope"].write("The coasts.").approve()
    project["Aim"].approve()
    page.until(lambda: "2 completed" in page.text)
    assert page.press("Go on to Method")["message"] == "The project is in Method now."
    project.advance_to_phase("review")
    page.until(lambda: "This is the last phase." in page.text)


class WaitingModel(ScriptedModel):
    """Answers when the test lets it."""

    def __init__(self) -> None:
        super().__init__(lambda _request: "Written at last.")
        self.may = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await self.may.wait()
        async for event in super().stream(request):
            yield event


def test_block_in_progress_is_marked(workbench: OpenWorkbench) -> None:
    """A card says that it is being written until the job ends; then it has its new status."""
    model = WaitingModel()
    project = workbench(agent_models={"writer": model}, interactive=False).projects.start("Essay", template="paper")
    project.add("A", auto_generate=True)
    page = show(project)
    run = project.generate()
    page.until(lambda: state(page, "a") == "A ○ empty ● being written")
    assert "A run is in progress." in page.text
    assert "You can go on to Literature when the run has ended." in page.text
    assert "Go on to Literature" not in page.buttons
    project._thread.call_soon(model.may.set)
    run.wait(20)
    page.until(lambda: state(page, "a") == "A ✓ completed")
    page.until(lambda: "Go on to Literature" in page.buttons)
    assert page.announced == "A: ✓ completed, by writer."


def test_waiting_requests_are_marked(workbench: OpenWorkbench) -> None:
    """Proposed edits are marked on their card, and a draft to review in the heading."""
    edits = call("propose_edits", edits=[{"anchor": "One", "replacement": "Two"}])
    models = {"editor": ScriptedModel([edits, "Done."]), "writer": ScriptedModel(["A draft."])}
    wb = workbench(
        [call("modify_field", field_name="A", modification_instruction="Two."), "Well."], agent_models=models
    )
    project = wb.projects.start("Essay", template="paper")
    project.add("A", "One.")
    page = show(project)
    run = project.ask("Change it.").wait(20)
    page.until(lambda: state(page, "a") == "A ◐ draft ● waits for your decision")
    run.approve().wait(20)
    page.until(lambda: state(page, "a") == "A ◐ draft")
    assert "The run waits" not in page.text
    project.add("B", auto_generate=True, need_review=True)
    project.generate().wait(20)
    page.until(lambda: "The run waits for you." in page.text)
    assert state(page, "b") == "B ◐ draft ? to be reviewed"


def test_text_to_review_has_citations(workbench: OpenWorkbench) -> None:
    """Citation marks are buttons, as in a report; the marks of a source that was not read are dotted."""
    draft = "They rise [1].\n\n## Sources\n\n1. Tides: https://tides.example/rates"
    wb = workbench([call("review_field", field_name="B")] * 2, agent_models={"writer": ScriptedModel([draft])})
    project = wb.projects.start("Essay", template="paper")
    project.add("B", auto_generate=True, need_review=True)
    page = show(project)
    project.generate().wait(20)
    page.until(lambda: "approval" in page.kinds.values())
    [card] = [html for key, html in page.html.items() if page.kinds[key] == "approval"]
    assert 'They rise <span class="af-cite"><span class="af-cite-mark' in card
    assert "<b>Tides</b>" in card


def test_saved_board_has_columns_and_texts(board: Shown) -> None:
    """The saved board has nothing to click, and saving it twice gives the same output."""
    project, _ = board
    panel = project.board()
    saved_form = panel.saved_output()
    assert saved_form["text/plain"].splitlines()[:4] == [
        "Project Sea levels",
        "Question (now):",
        "  - Aim: ◐ draft, ? to be reviewed",
        "  - Scope: ○ empty",
    ]
    assert "data-act" not in saved_form["text/html"]
    assert "draggable" not in saved_form["text/html"]
    assert '<div class="af-board-scroll" tabindex="0"' in saved_form["text/html"]
    assert saved_form["text/html"].count('class="af-board-card') == 5
    assert "3 mm a year." in saved_form["text/html"]
    assert project.board().saved_output() == saved_form


def test_board_of_deleted_project_says_so(board: Shown) -> None:
    """The board closes the open block, and its actions are errors."""
    project, page = board
    page.do("open", {"block": "aim"})
    thread = project._thread
    thread.call(thread.engine.conversations.delete_conversation(project.conversation_id))
    page.until(lambda: "This project no longer exists." in page.text)
    assert page.do("advance_ask", {})["failed"]


def test_document_is_downloaded(board: Shown) -> None:
    """A download has each format, and its file is named after the project."""
    _, page = board
    assert page.press("Download the document as md: Markdown")["message"] == "Downloaded as Sea_levels.md."
    effect = page.effects[-1]
    assert base64.b64decode(effect["base64"]).startswith(b"# Sea levels\n")


def test_hostile_texts_stay_text(workbench: OpenWorkbench) -> None:
    """With hostile names and texts the board has only its own elements, live and saved."""
    project: Any = workbench().projects.start("<script>window.__xss++</script>", template="paper")
    for n, text in enumerate(HOSTILE[::9]):
        clean = text.encode("utf-8", "replace").decode()
        project.add(f"{n} {clean.replace('/', '|')}"[:110], clean, prompt=clean)
    page = show(project)
    page.do("open", {"block": next(iter(project.blocks)).block_id})
    live = [harm for html in page.html.values() for harm in harms(html, VIEW) if " data-a" not in harm]
    assert [harm for harm in live if "draggable" not in harm] == []
    html = project.board().saved_output()["text/html"]
    assert harms(re.sub("<style>.*?</style>", "", html, flags=re.DOTALL), VIEW) == []


def test_block_being_researched_shows_the_progress_of_its_readings(workbench: OpenWorkbench) -> None:
    """The card shows the progress until the report is written; once all blocks are completed, no phase is current."""
    fetched = [call("web_fetch", urls=[f"local:missing/{name}"]) for name in "ab"]
    turns = by_agent(
        composer=[call("run_research", query="What is X?", field_name="Facts"), "Done."],
        lead=[delegate("crawl_agent", "Read a.") + delegate("crawl_agent", "Read b."), report("A letter."), "It is."],
        reading=[*fetched, "It is gone.", "It is gone."],
    )
    wb = workbench(turns, interactive=False, approvals={"web_fetch": "ask"})
    project = wb.projects.start("Essay", template="paper")
    project.add("Facts", phase="literature")
    page = show(project)
    run = project.ask("Go.").wait(20)
    page.until(lambda: state(page, "facts") == "Facts ○ empty ● being researched, reading 1 of 2")
    first, _second = run.pending
    run.approve(first.id)
    page.until(lambda: state(page, "facts") == "Facts ○ empty ● being researched, reading 2 of 2")
    run.approve().wait(20)
    page.until(lambda: "Facts ✓ completed" in state(page, "facts"))
    assert "researched" not in page.text
    assert [key for key, html in page.html.items() if key.startswith("column-") and "af-board-now" in html] == []
