"""The approval card: alone in a browser page, and in JupyterLab with a waiting run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from browser.axe import SCRIPT, axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Browser, Locator, Page, expect
from pydantic import Field

from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.widgets.forms.form import Field as FormField
from artifactflow_nb.widgets.page import assets
from artifactflow_nb.widgets.page.nodes import Node, TreeDiff
from artifactflow_nb.widgets.run.approval_card import approval_box, approval_card
from artifactflow_nb.widgets.run.parts import TranscriptRequest

pytestmark = pytest.mark.browser

STATIC = Path(assets.__file__).parents[1] / "static"
SCRIPTS = ("texts.js", "host.js", "focus.js", "code.js", "tree.js", "field.js", "choices.js", "items.js", "form.js",
           "preview.js", "approval.js", "question.js", "approval_group.js")  # fmt: skip
EXPORTS = "makeForm, makeApprovalControls, makeApprovalGroup, makeQuestionControls, KeyedTree"
STAGE = """() => {
    window.sent = [];
    window.leaked = [];
    document.addEventListener("keydown", (event) => leaked.push(event.key));
    window.perform = (act, args) => {
        sent.push([act, args]);
        const success = { message: "", failed: false, errors: {} };
        return new Promise((resolve) => (window.reply = (result) => resolve({ ...success, ...result })));
    };
    window.tree = new KeyedTree(document.querySelector(".af-run"), {
        form: (data) => makeForm(data, perform),
        approval: (data, _key, root) =>
            data.choices ? makeQuestionControls(data, perform, root) : makeApprovalControls(data, perform, root),
        approvals: (_data, _key, root) => makeApprovalGroup(root),
    });
}"""
FOCUSED = """() => {
    const node = document.activeElement;
    if (!node || node === document.body) return null;
    const { bottom, height } = node.getBoundingClientRect();
    return { bottom, height, inBar: node.closest(".af-approval-bar") !== null, name: node.outerHTML.slice(0, 80) };
}"""
BEGINNING = """y => {
    scrollTo(0, y);
    const [title, own] = [".af-approval-title", ".af-approval > .af-own"].map((each) => document.querySelector(each));
    const foot = document.querySelector("[data-several] > .af-approval-bar, .af-approval > .af-approval-controls");
    const bottom = (node) => node.getBoundingClientRect().bottom;
    const first = own.getBoundingClientRect().top + title.offsetHeight;
    return [foot.getBoundingClientRect().top - first, bottom(own) - first];
}"""
"""Heights: of the text of the first card that its foot does not cover, and of the whole text."""
NO_DEFAULT: list[str] = []


@tool(permission="confirm")
def send(
    ctx: ToolContext,
    to: Annotated[str, "Who gets it."],
    body: str,
    copies: Annotated[int, Field(ge=1, le=5), "How many."] = 1,
    urgent: bool = False,
    paper: Literal["plain", "ruled"] = "plain",
    cc: list[str] = NO_DEFAULT,
    headers: dict[str, int] | None = None,
    note: str | None = None,
) -> str:
    """Send a letter."""
    return "sent"


PARAMS = {
    "to": " Ada ", "body": "Dear Ada,\r\nit works.\r\n", "copies": 1, "urgent": False, "paper": "ruled",
    "cc": ["Bob", "Eve"], "headers": {"n": 1}, "note": None,
}  # fmt: skip


class Stage:
    """A page with only the scripts and styles of the card; it records sent actions, and the test replies to them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.cards: tuple[Node, ...] = ()
        self.diff = TreeDiff()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.set_content(f"<!doctype html><style>{assets.all_styles()}</style><section class='af-run'></section>")
        scripts = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS)
        texts = 'const UI_LANGUAGE = "en", UI_TEXTS = {}, UI_STYLE = "";'
        page.evaluate(f"{texts}\n{scripts}\nObject.assign(window, {{ {EXPORTS} }}); undefined")
        page.evaluate(STAGE)

    def ask(self, question: TranscriptRequest) -> None:
        """Add the card of a request."""
        tool = send if question.tool == "send" else None
        self.cards = (*self.cards, approval_card(question, tool, MarkdownRenderer().html))
        self.show(approval_box(self.cards))

    def form(self, *fields: FormField, **data: Any) -> None:
        spec = {"fields": [field.as_json() for field in fields], "submit": "Send", "act": "say", **data}
        self.show(Node("form", kind="form", data=spec))

    def show(self, node: Node) -> None:
        self.page.evaluate("patch => tree.apply(patch)", json.loads(json.dumps(self.diff.patch((node,)))))

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def field(self, name: str) -> Locator:
        return self.page.get_by_label(name, exact=True)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def reply(self, **result: Any) -> None:
        self.page.evaluate("result => reply(result)", result)

    @property
    def sent(self) -> list[Any]:
        return list(self.page.evaluate("sent"))

    @property
    def focused(self) -> str:
        return str(
            self.page.evaluate("document.activeElement.ariaLabel || document.activeElement.labels?.[0]?.innerText")
        )


def question(request_id: str = "req-1", **changes: Any) -> TranscriptRequest:
    parts: dict[str, Any] = {
        "id": request_id, "kind": "tool", "agent": "lead_agent", "tool": "send", "tool_call_id": "tc-1",
        "title": "lead_agent wants to run send: Ada", "preview": "", "message": "", "params": PARAMS,
    }  # fmt: skip
    return TranscriptRequest(**parts | changes)


def person_question(*choices: str, request: str = "req-1") -> TranscriptRequest:
    params = {"question": "The city or the state?", "choices": list(choices)}
    return question(request, kind="question", tool="ask_person", title="The city or the state?", params=params,
                    allowed=("instructed", "denied"))  # fmt: skip


@pytest.fixture
def stage(chromium: Browser) -> Iterator[Stage]:
    context = chromium.new_context(viewport={"width": 900, "height": 900})
    stage = Stage(context.new_page())
    yield stage
    assert stage.errors == []
    context.close()


def decision(**changes: Any) -> list[Any]:
    defaults = {"request": "req-1", "choice": "approve", "note": "", "scope": "once", "params": None}
    return ["decide", defaults | changes]


def test_decision_includes_scope_and_note(stage: Stage) -> None:
    """A click sends choice, note and scope; the card waits for the kernel, then displays the result."""
    stage.ask(question())
    stage.page.get_by_role("combobox", name="scope of your decision on send").select_option("Always in this run")
    stage.page.get_by_role("textbox", name="Note to the agent about send").fill("Gladly")
    stage.button("Approve send").click()
    assert stage.sent == [decision(scope="run", note="Gladly")]
    expect(stage.button("Deny send")).to_be_disabled()
    expect(stage.page.locator(".af-approval-status")).to_have_text("Waiting for the kernel …")
    stage.reply()
    expect(stage.page.locator(".af-approval-status")).to_contain_text("Approved. The run continues")
    expect(stage.button("Approve send")).to_be_disabled()


def test_refused_decision_shows_the_reason_and_enables_the_card(stage: Stage) -> None:
    """After a rejected decision the card shows the reason, its controls work, and the focus is unchanged."""
    stage.ask(question())
    stage.button("Deny send").click()
    stage.reply(failed=True, message="The request was decided already.")
    expect(stage.page.get_by_role("alert").filter(has_text="decided already")).to_be_visible()
    expect(stage.button("Approve send")).to_be_enabled()
    assert stage.focused == "Deny send"
    assert not stage.page.locator("[data-decided]").count()
    stage.button("Deny send").click()
    expect(stage.page.get_by_text("decided already")).to_have_count(0)
    assert stage.sent == [decision(choice="deny"), decision(choice="deny")]


def test_unchanged_values_are_sent_unchanged(stage: Stage) -> None:
    """Values that fields of a browser cannot hold, such as line ends, are returned unchanged."""
    stage.ask(question())
    stage.button("Edit parameters send").click()
    stage.button("Approve with these values").click()
    ((_, args),) = stage.sent
    assert args["params"] == {
        **PARAMS, "copies": "1", "headers": '{\n  "n": 1\n}'
    }  # fmt: skip


def test_edited_fields_are_sent_unchanged(stage: Stage) -> None:
    """Every kind of field sends its content: a text with blanks, a list by lines, an empty field as no value."""
    stage.ask(question())
    stage.button("Edit parameters send").click()
    stage.field("to").fill("  Bob ")
    stage.field("body").fill("one\ntwo\n")
    stage.field("copies").fill("3")
    stage.field("urgent").check()
    stage.field("paper").select_option("plain")
    stage.field("cc").fill("Eve\n\nMallory")
    stage.field("headers").fill("")
    stage.field("note").fill("filed")
    stage.button("Approve with these values").click()
    ((_, args),) = stage.sent
    assert args["params"] == {
        "to": "  Bob ", "body": "one\r\ntwo\r\n", "copies": "3", "urgent": True, "paper": "plain",
        "cc": ["Eve", "", "Mallory"], "headers": "", "note": "filed",
    }  # fmt: skip


def test_no_value_differs_from_an_empty_text(stage: Stage) -> None:
    """A checked checkbox means "no value": typing unchecks the checkbox, and a check empties the field."""
    stage.ask(question())
    stage.button("Edit parameters send").click()
    none, note = stage.page.get_by_label("No value for note"), stage.field("note")
    expect(none).to_be_checked()
    note.fill("x")
    expect(none).not_to_be_checked()
    note.fill("")
    stage.field("to").press("Shift+Enter")
    assert stage.sent[-1][1]["params"]["note"] == ""
    stage.reply(failed=True, message="no")
    note.fill("y")
    none.check()
    expect(note).to_have_value("")
    stage.field("to").press("Control+Enter")
    assert stage.sent[-1][1]["params"]["note"] is None


def test_invalid_value_shows_its_error_at_the_field(stage: Stage) -> None:
    """JSON is checked before sending; an error of the kernel is shown at its field, and the field gets the focus."""
    stage.ask(question())
    stage.button("Edit parameters send").click()
    stage.field("headers").fill("{")
    stage.button("Approve with these values").click()
    assert stage.sent == []
    expect(stage.field("headers")).to_have_attribute("aria-invalid", "true")
    expect(stage.page.get_by_role("alert").filter(has_text="This is not JSON")).to_be_visible()
    stage.field("headers").fill("")
    stage.field("copies").fill("three")
    stage.button("Approve with these values").click()
    expect(stage.field("copies")).to_be_disabled()
    stage.reply(
        failed=True, message="copies: no", errors={"copies": "'three' is not a whole number.", "": "Neither fits."}
    )
    expect(stage.field("copies")).to_be_focused()
    expect(stage.field("copies")).to_have_accessible_description(
        "How many. A whole number. 'three' is not a whole number."
    )
    expect(stage.page.get_by_role("alert").filter(has_text="Neither fits.")).to_be_visible()
    expect(stage.field("headers")).not_to_have_attribute("aria-invalid", "true")
    expect(stage.field("copies")).to_have_value("three")


def test_answer_instead_is_sent_as_an_instruction(stage: Stage) -> None:
    """A form with one field replaces the buttons; the text of the field is sent instead of an approval."""
    stage.ask(question())
    stage.button("Instruct instead send").click()
    expect(stage.button("Approve send")).to_be_hidden()
    assert stage.focused == "Instruction to the agent"
    stage.page.keyboard.type("Ask Bob first.")
    stage.press("Enter")
    stage.page.keyboard.type("Then Eve.")
    assert stage.sent == []
    stage.press("Shift+Enter")
    assert stage.sent == [decision(choice="instruct", note="Ask Bob first.\nThen Eve.")]
    stage.reply(failed=True, message="note: Say it.", errors={"note": "Say what."})
    expect(stage.page.get_by_role("alert").filter(has_text="Say what.")).to_be_visible()


def test_card_works_with_the_keyboard(stage: Stage) -> None:
    """Tab visits the controls in order, Escape closes a form and moves back, and no key event leaves the card."""
    stage.ask(question())
    stage.page.get_by_role("group", name="Request: Run “send”: Ada").focus()
    names = [stage.focused]
    for _ in range(7):
        stage.press("Tab")
        names.append(stage.focused)
    assert names == [
        "Request: Run “send”: Ada", "Parameters", "Approve send", "Deny send", "Edit parameters send",
        "Instruct instead send", "Applies: scope of your decision on send", "Note to the agent about send, optional",
    ]  # fmt: skip
    stage.button("Edit parameters send").focus()
    stage.press("Enter")
    expect(stage.field("to")).to_be_focused()
    stage.page.keyboard.type("x")
    stage.press("Enter", "Escape")
    assert stage.focused == "Edit parameters send"
    expect(stage.button("Approve send")).to_be_visible()
    stage.press("Space")
    expect(stage.field("to")).to_have_value(" Ada x")
    assert stage.sent == []
    assert stage.page.evaluate("leaked") == []


def test_keys_decide_the_card_with_the_focus(stage: Stage) -> None:
    """`a` approves and `d` denies while the card or one of its buttons has the focus, not in a field."""
    stage.ask(question())
    stage.press("a", "d")
    assert stage.sent == []
    stage.page.get_by_role("textbox", name="Note to the agent").fill("")
    stage.page.keyboard.type("add")
    expect(stage.page.get_by_role("textbox", name="Note to the agent")).to_have_value("add")
    assert stage.sent == []
    stage.page.get_by_role("group", name="Request: Run “send”: Ada").focus()
    stage.press("Control+a", "x", "d")
    assert stage.sent == [decision(choice="deny", note="add")]
    stage.reply(failed=True, message="no")
    expect(stage.button("Deny send")).to_be_enabled()
    stage.button("Deny send").focus()
    stage.press("a")
    assert stage.sent[1:] == [decision(note="add")]
    assert stage.button("Approve send").get_attribute("aria-keyshortcuts") == "a"


def test_focus_moves_to_the_next_card(stage: Stage) -> None:
    """After a decision by a key the next card has the focus; a second press of the key soon after decides nothing."""
    stage.ask(question(title="Ada"))
    stage.ask(question("req-2", title="Bob"))
    stage.ask(question("req-3", title="Eve"))
    stage.page.get_by_role("group", name="Request: Bob").focus()
    stage.press("a", "a")
    assert stage.sent == [decision(request="req-2")]
    assert stage.focused == "Request: Eve"
    stage.page.wait_for_timeout(600)
    stage.press("d")
    assert stage.sent[1:] == [decision(request="req-3", choice="deny")]
    assert stage.focused == "Request: Ada"
    stage.page.wait_for_timeout(600)
    stage.button("Approve send").first.focus()
    stage.press("a", "a", "d", "d")
    assert stage.sent[2:] == [decision()]
    assert stage.focused == "Request: Ada"
    stage.show(Node("state", "<p>Done.</p>", css="af-question"))
    assert stage.page.evaluate("document.activeElement.textContent") == "Done."
    stage.press("a", "d", "d", "ArrowDown")
    assert stage.page.evaluate("leaked") == ["ArrowDown"]


def test_several_requests_are_decided_at_once(stage: Stage) -> None:
    """Checkboxes choose the requests that a button decides, with one note and scope; a single card has no checkbox."""
    stage.ask(question())
    expect(stage.page.get_by_role("checkbox", name="Include:")).to_have_count(0)
    expect(stage.button("Approve all")).to_have_count(0)
    stage.ask(question("req-2"))
    stage.ask(question("req-3", allowed=("instructed",)))
    stage.ask(question("req-4"))
    several = stage.page.get_by_role("group", name="Your decision on several requests")
    expect(several.get_by_role("button", name="Approve all 3")).to_be_visible()
    boxes = stage.page.get_by_role("checkbox", name="Include:")
    expect(boxes).to_have_count(3)  # the third can only be answered
    boxes.nth(1).uncheck()
    several.get_by_role("combobox").select_option("Always in this run")
    several.get_by_role("textbox").fill("Gladly")
    several.get_by_role("button", name="Approve 2 of 3").click()
    assert stage.sent == [decision(request=each, scope="run", note="Gladly") for each in ("req-1", "req-4")]
    stage.page.get_by_role("group", name="Request:").nth(1).get_by_role("button", name="Deny send").click()
    assert stage.sent[2:] == [decision(request="req-2", choice="deny", scope="run", note="Gladly")]
    boxes.first.uncheck()
    boxes.last.uncheck()
    expect(several.get_by_role("button", name="Deny 0 of 3")).to_be_disabled()


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_buttons_stay_in_view_below_a_long_card(stage: Stage, width: int) -> None:
    """While the beginning of a long card is visible, its buttons are visible too."""
    stage.page.set_viewport_size({"width": width, "height": 420})
    stage.ask(question(preview="\n\n".join(f"Paragraph {n}" for n in range(90)), message="A reason.\n" * 12))
    expect(stage.button("Approve send")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (800, 420), (390, 640)])
@pytest.mark.parametrize("n_cards", [1, 3])
def test_foot_never_covers_the_beginning_of_a_card(stage: Stage, width: int, height: int, n_cards: int) -> None:
    """At every scroll position, the title and 120 pixels of the text are above the sticky buttons."""
    stage.page.set_viewport_size({"width": width, "height": height})
    for n in range(n_cards):
        stage.ask(question(f"req-{n}", preview="\n\n".join(f"Paragraph {n}" for n in range(90))))
    stage.page.evaluate("document.querySelector('.af-run').style.padding = '1500px 0'")
    for y in range(1500 - height, 1500, 40):
        free, text = stage.page.evaluate(BEGINNING, y)
        assert free >= min(120, text), y


@pytest.mark.parametrize("n_cards", [1, 3])
def test_buttons_follow_the_text_without_a_gap(stage: Stage, n_cards: int) -> None:
    """If the end of a card is in view, the buttons follow the text directly."""
    stage.page.set_viewport_size({"width": 1280, "height": 950})
    for n in range(n_cards):
        stage.ask(question(f"req-{n}", preview="A short text."))
    gaps = stage.page.evaluate("""() => [...document.querySelectorAll(".af-approval-controls")].map((foot) =>
        foot.getBoundingClientRect().top - foot.previousElementSibling.getBoundingClientRect().bottom)""")
    assert gaps == [0] * n_cards


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_bar_of_several_cards_stays_in_view_and_hides_no_focus(stage: Stage, width: int) -> None:
    """The bar is visible while any card is visible, and it covers no control that Tab reaches."""
    stage.page.set_viewport_size({"width": width, "height": 640})
    for n in range(1, 5):
        stage.ask(question(f"req-{n}", preview="\n\n".join(f"Paragraph {n}" for n in range(20))))
    several = stage.page.get_by_role("group", name="Your decision on several requests")
    height = stage.page.evaluate("document.documentElement.scrollHeight")
    assert height > 2 * 640
    for y in (0, 300, height // 2, height):
        stage.page.evaluate("y => scrollTo(0, y)", y)
        expect(stage.button("Approve all 4")).to_be_in_viewport(ratio=1)
        expect(several).to_be_in_viewport(ratio=1)
    stage.page.evaluate("scrollTo(0, 0)")
    n_checked = 0
    while True:
        stage.press("Tab")
        focused = stage.page.evaluate(FOCUSED)
        if focused is None or focused["inBar"]:
            break
        bar = several.bounding_box()
        assert bar is not None
        assert focused["height"] > 300 or focused["bottom"] <= bar["y"] + 1, focused
        n_checked += 1
    assert n_checked > 4 * 4


def test_key_hints_are_shown_where_the_keys_work(stage: Stage) -> None:
    """Only the focused card, or the bar of several cards, shows hints; hints move no button; the scope appears once."""
    hosts = {"hosts": ("one.example",)}
    for request_id in ("req-1", "req-2"):
        stage.ask(question(request_id, **hosts))
    hinted = """() => [...document.querySelectorAll("[aria-keyshortcuts]")].map(
        (button) => getComputedStyle(button, "::after").content !== "none")"""
    boxes = [button.bounding_box() for button in stage.button("Approve").all()]
    assert stage.page.evaluate(hinted) == [False] * 6
    stage.page.get_by_role("group", name="Request:").nth(1).focus()
    assert stage.page.evaluate(hinted) == [False, False, True, True, False, False]
    stage.button("Deny all 2").focus()
    assert stage.page.evaluate(hinted) == [False, False, False, False, True, True]
    assert [button.bounding_box() for button in stage.button("Approve").all()] == boxes
    scopes = stage.page.locator(".af-approval-scope select").evaluate_all(
        "all => all.map((scope) => scope.selectedOptions[0].text)"
    )
    assert {scope.partition(" (")[0] for scope in scopes} == {"This time"}


def test_long_preview_is_shown_in_full(stage: Stage) -> None:
    """A long preview scrolls in a box, which a button enlarges; a short preview has no button."""
    stage.ask(question(preview="A text"))
    expect(stage.button("Show all")).to_have_count(0)
    stage.ask(question("req-2", preview="\n\n".join(f"Paragraph {n}" for n in range(90))))
    stage.cards = stage.cards[1:]
    stage.show(approval_box(stage.cards))
    preview = stage.page.locator(".af-preview")
    assert preview.bounding_box()["height"] > 400  # type: ignore[index]  # it is visible
    expect(stage.page.get_by_text("Paragraph 89")).not_to_be_in_viewport()
    stage.button("Show all").click()
    assert preview.evaluate("node => node.scrollHeight === node.clientHeight")
    expect(stage.button("Approve send")).to_be_in_viewport(ratio=1)
    stage.button("Show less").click()
    expect(stage.button("Show all")).to_be_visible()
    stage.button("Show all").click()
    preview.evaluate("node => { node.textContent = 'One line.'; }")  # which needs no box
    expect(stage.button("Show less")).to_have_count(0)


def test_known_texts_of_a_list_are_checkboxes(stage: Stage) -> None:
    """The chosen texts are sent in the order of the checkboxes; an unchanged list is sent unchanged."""
    stage.form(FormField("tools", "list", ("gone", "b"), "Tools", choices=("a", "b"), keep=True))
    stage.button("Send").click()
    assert stage.sent[-1] == ["say", {"values": {"tools": ["gone", "b"]}}]
    stage.reply()
    stage.field("a").check()
    stage.field("gone").uncheck()
    stage.button("Send").click()
    assert stage.sent[-1] == ["say", {"values": {"tools": ["b", "a"]}}]
    stage.reply(failed=True, errors={"tools": "There is no such tool."})
    expect(stage.page.get_by_role("alert").filter(has_text="no such tool")).to_be_visible()
    expect(stage.field("gone")).to_be_focused()


def answer(choice: str, note: str) -> list[Any]:
    return ["decide", {"request": "req-1", "choice": choice, "note": note}]


def test_choice_of_a_question_is_its_answer(stage: Stage) -> None:
    """A click on a choice sends the choice; after an error the card shows the reason and can be used again."""
    stage.ask(person_question("New York City", "New York State"))
    group = stage.page.get_by_role("group", name="Your answer: The city or the state?")
    group.get_by_role("button", name="New York State").click()
    assert stage.sent == [answer("instruct", "New York State")]
    expect(stage.button("New York City")).to_be_disabled()
    stage.reply(failed=True, message="It was answered already.")
    expect(stage.page.get_by_role("alert").filter(has_text="answered already")).to_be_visible()
    assert stage.page.evaluate("document.activeElement.textContent") == "New York State"
    stage.button("New York City").click()
    stage.reply()
    expect(stage.page.locator(".af-approval-status")).to_have_text("Answered.")
    assert stage.page.get_by_role("button", name="Approve").count() == 0


def test_question_is_answered_with_the_keyboard(stage: Stage) -> None:
    """Tab visits choices, field and buttons; Enter sends another answer, and Escape leaves the question open."""
    stage.ask(person_question("New York City", "New York State"))
    stage.button("New York City").focus()
    names = []
    for _ in range(4):
        stage.press("Tab")
        names.append(
            stage.page.evaluate("document.activeElement.labels?.[0]?.innerText ?? document.activeElement.innerText")
        )
    assert names == ["New York State", "Another answer", "Send answer", "Go on without an answer"]
    stage.field("Another answer").focus()
    stage.press("Escape")
    stage.page.keyboard.type("The county")
    assert stage.sent == []
    stage.press("Enter")
    assert stage.sent == [answer("instruct", "The county")]
    stage.reply(failed=True, message="note: Say it.", errors={"note": "Say what you answer."})
    expect(stage.field("Another answer")).to_have_accessible_description("Say what you answer.")
    expect(stage.field("Another answer")).to_have_value("The county")
    stage.button("Go on without an answer").click()
    assert stage.sent[-1] == answer("deny", "")
    assert stage.page.evaluate("leaked") == []


def test_two_cards_have_distinct_accessible_names(stage: Stage) -> None:
    """Each card is a group with a name of its own, and the names of its buttons include its subject."""
    stage.ask(question())
    stage.ask(question("req-2", kind="budget", tool="budget", title="Go on?", params={"tokens": 4000}))
    stage.button("Edit parameters send").click()
    stage.button("Change the limits budget").click()
    group = stage.page.get_by_role("group", name="Your decision: Go on?")
    expect(group.get_by_role("button", name="Instruct instead")).to_have_count(0)
    group.get_by_label("US dollars").fill("2.5")
    group.get_by_role("button", name="Continue with these limits").click()
    values = {"tokens": "4000", "usd": "2.5", "seconds": None}
    assert stage.sent == [decision(request="req-2", params=values)]
    expect(stage.button("Approve with these values")).to_be_enabled()
    ids = stage.page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids)) > 10


def test_call_of_an_unknown_tool_cannot_be_edited(stage: Stage) -> None:
    """Without a known signature the card has all controls except the form."""
    stage.ask(question(tool="gone"))
    expect(stage.button("Approve gone")).to_be_enabled()
    expect(stage.button("Edit parameters")).to_have_count(0)


def test_composer_sends_with_shift_enter(stage: Stage) -> None:
    """Enter adds a line; Shift+Enter sends and empties the field, which keeps the focus."""
    stage.form(
        FormField("content", "multiline", label="Your question", hide_label=True, placeholder="Ask", autofocus=True)
    )
    box = stage.page.get_by_role("textbox", name="Your question")
    expect(box).to_be_focused()
    height = box.bounding_box()["height"]  # type: ignore[index]  # it is visible
    stage.page.keyboard.type("one")
    stage.press("Enter")
    stage.page.keyboard.type("two\nthree\nfour")
    assert box.bounding_box()["height"] > height  # type: ignore[index]  # the same
    stage.press("Shift+Enter")
    expect(box).to_be_disabled()
    stage.reply(message="Asked.")
    expect(box).to_have_value("")
    expect(box).to_be_focused()
    expect(stage.page.locator(".af-form-status")).to_have_text("Asked.")
    assert stage.sent == [["say", {"values": {"content": "one\ntwo\nthree\nfour"}}]]


def test_enter_sends_a_single_line_form(stage: Stage) -> None:
    """Enter sends the text, which stays if `keep` is set; Enter at the end of a composition sends nothing."""
    stage.form(
        FormField("title", "text", "Old", keep=True), act="rename", args={"id": "a"}, cancel="Cancel", cancelAct="stay"
    )
    stage.field("title").fill("新名")
    for end in ("isComposing: true", "keyCode: 229"):  # the latter is Safari's
        stage.field("title").evaluate(
            f"node => node.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true, {end}}}))"
        )
    assert stage.sent == []
    stage.field("title").press("Enter")
    assert stage.sent == [["rename", {"id": "a", "values": {"title": "新名"}}]]
    stage.reply()
    expect(stage.field("title")).to_have_value("新名")
    stage.field("title").press("Escape")
    assert stage.sent[-1] == ["stay", {"id": "a"}]


@pytest.mark.parametrize("width", [300, 900])
def test_card_fits_and_is_accessible(stage: Stage, width: int) -> None:
    """With every form open, nothing overflows at either width, and axe-core finds no serious violation."""
    stage.page.set_viewport_size({"width": width, "height": 900})
    diff = "```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n```"
    stage.ask(question(preview=diff))
    stage.ask(question("req-2", kind="budget", tool="budget", title="Go on?", params={"tokens": 4000}))
    stage.ask(question("req-3"))
    stage.ask(
        person_question("New York City", "The whole state, with all its counties and cities", "x" * 80, request="req-4")
    )
    stage.button("Edit parameters send").first.click()
    stage.button("Change the limits budget").click()
    stage.button("Instruct instead send").last.click()
    assert stage.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(stage.page.locator("ins")).to_have_text("+new")
    expect(stage.page.locator("del")).to_have_text("-old")
    stage.page.evaluate(SCRIPT.read_text(encoding="utf-8"))
    violations = stage.page.evaluate("async () => (await axe.run({ include: [['.af-run']] })).violations")
    serious = [violation for violation in violations if violation["impact"] in {"serious", "critical"}]
    assert [(rule["id"], node["failureSummary"]) for rule in serious for node in rule["nodes"]] == []


# --- in JupyterLab, with a waiting run -----------------------------------------------------------------------------


TOOL = """import json
from typing import Annotated, Literal
import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

received = []
call = ToolCall("send", {"to": "Ada", "body": "Dear Ada,\\n\\nit works.", "cc": ["Bob", "Eve"]})
"""
ASK = """
@wb.tool(permission="confirm")
def send(
    ctx: af.ToolContext,
    to: Annotated[str, "Who gets the letter."],
    body: Annotated[str, "Its text, as it is printed."],
    copies: int = 1,
    urgent: Annotated[bool, "Whether it goes today."] = False,
    paper: Literal["plain", "ruled"] = "plain",
    cc: Annotated[list[str], "Who else gets it."] = [],
) -> str:
    "Send a letter."
    received.append([to, body, copies, urgent, paper, cc])
    return f"sent to {to}"

run = wb.ask("Send the letters.")
run"""
RECEIVED = """await run
for letter in received:
    print(json.dumps(letter))
for row in wb.tool_calls_df().itertuples():
    print(row.approval, row.approval_scope, row.decided_by)
for row in wb.approvals_df().astype(object).fillna("").itertuples():
    print(json.dumps([row.decision, row.scope, row.instruction, row.edited_json and json.loads(row.edited_json)]))"""


def ask_cell(*turns: str) -> str:
    return f"{TOOL}wb = af.Workbench(data_dir='cards', model=af.ScriptedModel([{', '.join(turns)}])){ASK}"


OpenPage = Callable[[str], LabPage]


def open_notebook(lab: LabServer, open_page: OpenPage, *cells: str) -> LabPage:
    """Open a notebook of these cells in a folder of its own, and run its first cell."""
    page = open_page(new_notebook(lab, *cells))
    page.open()
    page.run_cell(0)
    return page


def printed(page: LabPage, cell: int) -> list[str]:
    page.run_cell(cell)
    page.wait_done(cell)
    return "\n".join(page.output(cell).all_inner_texts()).strip().split("\n")


def test_tool_runs_with_edited_parameters(lab: LabServer, open_page: OpenPage) -> None:
    """The card displays the error of an invalid value; valid values are passed to the tool and stored."""
    page = open_notebook(lab, open_page, ask_cell("call", "'Done.'"), RECEIVED)
    out = page.output(0)
    out.get_by_role("button", name="Edit parameters send").click(timeout=20_000)
    out.get_by_label("to", exact=True).fill("")
    page.page.keyboard.type("ddaa  Grace")  # with the focus elsewhere, JupyterLab would delete and add cells
    assert page.cells.count() == 2
    out.get_by_label("copies", exact=True).fill("two")
    out.get_by_label("urgent", exact=True).check()
    out.get_by_label("paper", exact=True).select_option("ruled")
    out.get_by_label("cc", exact=True).fill("Mallory\nTrent")
    save_pictures(page, out.locator(".af-live .af-approval"), "ask-card")
    assert axe_in_both_themes(page) == []
    out.get_by_role("button", name="Approve with these values").click()
    error = out.get_by_role("alert").filter(has_text="'two' is not a whole number such as 12.")
    expect(error).to_be_visible()
    expect(out.get_by_label("copies", exact=True)).to_be_focused()
    page.page.keyboard.press("Control+A")
    page.page.keyboard.type("2")
    page.page.keyboard.press("Shift+Enter")
    expect(out.locator(".af-saved")).to_contain_text("Approved with other parameters", timeout=20_000)
    letter, call, approval = printed(page, 1)
    edited = {"to": "ddaa  Grace", "body": "Dear Ada,\n\nit works.", "copies": 2, "urgent": True, "paper": "ruled"}
    assert json.loads(letter) == [*edited.values(), ["Mallory", "Trent"]]
    assert call == "edited once user"
    assert json.loads(approval) == ["edited", "once", "", edited | {"cc": ["Mallory", "Trent"]}]
    assert page.errors == []


LONG = """call = ToolCall("send", {"to": "Ada", "body": "\\n\\n".join(f"Line {n} of the letter." for n in range(60))})
wb = af.Workbench(data_dir='long', model=af.ScriptedModel([call, "Done."], delay_s=0.01))"""
READABLE = """card => {
    const [title, text] = [".af-approval-title", ".af-preview"].map((each) => card.querySelector(each));
    const { left, bottom } = title.getBoundingClientRect();
    const isOnTop = (y) => card.querySelector(".af-own").contains(document.elementFromPoint(left + 60, y));
    const heights = [-title.offsetHeight / 2, 20, 60, 100, 119];
    return text !== null && heights.every((height) => isOnTop(bottom + height));
}"""
"""Whether nothing covers the title of a card and the 120 pixels below it, and all of it is in the window."""


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (1100, 420), (1600, 1000)])
def test_beginning_of_a_card_is_in_view_when_it_appears(
    lab: LabServer, open_page: OpenPage, width: int, height: int
) -> None:
    """The view scrolls by itself: title, 120 pixels of the text and the buttons are in the window, large or small."""
    tool, _, ask = ASK.partition("\nrun = ")
    page = open_page(new_notebook(lab, TOOL + LONG + tool, f"run = {ask}", *["1 + 1"] * 9))
    page.page.set_viewport_size({"width": width, "height": height})
    page.open()
    page.run_cell(0)
    page.run_cell(1)
    card = page.output(1).locator(".af-live .af-approval")
    expect(card).to_be_visible(timeout=20_000)
    page.page.wait_for_function(f"card => ({READABLE})(card)", arg=card.element_handle())
    expect(card.get_by_role("button", name="Approve")).to_be_in_viewport(ratio=1)
    assert page.errors == []


def test_two_cards_are_decided_separately(lab: LabServer, open_page: OpenPage) -> None:
    """One call is approved for the whole run, the other gets an answer instead; a later call needs no decision."""
    other = "ToolCall('send', {'to': 'Bob', 'body': 'Dear Bob'})"
    page = open_notebook(lab, open_page, ask_cell(f"[call, {other}]", "call", "'Done.'"), RECEIVED)
    cards = page.output(0).locator(".af-live .af-approval")
    expect(cards).to_have_count(2, timeout=20_000)
    second = cards.nth(1)
    second.get_by_role("button", name="Instruct instead send").click()
    page.page.keyboard.type("Write to Eve.")
    page.page.keyboard.press("Shift+Enter")
    expect(cards).to_have_count(1, timeout=20_000)  # displayed immediately, while the run waits for the other
    first = cards.nth(0)
    first.get_by_role("combobox", name="Applies").select_option("Always in this run")
    first.get_by_role("textbox", name="Note to the agent").fill("Thank you")
    first.get_by_role("button", name="Approve send").click()
    expect(page.output(0).locator(".af-saved")).to_contain_text("Completed", timeout=20_000)
    lines = printed(page, 1)
    assert [json.loads(line)[0] for line in lines[:2]] == ["Ada", "Ada"]
    assert sorted(lines[2:5]) == ["approved run user", "approved run user", "instructed once user"]
    approvals = [json.loads(line)[:3] for line in lines[5:]]
    assert ["approved", "run", "Thank you"] in approvals
    assert ["instructed", "once", "Write to Eve."] in approvals
    assert page.errors == []


def test_card_disappears_when_code_decides(lab: LabServer, open_page: OpenPage) -> None:
    """Code decides while a form is open: the card disappears, and the content of the form has no effect."""
    page = open_notebook(lab, open_page, ask_cell("call", "'Done.'"), "run.approve()", RECEIVED)
    out = page.output(0)
    out.get_by_role("button", name="Edit parameters send").click(timeout=20_000)
    out.get_by_label("to", exact=True).fill("Nobody")
    page.run_cell(1)
    expect(out.locator(".af-live .af-approval")).to_have_count(0, timeout=20_000)
    expect(out.locator(".af-saved")).to_contain_text("Completed", timeout=20_000)
    assert json.loads(printed(page, 2)[0])[0] == "Ada"
    assert page.errors == []


def test_card_displays_the_error_of_the_kernel(lab: LabServer, open_page: OpenPage) -> None:
    """If the tool is no longer registered, the card says so; once the tool is registered again, the card works."""
    forget = "entry = wb._thread.engine.tools._tools.pop('send')"
    page = open_notebook(lab, open_page, ask_cell("call", "'Done.'"), forget, "wb.tool(entry)", RECEIVED)
    out = page.output(0)
    approve = out.get_by_role("button", name="Approve send")
    expect(approve).to_be_visible(timeout=20_000)
    page.run_cell(1)
    page.wait_done(1)
    approve.click()
    expect(out.get_by_role("alert").filter(has_text="'send' is not registered here")).to_be_visible(timeout=20_000)
    expect(approve).to_be_focused()
    page.run_cell(2)
    page.wait_done(2)
    approve.click()
    expect(out.locator(".af-saved")).to_contain_text("Completed", timeout=20_000)
    assert json.loads(printed(page, 3)[0])[0] == "Ada"
    assert page.errors == []


QUESTION = """import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
choices = ["New York City", "New York State", "The metropolitan area"]
ask = ToolCall("ask_person", {"question": "Which New York do you mean?", "choices": choices})
wb = af.Workbench(data_dir='questions', model=af.ScriptedModel([ask, 'It was 2.3 trillion dollars.']))
run = wb.ask("How large was New York's GDP in 2024?")
run"""


def test_question_is_answered_in_jupyterlab(lab: LabServer, open_page: OpenPage) -> None:
    """The card is accessible in both themes; a click on a choice continues the run."""
    page = open_notebook(
        lab, open_page, QUESTION, "print((await run).response, wb.approvals_df()['instruction'].tolist())"
    )
    out = page.output(0)
    choice = out.get_by_role("button", name="New York State")
    expect(choice).to_be_visible(timeout=20_000)
    save_pictures(page, out.locator(".af-live .af-approval"), "question-card")
    assert axe_in_both_themes(page) == []
    choice.click()
    expect(out.locator(".af-saved")).to_contain_text("It was 2.3 trillion dollars.", timeout=20_000)
    assert printed(page, 1) == ["It was 2.3 trillion dollars. ['New York State']"]
    assert page.errors == []
