"""Hostile texts in every place of a run, in every component, in a real browser: none acts, nothing is asked for."""

import json

import pytest
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, write_notebook
from harmless import DRAWING, VIEW, harms
from hostile import HOSTILE
from playwright.sync_api import Dialog, expect

pytestmark = pytest.mark.browser

N_PER_RUN = 15
SOON_MS = 60_000

SETUP = f"""import json
import artifactflow_nb as af
from artifactflow_nb.messages import ToolCall, Usage
from artifactflow_nb.models.base import ModelReply

texts = json.loads(open("hostile.json").read())
groups = [texts[i : i + {N_PER_RUN}] for i in range(0, len(texts), {N_PER_RUN})]
turns = {{}}


def said(group, calls=()):
    return ModelReply("\\n\\n".join(group), Usage(1, 1), "stop", group[0], tuple(calls), "\\n\\n".join(group))


def acts(group):
    for i, text in enumerate(group):
        yield ToolCall("echo", {{"text": text}})
        yield ToolCall("fail", {{"text": text}})
        yield ToolCall(text, {{text: text}})
        yield ToolCall("create_artifact", {{"id": f"a-{{i}}", "title": text, "content": text}})
        yield ToolCall("create_artifact", {{"id": text, "title": text, "content": text, "content_type": "text/html"}})
        yield ToolCall("risky", {{"text": text}})
    yield ToolCall("call_subagent", {{"agent_name": "search_agent", "instruction": "\\n".join(group)}})


def script(request):
    asked = "\\n".join(message.content for message in request.messages)
    return next(turns[max((n for n in turns if f"group {{n}}." in asked), default=0)])


wb = af.Workbench(model=af.ScriptedModel(script), tool_protocol="native", approvals="ask")


@wb.tool
def echo(ctx: af.ToolContext, text: str) -> str:
    "Say it again."
    return text


@wb.tool
def fail(ctx: af.ToolContext, text: str) -> str:
    "Fail with it."
    raise af.ToolError(text)


@wb.tool(permission="confirm", preview=lambda ctx, args: args.text)
def risky(ctx: af.ToolContext, text: str) -> str:
    "Ask first."
    return text


for n, group in enumerate(groups):
    ending = af.ModelRejected(" ".join(group)) if n % 4 == 3 else said(group)
    turns[n] = iter([said(group, acts(group)), said(group), ending])
runs = [wb.ask(f"group {{n}}. " + " ".join(group)) for n, group in enumerate(groups)]"""
SHOW = "for run in runs:\n    display(run)"
DECIDE = """for run, group in zip(runs, groups):
    for i, request in enumerate(run.pending):
        note = group[i % len(group)]
        run.approve(request.id, note=note) if i % 2 else run.deny(note, request.id)
for run in runs:
    await run
print({run.status for run in runs})"""
MARKDOWN = """from artifactflow_nb.widgets.frozen import frozen_bundle
for run in runs:
    display({"text/markdown": frozen_bundle(run.port)["text/markdown"]}, raw=True)
    if run.status == "completed":
        display(run.response)"""
COMPONENTS = {
    "chat": "wb.chat(runs[{n}])",
    "tree": "wb.tree(runs[{n}])",
    "artifact_panel": "wb.artifact_panel(runs[{n}])",
    "timeline": "wb.timeline(runs[{n}])",
}
"""Each component of a workbench, and how it is shown for a run."""

OTHERS = ("wb", "wb.conversations()", "wb.unfinished()", "wb.pending()", "runs[0].artifacts", "runs[0].events")
"""What else a person looks at."""


def show_component(name: str) -> str:
    """A cell that shows a component for every third run."""
    shown = COMPONENTS[name].format(n="n")
    return f"for n in range(0, len(runs), 3):\n    display({shown})"


class Trap:
    """Notes what a page must never do."""

    def __init__(self, page: LabPage) -> None:
        self.sprung: list[str] = []
        self._page = page
        page.page.on("dialog", self._on_dialog)
        page.page.on("popup", lambda popup: self.sprung.append(f"popup {popup.url}"))

    def _on_dialog(self, dialog: Dialog) -> None:
        self.sprung.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def assert_shut(self) -> None:
        """No script ran, nothing opened, nothing was asked for elsewhere, and no view holds more than its own."""
        page = self._page.page
        assert page.evaluate("typeof window.__xss") == "undefined"
        assert page.locator(".hostile").count() == 0
        assert self.sprung == []
        assert self._page.foreign_requests() == []
        roots: list[str] = page.evaluate(
            "() => [...document.querySelectorAll('.af-run')].map((root) => root.outerHTML)"
        )
        assert roots
        found = sorted({harm for root in roots for harm in harms(root, VIEW | DRAWING)})
        assert not found, "\n".join(found)


def test_nothing_hostile_acts_in_any_component(lab: LabServer, open_page: OpenPage) -> None:
    """Live, waiting, frozen, as Markdown, in every component, reloaded and with nobody's trust: texts stay texts."""
    folder = lab.root / "hostile"
    folder.mkdir()
    (folder / "hostile.json").write_text(json.dumps(HOSTILE))
    components = [show_component(name) for name in COMPONENTS]
    others = [f"display({shown})" for shown in OTHERS]
    cells = [SETUP, SHOW, DECIDE, "\n".join(["for run in runs:", "    display(run)", *others]), MARKDOWN, *components]
    write_notebook(lab, "hostile/run.ipynb", cells)
    page = open_page("hostile/run.ipynb")
    page.page.set_viewport_size({"width": 1280, "height": 4000})
    trap = Trap(page)
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    n_runs = -(-len(HOSTILE) // N_PER_RUN)
    expect(page.output(1).locator(".af-live .af-ask")).to_have_count(len(HOSTILE), timeout=SOON_MS)
    trap.assert_shut()
    for cell in range(2, len(cells)):
        page.run_cell(cell)
        page.wait_done(cell)
        trap.assert_shut()
    expect(page.output(2)).to_contain_text("'completed'")
    expect(page.output(1).locator(".af-frozen:visible")).to_have_count(n_runs, timeout=SOON_MS)
    errors = page.page.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts()
    assert errors == []
    page.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    page.page.wait_for_timeout(1000)
    trap.assert_shut()
    page.saved_outputs(1)

    page.open()
    page.page.wait_for_timeout(2000)
    trap.assert_shut()
    page.shutdown_kernel()
    page.open_elsewhere()
    page.page.wait_for_timeout(2000)
    trap.assert_shut()
