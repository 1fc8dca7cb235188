"""The card of a study in JupyterLab: grid, decisions and further attempts by keyboard, readable without a kernel."""

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
SETUP = """import artifactflow_nb as af

is_away = True

def turn(request):
    question = request.messages[1].content
    if "Who measured" in question and is_away:
        raise af.errors.ModelRejected("The endpoint answered with status 404: there is no model of this name.")
    if "write" in question and request.messages[-1].role == "user":
        return af.ToolCall("create_artifact", {"id": "report", "title": "Report", "content": "It is 41 m deep."})
    return "It is 41 m deep."

wb = af.Workbench(data_dir="studies", approvals={"create_artifact": "ask"}, model=af.ScriptedModel(turn, delay_s=0.01),
                  prices={"scripted": {"input": 3, "output": 15}}, language="LANGUAGE")
questions = ["How deep is the lake, measured at its middle in summer?", "Who measured it?", "Please write a note."]"""
SHOW = """study = wb.studies.start(questions, name="depths", vary={"depth": ["quick", "standard", "deep"]}, repeats=3)
study"""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_card_shows_cells_and_is_decided_by_keyboard(lab: LabServer, open_page: OpenPage, language: str) -> None:
    page = open_page(new_notebook(lab, SETUP.replace("LANGUAGE", language), SHOW, "is_away = False"))
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    card, keyboard = page.output(1).locator(".af-run.af-live"), page.page.keyboard
    names = {"en": ("Approve all", "Retry failed cells"), "zh": ("全部批准", "重做失败的单元")}[language]
    approve, retry = (card.get_by_role("button", name=name) for name in names)
    expect(approve).to_be_visible(timeout=SOON_MS)
    expect(retry).to_be_visible(timeout=SOON_MS)
    expect(card.locator(".af-study-row")).to_have_count(3)
    save_pictures(page, card, f"study-{language}")
    page.page.set_viewport_size({"width": 400, "height": 900})
    save_pictures(page, card, f"study-narrow-{language}")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    assert axe_in_both_themes(page) == []
    page.run_cell(2)
    page.wait_done(2)
    retry.focus()
    keyboard.press("Enter")
    expect(retry).to_have_count(0, timeout=SOON_MS)
    approve.focus()
    keyboard.press("Enter")
    saved = page.output(1).locator(".af-run.af-saved, .af-run.af-live")
    expect(saved.locator(".af-study-row .af-ok")).to_have_count(9, timeout=SOON_MS)
    expect(saved.get_by_role("button")).to_have_count(0)
