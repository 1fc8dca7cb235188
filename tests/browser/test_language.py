"""The board and the card of a plan in English and in Chinese: one language, nothing cut off, accessible."""

import re
from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SETUP = """import tempfile
import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

aim, report, method, rates, text, find, compare = {names}
steps = [{{"title": find, "tools": ["web_search"]}}, {{"title": compare, "description": text}}]

def turn(request):
    role, last = request.messages[0].content, request.messages[-1].content
    if "execute one step" in role or "summarize what a plan" in role:
        return text
    return text if "tool_result" in last else [ToolCall("plan_create", {{"title": aim, "steps": steps}})]

wb = af.Workbench(data_dir=tempfile.mkdtemp(), model=af.ScriptedModel(turn), language="{language}",
                  graph_config={{"approval": {{"enabled": True}}}})
project = wb.projects.start(aim, template="paper")
project.add(aim, text, phase="question", need_review=True).approve()
project.add(report, phase="writing", is_group=True)
project.add(method, text, parent=report, depends_on=[aim], prompt=text)
project.add(rates, text, parent=report, depends_on=[method], need_review=True)
project.add(find, phase="review", depends_on=[report], auto_generate=True)
project.add(compare, text, phase="literature").delete()
project[method].write(text + text)"""
BOARD = "project.board()"
PLAN = """run = wb.ask(aim, flow="plan")
run"""
NAMES = {
    "en": ("How fast does the sea rise?", "Report", "Method", "Rates", "Three gauges since 1901.", "Find", "Compare"),
    "zh": (
        "海平面上升有多快？",
        "研究报告",
        "研究方法",
        "上升速率",
        "三座验潮站，始于一九零一年。",
        "查找资料",
        "比较结果",
    ),
}
LABELS = {
    "en": {"settings": "Settings …", "delete": "Delete …", "raw": "Changes", "leave": "Keep the block",
           "add": "+ Block", "close": "Close", "go_on": "Go on to Literature", "edit_plan": "Edit the plan",
           "approve": "Approve with these values", "done": "completed"},
    "zh": {"settings": "设置…", "delete": "删除…", "raw": "改动", "leave": "不删除", "add": "+ 内容块", "close": "关闭",
           "go_on": "进入“文献”阶段", "edit_plan": "修改计划", "approve": "按此批准", "done": "已完成"},
}  # fmt: skip
ALLOWED = {"en": set(), "zh": {"md", "html", "docx", "ipynb", "Markdown", "Word", "UTC", "Alt"}}
"""Latin words that the Chinese interface has, too: file formats, the time zone, and a key of the keyboard."""
SEEN = """root => {
    // The tooltip of an agent or a tool is its name in code.
    const named = (nodes, names) => [...nodes].flatMap((node) => names.map((name) => node.getAttribute(name) ?? ""));
    const said = [...named(root.querySelectorAll("*"), ["aria-label", "placeholder"]),
        ...named(root.querySelectorAll("[title]:not(.af-name, .af-quiet > span)"), ["title"])];
    const options = [...root.querySelectorAll("option")].map((option) => option.textContent);
    return [root.innerText, root.getAttribute("aria-label"), ...said, ...options].join(" ");
}"""
CUT = """root => [...root.querySelectorAll("button, summary, label, p, .af-board-name, .af-board-state")]
    .filter((node) => node.checkVisibility() && node.scrollWidth > node.clientWidth + 1 && node.clientWidth)
    .map((node) => `${node.className}: ${node.textContent}`)"""
OUTSIDE = """root => {
    const right = root.getBoundingClientRect().right;
    return [...root.querySelectorAll("*")].filter((node) => {
        const scrolls = node.closest(".af-board-columns, .af-art-table, .af-diff, .af-preview");
        if (scrolls || !node.checkVisibility()) return false;
        return node.getBoundingClientRect().right > right + 1;
    }).map((node) => `${node.className}: ${node.textContent}`);
}"""
"""Elements that extend beyond the right edge of the view, except in boxes that scroll."""
WIDTHS = (1280, 800)


def check(page: LabPage, view: Locator, language: str, name: str) -> None:
    """Check that a view has one language, nothing cut off and no violation, in both themes, wide and narrow."""
    seen = view.evaluate(SEEN)
    if language == "en":
        assert re.findall("[一-鿿]+", seen) == []
        assert re.findall(r"\b[a-z]+_[a-z_]+\b", seen) == []
    else:
        assert set(re.findall("[A-Za-z_]{2,}", seen)) <= ALLOWED[language]
    for width in WIDTHS:
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, view, f"{name}-{language}-{width}")
        assert view.evaluate(CUT) == []
        assert view.evaluate(OUTSIDE) == []
        assert axe_in_both_themes(page, ".af-run.af-live") == []


def open_notebook(lab: LabServer, open_page: Callable[[str], LabPage], language: str, *cells: str) -> LabPage:
    page = open_page(new_notebook(lab, SETUP.format(names=NAMES[language], language=language), *cells))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    return page


@pytest.mark.parametrize("language", ["en", "zh"])
def test_board_has_one_language(lab: LabServer, open_page: Callable[[str], LabPage], language: str) -> None:
    """Columns, the open block with its changes and settings, forms and the saved board have the same language."""
    page, labels = open_notebook(lab, open_page, language, BOARD), LABELS[language]
    _aim, report, method, rates, _text, find, _compare = NAMES[language]
    view = page.output(1).locator(".af-run.af-live")
    expect(view.locator(".af-board-card")).to_have_count(5, timeout=20_000)
    check(page, view, language, "board")
    columns = view.locator(".af-board-columns")
    page.page.set_viewport_size({"width": 800, "height": 900})
    columns.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
    expect(view.locator(".af-board-column").last).to_be_in_viewport()
    assert columns.evaluate("box => box.scrollWidth > box.clientWidth && box.scrollLeft > 0")

    def press(label: str) -> None:
        view.get_by_text(label, exact=True).first.click()

    page.page.set_viewport_size({"width": 1280, "height": 900})
    view.locator(".af-board-open", has_text=rates).click()
    press(labels["settings"])
    form = view.locator(".af-board-form")
    expect(form.locator(".af-choice", has_text=method)).to_be_visible()
    expect(form.locator(".af-choice", has_text=find)).to_have_count(0)  # it depends on this block
    assert form.locator("textarea").count() == 1  # the prompt: dependencies are chosen, not typed
    check(page, view, language, "board-settings")
    page.page.keyboard.press("Escape")
    view.locator(".af-board-open", has_text=method).click()
    press(labels["raw"])
    press(labels["delete"])
    check(page, view, language, "board-delete")
    press(labels["leave"])
    press(labels["close"])
    press(labels["add"])
    expect(form.locator(".af-choice", has_text=rates)).to_be_visible()
    check(page, view, language, "board-add")
    page.page.keyboard.press("Escape")
    press(labels["go_on"])
    expect(view.locator(".af-board-now")).to_be_visible()
    [output] = page.saved_outputs(1)
    html = output["data"]["text/html"]
    assert labels["done"] in html
    assert report in html
    assert page.errors == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_plan_card_has_one_language(lab: LabServer, open_page: Callable[[str], LabPage], language: str) -> None:
    """The waiting card, its form with the tools, and the checklist after the approval have the same language."""
    page, labels = open_notebook(lab, open_page, language, PLAN), LABELS[language]
    out = page.output(1)
    card = out.locator(".af-live .af-approval")
    expect(card.locator(".af-preview ol")).to_be_visible(timeout=20_000)
    check(page, card, language, "plan-card")
    card.get_by_text(labels["edit_plan"], exact=True).click()
    expect(card.locator(".af-item").first.locator(".af-choice input").first).to_be_attached()
    assert card.get_by_text("id", exact=True).count() == 0
    check(page, card, language, "plan-form")
    card.get_by_text(labels["approve"], exact=True).click()
    saved = out.locator(".af-saved")
    expect(saved.locator(".af-work > summary")).to_be_visible(timeout=20_000)
    saved.locator(".af-work > summary").click()
    steps = saved.locator(".af-plan")
    expect(steps.locator(".af-step-state").first).to_have_text(labels["done"])
    assert axe_in_both_themes(page) == []
    save_pictures(page, saved, f"plan-done-{language}-1280")
    assert page.errors == []
