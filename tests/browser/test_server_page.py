"""The page of a server in Chromium: ask, approve, read, from a wide window and from a phone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.axe import SCRIPT
from playwright.sync_api import Browser, Page, expect
from support.http_server import Client, serving
from support.replies import in_request_protocol

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.server.lifecycle import open_lifecycle

pytestmark = pytest.mark.browser

SHORT_HINT = "Ask. @ refers to a source, / lists commands."

REPORT = "# Ferries\n\nThe ferry **leaves** at nine.\n\n| from | to |\n| --- | --- |\n| Thun | Spiez |\n"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    turns = [
        af.ToolCall("create_artifact", {"id": "report", "title": "Ferries", "content": REPORT}),
        "The report is **ready**.",
        af.ToolCall("rewrite_artifact", {"id": "report", "content": REPORT + "\nFares: 4 crowns.\n"}),
        "The new report is **ready**.",
    ]
    with serving(open_lifecycle(model=ScriptedModel(in_request_protocol(turns)), data_dir=tmp_path / "data")) as client:
        yield client


def open_page(chromium: Browser, client: Client, place: str = "", **options: Any) -> Page:
    page = chromium.new_context(**options).new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.problems = problems  # type: ignore[attr-defined]
    page.goto(f"{client.base_url}/artifactflow/{place}")
    return page


def serious(page: Page) -> list[str]:
    """The serious violations that axe finds in the whole page."""
    page.evaluate(SCRIPT.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"]
        # The name of a tree node is the whole question, its label only the beginning.
        if 'role="treeitem"' not in node["html"]
    ]


def test_footnote_leads_to_its_text_and_back(chromium: Browser, tmp_path: Path) -> None:
    """The keyboard follows a footnote within its answer, even if another answer is equal; the URL does not change."""
    answer = "It leaves[^a] at nine.\n\n" + "It waits.\n\n" * 60 + "[^a]: On weekdays."
    with serving(open_lifecycle(model=ScriptedModel([answer, answer]), data_dir=tmp_path)) as client:
        page = open_page(chromium, client)
        for n in (1, 2):
            page.get_by_role("textbox", name="Question").fill("When?")
            page.keyboard.press("Enter")
            expect(page.get_by_text("On weekdays.")).to_have_count(n)
        address = page.url
        mark = page.locator(".af-answer").nth(1).locator("sup a").first
        mark.press("Enter")
        note = page.locator(".af-answer").nth(1).locator("sup a").last
        expect(note).to_be_focused()
        expect(note).to_be_in_viewport()
        note.press("Enter")
        expect(mark).to_be_focused()
        expect(mark).to_be_in_viewport()
        assert page.url == address
        assert page.problems == []  # type: ignore[attr-defined]
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_person_asks_approves_and_reads_on_the_page(chromium: Browser, client: Client, scheme: str) -> None:
    page = open_page(chromium, client, color_scheme=scheme)
    page.get_by_role("textbox", name="Question").fill("Write a report about ferries.")
    page.keyboard.press("Enter")
    expect(page.locator(".af-answer strong")).to_have_text("ready")
    assert "#chat/conv-" in page.url
    page.get_by_role("textbox", name="Question").fill("Change it.")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("button", name="Approve").first).to_be_visible()
    assert serious(page) == []
    expect(page.locator("#waiting")).to_have_text("1", timeout=10_000)
    page.get_by_role("link", name="Approvals").click()
    card = page.locator(".af-approval")
    expect(card).to_contain_text("Fares: 4 crowns.")
    assert serious(page) == []
    card.get_by_role("button", name="Approve").first.click()
    expect(page.get_by_text("Nothing waits for a decision.")).to_be_visible()
    page.get_by_role("link", name="Artifacts").click()
    expect(page.locator(".af-artifacts")).to_contain_text("Fares: 4 crowns.")
    assert serious(page) == []
    page.get_by_role("link", name="Conversations").click()
    expect(page.get_by_role("tree")).to_contain_text("Change it.")
    assert serious(page) == []
    [decided] = client.get("/frames/approvals").json()["rows"]
    assert decided["decided_by"].startswith("http:")
    assert page.problems == []  # type: ignore[attr-defined]
    page.context.close()


def test_phone_shows_and_approves_without_horizontal_scrolling(chromium: Browser, client: Client) -> None:
    first = client.ask("Write a report about ferries.")
    list(client.events(first["thread_id"]))
    second = client.ask("Change it.", conversation_id=first["conversation_id"])
    list(client.events(second["thread_id"]))
    phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
    page = open_page(chromium, client, "#approvals", **phone)
    expect(page.locator(".af-approval")).to_be_visible()
    links = page.locator("nav a")
    assert links.evaluate_all("(all) => new Set(all.map((link) => link.offsetTop)).size") == 1
    assert page.locator("nav").evaluate("(nav) => nav.scrollWidth <= nav.clientWidth")
    for place in ("chat", "conversations", "artifacts", "approvals"):
        page.goto(f"{client.base_url}/artifactflow/#{place}/{first['conversation_id'] if place == 'chat' else ''}")
        expect(page.locator(".af-run.af-live")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        if place == "chat":  # whose keyboard has no Shift+Enter
            expect(page.get_by_role("textbox", name="Question")).to_have_attribute("placeholder", SHORT_HINT)
            expect(page.get_by_role("button", name="Conversations")).to_have_count(0)
    page.get_by_role("button", name="Approve").first.tap()
    expect(page.get_by_text("Nothing waits for a decision.")).to_be_visible()
    [rest] = [event for event in client.events(second["thread_id"]) if event.event == "permission_result"]
    assert rest.data["approved"] is True
    page.context.close()


def test_keyboard_reaches_the_views_and_the_question(chromium: Browser, client: Client) -> None:
    page = open_page(chromium, client)
    expect(page.get_by_role("textbox", name="Question")).to_be_visible()
    names = []
    for _ in range(12):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.innerText || document.activeElement.placeholder || ''"))
    assert names[:2] == ["Skip to the content", "Chat"]
    assert any("@ refers to a source" in name for name in names)
    page.context.close()


def test_read_only_page_refuses_a_question_in_one_line(chromium: Browser, tmp_path: Path) -> None:
    with serving(open_lifecycle(model=ScriptedModel([]), data_dir=tmp_path / "data", read_only=True)) as client:
        page = open_page(chromium, client)
        page.get_by_role("textbox", name="Question").fill("Why?")
        page.keyboard.press("Enter")
        expect(page.get_by_text("This server is read-only")).to_be_visible()
        assert client.get("/chat").json()["conversations"] == []
        page.context.close()


def test_phone_reads_a_long_answer_with_one_scrollbar(chromium: Browser, tmp_path: Path) -> None:
    """The page follows the growing text, the form remains at the lower edge, and there is no button for cells."""
    text = "\n\n".join(f"Paragraph {number} of a long answer about ferries." for number in range(60))
    model = ScriptedModel(in_request_protocol([text]), delay_s=0.005)
    with serving(open_lifecycle(model=model, data_dir=tmp_path / "data")) as client:
        page = open_page(chromium, client, viewport={"width": 400, "height": 740}, has_touch=True)
        question = page.get_by_role("textbox", name="Question")
        question.fill("Tell me at length.")
        question.press("Enter")
        expect(page.locator(".af-turns")).to_contain_text("Paragraph 59 ", timeout=20_000)
        expect(page.get_by_text("Paragraph 59 ")).to_be_in_viewport()
        expect(question).to_be_in_viewport()
        scrolling = page.evaluate("""() => [...document.querySelectorAll(".af-run, .af-run *")].filter((node) =>
            /auto|scroll/.test(getComputedStyle(node).overflowY) && node.scrollHeight > node.clientHeight + 1
            && node.tagName !== "TEXTAREA").map((node) => node.className)""")
        assert scrolling == []
        page.evaluate("document.documentElement.scrollTop = 0")
        expect(page.get_by_text("Tell me at length.").first).to_be_in_viewport()
        expect(question).to_be_in_viewport()
        assert page.problems == []  # type: ignore[attr-defined]
        page.get_by_role("link", name="Artifacts").click()
        expect(page.get_by_role("button", name="Copy to a cell")).to_have_count(0)
        page.context.close()


def test_page_is_in_the_language_of_the_setting(chromium: Browser, tmp_path: Path) -> None:
    """The views and the frame around them are in Chinese; only names of programs and models are not."""
    model = ScriptedModel(in_request_protocol(["渡轮九点出发。"]))
    with serving(open_lifecycle(model=model, data_dir=tmp_path / "data", language="zh")) as client:
        page = open_page(chromium, client)
        page.get_by_role("textbox", name="问题").fill("渡轮何时出发？")
        page.keyboard.press("Enter")
        expect(page.locator(".af-answer")).to_contain_text("渡轮九点出发。")
        assert page.locator("html").get_attribute("lang") == "zh"
        words = set()
        for name in ("对话列表", "文稿", "审批", "对话"):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.locator(".af-run.af-live")).to_be_visible()
            words |= set(re.findall("[A-Za-z]{2,}", page.locator("body").inner_text()))
        assert words <= {"ArtifactFlow", "scripted", "agent", "lead", "UTC"}
        assert page.problems == []  # type: ignore[attr-defined]
        page.context.close()
