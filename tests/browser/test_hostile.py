"""Hostile texts in every part of a run and every component, in a browser: no text runs code or sends a request.

`tests/widgets/test_hostile_texts.py` has every text in every place.
"""

import base64
import json
import re
from collections.abc import Iterator

import pytest
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import Dialog, Locator, expect
from support.hostile_texts import HOSTILE
from support.safe_html import DRAWING, VIEW, harms

pytestmark = pytest.mark.browser

TEXTS_PER_RUN = 40
GROUPS = [HOSTILE[begin : begin + TEXTS_PER_RUN] for begin in range(0, len(HOSTILE), TEXTS_PER_RUN)]
N_REQUESTS = sum(len(group[::2]) for group in GROUPS)
TEXTS_PER_CARD = 15
N_CARDS = -(-len(HOSTILE) // TEXTS_PER_CARD)
SOON_MS = 60_000
EFFECTS_MS = 500
"""Time for a failed image to call its handler, or for an animation to start."""
OWN = VIEW | DRAWING | {"rp"}
"""The elements of views; an `<rp>` contains text that some pages hide."""
IMAGE = re.compile(r'<img src="data:image/svg\+xml;base64,([\w+/=]+)" alt="[^"]*"(?: width="\d+%")?>')
STYLE = re.compile(r"<style>[^<]*</style>")
"""The style sheet of an image."""

SETUP = f"""import json
import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall, Usage
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.widgets.page import stream

stream.PATCH_INTERVAL_S = 0.5  # the page draws the same in fewer steps

texts = json.loads(open("hostile.json").read())
groups = [texts[i : i + {TEXTS_PER_RUN}] for i in range(0, len(texts), {TEXTS_PER_RUN})]
turns = {{}}


def reply(group, calls=()):
    return ModelReply("\\n\\n".join(group), Usage(1, 1), "stop", group[0], tuple(calls), "\\n\\n".join(group))


def calls(group):  # each text in half of the places
    for i, text in enumerate(group):
        if i % 2:
            yield ToolCall("echo", {{"text": text}})
            yield ToolCall(text, {{text: text}})
            yield ToolCall("create_artifact", {{"id": f"a-{{i}}", "title": text, "content": text}})
        else:
            page = {{"id": text, "title": text, "content": text, "content_type": "text/html"}}
            yield ToolCall("fail", {{"text": text}})
            yield ToolCall("create_artifact", page)
            yield ToolCall("risky", {{"text": text}})
    yield ToolCall("call_subagent", {{"agent_name": "search_agent", "instruction": "\\n".join(group)}})


def script(request):
    prompt = "\\n".join(message.content for message in request.messages)
    return next(turns[max((n for n in turns if f"group {{n}}." in prompt), default=0)])


wb = af.Workbench(model=af.ScriptedModel(script), tool_protocol="native", approvals="ask")


@wb.tool
def echo(ctx: af.ToolContext, text: str) -> str:
    "Repeat a text."
    return text


@wb.tool
def fail(ctx: af.ToolContext, text: str) -> str:
    "Fail with a text."
    raise af.errors.ToolError(text)


@wb.tool(permission="confirm", preview=lambda ctx, args: args.text)
def risky(ctx: af.ToolContext, text: str) -> str:
    "Ask first."
    return text


for n, group in enumerate(groups):
    last = af.errors.ModelRejected(" ".join(group)) if n % 4 == 2 else reply(group)
    turns[n] = iter([reply(group, calls(group)), reply(group), last])
runs = [wb.ask(f"group {{n}}. " + " ".join(group)) for n, group in enumerate(groups)]"""
SHOW = "for run in runs:\n    display(run)"
DECIDE = """for run, group in zip(runs, groups):
    for i, request in enumerate(run.pending):
        note = group[i % len(group)]
        run.approve(request.id, note=note) if i % 2 else run.deny(note, request.id)
for run in runs:
    await run
print({run.status for run in runs})"""
RESPONSES = """for run in runs:
    if run.status == "completed":
        display(run.response)"""
COMPONENTS = {
    "chat": "wb.chat(runs[{n}])",
    "tree": "wb.tree(runs[{n}])",
    "artifact_panel": "wb.artifact_panel(runs[{n}])",
    "timeline": "wb.timeline(runs[{n}])",
}
"""The cell that displays each component for a run."""

OTHERS = ("wb", "wb.conversations()", "wb.runs(unfinished=True)", "wb.pending()", "runs[0].artifacts", "runs[0].events")
"""Other values that a cell displays."""

FORMS = f"""import json
from typing import Annotated, Any, Literal
from IPython.display import HTML
import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.core.text.format import storable_text

texts = [storable_text(text) for text in json.loads(open("hostile.json").read())]
groups = [(texts * 2)[i : i + {TEXTS_PER_CARD}] for i in range(0, len(texts), {TEXTS_PER_CARD})]
some = texts[::6]
all_texts = "\\n\\n".join(text for text in texts if len(text) < 300)


def calls():
    for n, group in enumerate(groups):
        mapping = {{text: text for text in group}}
        yield ToolCall(f"choose_{{n}}", {{"choice": group[0], "line": group[1], "lines": group, "mapping": mapping}})


model = af.ScriptedModel([list(calls()), all_texts])
wb = af.Workbench(model=model, tool_protocol="native", approvals="ask")


def make_chooser(n, group):
    @wb.tool(name=f"choose_{{n}}", permission="confirm", preview=lambda ctx, args: changes)
    def choose(
        ctx: af.ToolContext,
        choice: Annotated[Literal[tuple(group)], group[0]],
        line: Annotated[str, group[1]],
        lines: Annotated[list[str], group[2]],
        mapping: Annotated[dict[str, Any], group[3]],
        none: Annotated[str | None, group[4]] = group[5],
    ) -> str:
        "Choose."
        return line

    changes = "\\n".join(["`````diff", "--- a", "+++ b", *(f"+{{text}}" for text in all_texts.splitlines()), "`````"])


for n, group in enumerate(groups):
    make_chooser(n, group)

do, conversations, artifacts = wb._thread.call, wb._thread.engine.conversations, wb._thread.engine.artifacts
for text in texts:
    do(conversations.add(do(conversations.start_conversation(text)), text, text))
conversation = do(conversations.start_conversation(texts[0]))
first = do(conversations.add(conversation, texts[1], all_texts))
for text in some:
    do(artifacts.create(Authorship(conversation, first.message_id, text), text, text, text, text))
do(artifacts.create(Authorship(conversation, first.message_id, USER), "whole", texts[2], all_texts))
answers = [all_texts, *some[1:-1], all_texts.replace("=", " =")]
add, parent = conversations.add, first.message_id
leaves = [do(add(conversation, text, answer, parent=parent)) for text, answer in zip(some, answers)]
for n in (0, -1):
    author = Authorship(conversation, leaves[n].message_id, some[n])
    for text in some:
        do(artifacts.revise(author, text, f"{{text}} {{n}} {{text}}", update_type="rewrite", title=f"{{text}} {{n}}"))
    do(artifacts.revise(author, "whole", all_texts.replace("=", f" {{n}}="), update_type="rewrite"))
run = wb.ask(all_texts)
run"""
"""A run whose calls have hostile schemas and arguments; a tree, titles and artifacts of hostile texts."""

CHARTS = """import time
import matplotlib.pyplot as plt
time.sleep(4)  # Jupyter drops outputs of a kernel that has just sent megabytes
llm, tools = wb.llm_calls_df(), wb.tool_calls_df()
charts = []
for i in range(0, len(texts), 40):
    names = texts[i : i + 40]
    models = llm.iloc[[0] * len(names)].assign(request_model=names, response_model=names, agent_name=names)
    charts.append(af.plots.latency(models))
charts += [af.plots.tokens(models), af.plots.cost(models)]
calls_frame = tools.iloc[[0] * len(texts)].assign(
    tool_name=texts, agent_name=texts, success=True, duration_ms=10.0, completed_at=tools["called_at"].iloc[0]
)
charts += [af.plots.timeline(None, calls_frame.iloc[i : i + 40]) for i in range(0, len(texts), 40)]
for chart in charts[3:]:  # as it would drop many pictures at once
    chart.figure.canvas.draw()
    plt.close(chart.figure)"""
FRAMES = """display(models, calls_frame, wb.conversations(), wb.conversations("window"), wb.artifacts(conversation))
display(wb.artifacts(conversation)["whole"].diff(1, 2), *wb.pending()[:3])"""
RUN, CHAT, TREE, PANEL, PLOTTED, REST = range(6)
FORM_CELLS = (
    FORMS, "wb.chat(conversation)", "wb.tree(conversation)", "wb.artifact_panel(leaves[-1].message_id)", CHARTS, FRAMES,
)  # fmt: skip


def show_component(name: str) -> str:
    """A cell that displays a component for every second run."""
    component = COMPONENTS[name].format(n="n")
    return f"for n in range(0, len(runs), 2):\n    display({component})"


def parts_of(page: str) -> Iterator[str]:
    """Split HTML: first the HTML without the images of our drawings, then each drawing."""
    yield IMAGE.sub("", page)
    for found in IMAGE.finditer(page):
        yield STYLE.sub("", base64.b64decode(found[1]).decode(), count=1)


class Trap:
    """Records dialogs and popups, and checks that a page is free of injected code."""

    def __init__(self, page: LabPage) -> None:
        self.sprung: list[str] = []
        self._page = page
        self._harms: dict[str, list[str]] = {}
        page.page.on("dialog", self._on_dialog)
        page.page.on("popup", lambda popup: self.sprung.append(f"popup {popup.url}"))

    def _on_dialog(self, dialog: Dialog) -> None:
        self.sprung.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def assert_shut(self, within: str = ".af-run") -> None:
        """No script ran, nothing opened, no request left the server, and the views contain only our own markup."""
        page = self._page.page
        assert page.evaluate("typeof window.__xss") == "undefined"
        assert page.locator(".hostile").count() == 0
        assert self.sprung == []
        assert self._page.foreign_requests() == []
        roots: list[str] = page.evaluate(
            "(within) => [...document.querySelectorAll(within)].map((root) => root.outerHTML)", within
        )
        assert roots
        found = sorted({harm for root in roots for harm in self._harms_of(root)})
        assert not found, "\n".join(found)

    def _harms_of(self, root: str) -> list[str]:
        """Foreign markup in a view; cached, because most views are the same at the next check."""
        if root not in self._harms:
            self._harms[root] = [harm for part in parts_of(root) for harm in harms(part, OWN)]
        return self._harms[root]


def open_hostile(lab: LabServer, open_page: OpenPage, *cells: str) -> LabPage:
    """A notebook and a file with the texts, in a page of its own."""
    name = new_notebook(lab, *cells)
    (lab.root / name).with_name("hostile.json").write_text(json.dumps(HOSTILE))
    return open_page(name, new=True)


def test_hostile_texts_do_nothing_in_components(lab: LabServer, open_page: OpenPage) -> None:
    """Texts stay texts in every component: waiting, live, saved, as Markdown, reloaded and in an untrusted copy."""
    components = [show_component(name) for name in COMPONENTS]
    others = [f"display({value})" for value in OTHERS]
    cells = [SETUP, SHOW, DECIDE, "\n".join(["for run in runs:", "    display(run)", *others]), RESPONSES, *components]
    page = open_hostile(lab, open_page, *cells)
    page.page.set_viewport_size({"width": 1280, "height": 4000})
    trap = Trap(page)
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    expect(page.output(1).locator(".af-live .af-approval")).to_have_count(N_REQUESTS, timeout=SOON_MS)
    trap.assert_shut()
    for cell in range(2, len(cells)):
        page.run_cell(cell)
        page.wait_done(cell)
    expect(page.output(2)).to_contain_text("'completed'")
    expect(page.output(1).locator(".af-saved:visible")).to_have_count(len(GROUPS), timeout=SOON_MS)
    errors = page.page.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts()
    assert errors == []
    open_folds(page)
    page.page.wait_for_timeout(EFFECTS_MS)
    trap.assert_shut()
    page.saved_outputs(1)
    views = page.page.locator(".af-run")
    n_views = views.count()

    page.open()
    expect(views).to_have_count(n_views, timeout=SOON_MS)  # JupyterLab draws the cells one after the other
    page.page.wait_for_timeout(EFFECTS_MS)
    trap.assert_shut()
    page.shutdown_kernel()
    page.open_elsewhere()
    expect(views).to_have_count(n_views, timeout=SOON_MS)
    page.page.wait_for_timeout(EFFECTS_MS)
    trap.assert_shut()


def open_folds(page: LabPage) -> None:
    page.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")


def live(page: LabPage, cell: int, selector: str) -> Locator:
    """The visible elements of a cell's live view that match a selector."""
    return page.output(cell).locator(f".af-live :is({selector}):visible")


def press_all(page: LabPage, cell: int, selector: str) -> None:
    """Press all matching buttons of a cell's live view."""
    buttons = live(page, cell, selector)
    expect(buttons.first).to_be_visible(timeout=SOON_MS)
    buttons.evaluate_all("(buttons) => buttons.forEach((button) => button.click())")


def open_cards(page: LabPage) -> None:
    """Open the form of each card: for an answer on one card, for parameters on the others."""
    press_all(page, RUN, "[aria-label='Instruct instead choose 0']")
    press_all(page, RUN, "[aria-label^='Edit parameters']:not([aria-label$='choose 0'])")
    expect(live(page, RUN, ".af-approval form")).to_have_count(N_CARDS, timeout=SOON_MS)


def open_chat(page: LabPage) -> None:
    """Open the form of every question and the list of conversations."""
    press_all(page, CHAT, "[data-act=edit]")
    expect(live(page, CHAT, ".af-edit textarea").first).to_be_visible(timeout=SOON_MS)
    press_all(page, CHAT, "[data-act=list]")
    expect(live(page, CHAT, ".af-list, .af-tree-list").first).to_be_visible(timeout=SOON_MS)


def read_and_rename(page: LabPage) -> None:
    """Read a message, rename a conversation, list all conversations, and display an artifact as stored."""
    live(page, TREE, "[role=treeitem]:not(.af-fold)").last.click()
    expect(live(page, TREE, ".af-tree-read .af-answer")).to_be_visible(timeout=SOON_MS)
    press_all(page, TREE, "[data-act=rename_ask]")
    press_all(page, TREE, "[data-act=more]")
    expect(live(page, TREE, ".af-tree-item")).to_have_count(100, timeout=SOON_MS)
    expect(live(page, TREE, ".af-tree-form[data-key^=rename]")).to_be_visible(timeout=SOON_MS)
    press_all(page, PANEL, "[data-args*=raw]")
    expect(live(page, PANEL, ".af-art-raw")).to_be_visible(timeout=SOON_MS)


def delete_and_change(page: LabPage) -> None:
    """Ask for the deletion of a conversation, search, and display changes inline."""
    press_all(page, TREE, "[data-act=delete_ask]")
    live(page, TREE, "input[type=text]").first.fill("window")
    page.page.keyboard.press("Enter")
    expect(live(page, TREE, "[role=alertdialog]")).to_be_visible(timeout=SOON_MS)
    expect(live(page, TREE, ".af-tree-found").first).to_be_visible(timeout=SOON_MS)
    press_all(page, PANEL, "[data-args*=changes]")
    expect(live(page, PANEL, ".af-diff-inline, .af-diff").first).to_be_visible(timeout=SOON_MS)


def compare(page: LabPage) -> None:
    """Compare two branches and two versions side by side."""
    live(page, TREE, "[data-act=compare_with]").first.click()
    expect(live(page, TREE, ".af-tree-read .af-table")).to_be_visible(timeout=SOON_MS)
    press_all(page, PANEL, "[data-args*=side_by_side]")
    expect(live(page, PANEL, ".af-diff-side-by-side")).to_be_visible(timeout=SOON_MS)


def edit_and_choose(page: LabPage) -> None:
    """Start to choose the second question of a comparison, and edit a text."""
    press_all(page, TREE, "[data-act=compare_end]")
    press_all(page, TREE, "[data-act=compare]")
    expect(live(page, TREE, ".af-tree-notice")).to_be_visible(timeout=SOON_MS)
    press_all(page, PANEL, "[data-act=edit_ask]")
    expect(live(page, PANEL, "textarea")).to_be_visible(timeout=SOON_MS)


def test_hostile_texts_do_nothing_in_forms_and_comparisons(lab: LabServer, open_page: OpenPage) -> None:
    """Texts stay texts in forms, lists, confirmations, comparisons, differences and charts."""
    page = open_hostile(lab, open_page, *FORM_CELLS)
    page.page.set_viewport_size({"width": 1280, "height": 6000})
    trap = Trap(page)
    page.open()
    page.run_all()
    for cell in range(len(FORM_CELLS)):
        page.wait_done(cell)
    assert page.page.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts() == []
    expect(live(page, RUN, ".af-approval")).to_have_count(N_CARDS, timeout=SOON_MS)
    for step in (open_cards, open_chat, read_and_rename, delete_and_change, compare, edit_and_choose):
        step(page)
        open_folds(page)
        trap.assert_shut(".af-live")
    trap.assert_shut(".af-saved")
    page.wait_idle()  # the pictures follow the end of their cell
    pictures = [output for output in page.saved_outputs(PLOTTED) if "image/png" in output.get("data", {})]
    assert len(pictures) == 3
    trap.assert_shut()
