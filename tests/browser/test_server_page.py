"""The page of a server in Chromium: ask, approve, read, from a wide window and from a phone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.axe import axe_in_page
from playwright.sync_api import Browser, Page, expect
from support.http_server import Client, serving
from support.replies import in_request_protocol

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.server.access import Access
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
    assert axe_in_page(page) == []
    expect(page.locator("#waiting")).to_have_text("1", timeout=10_000)
    page.get_by_role("link", name="Approvals").click()
    card = page.locator(".af-approval")
    expect(card).to_contain_text("Fares: 4 crowns.")
    assert axe_in_page(page) == []
    card.get_by_role("button", name="Approve").first.click()
    expect(page.get_by_text("Nothing waits for a decision.")).to_be_visible()
    page.get_by_role("link", name="Artifacts").click()
    expect(page.locator(".af-artifacts")).to_contain_text("Fares: 4 crowns.")
    assert axe_in_page(page) == []
    page.get_by_role("link", name="Conversations").click()
    expect(page.get_by_role("tree")).to_contain_text("Change it.")
    assert axe_in_page(page) == []
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
    links = page.locator("nav a:visible")
    assert links.evaluate_all("(all) => new Set(all.map((link) => link.offsetTop)).size") == 1
    assert page.locator("nav").evaluate("(nav) => nav.scrollWidth <= nav.clientWidth")
    for place in ("chat", "conversations", "artifacts", "approvals"):
        page.goto(f"{client.base_url}/artifactflow/#{place}/{first['conversation_id'] if place == 'chat' else ''}")
        expect(page.locator("#host .af-run.af-live")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        expect(page.get_by_role("heading", name="ArtifactFlow", level=1)).to_have_count(1)
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
            expect(page.locator("#host .af-run.af-live")).to_be_visible()
            words |= set(re.findall("[A-Za-z]{2,}", page.locator("body").inner_text()))
        assert words <= {"ArtifactFlow", "scripted", "agent", "lead", "UTC"}
        assert page.problems == []  # type: ignore[attr-defined]
        page.context.close()


def test_wide_window_has_conversations_and_report_beside_the_chat(chromium: Browser, client: Client) -> None:
    """A conversation of the list opens in the chat; the report follows; a narrower window has the chat alone."""
    page = open_page(chromium, client, viewport={"width": 1500, "height": 900})
    question = page.get_by_role("textbox", name="Question")
    question.fill("Write a report about ferries.")
    question.press("Enter")
    expect(page.locator("#report .af-artifacts")).to_contain_text("The ferry leaves at nine.")
    listed = page.locator("#host .af-tree-item")
    expect(listed).to_have_count(1)
    boxes = [page.locator(name).bounding_box() for name in (".af-tree-lists", ".af-turns", "#report")]
    edges = [(box["x"], box["x"] + box["width"]) for box in boxes if box is not None]
    assert len(edges) == len(boxes)
    assert edges[0][1] <= edges[1][0] < edges[1][1] <= edges[2][0] < edges[2][1] <= 1500
    assert axe_in_page(page) == []
    page.get_by_role("button", name="New: begin a new conversation").click()
    expect(page.locator("#report")).to_be_hidden()
    listed.click()
    expect(page.locator("#report .af-artifacts")).to_contain_text("The ferry leaves at nine.")
    expect(page.locator("#host .af-answer strong")).to_have_text("ready")
    page.set_viewport_size({"width": 900, "height": 900})
    expect(page.locator(".af-tree-lists")).to_have_count(0)
    expect(page.locator("#report")).to_be_hidden()
    expect(page.locator("#host .af-answer strong")).to_have_text("ready")
    assert page.problems == []  # type: ignore[attr-defined]
    page.context.close()


def test_page_says_that_the_connection_is_lost_until_the_server_is_back(chromium: Browser, tmp_path: Path) -> None:
    """The draft of the next question remains; after the restart the page continues by itself."""
    bar = "The connection is lost. Trying again …"
    first = open_lifecycle(model=ScriptedModel(["At nine.", "At noon."]), data_dir=tmp_path / "data")
    with serving(first) as client:
        port = int(client.base_url.rpartition(":")[2])
        page = open_page(chromium, client)
        question = page.get_by_role("textbox", name="Question")
        question.fill("When?")
        question.press("Enter")
        expect(page.locator(".af-answer")).to_contain_text("At nine.")
        question.fill("A draft")
    expect(page.get_by_text(bar)).to_be_visible()
    expect(question).to_have_value("A draft")
    second = open_lifecycle(model=ScriptedModel(["At noon."]), data_dir=tmp_path / "data")
    with serving(second, port=port):
        expect(page.get_by_text(bar)).to_have_count(0)
        expect(question).to_have_value("A draft")
        question.press("Enter")
        expect(page.locator(".af-answer").last).to_contain_text("At noon.")
        page.context.close()


@pytest.mark.parametrize(("is_whole_link", "scheme"), [(True, "dark"), (False, "light")], ids=["link", "token"])
def test_browser_without_a_token_is_asked_for_the_link(
    chromium: Browser, tmp_path: Path, scheme: str, *, is_whole_link: bool
) -> None:
    access = Access({"ana": "token-of-ana"})
    with serving(open_lifecycle(model=ScriptedModel([]), data_dir=tmp_path / "data"), access) as client:
        page = chromium.new_context(color_scheme=scheme).new_page()
        answer = page.goto(f"{client.base_url}/artifactflow/")
        assert answer is not None
        assert answer.status == 401
        field = page.get_by_role("textbox", name="Paste the link that you were given")
        assert axe_in_page(page) == []
        field.fill("something else")
        field.press("Enter")
        expect(page.get_by_text("The link has a token that this server does not know.")).to_be_visible()
        assert axe_in_page(page) == []
        assert "something" not in page.url
        field.fill(f"{client.base_url}/artifactflow/?token=token-of-ana" if is_whole_link else "token-of-ana")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("textbox", name="Question")).to_be_visible()
        assert "token" not in page.url
        page.context.close()


def test_table_is_downloaded_and_shown_over_the_page_and_the_report_copied(chromium: Browser, tmp_path: Path) -> None:
    """Lines of text have at most about 75 characters in a wide window, tables the whole width."""
    rows = "".join(f'| {number} | Thun, "north" | {number * 2} | 4 | 5 |\n' for number in range(12))
    table = f"| n | place | fare | a | b |\n| --- | --- | --- | --- | --- |\n{rows}"
    text = f"# Fares\n\n{'The ferry leaves at nine and at noon. ' * 12}\n\n{table}"
    turns = [af.ToolCall("create_artifact", {"id": "fares", "title": "Fares", "content": text}), f"Ready.\n\n{table}"]
    model = ScriptedModel(in_request_protocol(turns))
    with serving(open_lifecycle(model=model, data_dir=tmp_path / "data")) as client:
        page = open_page(chromium, client, viewport={"width": 1700, "height": 900}, accept_downloads=True)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        question = page.get_by_role("textbox", name="Question")
        question.fill("Write about fares.")
        question.press("Enter")
        answer = page.locator("#host .af-answer")
        with page.expect_download() as loading:
            answer.get_by_role("button", name="Download this table as CSV").click()
        lines = Path(loading.value.path()).read_text(encoding="utf-8-sig").splitlines()
        assert lines[:2] == ["n,place,fare,a,b", '0,"Thun, ""north""",0,4,5']
        whole = answer.get_by_role("button", name="Show this table over the whole page")
        whole.press("Enter")
        dialog = page.get_by_role("dialog", name="Table")
        expect(dialog.get_by_role("row")).to_have_count(13)
        assert axe_in_page(page) == []
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(whole).to_be_focused()
        page.get_by_role("button", name="Copy the report as Markdown").click()
        expect(page.get_by_role("alert").filter(has_text="Copied.")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == text
        paragraph = page.locator("#report .af-md p", has_text="The ferry leaves")
        n_lines = """(node) => {
            const range = document.createRange();
            range.selectNodeContents(node);
            return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
        }"""
        expect(paragraph).to_be_visible()
        assert paragraph.evaluate("(node) => node.textContent.length") / paragraph.evaluate(n_lines) <= 80
        assert page.problems == []  # type: ignore[attr-defined]
        page.context.close()


def test_local_source_opens_at_the_passage(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link of a citation leads to the file through the server; no other file opens, and no script runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my papers").mkdir()
    passage = "The ferry to the north shore leaves the old pier at nine in the morning on working days."
    filler = "".join(f"<p>Paragraph {number} about something else.</p>\n" for number in range(80))
    text = f"<script>document.title = 'run'</script>{filler}<p>{passage}</p>"
    (tmp_path / "my papers" / "ferries.html").write_text(text)
    (tmp_path / "secret.md").write_text("A secret.")
    with af.Workbench(data_dir=tmp_path / "data") as wb:
        wb.sources.add("my papers")
    with serving(open_lifecycle(data_dir=tmp_path / "data")) as client:
        page = open_page(chromium, client)
        page.get_by_role("textbox", name="Question").fill("When does the ferry to the north shore leave the old pier?")
        page.keyboard.press("Enter")
        page.locator(".af-answer .af-cite-mark").first.focus()
        with page.context.expect_page() as opening:
            page.get_by_role("link", name="Open the source").first.click()
        opened = opening.value
        expect(opened.get_by_text(passage)).to_be_visible()
        assert opened.title() != "run"
        opened.wait_for_function("scrollY > 0")
        assert client.get("/source", params={"path": "secret.md"}).status_code == 404
        assert client.get("/source", params={"path": "../" * 9 + "etc/passwd"}).status_code == 404
        assert page.problems == []  # type: ignore[attr-defined]
        page.context.close()


PRESS_AS_SOON_AS_IT_IS_THERE = """([x, y, text]) => {
    const button = document.elementFromPoint(x, y)?.closest(".af-approval-choices .af-primary");
    if (!button?.closest(".af-approval")?.textContent.includes(text)) return false;
    const event = { clientX: x, clientY: y, pointerType: "mouse", bubbles: true, cancelable: true, composed: true };
    for (const type of ["pointerdown", "pointerup"]) button.dispatchEvent(new PointerEvent(type, event));
    button.dispatchEvent(new MouseEvent("click", { ...event, detail: 1 }));
    return true;
}"""
"""In the page, since a press from outside of it may take longer than the guard on a busy machine."""


def test_second_click_does_not_approve_the_next_request_unseen(chromium: Browser, tmp_path: Path) -> None:
    """The next card appears at the position of the first; an immediate click does nothing, and the page says so."""
    texts = [f"# Ferries\n\nFares: {n} crowns." for n in (3, 4, 5)]  # of the same height
    created = af.ToolCall("create_artifact", {"id": "report", "title": "Ferries", "content": texts[0]})
    fares = [af.ToolCall("rewrite_artifact", {"id": "report", "content": text}) for text in texts[1:]]
    model = ScriptedModel(in_request_protocol([created, "Ready.", *fares, "Changed twice."]))
    with serving(open_lifecycle(model=model, data_dir=tmp_path / "data")) as client:
        first = client.ask("Write a report about ferries.")
        list(client.events(first["thread_id"]))
        second = client.ask("Change it twice.", conversation_id=first["conversation_id"])
        page = open_page(chromium, client, "#approvals")
        card = page.locator(".af-approval")
        expect(card).to_contain_text("4 crowns")
        button = card.get_by_role("button", name="Approve").first
        page.wait_for_timeout(1000)  # longer than the guard
        box = button.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.click(x, y)
        page.wait_for_function(PRESS_AS_SOON_AS_IT_IS_THERE, arg=[x, y, "5 crowns"], polling="raf")
        expect(page.get_by_text("Nothing happened: this control had just appeared under the pointer.")).to_be_visible()
        assert [row["decision"] for row in client.get("/frames/approvals").json()["rows"]] == ["approved", None]
        page.wait_for_timeout(1000)
        page.mouse.click(x, y)
        expect(page.get_by_text("Nothing waits for a decision.")).to_be_visible()
        assert list(client.events(second["thread_id"]))[-1].data["response"] == "Changed twice."
        page.context.close()
