"""The board of a project in JupyterLab: read, edit, approve and move blocks, advance phases, save."""

from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SETUP = """import tempfile
import artifactflow_nb as af
wb = af.Workbench(data_dir=tempfile.mkdtemp(), model=af.ScriptedModel([]))
project = wb.projects.start("How fast does the sea rise?", template="paper")
project.add("Aim", "Say how fast the sea rises at our coast, for those who build there.", phase="question",
            need_review=True).approve()
project.add("Scope", phase="question", prompt="Which coasts, which years")
project.add("Gauges", "Three tide gauges since 1901.", phase="literature", depends_on=["Aim"])
project.add("Satellites", "Altimetry since 1993.", phase="literature", depends_on=["Aim"])
project.add("Report", phase="writing", is_group=True)
project.add("Method", "# Method\\n\\nA line through yearly means.\\n\\n| gauge | years |\\n|---|--:|\\n| north | 122 |",
            parent="Report", depends_on=["Gauges", "Satellites"])
project.add("Rates", "3 mm a year.", parent="Report", depends_on=["Method"], need_review=True)
project.add("Summary", phase="review", depends_on=["Report"], auto_generate=True)
project["Satellites"].write("Altimetry since 1992.")"""
SHOW = "project.board()"
READ = 'print([f"{block.phase}/{block.name}" for block in project.blocks], project.phase, project["Rates"].status)'
GRAPH = "project.graph()"
OVERFLOWING = """board => [...board.querySelectorAll(".af-board-column, .af-board-card, .af-board-top, .af-button")]
    .filter(node => node.scrollWidth > node.clientWidth + 1).map(node => `${node.className}: ${node.textContent}`)"""


@pytest.fixture
def page(lab: LabServer, open_page: Callable[[str], LabPage]) -> LabPage:
    """A notebook with the board of a project."""
    page = open_page(new_notebook(lab, SETUP, SHOW, READ, GRAPH))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    expect(live(page).locator(".af-board-card")).to_have_count(8, timeout=20_000)
    return page


def live(page: LabPage) -> Locator:
    return page.output(1).locator(".af-run.af-live")


def card(page: LabPage, name: str) -> Locator:
    return live(page).locator(".af-board-open", has=page.page.locator(".af-board-name", has_text=name))


def column(page: LabPage, n: int) -> Locator:
    return live(page).locator(".af-board-column").nth(n)


def press(page: LabPage, name: str) -> None:
    live(page).get_by_role("button", name=name, exact=True).click()


def expect_blocks(page: LabPage, text: str) -> None:
    page.run_cell(2)
    expect(page.output(2)).to_contain_text(text)


def test_block_is_read_edited_and_approved(page: LabPage) -> None:
    """A card opens its block; an edit adds a version and makes dependent blocks stale; a block can be approved."""
    save_pictures(page, live(page), "project-board")
    card(page, "Method").click()
    text = live(page).locator(".af-board-block .af-art-text")
    expect(text).to_contain_text("A line through yearly means.")
    save_pictures(page, live(page), "project-board-open")
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    press(page, "Edit")
    live(page).get_by_label("Text of version 1").fill("A line through monthly means.")
    press(page, "Save as a new version")
    expect(text).to_contain_text("monthly means")
    expect(card(page, "Rates")).to_contain_text("stale")
    press(page, "Changes")
    expect(text.locator("ins").first).to_contain_text("monthly")
    card(page, "Rates").click()
    expect(text).to_contain_text("3 mm a year.")
    press(page, "Approve Rates")
    expect(card(page, "Rates")).to_contain_text("completed")
    expect_blocks(page, "question completed")
    assert page.errors == []
    assert page.foreign_requests() == []


def test_blocks_are_added_changed_and_deleted_with_the_keyboard(page: LabPage) -> None:
    """Fields display their errors; a deletion lists the dependent blocks first and can be undone."""
    keys = page.page.keyboard
    live(page).get_by_role("button", name="Add a block to Method").focus()
    keys.press("Enter")
    form = live(page).locator(".af-board-form")
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    keys.type("Corrections")
    dependencies = form.get_by_role("group", name="Depends on")
    dependencies.get_by_label("Gauges").check()
    dependencies.get_by_label("Satellites").check()
    save_pictures(page, live(page), "project-board-add")
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    expect(dependencies.get_by_label("Satellites")).to_be_focused()  # again, after the change of the theme
    keys.press("Control+Enter")
    expect(live(page).locator(".af-announcer")).to_have_text("Corrections is 1 of 1 in Method.")
    expect(card(page, "Corrections")).to_be_focused()
    keys.press("Enter")
    live(page).get_by_role("button", name="Name and settings of Corrections").focus()
    keys.press("Enter")
    expect(form.get_by_label("Name", exact=True)).to_be_focused()
    form.get_by_label("Name", exact=True).fill("Tides")
    form.get_by_label("I review the text before it counts").focus()
    keys.press("Space")
    keys.press("Control+Enter")
    expect(card(page, "Tides")).to_be_visible()
    card(page, "Gauges").focus()
    keys.press("Enter")
    live(page).get_by_role("button", name="Delete Gauges").focus()
    keys.press("Enter")
    question = live(page).locator(".af-board-block .af-board-confirm")
    expect(question).to_contain_text("Dependent blocks, which become stale if they have a text:")
    expect(question).to_contain_text("Tides")
    save_pictures(page, live(page), "project-board-delete")
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    expect(question.get_by_role("button", name="Delete the block: Gauges")).to_be_focused()
    keys.press("Enter")
    expect(card(page, "Gauges")).to_have_count(0)
    expect(live(page).get_by_role("button", name="Add a block to Literature")).to_be_focused()
    live(page).locator("summary", has_text="Deleted: 1 block").click()
    press(page, "Bring back Gauges")
    expect(card(page, "Gauges")).to_be_focused()
    assert page.errors == []


WRITE = """import tempfile
import artifactflow_nb as af

wb = af.Workbench(data_dir=tempfile.mkdtemp(), agent_models={"writer": af.ScriptedModel([
    "Gauges show 3 mm a year.", "- Gauges: 3 mm a year\\n- Since 1993: 3.4 mm", "3.4 mm a year since 1993."])})
project = wb.projects.start("How fast does the sea rise?", template="paper")
project.add("Findings", phase="method", prompt="What do gauges show?", auto_generate=True, need_review=True)
project.add("Table", phase="analysis", prompt="As a list", auto_generate=True, depends_on=["Findings"])
project.add("Summary", phase="writing", auto_generate=True, depends_on=["Table"])"""


def test_blocks_are_written_and_decided_on_the_board(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """A button starts the run, the board displays its progress and its approval card, and then the finished blocks."""
    page = open_page(new_notebook(lab, WRITE, SHOW))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    live(page).get_by_role("button", name="Write 3 blocks: Findings, Table, Summary").click()
    question = live(page).locator(".af-approvals .af-approval")
    expect(question).to_contain_text("Gauges show 3 mm a year.")
    expect(live(page).locator(".af-board-run")).to_contain_text("The run waits for you. 1 of 3 blocks done.")
    save_pictures(page, live(page), "project-board-asks")
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    question.get_by_role("button", name="Approve").first.click()
    expect(card(page, "Summary")).to_contain_text("completed")
    expect(live(page).locator(".af-board-run")).to_have_count(0)
    expect(question).to_have_count(0)
    assert page.errors == []


MANY = """import tempfile
import artifactflow_nb as af

wb = af.Workbench(data_dir=tempfile.mkdtemp(), model=af.ScriptedModel([]))
project = wb.projects.start("Ein Projekt mit einem sehr langen Namen, wie ihn Förderrichtlinien verlangen")
phases = project.phases
names = ["海平面上升的速度有多快：以北海为例", "Donaudampfschifffahrtsgesellschaftskapitänswitwenrente", "Method",
         "What the gauges at the coast have shown since they were put there, year by year"]
for n in range(60):
    project.add(f"{names[n % 4]} {n}", "x" if n % 3 else "", phase=phases[n % len(phases)], auto_generate=n % 5 == 0,
                need_review=n % 4 == 0, depends_on=[project.blocks[n - 8]] if n > 8 else [])
project.blocks[1].write("y")"""


def test_large_project_fits_into_a_narrow_cell(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """Sixty blocks with long and Chinese names stay within their columns, wide and narrow, without being cut off."""
    page = open_page(new_notebook(lab, MANY, SHOW))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    expect(live(page).locator(".af-board-card")).to_have_count(60, timeout=20_000)
    for width in (1280, 560):
        page.page.set_viewport_size({"width": width, "height": 900})
        assert live(page).evaluate(OVERFLOWING) == []
    save_pictures(page, live(page), "project-board-narrow")
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    assert page.errors == []


def test_cards_are_moved_with_the_keyboard(page: LabPage) -> None:
    """Alt with an arrow moves the focused card, keeps the focus and announces the new place."""
    keys = page.page.keyboard
    card(page, "Scope").focus()
    keys.press("Alt+ArrowUp")
    expect(live(page).locator(".af-message")).to_have_text("Scope is now 1 of 2 in Question.")
    expect(card(page, "Scope")).to_be_focused()
    keys.press("Alt+ArrowUp")
    expect(live(page).locator(".af-message")).to_have_text("'Scope' is at the top of its list already.")
    keys.press("Alt+ArrowRight")
    expect(column(page, 1).locator(".af-board-name")).to_have_text(["Gauges", "Satellites", "Scope"])
    expect(card(page, "Scope")).to_be_focused()
    keys.press("Enter")
    expect(live(page).locator(".af-board-block")).to_contain_text("What the text should say: Which coasts, which years")
    live(page).get_by_label("Group", exact=True).select_option("Report")
    press(page, "Move there")
    expect(column(page, 4).locator(".af-board-name")).to_have_text(["Report", "Method", "Rates", "Scope"])
    press(page, "Close Scope")
    expect(card(page, "Scope")).to_be_focused()
    expect_blocks(
        page, "['question/Aim', 'literature/Gauges', 'literature/Satellites', 'writing/Report', 'writing/Method'"
    )
    assert page.errors == []


def test_cards_are_dragged(page: LabPage) -> None:
    """A drop on a card places the dragged card before it, a drop on a column at the end. Notebook cells do not move."""
    page.page.set_viewport_size({"width": 1280, "height": 1400})  # a page that scrolls below the pointer starts no drag
    card(page, "Satellites").drag_to(card(page, "Gauges"), target_position={"x": 20, "y": 4})
    expect(column(page, 1).locator(".af-board-name")).to_have_text(["Satellites", "Gauges"])
    card(page, "Summary").drag_to(column(page, 2))
    expect(column(page, 2).locator(".af-board-name")).to_have_text(["Summary"])
    card(page, "Aim").drag_to(card(page, "Rates"), target_position={"x": 20, "y": 4})
    expect(column(page, 4).locator(".af-board-name")).to_have_text(["Report", "Method", "Aim", "Rates"])
    expect(live(page).locator(".af-board-here")).to_have_count(0)
    assert page.cells.count() == 4
    assert page.errors == []


def test_phase_advances_and_saved_board_is_readable(page: LabPage) -> None:
    """Advancing lists unfinished blocks first; without a kernel the notebook displays the board and its texts."""
    press(page, "Go on to Literature")
    expect(live(page).locator(".af-board-confirm")).to_contain_text("1 block would be left open")
    press(page, "Go on to Literature")
    expect(column(page, 1)).to_contain_text("now")
    expect_blocks(page, "literature draft")
    page.run_cell(3)
    expect(page.output(3).locator("img:visible")).to_be_visible()
    expect(page.output(3).first).to_contain_text("Blocks of ")  # the text alternative: JupyterLab's pictures have none
    save_pictures(page, page.output(3), "project-graph")
    [output] = page.saved_outputs(1)
    assert "data-act" not in output["data"]["text/html"]
    page.shutdown_kernel()
    page.open_elsewhere()
    saved = page.visible_run(1)
    expect(saved.locator(".af-board-card")).to_have_count(8)
    expect(saved.locator(".af-board-column").nth(1)).to_contain_text("now")
    saved.get_by_text("Report / Method").click()
    expect(saved.get_by_text("A line through yearly means.")).to_be_visible()
    assert axe_in_both_themes(page, ".af-run.af-saved") == []
    save_pictures(page, saved, "project-board-kept")
    assert page.errors == []
