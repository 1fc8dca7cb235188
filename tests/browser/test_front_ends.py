"""A run in each front end that people use, from the question to the page that stays."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from browser.cells import ASK, BROKEN, QUESTION
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, write_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

APPROVE = "Approve create_artifact"


def grows(text: Locator, page: LabPage, n_looks: int = 12) -> Sequence[int]:
    """The lengths of a text, looked at every 100 ms."""
    lengths = []
    for _ in range(n_looks):
        lengths.append(len(text.inner_text()))
        page.page.wait_for_timeout(100)
    return lengths


def assert_clean(page: LabPage) -> None:
    assert page.errors == []
    assert page.foreign_requests() == []
    shown = page.page.locator("body").inner_text()
    assert not [words for words in BROKEN if words in shown]


@pytest.mark.parametrize("front_end", ["lab", "lab6", "notebook7"])
def test_a_run_streams_asks_and_stays(front_end: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    """Text is shown as it arrives, a click approves, and the saved output needs neither widget nor kernel."""
    server: LabServer = request.getfixturevalue(front_end)
    (server.root / "smoke").mkdir()
    write_notebook(server, "smoke/run.ipynb", [ASK])
    page = open_page("smoke/run.ipynb", server)
    page.open()
    page.run_cell(0)
    live = page.output(0).locator(".af-run.af-live")
    expect(live).to_contain_text("Paragraph 1 ", timeout=20_000)
    lengths = grows(live, page)
    assert sum(after > before for before, after in pairwise(lengths)) >= 3, lengths
    page.output(0).get_by_role("button", name=APPROVE).click(timeout=20_000)
    frozen = page.output(0).locator(".af-frozen:visible")
    expect(frozen.locator(".af-answer")).to_contain_text("It is written.", timeout=20_000)
    expect(frozen.locator(".af-artifact")).to_contain_text("It goes on.")
    [output] = page.saved_outputs(0)
    assert "It is written." in output.data["text/html"]
    assert "It is written." in output.data["text/markdown"]
    assert "application/vnd.jupyter.widget-view+json" not in output.data
    assert_clean(page)


def test_a_run_goes_on_in_voila(voila: LabServer, open_page: OpenPage) -> None:
    """Voila runs all cells, then shows the page: a run that waits is live there, and a click lets it go on.

    A cell that awaits the run is over by then: while Voila executes there is no page that could answer, so `await`
    comes back with a run that waits.
    """
    (voila.root / "smoke").mkdir()
    write_notebook(voila, "smoke/run.ipynb", [ASK, "await run\nrun.status"])
    page = open_page("smoke/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    run = page.page.locator(".af-run:visible")
    expect(run).to_contain_text(QUESTION, timeout=30_000)
    expect(page.page.locator("body")).to_contain_text("'waiting'")
    page.page.get_by_role("button", name=APPROVE).click(timeout=20_000)
    expect(run.locator(".af-answer")).to_contain_text("It is written.", timeout=20_000)
    expect(run).to_contain_text("Completed")
    assert_clean(page)


def test_voila_follows_a_run_that_goes_on_after_its_cells(voila: LabServer, open_page: OpenPage) -> None:
    """A run that nobody awaits streams on in the page that Voila shows when the cells have ended."""
    (voila.root / "stream").mkdir()
    write_notebook(voila, "stream/run.ipynb", [ASK.replace("delay_s=0.03", "delay_s=0.1")])
    page = open_page("stream/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    live = page.page.locator(".af-run.af-live")
    expect(live).to_contain_text("Paragraph", timeout=30_000)
    lengths = grows(live, page)
    assert sum(after > before for before, after in pairwise(lengths)) >= 3, lengths
    page.page.get_by_role("button", name=APPROVE).click(timeout=30_000)
    expect(page.page.locator(".af-run:visible .af-answer")).to_contain_text("It is written.", timeout=20_000)
    assert_clean(page)
